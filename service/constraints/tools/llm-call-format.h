/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a model writes the calls of an answer: the texts around names and arguments, which are JSON.
 * Taken from what the model's chat template writes; where that writes calls in another way, or not
 * at all, as Hermes does: <tool_call>{"name": …, "arguments": …}</tool_call>. Immutable once made;
 * any thread.
 */

#pragma once

#include "model/template/llm-template.h"

G_BEGIN_DECLS

/* Within the texts: an id that the model makes up, and a number. No text has these bytes; control
 * tokens are as in LlmTokenTrie. */
#define LLM_CALL_ID '\x01'
#define LLM_CALL_NUMBER '\x02'
/* Letters and digits of an id. */
#define LLM_CALL_ID_LENGTH 9

typedef struct
{
  char *begin;           /* before the first name */
  char *middle;          /* between name and arguments */
  char *next;            /* (nullable): between arguments and the next name; NULL: there is one
                          * call only */
  char *next_middle;     /* (nullable) */
  char *end;             /* behind the last arguments */
  char *marker;          /* what tells a call from text: @begin begins with it; of control tokens
                          * just one, and nothing else */
  gboolean is_at_start;  /* only at the very start of the answer, spaces aside */
} LlmCallFormat;

/* @features: (nullable): of the template. @tokenizer: (nullable): for its control tokens; needed
 * only during the call. */
LlmCallFormat *llm_call_format_new  (const LlmTemplateFeatures *features,
                                     LlmTokenizer              *tokenizer);
void           llm_call_format_free (LlmCallFormat             *self);
/* Whether @features' calls are written so, and not in the general way. */
gboolean       llm_call_format_is_known (const LlmTemplateFeatures *features);

/* The calls of an answer, as OpenAI's API has them. @answer: the bytes of its tokens, as in
 * LlmTokenTrie. @is_cut: (out): the last call is not whole, and left out. Returns: (transfer full)
 * (nullable): a JSON array of {"id", "type": "function", "function": {"name", "arguments"}}, where
 * the arguments are a string that holds JSON; NULL: there are none. Ids that the model does not
 * write are random. */
char          *llm_call_format_read (const LlmCallFormat       *self,
                                     const char                *answer,
                                     gsize                      length,
                                     gboolean                  *is_cut);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCallFormat, llm_call_format_free)

G_END_DECLS
