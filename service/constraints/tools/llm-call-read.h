/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the calls in an answer as it comes. One thread at a time.
 */

#pragma once

#include "constraints/llm-grammar.h"
#include "constraints/tools/llm-call-format.h"

G_BEGIN_DECLS

typedef struct _LlmCallReader LlmCallReader;

/* @format: (unowned). @grammar: (nullable) (unowned): the constraint of the answer; where a model
 * writes strings without quotes, it tells strings from other values. Both outlive it. */
LlmCallReader *llm_call_reader_new  (const LlmCallFormat *format,
                                     const LlmGrammar    *grammar);
void           llm_call_reader_free (LlmCallReader       *self);
/* More of the answer, as the bytes of its tokens in LlmTokenTrie. Returns how many calls are
 * complete so far. */
guint          llm_call_reader_push (LlmCallReader       *self,
                                     const char          *bytes,
                                     gsize                length);
/* A complete call, as OpenAI's API has it: {"id", "type": "function", "function": {"name",
 * "arguments"}}, where the arguments are a string that holds JSON. An id that the model does not
 * write is random. */
const char    *llm_call_reader_get  (LlmCallReader       *self,
                                     guint                i);
/* The answer has ended. @is_cut: (out): its last call is not whole, and left out. (transfer full)
 * (nullable): a JSON array of the calls; NULL: there are none. */
char          *llm_call_reader_end  (LlmCallReader       *self,
                                     gboolean            *is_cut);

/* All that at once. */
char          *llm_call_format_read (const LlmCallFormat *format,
                                     const LlmGrammar    *grammar,
                                     const char          *answer,
                                     gsize                length,
                                     gboolean            *is_cut);

/* --- llm-argument-read.c: of arguments that are no JSON --- */

/* (nullable): behind what @pattern stands for, spaces aside; @id: an id in it. */
const char    *llm_call_match       (const char          *pattern,
                                     const char          *at,
                                     const char          *end,
                                     GString             *id);
/* (nullable): behind the JSON object or array at @at. */
const char    *llm_call_skip_json   (const char          *at,
                                     const char          *end);

/* Whether an argument may be a string, and anything else: LLM_ARGUMENT_STRINGS, _OTHERS. */
typedef guint8 (*LlmArgumentKindsFunc) (const char *key, gpointer data);

/* (nullable): behind the arguments at @at, which are appended to @json as an object; NULL: they are
 * not whole. */
const char    *llm_arguments_read   (const LlmArgumentTexts *texts,
                                     const char             *at,
                                     const char             *end,
                                     LlmArgumentKindsFunc    kinds,
                                     gpointer                data,
                                     GString                *json);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCallReader, llm_call_reader_free)

G_END_DECLS
