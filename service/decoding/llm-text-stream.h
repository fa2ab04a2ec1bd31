/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tokens of an answer in, text that may be shown out: whole UTF-8 characters,
 * and nothing that may yet turn out to be part of a stop string. What comes out
 * depends on the bytes of the tokens, not on how they are cut into tokens.
 * Owned by the generation; one thread at a time.
 */

#pragma once

#include "tokenizer/llm-tokenizer.h"

G_BEGIN_DECLS

typedef struct _LlmTextStream LlmTextStream;

/* @tokenizer must outlive the stream. @stops: (nullable) (array zero-terminated=1):
 * copied; empty strings and such that are no valid UTF-8 stop nothing.
 * @strip_leading_space: to leave out one space at the very start, which
 * SentencePiece vocabularies put before the first word. */
LlmTextStream *llm_text_stream_new        (LlmTokenizer       *tokenizer,
                                           const char *const  *stops,
                                           gboolean            strip_leading_space);
void           llm_text_stream_free       (LlmTextStream      *self);

/* Text from @marker on is left out, and can't complete a stop string. @marker: the text of a token,
 * or other text; a control token as in LlmTokenTrie. @is_at_start: only at the beginning of the
 * answer, spaces aside. Called before the first token. */
void           llm_text_stream_set_marker (LlmTextStream      *self,
                                           const char         *marker,
                                           gboolean            is_at_start);

/* Appends to @out what has become safe. Returns TRUE when a stop string is
 * complete: nothing of it or behind it comes out, now or later. */
gboolean       llm_text_stream_push       (LlmTextStream      *self,
                                           gint32              token,
                                           GString            *out);
/* The same for bytes that are no token's. */
gboolean       llm_text_stream_push_bytes (LlmTextStream      *self,
                                           const char         *bytes,
                                           gsize               length,
                                           GString            *out);
/* The end of the answer: appends what was held back, unless a stop string was
 * completed. Half a character becomes U+FFFD. */
void           llm_text_stream_finish     (LlmTextStream      *self,
                                           GString            *out);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTextStream, llm_text_stream_free)

G_END_DECLS
