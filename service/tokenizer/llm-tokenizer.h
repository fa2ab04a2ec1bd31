/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Text to token ids and back, from the vocabulary in a GGUF file: SentencePiece
 * BPE with byte fallback (`llama`), BPE of bytes (`gpt2`) or characters (`gemma4`) with the
 * pre-tokenizers it was trained with, and WordPiece (`bert`). Immutable once made; any thread.
 */

#pragma once

#include "gguf/llm-gguf.h"

/* Tokens [first, end). */
typedef struct
{
  guint first;
  guint end;
} LlmTokenSpan;

typedef struct _LlmTokenizerPrivate LlmTokenizerPrivate;

/* For all to read. */
typedef struct
{
  guint n_tokens;
  gint32 bos;                /* ids of the special tokens; -1: the model has none */
  gint32 eos;
  gboolean adds_bos;         /* the file asks for a BOS before a text (tokenizer.ggml.add_bos_token
                              * or the kind's default), and for an EOS after it */
  gboolean adds_eos;
  gboolean swallows_spaces;  /* spaces behind special tokens are lost, so that none need be written:
                              * most of both kinds swallow them */
  char *unknown_rules;       /* (nullable): the name of its pre-tokenizer ("" where the file has
                              * none), if the default one stands for it */
  LlmTokenizerPrivate *priv;
} LlmTokenizer;

/* A stretch of text to encode. In markup, the names of control tokens stand
 * for the tokens; in plain text (all that comes from an app) they are letters.
 * Neighbouring parts are one text to the model: only tokens split it. */
typedef struct
{
  const char *text;
  gsize length;
  gboolean is_markup;
} LlmTextPart;

/* Reads and checks the tokenizer.* keys. The error names the file, the key,
 * what was found and what is supported (model, pre-tokenizer). */
LlmTokenizer *llm_tokenizer_new          (LlmGguf       *gguf,
                                          GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same, but with the default pre-tokenizer for one that is not known. */
LlmTokenizer *llm_tokenizer_new_with_any_rules (LlmGguf *gguf,
                                                GError **error) G_GNUC_WARN_UNUSED_RESULT;
void          llm_tokenizer_free         (LlmTokenizer  *self);

/* Whether @id ends an answer: EOS, the end-of-turn id of the file, and the
 * control tokens commonly used so (<|im_end|>, <|eot_id|>, <end_of_turn>, <|end|>, …). */
gboolean      llm_tokenizer_ends_answer  (LlmTokenizer  *self,
                                          gint32         id);
/* Whether @id is a control token, whose text is never shown. */
gboolean      llm_tokenizer_is_control   (LlmTokenizer  *self,
                                          gint32         id);

/* Appends the ids of the parts to @ids (element-type gint32). @add_special puts
 * BOS in front and EOS behind where the file asks for it; the text is taken to
 * follow a special token anyway. It must be valid UTF-8 of no more than 256 MiB.
 * Time is O(n log n) in its length: returns how many steps it took, characters
 * looked at, look-ups and moves within heaps. */
guint64       llm_tokenizer_encode       (LlmTokenizer      *self,
                                          const LlmTextPart *parts,
                                          guint              n_parts,
                                          gboolean           add_special,
                                          GArray            *ids);

/* Whether the model was trained to fill in: the file has the three markers for it. */
gboolean      llm_tokenizer_can_infill   (LlmTokenizer  *self);
/* Appends the prompt that makes such a model write what stands between @prefix and @suffix: BOS
 * where the file asks for it, and each part behind its marker, what is written last. */
void          llm_tokenizer_encode_infill (LlmTokenizer *self,
                                           const char   *prefix,
                                           const char   *suffix,
                                           GArray       *ids);

/* Appends the bytes of one token to @out: perhaps a part of a UTF-8 character.
 * @show_control also writes the text of control tokens. */
void          llm_tokenizer_decode_token (LlmTokenizer  *self,
                                          gint32         id,
                                          gboolean       show_control,
                                          GString       *out);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTokenizer, llm_tokenizer_free)
