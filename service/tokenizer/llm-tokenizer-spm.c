/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* SentencePiece BPE: any two neighbouring pieces whose texts together are a
 * token may merge, the one with the best score first. What ends up as no token
 * is written as the tokens of its bytes. */

#include "tokenizer/llm-tokenizer-private.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "tokenizer/llm-utf8.h"

#define KEY_SCORES "tokenizer.ggml.scores"

typedef struct
{
  LlmCodec codec;
  guint32 *ranks;             /* by id; the best score has the smallest */
  gint32 byte_ids[256];       /* the tokens that stand for bytes */
  gboolean adds_space_prefix;
} LlmSpm;

/* Maps greater scores to smaller ranks: the bits of IEEE numbers of one sign
 * are in the order of their values. */
static guint32
rank_of_score (float score)
{
  guint32 bits;

  /* Both zeros are one score. */
  score += 0.0f;
  memcpy (&bits, &score, sizeof bits);
  return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

static gboolean
read_bytes (LlmSpm   *self,
            LlmGguf  *gguf,
            GError  **error)
{
  for (guint byte = 0; byte < 256; byte++)
    self->byte_ids[byte] = -1;

  for (guint id = 0; id < self->codec.vocab->n_tokens; id++)
    {
      gsize length;
      const char *text;
      int byte;

      if (self->codec.vocab->kinds[id] != LLM_TOKEN_BYTE)
        continue;
      text = llm_vocab_get_text (self->codec.vocab, (gint32) id, &length);
      byte = llm_byte_token_parse (text, length);
      if (byte < 0)
        return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                         "%s: tokenizer.ggml.tokens[%u] has the type of a byte, but its text is "
                         "none of <0x00> to <0xFF>", gguf->path, id);
      self->byte_ids[byte] = (gint32) id;
    }

  for (guint byte = 0; byte < 256; byte++)
    if (self->byte_ids[byte] < 0)
      return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                       "%s: tokenizer.ggml.tokens has no token for byte <0x%02X>; supported are "
                       "vocabularies with all 256", gguf->path, byte);
  return TRUE;
}

static gboolean
read_scores (LlmSpm   *self,
             LlmGguf  *gguf,
             GError  **error)
{
  g_autofree float *scores = NULL;
  gsize n_scores;

  scores = llm_gguf_get_floats (gguf, KEY_SCORES, FALSE, &n_scores, error);
  if (scores == NULL)
    return FALSE;
  if (n_scores != self->codec.vocab->n_tokens)
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s: %s has %zu entries, tokenizer.ggml.tokens has %u; there must be one for "
                     "each token",
                     gguf->path, KEY_SCORES, n_scores, self->codec.vocab->n_tokens);

  self->ranks = g_new (guint32, n_scores);
  for (gsize i = 0; i < n_scores; i++)
    {
      if (!isfinite (scores[i]))
        return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL, "%s: %s[%zu] is no finite number",
                         gguf->path, KEY_SCORES, i);
      self->ranks[i] = rank_of_score (scores[i]);
    }
  return TRUE;
}

static gboolean
can_merge (const LlmMerger *merger,
           const LlmSymbol *left,
           const LlmSymbol *right,
           guint32         *rank,
           gint32          *id)
{
  const LlmSpm *self = merger->data;

  *id = llm_vocab_find (self->codec.vocab, merger->text + left->start, left->length + right->length,
                        TRUE);
  if (*id < 0)
    return FALSE;
  *rank = self->ranks[*id];
  return TRUE;
}

/* A space before the text, where the vocabulary wants it, and a space for each
 * mark: to such vocabularies the two are the same. */
static GString *
prepare_text (const LlmSpm *self,
              const char   *text,
              gsize         length,
              gboolean      behind_special)
{
  GString *prepared = g_string_sized_new (length + 2);

  if (self->adds_space_prefix && behind_special)
    g_string_append_c (prepared, ' ');
  g_string_set_size (prepared, prepared->len + length);
  g_string_truncate (prepared, prepared->len - length
                     + llm_vocab_copy_with_spaces (prepared->str + prepared->len - length, text,
                                                   length));
  return prepared;
}

static guint64
encode (const LlmCodec *codec,
        const char     *text,
        gsize           length,
        gboolean        behind_special,
        GArray         *ids)
{
  const LlmSpm *self = (const LlmSpm *) codec;
  g_auto(LlmMerger) merger = { 0 };
  g_autoptr(GString) prepared = prepare_text (self, text, length, behind_special);
  const char *end = prepared->str + prepared->len;

  llm_merger_init (&merger, can_merge, self);
  llm_merger_begin (&merger, prepared->str);
  for (const char *at = prepared->str; at < end;)
    {
      gunichar c;
      gsize n = llm_utf8_get (at, end, &c);

      llm_merger_add (&merger, (guint32) (at - prepared->str), (guint32) n,
                      llm_vocab_find (self->codec.vocab, at, n, TRUE));
      at += n;
    }
  llm_merger_run (&merger);

  for (gint32 i = merger.symbols->len > 0 ? 0 : -1; i >= 0;)
    {
      const LlmSymbol *symbol = &g_array_index (merger.symbols, LlmSymbol, i);

      if (symbol->id >= 0)
        g_array_append_val (ids, symbol->id);
      for (guint32 j = 0; symbol->id < 0 && j < symbol->length; j++)
        g_array_append_val (ids, self->byte_ids[(guint8) prepared->str[symbol->start + j]]);
      i = symbol->next;
    }
  return merger.n_steps;
}

static void
decode (const LlmCodec *codec,
        gint32          id,
        GString        *out)
{
  gsize length;
  const char *text = llm_vocab_get_text (codec->vocab, id, &length);

  if (codec->vocab->kinds[id] == LLM_TOKEN_BYTE)
    g_string_append_c (out, (char) llm_byte_token_parse (text, length));
  else
    g_string_append_len (out, text, (gssize) length);
}

static void
free_codec (LlmCodec *codec)
{
  g_free (((LlmSpm *) codec)->ranks);
  g_free (codec);
}

LlmCodec *
llm_spm_new (LlmGguf         *gguf,
             const LlmVocab  *vocab,
             GError         **error)
{
  LlmSpm *self = g_new0 (LlmSpm, 1);
  g_autoptr(LlmCodec) codec = &self->codec;
  const gboolean default_prefix = TRUE;

  *codec = (LlmCodec) { vocab, TRUE, FALSE, encode, decode, free_codec };
  if (!read_bytes (self, gguf, error) || !read_scores (self, gguf, error) ||
      !llm_gguf_get_bool (gguf, "tokenizer.ggml.add_space_prefix", &default_prefix,
                          &self->adds_space_prefix, error))
    return NULL;

  return g_steal_pointer (&codec);
}
