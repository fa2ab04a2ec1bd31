/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-session.h"

LlmSession *
llm_session_new (guint64 id)
{
  LlmSession *self = g_new0 (LlmSession, 1);

  self->id = id;
  self->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  return self;
}

void
llm_session_free (LlmSession *self)
{
  llm_session_drop (self);
  g_array_unref (self->tokens);
  g_free (self);
}

void
llm_session_cut (LlmSession *self,
                 guint       length)
{
  if (length >= self->tokens->len)
    return;
  g_array_set_size (self->tokens, length);
  llm_kv_seq_truncate (self->seq, length);
}

guint
llm_session_rewind (LlmSession   *self,
                    LlmKvStore   *store,
                    const GArray *prompt,
                    guint         n_max)
{
  guint n_common = 0;

  if (self->seq == NULL)
    self->seq = llm_kv_seq_new (store);

  n_max = MIN (n_max, MIN (prompt->len, self->tokens->len));
  while (n_common < n_max && g_array_index (self->tokens, gint32, n_common) ==
                               g_array_index (prompt, gint32, n_common))
    n_common++;
  llm_session_cut (self, n_common);
  return n_common;
}

gboolean
llm_session_extend (LlmSession   *self,
                    const gint32 *tokens,
                    guint         n,
                    GError      **error)
{
  if (!llm_kv_seq_append (self->seq, n, error))
    return FALSE;
  g_array_append_vals (self->tokens, tokens, n);
  return TRUE;
}

void
llm_session_drop (LlmSession *self)
{
  g_clear_pointer (&self->seq, llm_kv_seq_free);
  g_array_set_size (self->tokens, 0);
}
