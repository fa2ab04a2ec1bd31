/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tokenizer/llm-vocab.h"

#include <string.h>
#include <xxhash.h>

#include "base/llm-fail.h"

#define KEY_TOKENS "tokenizer.ggml.tokens"
#define KEY_TYPES "tokenizer.ggml.token_type"

/* U+2581, which stands for a space in SentencePiece's pieces. */
#define SPACE_MARK "\xe2\x96\x81"
#define SPACE_MARK_LENGTH 3

/* Names of markers that templates write, and whether they end an answer. Some
 * files give them another type, by which text from anywhere could write them. */
static const struct { const char *name; gboolean ends_answer; } markers[] =
{
  { "<|im_start|>", FALSE }, { "<|im_end|>", TRUE },
  { "<|start_header_id|>", FALSE }, { "<|end_header_id|>", FALSE },
  { "<|eot_id|>", TRUE }, { "<|eom_id|>", TRUE }, { "<|end_of_text|>", TRUE },
  { "<start_of_turn>", FALSE }, { "<end_of_turn>", TRUE },
  { "<|system|>", FALSE }, { "<|user|>", FALSE }, { "<|assistant|>", FALSE }, { "<|end|>", TRUE },
  { "<|endoftext|>", TRUE }, { "<EOT>", TRUE }, { "_<EOT>", TRUE }, { "<|EOT|>", TRUE },
  { SPACE_MARK "<EOT>", TRUE },
  /* behind what fills a gap: padding, the next file, the next repository */
  { "<|fim_pad|>", TRUE }, { "<fim-pad>", TRUE }, { "<fim_pad>", TRUE }, { "<PAD>", TRUE },
  { "<|fim_repo|>", TRUE }, { "<|repo_name|>", TRUE }, { "<fim-repo>", TRUE },
  { "<REPO>", TRUE }, { "<reponame>", TRUE }, { "<|file_sep|>", TRUE },
};

/* Names of the markers of a text with a gap, as models have them. */
static const char *const infill_names[LLM_N_INFILL][7] =
{
  [LLM_INFILL_PREFIX] = { "<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>",
                          "<｜fim▁begin｜>", "<PRE>", SPACE_MARK "<PRE>", "<|code_prefix|>" },
  [LLM_INFILL_SUFFIX] = { "<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>",
                          "<｜fim▁hole｜>", "<SUF>", SPACE_MARK "<SUF>", "<|code_suffix|>" },
  [LLM_INFILL_MIDDLE] = { "<|fim_middle|>", "<fim-middle>", "<fim_middle>",
                          "<｜fim▁end｜>", "<MID>", SPACE_MARK "<MID>", "<|code_middle|>" },
};

/* The key of their ids, and that of older files. */
static const char *const infill_keys[LLM_N_INFILL][2] =
{
  [LLM_INFILL_PREFIX] = { "tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id" },
  [LLM_INFILL_SUFFIX] = { "tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id" },
  [LLM_INFILL_MIDDLE] = { "tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id" },
};

/* Keys whose tokens are markers too. */
static const struct { const char *key; gboolean ends_answer; } marker_keys[] =
{
  { "tokenizer.ggml.bos_token_id", FALSE },
  { "tokenizer.ggml.eos_token_id", TRUE },
  { "tokenizer.ggml.eot_token_id", TRUE },
  { "tokenizer.ggml.eom_token_id", TRUE },
  { "tokenizer.ggml.cls_token_id", FALSE },
  { "tokenizer.ggml.seperator_token_id", FALSE },   /* spelt so in files */
  { "tokenizer.ggml.fim_pad_token_id", TRUE },
  { "tokenizer.ggml.fim_rep_token_id", TRUE },
  { "tokenizer.ggml.fim_sep_token_id", TRUE },
};

/* With the kind in the half that slots keep: a text may be there once in each. */
static guint64
hash_text (const LlmVocab *self,
           const char     *text,
           gsize           length,
           gboolean        is_plain)
{
  const guint64 plain_bit = G_GUINT64_CONSTANT (1) << 32;
  guint64 hash = XXH3_64bits_withSeed (text, length, self->table.seed);

  return is_plain ? hash | plain_bit : hash & ~plain_bit;
}

/* Which tokens ordinary text can become by merging. User-defined pieces of
 * SentencePiece are found before any merging, and a raw space never occurs in
 * its ordinary ones. */
static gboolean
is_plain_token (LlmTokenKind kind,
                gboolean     is_spm,
                const char  *text,
                gsize        length)
{
  switch (kind)
    {
    case LLM_TOKEN_NORMAL:
    case LLM_TOKEN_UNUSED:
      return !is_spm || memchr (text, ' ', length) == NULL;
    case LLM_TOKEN_USER_DEFINED:
      return !is_spm;
    case LLM_TOKEN_UNKNOWN:
    case LLM_TOKEN_CONTROL:
    case LLM_TOKEN_BYTE:
    default:
      return FALSE;
    }
}

