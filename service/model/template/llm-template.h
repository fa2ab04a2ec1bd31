/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chat templates: messages with roles to the text a model was trained on.
 * Known templates are recognised by their source text in the GGUF file; an
 * unknown one is an error, never a guess. Rendering goes on from where a
 * conversation stands, so that tokens already in the context stay as they are.
 * Immutable once made; any thread.
 */

#pragma once

#include "model/tokenizer/llm-tokenizer.h"

typedef struct _LlmTemplate LlmTemplate;

typedef struct
{
  char *role;  /* "system", "user", "assistant", "tool" */
  char *text;
} LlmMessage;

/* Where the text so far ended. */
typedef enum
{
  LLM_POINT_START,          /* nothing yet */
  LLM_POINT_OPEN_ANSWER,    /* within an answer of the model that has no end token */
  LLM_POINT_CLOSED_ANSWER,  /* behind the end token of an answer */
  LLM_POINT_CLOSED_MESSAGE, /* behind another message, which awaits an answer or more */
} LlmPoint;

/* @source: (nullable): tokenizer.chat_template of the file. @tokenizer: (nullable):
 * of the file, for the texts of BOS and EOS where the template asks for these;
 * needed only during the call; NULL: <s> and </s>. @name_for_errors: the file.
 * Fails with UNSUPPORTED when there is none or it is not a known one. */
LlmTemplate *llm_template_new      (const char   *source,
                                    LlmTokenizer *tokenizer,
                                    const char   *name_for_errors,
                                    GError      **error) G_GNUC_WARN_UNUSED_RESULT;
void         llm_template_free     (LlmTemplate  *self);
/* "chatml", "llama-2", "llama-3", "gemma", "phi-3", "mistral", "zephyr". */
const char  *llm_template_get_name (LlmTemplate  *self);

/* Rendered text, for all to read. */
typedef struct
{
  GArray *parts;          /* (element-type LlmTextPart) */
  GStringChunk *texts;    /* of the parts */
} LlmPrompt;

/* (transfer full): the text that follows @point, where the text before @messages ended, markup and
 * plain text apart; with @open_answer, up to what makes the model answer. Without, it ends right
 * behind the last message: CLOSED_ANSWER if that was the assistant's, else CLOSED_MESSAGE. Fails
 * with INVALID_ARGUMENT for a role or an order that this template can't express, naming both. */
LlmPrompt   *llm_template_render   (LlmTemplate      *self,
                                    LlmPoint          point,
                                    const LlmMessage *messages,
                                    guint             n_messages,
                                    gboolean          open_answer,
                                    GError          **error) G_GNUC_WARN_UNUSED_RESULT;

void         llm_prompt_free       (LlmPrompt        *self);
static inline const LlmTextPart *
llm_prompt_get_parts (LlmPrompt *self,
                      guint     *n_parts)
{
  *n_parts = self->parts->len;
  return (const LlmTextPart *) (void *) self->parts->data;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTemplate, llm_template_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPrompt, llm_prompt_free)
