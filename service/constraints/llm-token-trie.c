/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-token-trie.h"

#include <string.h>

/* Most tokens of usual vocabularies have up to 8 bytes. */
const guint llm_token_lengths[LLM_N_TOKEN_LENGTHS] = { 4, 8, 16, G_MAXUINT };

/* For qsort(): tokens by their bytes, then by id. */
static int
compare_tokens (gconstpointer a,
                gconstpointer b,
                gpointer      data)
{
  const LlmTokenTrie *self = data;
  guint32 x = *(const guint32 *) a;
  guint32 y = *(const guint32 *) b;
  gsize length_x = self->offsets[x + 1] - self->offsets[x];
  gsize length_y = self->offsets[y + 1] - self->offsets[y];
  int order = memcmp (self->text + self->offsets[x], self->text + self->offsets[y],
                      MIN (length_x, length_y));

  if (order != 0)
    return order;
  if (length_x != length_y)
    return length_x < length_y ? -1 : 1;
  return x < y ? -1 : x > y;
}

void
llm_token_trie_decode (LlmTokenizer *tokenizer,
                       gint32        id,
                       GString      *text)
{
  gboolean is_control = llm_tokenizer_is_control (tokenizer, id);
  gsize before = text->len;

  if (is_control)
    g_string_append_c (text, LLM_TRIE_CONTROL);
  llm_tokenizer_decode_token (tokenizer, id, TRUE, text);
  if (is_control && text->len == before + 1)
    g_string_truncate (text, before);
}

static void
read_texts (LlmTokenTrie *self,
            LlmTokenizer *tokenizer,
            GArray       *ids)
{
  GString *text = g_string_new (NULL);

  self->offsets = g_new (guint32, self->n_tokens + 1);
  for (guint32 id = 0; id < self->n_tokens; id++)
    {
      gsize before = text->len;

      self->offsets[id] = (guint32) before;
      if (llm_tokenizer_ends_answer (tokenizer, (gint32) id))
        g_array_append_val (self->endings, id);
      else
        llm_token_trie_decode (tokenizer, (gint32) id, text);
      if (text->len > before)
        g_array_append_val (ids, id);
      self->max_bytes = MAX (self->max_bytes, (guint) (text->len - before));
      if (!llm_tokenizer_is_control (tokenizer, (gint32) id))
        self->max_text_bytes = MAX (self->max_text_bytes, (guint) (text->len - before));
    }
  self->offsets[self->n_tokens] = (guint32) text->len;
  self->text = g_string_free (text, FALSE);
}

/* Nodes of the sorted tokens: each adds those for the bytes that it doesn't share with the token
 * before it. */
static void
build (LlmTokenTrie *self,
       LlmTrie      *trie,
       GArray       *ids)
{
  g_autoptr(GByteArray) bytes = g_byte_array_new ();
  g_autoptr(GArray) ends = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr(GArray) firsts = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autofree guint32 *path = g_new (guint32, self->max_bytes + 1);
  guint depth = 0;
  guint32 last;

  for (guint i = 0; i < ids->len; i++)
    {
      guint32 id = g_array_index (ids, guint32, i);
      const guint8 *text = (const guint8 *) self->text + self->offsets[id];
      guint length = self->offsets[id + 1] - self->offsets[id];
      guint shared = 0;

      while (shared < MIN (depth, length) && bytes->data[path[shared]] == text[shared])
        shared++;
      while (depth > shared)
        g_array_index (ends, guint32, path[--depth]) = ends->len;
      while (depth < length)
        {
          guint32 none = 0;

          path[depth] = ends->len;
          g_byte_array_append (bytes, &text[depth], 1);
          g_array_append_val (ends, none);
          g_array_append_val (firsts, i);
          depth++;
        }
    }
  while (depth > 0)
    g_array_index (ends, guint32, path[--depth]) = ends->len;
  last = ids->len;
  g_array_append_val (firsts, last);
  trie->n_nodes = ends->len;
  trie->bytes = g_byte_array_free (g_steal_pointer (&bytes), FALSE);
  trie->ends = (guint32 *) g_array_free (g_steal_pointer (&ends), FALSE);
  trie->first_tokens = (guint32 *) g_array_free (g_steal_pointer (&firsts), FALSE);
}