gsize
llm_vocab_copy_with_spaces (char       *to,
                            const char *text,
                            gsize       length)
{
  gsize n = 0;

  for (gsize i = 0; i < length;)
    {
      if (length - i >= SPACE_MARK_LENGTH && memcmp (text + i, SPACE_MARK, SPACE_MARK_LENGTH) == 0)
        {
          to[n++] = ' ';
          i += SPACE_MARK_LENGTH;
        }
      else
        to[n++] = text[i++];
    }
  return n;
}

/* The id of the text, or -1; @at: (out): its slot, or the free one where it belongs. */
static gint32
find_slot (const LlmVocab *self,
           const char     *text,
           gsize           length,
           guint64         hash,
           gsize          *at)
{
  gint32 id;

  *at = hash;
  while ((id = llm_table_next (&self->table, hash, at)) >= 0)
    {
      gsize found_length;
      const char *found = llm_vocab_get_text (self, id, &found_length);

      if (found_length == length && memcmp (found, text, length) == 0)
        {
          --*at;
          break;
        }
    }
  return id;
}

/* A later token with the same text takes the place of an earlier one. */
static void
insert_tokens (LlmVocab       *self,
               const gboolean *is_plain)
{
  llm_table_init (&self->table, self->n_tokens);
  for (guint i = 0; i < self->n_tokens; i++)
    {
      guint ahead = MIN (i + LLM_TABLE_AHEAD, self->n_tokens - 1);
      gsize length, at;
      const char *text = llm_vocab_get_text (self, (gint32) ahead, &length);
      guint64 hash;

      llm_table_prefetch (&self->table, hash_text (self, text, length, is_plain[ahead]));
      text = llm_vocab_get_text (self, (gint32) i, &length);
      hash = hash_text (self, text, length, is_plain[i]);
      find_slot (self, text, length, hash, &at);
      llm_table_set (&self->table, at, hash, i);
    }
}

void
llm_vocab_prefetch (const LlmVocab *self,
                    const char     *text,
                    gsize           length)
{
  llm_table_prefetch (&self->table, hash_text (self, text, length, TRUE));
}

gint32
llm_vocab_find (const LlmVocab *self,
                const char     *text,
                gsize           length,
                gboolean        is_plain)
{
  gsize at;

  if (length == 0 || length > self->max_length)
    return -1;
  return find_slot (self, text, length, hash_text (self, text, length, is_plain), &at);
}

static gboolean
check_sizes (LlmGguf  *gguf,
             gsize     n_tokens,
             gsize     n_kinds,
             GError  **error)
{
  if (n_tokens == 0 || n_tokens > LLM_VOCAB_MAX_TOKENS)
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s: %s has %zu entries; supported are 1 to %u",
                     gguf->path, KEY_TOKENS, n_tokens, LLM_VOCAB_MAX_TOKENS);
  if (n_kinds != n_tokens)
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s: %s has %zu entries, %s has %zu; there must be one for each token",
                     gguf->path, KEY_TYPES, n_kinds, KEY_TOKENS, n_tokens);
  return TRUE;
}

static gboolean
check_token (LlmGguf        *gguf,
             gsize           id,
             LlmGgufString   token,
             gint64          kind,
             GError        **error)
{
  if (token.length > LLM_VOCAB_MAX_TEXT)
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s: %s[%zu] is %zu bytes long; supported are up to %d",
                     gguf->path, KEY_TOKENS, id, token.length, LLM_VOCAB_MAX_TEXT);
  if (kind < LLM_TOKEN_NORMAL || kind > LLM_TOKEN_BYTE)
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s: %s[%zu] is %jd; known types are 1 to 6",
                     gguf->path, KEY_TYPES, id, kind);
  return TRUE;
}

static void
add_ending (LlmVocab *self,
            gint32    id)
{
  for (guint i = 0; i < self->endings->len; i++)
    if (g_array_index (self->endings, gint32, i) == id)
      return;
  g_array_append_val (self->endings, id);
}

static gboolean
read_infill_keys (LlmVocab  *self,
                  LlmGguf   *gguf,
                  GError   **error)
{
  for (guint i = 0; i < LLM_N_INFILL; i++)
    {
      self->infill[i] = -1;
      for (guint j = 0; j < 2 && self->infill[i] < 0; j++)
        {
          guint64 id;

          if (!llm_gguf_has (gguf, infill_keys[i][j]))
            continue;
          if (!llm_gguf_get_uint (gguf, infill_keys[i][j], 0, self->n_tokens - 1, NULL, &id, error))
            return FALSE;
          self->infill[i] = (gint32) id;
          self->kinds[id] = LLM_TOKEN_CONTROL;
        }
    }
  return TRUE;
}

