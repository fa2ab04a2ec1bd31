/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-session.h"

#include "forward/llm-row.h"

LlmSession *
llm_session_new (guint64     id,
                 LlmApp     *app,
                 const char *context,
                 gboolean    is_named,
                 LlmLedger  *ledger,
                 LlmKvStore *store)
{
  LlmSession *self = g_new0 (LlmSession, 1);

  self->id = id;
  self->app = llm_app_ref (app);
  self->context = g_strdup (context);
  self->is_named = is_named;
  self->ledger = llm_ledger_ref (ledger);
  self->store = store;
  self->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->states = g_byte_array_new ();
  return self;
}

void
llm_session_free (LlmSession *self)
{
  llm_session_drop (self);
  g_array_unref (self->tokens);
  g_byte_array_unref (self->states);
  llm_ledger_unref (self->ledger);
  llm_app_unref (self->app);
  g_free (self->context);
  g_free (self);
}

/* (nullable) (transfer full): the application as storage knows it; NULL: nothing is written. */
static char *
make_folder_key (LlmSession *self)
{
  return self->context != NULL ? g_strdup_printf ("%u/%s", self->app->uid, self->app->id) : NULL;
}

static void
count_tokens (LlmSession *self)
{
  guint64 bytes = (guint64) self->tokens->len * (sizeof (gint32) + 1);

  llm_ledger_add (self->ledger, LLM_HOLDER_TEXT, bytes);
  llm_ledger_remove (self->ledger, LLM_HOLDER_TEXT, self->counted_bytes);
  self->counted_bytes = bytes;
}

static guint
get_n_slid (LlmSession *self)
{
  return self->seq != NULL ? self->seq->n_slid : 0;
}

static void
add_tokens (LlmSession   *self,
            const gint32 *tokens,
            const guint8 *states,
            guint         n)
{
  g_array_append_vals (self->tokens, tokens, n);
  g_byte_array_append (self->states, states, n);
  count_tokens (self);
}

void
llm_session_cut (LlmSession *self,
                 guint       length)
{
  if (length >= self->tokens->len)
    return;
  g_array_set_size (self->tokens, length);
  g_byte_array_set_size (self->states, length);
  count_tokens (self);
  self->n_settled = MIN (self->n_settled, length);
  llm_kv_seq_truncate (self->seq, length - get_n_slid (self));
}

void
llm_session_commit (LlmSession  *self,
                    guint        first,
                    const guint *path,
                    guint        n_path)
{
  guint base = first - get_n_slid (self);
  g_autofree guint *slots = g_new (guint, n_path);
  gboolean is_moved = FALSE;

  for (guint i = 0; i < n_path; i++)
    {
      g_array_index (self->tokens, gint32, first + i) =
        g_array_index (self->tokens, gint32, first + path[i]);
      self->states->data[first + i] = self->states->data[first + path[i]];
      slots[i] = base + path[i];
      is_moved = is_moved || path[i] != i;
    }
  if (is_moved)
    llm_kv_seq_commit (self->seq, base, slots, n_path);
  llm_session_cut (self, first + n_path);
}

void
llm_session_open (LlmSession *self)
{
  g_autofree char *app = make_folder_key (self);

  g_assert (self->seq == NULL);

  self->seq = llm_kv_seq_new (self->store, app, self->context);
}

/* The keys by which storage finds rows: the token, and what computed it. For the whole model it is
 * the token alone. */
static gint32 *
make_keys (const gint32 *tokens,
           const guint8 *states,
           guint         n)
{
  gint32 *keys = g_new (gint32, n);

  for (guint i = 0; i < n; i++)
    keys[i] = tokens[i] ^ (gint32) ((guint32) states[i] << 26);
  return keys;
}

void
llm_session_end_call (LlmSession *self)
{
  g_autofree gint32 *keys =
    make_keys ((const gint32 *) self->tokens->data, self->states->data, self->tokens->len);

  llm_kv_seq_end_call (self->seq, keys, self->tokens->len);
}

void
llm_session_attach (LlmSession       *self,
                    const GArray     *prompt,
                    const GByteArray *states,
                    guint             n_sinks,
                    guint             n_slid,
                    guint             n_max)
{
  guint n;

  g_assert (self->seq != NULL && !self->is_attached);
  g_assert (n_max <= prompt->len && prompt->len == states->len);

  self->is_attached = TRUE;
  if (n_slid > 0)
    llm_kv_seq_slide (self->seq, n_sinks, n_slid);
  if (self->context != NULL)
    {
      g_autofree gint32 *keys = make_keys ((const gint32 *) prompt->data, states->data, n_max);

      llm_kv_seq_attach (self->seq, keys, n_max);
    }
  n = self->seq->length + n_slid;
  g_assert (n <= n_max);
  add_tokens (self, (const gint32 *) prompt->data, states->data, n);
  self->n_settled = n;
}

guint
llm_session_count_common (LlmSession       *self,
                          const GArray     *prompt,
                          const GByteArray *states,
                          guint             n_max)
{
  guint n_common = 0;

  n_max = MIN (n_max, MIN (prompt->len, self->tokens->len));
  while (n_common < n_max
         && g_array_index (self->tokens, gint32, n_common)
              == g_array_index (prompt, gint32, n_common)
         && self->states->data[n_common] == states->data[n_common])
    n_common++;
  return n_common;
}