LlmUtf8State
llm_utf8_state_step (LlmUtf8State state,
                     guint8       byte)
{
  static const struct
  {
    guint8 low, high;
    LlmUtf8State next;
  } behind[] = {
    [LLM_UTF8_ONE_MORE] = { 0x80, 0xbf, LLM_UTF8_WHOLE },
    [LLM_UTF8_TWO_MORE] = { 0x80, 0xbf, LLM_UTF8_ONE_MORE },
    [LLM_UTF8_THREE_MORE] = { 0x80, 0xbf, LLM_UTF8_TWO_MORE },
    [LLM_UTF8_BEHIND_E0] = { 0xa0, 0xbf, LLM_UTF8_ONE_MORE },
    [LLM_UTF8_BEHIND_ED] = { 0x80, 0x9f, LLM_UTF8_ONE_MORE },
    [LLM_UTF8_BEHIND_F0] = { 0x90, 0xbf, LLM_UTF8_TWO_MORE },
    [LLM_UTF8_BEHIND_F4] = { 0x80, 0x8f, LLM_UTF8_TWO_MORE },
  };

  if (state == LLM_UTF8_NOT_PLAIN)
    return state;
  if (state != LLM_UTF8_WHOLE)
    return byte >= behind[state].low && byte <= behind[state].high ? behind[state].next
                                                                   : LLM_UTF8_NOT_PLAIN;
  if (byte < 0x80)
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\' ? LLM_UTF8_WHOLE
                                                                     : LLM_UTF8_NOT_PLAIN;
  return byte < 0xc2    ? LLM_UTF8_NOT_PLAIN
         : byte < 0xe0  ? LLM_UTF8_ONE_MORE
         : byte == 0xe0 ? LLM_UTF8_BEHIND_E0
         : byte == 0xed ? LLM_UTF8_BEHIND_ED
         : byte < 0xf0  ? LLM_UTF8_TWO_MORE
         : byte == 0xf0 ? LLM_UTF8_BEHIND_F0
         : byte < 0xf4  ? LLM_UTF8_THREE_MORE
         : byte == 0xf4 ? LLM_UTF8_BEHIND_F4
                        : LLM_UTF8_NOT_PLAIN;
}

/* Parents come before their children. */
static void
find_heights (LlmTrie *trie)
{
  g_autofree guint8 *states = g_new (guint8, trie->n_nodes + 1);

  for (guint32 node = 0; node < trie->n_nodes; node = trie->ends[node])
    states[node] = llm_utf8_state_step (LLM_UTF8_WHOLE, trie->bytes[node]);
  for (guint32 node = 0; node < trie->n_nodes; node++)
    for (guint32 child = node + 1; child < trie->ends[node]; child = trie->ends[child])
      states[child] = llm_utf8_state_step (states[node], trie->bytes[child]);

  trie->heights = g_new0 (guint8, trie->n_nodes);
  for (guint32 node = trie->n_nodes; node-- > 0;)
    for (guint32 child = node + 1; child < trie->ends[node]; child = trie->ends[child])
      {
        /* a character counts where it begins */
        guint height = trie->heights[child] + (states[node] == LLM_UTF8_WHOLE);

        if (states[child] == LLM_UTF8_NOT_PLAIN || height >= LLM_TRIE_MIXED)
          height = LLM_TRIE_MIXED;
        trie->heights[node] = (guint8) MAX (trie->heights[node], height);
      }
  for (guint32 node = 0; node < trie->n_nodes; node++)
    if (states[node] != LLM_UTF8_WHOLE)
      trie->heights[node] = LLM_TRIE_MIXED;
}

/* The tokens among @ids of more than @least and up to @most bytes. */
static void
build_length (LlmTokenTrie *self,
              LlmTrie      *trie,
              const GArray *ids,
              guint         least,
              guint         most)
{
  GArray *own = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint i = 0; i < ids->len; i++)
    {
      guint32 id = g_array_index (ids, guint32, i);
      guint length = self->offsets[id + 1] - self->offsets[id];

      if (length > least && length <= most)
        g_array_append_val (own, id);
    }
  build (self, trie, own);
  find_heights (trie);
  trie->tokens = (guint32 *) g_array_free (own, FALSE);
}

LlmTokenTrie *
llm_token_trie_new (LlmTokenizer *tokenizer)
{
  LlmTokenTrie *self = g_new0 (LlmTokenTrie, 1);
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (guint32));

  g_atomic_ref_count_init (&self->ref_count);
  self->n_tokens = tokenizer->n_tokens;
  self->endings = g_array_new (FALSE, FALSE, sizeof (guint32));
  read_texts (self, tokenizer, ids);
  g_array_sort_with_data (ids, compare_tokens, self);
  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    build_length (self, &self->tries[i], ids, i > 0 ? llm_token_lengths[i - 1] : 0,
                  llm_token_lengths[i]);
  return self;
}

LlmTokenTrie *
llm_token_trie_ref (LlmTokenTrie *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

gsize
llm_token_trie_get_bytes (const LlmTokenTrie *self)
{
  gsize n_bytes =
    sizeof *self + self->offsets[self->n_tokens] + self->n_tokens * sizeof *self->offsets;

  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    {
      const LlmTrie *trie = &self->tries[i];

      n_bytes += trie->n_nodes * (sizeof *trie->bytes + sizeof *trie->ends
                                  + sizeof *trie->first_tokens + sizeof *trie->heights)
                 + trie->first_tokens[trie->n_nodes] * sizeof *trie->tokens;
    }
  return n_bytes;
}

void
llm_token_trie_unref (LlmTokenTrie *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  for (guint i = 0; i < LLM_N_TOKEN_LENGTHS; i++)
    llm_trie_clear (&self->tries[i]);
  g_array_unref (self->endings);
  g_free (self->text);
  g_free (self->offsets);
  g_free (self);
}