static gboolean
read_marker_keys (LlmVocab  *self,
                  LlmGguf   *gguf,
                  GError   **error)
{
  gint32 ids[G_N_ELEMENTS (marker_keys)];

  for (guint i = 0; i < G_N_ELEMENTS (marker_keys); i++)
    {
      guint64 id;

      ids[i] = -1;
      if (!llm_gguf_has (gguf, marker_keys[i].key))
        continue;
      if (!llm_gguf_get_uint (gguf, marker_keys[i].key, 0, self->n_tokens - 1, NULL, &id, error))
        return FALSE;
      ids[i] = (gint32) id;
      if (self->kinds[id] == LLM_TOKEN_USER_DEFINED)
        self->kinds[id] = LLM_TOKEN_CONTROL;
      if (marker_keys[i].ends_answer)
        add_ending (self, ids[i]);
    }
  self->bos = ids[0] >= 0 ? ids[0] : ids[4];
  self->eos = ids[1] >= 0 ? ids[1] : ids[5];
  return TRUE;
}

static gboolean
has_text (LlmGgufString token,
          const char   *text)
{
  return strlen (text) == token.length && memcmp (text, token.text, token.length) == 0;
}

/* Looked at for every token of a large vocabulary: most end at their first letter. Of several with
 * a name for the same marker of a gap the first counts, and none where a key names it. */
static void
check_marker_name (LlmVocab      *self,
                   gint32         id,
                   LlmGgufString  token)
{
  gsize at = token.length > SPACE_MARK_LENGTH
                 && memcmp (token.text, SPACE_MARK, SPACE_MARK_LENGTH) == 0
               ? SPACE_MARK_LENGTH
               : 0;

  if (token.length == 0 || (token.text[at] != '<' && token.text[at] != '_'))
    return;
  for (guint i = 0; i < LLM_N_INFILL; i++)
    for (guint j = 0; j < G_N_ELEMENTS (infill_names[i]); j++)
      if (has_text (token, infill_names[i][j]))
        {
          self->kinds[id] = LLM_TOKEN_CONTROL;
          if (self->infill[i] < 0)
            self->infill[i] = id;
        }
  for (guint i = 0; i < G_N_ELEMENTS (markers); i++)
    if (has_text (token, markers[i].name))
      {
        self->kinds[id] = LLM_TOKEN_CONTROL;
        if (markers[i].ends_answer)
          add_ending (self, id);
      }
}

LlmVocab *
llm_vocab_new (LlmGguf   *gguf,
               gboolean   is_spm,
               GError   **error)
{
  g_autoptr(LlmVocab) self = g_new0 (LlmVocab, 1);
  g_autofree LlmGgufString *tokens = NULL;
  g_autofree gint64 *kinds = NULL;
  g_autofree gboolean *plain = NULL;
  gsize n_tokens, n_kinds, total = 0;
  guint32 offset = 0;

  tokens = llm_gguf_get_strings (gguf, KEY_TOKENS, FALSE, &n_tokens, error);
  if (tokens == NULL)
    return NULL;
  kinds = llm_gguf_get_ints (gguf, KEY_TYPES, FALSE, &n_kinds, error);
  if (kinds == NULL || !check_sizes (gguf, n_tokens, n_kinds, error))
    return NULL;

  for (gsize i = 0; i < n_tokens; i++)
    {
      if (!check_token (gguf, i, tokens[i], kinds[i], error))
        return NULL;
      total += tokens[i].length;
    }
  if (total > G_MAXINT32)
    {
      llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                "%s: %s holds %zu bytes; supported are up to %d",
                gguf->path, KEY_TOKENS, total, G_MAXINT32);
      return NULL;
    }

  self->n_tokens = (guint) n_tokens;
  self->endings = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->kinds = g_new (guint8, n_tokens);
  for (gsize i = 0; i < n_tokens; i++)
    self->kinds[i] = (guint8) kinds[i];
  if (!read_marker_keys (self, gguf, error) || !read_infill_keys (self, gguf, error))
    return NULL;

  self->texts = g_malloc (total + 1);
  self->offsets = g_new (guint32, n_tokens + 1);
  plain = g_new (gboolean, n_tokens);

  for (gsize i = 0; i < n_tokens; i++)
    {
      gsize length = tokens[i].length;

      check_marker_name (self, (gint32) i, tokens[i]);
      plain[i] = is_plain_token (self->kinds[i], is_spm, tokens[i].text, length);
      if (is_spm && (self->kinds[i] == LLM_TOKEN_NORMAL || self->kinds[i] == LLM_TOKEN_UNUSED))
        length = llm_vocab_copy_with_spaces (self->texts + offset, tokens[i].text, length);
      else if (length > 0)
        memcpy (self->texts + offset, tokens[i].text, length);

      self->offsets[i] = offset;
      offset += (guint32) length;
      self->offsets[i + 1] = offset;
      self->max_length = MAX (self->max_length, length);
    }
  self->texts[offset] = '\0';
  insert_tokens (self, plain);

  return g_steal_pointer (&self);
}

void
llm_vocab_free (LlmVocab *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->endings, g_array_unref);
  g_free (self->texts);
  g_free (self->offsets);
  g_free (self->kinds);
  g_free (self->table.slots);
  g_free (self);
}
