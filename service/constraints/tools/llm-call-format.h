/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a model writes the calls of an answer: the texts around names and arguments, which are JSON,
 * tags or code. Taken from what the model's chat template writes; where that writes calls in a way
 * that is not understood, or not at all, as Hermes does:
 * <tool_call>{"name": …, "arguments": …}</tool_call>. Immutable once made; any thread.
 */

#pragma once

#include "constraints/llm-loose-text.h"
#include "template/llm-template.h"

G_BEGIN_DECLS

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
  LlmArgumentTexts *arguments; /* (nullable): how these are written; NULL: as JSON */
  gboolean is_at_start;  /* only at the very start of the answer, spaces aside */
} LlmCallFormat;

/* @features: (nullable): of the template. @tokenizer: (nullable): for its control tokens; needed
 * only during the call. */
LlmCallFormat *llm_call_format_new  (const LlmTemplateFeatures *features,
                                     LlmTokenizer              *tokenizer);
void           llm_call_format_free (LlmCallFormat             *self);
/* Whether @features' calls are written so, and not in the general way. */
gboolean       llm_call_format_is_known (const LlmTemplateFeatures *features);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCallFormat, llm_call_format_free)

G_END_DECLS