guint
llm_session_count_shareable (LlmSession       *self,
                             const GArray     *prompt,
                             const GByteArray *states,
                             guint             n_max,
                             gboolean          any)
{
  guint n_common;

  if (self->seq == NULL || self->seq->n_slid > 0)
    return 0;

  n_max = MIN (n_max, MIN (self->n_settled, any ? llm_kv_seq_count_any (self->seq)
                                                : llm_kv_seq_count_exact (self->seq)));
  n_common = llm_session_count_common (self, prompt, states, n_max);
  return n_common - n_common % self->seq->store->layout.chunk_slots;
}

LlmSession *
llm_session_keep (LlmSession *self,
                  guint       n)
{
  LlmSession *kept = llm_session_new (0, self->app, NULL, FALSE, self->ledger, self->store);

  kept->seq = llm_kv_seq_keep (self->seq, n);
  kept->is_attached = TRUE;
  add_tokens (kept, (const gint32 *) self->tokens->data, self->states->data, n);
  kept->n_settled = n;
  return kept;
}

void
llm_session_share (LlmSession *self,
                   LlmSession *from,
                   guint       n)
{
  g_assert (self->tokens->len == 0 && n <= from->n_settled);

  llm_kv_seq_share (self->seq, from->seq, n);
  add_tokens (self, (const gint32 *) from->tokens->data, from->states->data, n);
  self->n_settled = n;
}

void
llm_session_fork (LlmSession *self,
                  LlmSession *from)
{
  g_autofree char *app = make_folder_key (self);

  g_assert (self->seq == NULL);

  self->seq = llm_kv_seq_fork (from->seq, app, self->context);
  add_tokens (self, (const gint32 *) from->tokens->data, from->states->data, from->tokens->len);
  self->is_attached = TRUE;
  self->n_settled = from->n_settled;
  self->used_us = from->used_us;
}

/* A session can't go back to tokens that slid away. */
gboolean
llm_session_is_usable (LlmSession       *self,
                       const GArray     *prompt,
                       const GByteArray *states,
                       guint             n_sinks,
                       guint             n_slid,
                       guint             n_max)
{
  guint n_gone = get_n_slid (self);

  return n_gone <= n_slid
         && (n_gone == 0
             || (self->seq->n_sinks == n_sinks
                 && llm_session_count_common (self, prompt, states, n_max) >= n_sinks + n_gone));
}

void
llm_session_slide (LlmSession       *self,
                   const GArray     *prompt,
                   const GByteArray *states,
                   guint             n_sinks,
                   guint             n_slid)
{
  guint n = n_slid - get_n_slid (self);
  guint n_known = self->tokens->len;
  guint end = n_sinks + n_slid;

  g_assert (n_slid >= get_n_slid (self));
  if (n == 0)
    return;

  g_assert (n_known >= end || prompt->len >= end);
  llm_kv_seq_slide (self->seq, n_sinks, n);
  if (n_known < end)
    add_tokens (self, &g_array_index (prompt, gint32, n_known), states->data + n_known,
                end - n_known);
}

guint
llm_session_find_token (LlmSession *self,
                       guint       slot)
{
  guint n_slid = get_n_slid (self);

  return n_slid > 0 && slot >= self->seq->n_sinks ? slot + n_slid : slot;
}

guint
llm_session_rewind (LlmSession       *self,
                    const GArray     *prompt,
                    const GByteArray *states,
                    guint             n_max)
{
  guint n_common = llm_session_count_common (self, prompt, states, n_max);

  llm_session_cut (self, n_common);
  return n_common;
}

gboolean
llm_session_extend (LlmSession   *self,
                    const gint32 *tokens,
                    const guint8 *states,
                    guint         n,
                    GError      **error)
{
  if (!llm_kv_seq_append (self->seq, n, error))
    return FALSE;
  add_tokens (self, tokens, states, n);
  return TRUE;
}

void
llm_session_drop (LlmSession *self)
{
  g_clear_pointer (&self->seq, llm_kv_seq_free);
  self->is_attached = FALSE;
  g_array_set_size (self->tokens, 0);
  g_byte_array_set_size (self->states, 0);
  count_tokens (self);
  self->n_settled = 0;
}

LlmResidency
llm_session_get_residency (LlmSession *self)
{
  guint n[LLM_N_RESIDENCIES] = { 0 };
  guint n_chunks = self->seq != NULL ? self->seq->holds->len : 0;
  LlmResidency residency = LLM_RESIDENCY_MEMORY;

  if (n_chunks == 0)
    return LLM_RESIDENCY_TEXT;
  for (guint i = 0; i < n_chunks; i++)
    {
      LlmKvChunkInfo info;

      llm_kv_seq_get_info (self->seq, i, &info);
      if (info.is_in_memory)
        n[info.bits >= 16 ? LLM_RESIDENCY_MEMORY : LLM_RESIDENCY_COMPRESSED]++;
      else
        n[info.is_on_storage ? LLM_RESIDENCY_STORAGE : LLM_RESIDENCY_TEXT]++;
    }
  for (guint i = LLM_RESIDENCY_MEMORY; i-- > LLM_RESIDENCY_TEXT;)
    if (n[i] > n[residency])
      residency = i;
  return residency;
}
