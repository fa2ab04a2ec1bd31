/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tokens of a model file: text and kind by id, id by text. Texts are kept
 * as a reader sees them: SentencePiece's mark for a space has become a space.
 * Owned by the tokenizer; immutable once made, any thread.
 */

#pragma once

#include "gguf/llm-gguf.h"
#include "tokenizer/llm-table.h"

/* As stored in tokenizer.ggml.token_type. */
typedef enum
{
  LLM_TOKEN_NORMAL = 1,
  LLM_TOKEN_UNKNOWN,
  LLM_TOKEN_CONTROL,
  LLM_TOKEN_USER_DEFINED,
  LLM_TOKEN_UNUSED,
  LLM_TOKEN_BYTE,
} LlmTokenKind;

/* A longer text than any real vocabulary has, so that looking one up is cheap. */
#define LLM_VOCAB_MAX_TEXT 4096
#define LLM_VOCAB_MAX_TOKENS (4u << 20)

/* What stands before the parts of a text that has a gap. */
typedef enum
{
  LLM_INFILL_PREFIX,
  LLM_INFILL_SUFFIX,
  LLM_INFILL_MIDDLE,
  LLM_N_INFILL
} LlmInfill;

typedef struct
{
  guint n_tokens;
  gsize max_length;     /* bytes of the longest text */

  gint32 bos;           /* the class token of encoders; -1: the file names none */
  gint32 eos;           /* their separator; likewise */
  GArray *endings;      /* (element-type gint32): what ends an answer */
  gint32 infill[LLM_N_INFILL]; /* by LlmInfill: of models that fill in; -1: the model has none */

  char *texts;          /* all texts, one behind the other */
  guint32 *offsets;     /* n_tokens + 1 of them */
  guint8 *kinds;        /* LlmTokenKind by id */

  LlmTable table;       /* id by the hash of the text */
} LlmVocab;

/* @is_spm: pieces as SentencePiece has them, else byte-level ones. */
LlmVocab   *llm_vocab_new      (LlmGguf         *gguf,
                                gboolean         is_spm,
                                GError         **error) G_GNUC_WARN_UNUSED_RESULT;
void        llm_vocab_free     (LlmVocab        *self);

/* The id of the token with this text, -1 if there is none. Tokens that ordinary
 * text can become (@is_plain) and all others are apart: the name of a control
 * token, found in plain text, is nothing but letters. */
gint32      llm_vocab_find     (const LlmVocab  *self,
                                const char      *text,
                                gsize            length,
                                gboolean         is_plain);

/* Says that llm_vocab_find() will be asked for this text, as a plain one, LLM_TABLE_AHEAD texts
 * later. */
void        llm_vocab_prefetch (const LlmVocab  *self,
                                const char      *text,
                                gsize            length);

/* Writes @text to @to, which has room for as much, with a space for each of SentencePiece's marks.
 * Returns the length of what it wrote. */
gsize       llm_vocab_copy_with_spaces (char       *to,
                                        const char *text,
                                        gsize       length);

/* Whether the token is a marker, whose text is never shown. */
static inline gboolean
llm_vocab_is_control (const LlmVocab *self,
                      gint32          id)
{
  return self->kinds[id] == LLM_TOKEN_CONTROL || self->kinds[id] == LLM_TOKEN_UNKNOWN;
}

static inline const char *
llm_vocab_get_text (const LlmVocab *self,
                    gint32          id,
                    gsize          *length)
{
  *length = self->offsets[id + 1] - self->offsets[id];
  return self->texts + self->offsets[id];
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmVocab, llm_vocab_free)
