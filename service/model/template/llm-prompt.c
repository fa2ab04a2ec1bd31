/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/template/llm-template.h"

#include <string.h>

struct _LlmPrompt
{
  GArray *parts;          /* (element-type LlmTextPart) */
  GStringChunk *texts;    /* of the parts */
};

LlmPrompt *
llm_prompt_new (void)
{
  LlmPrompt *self = g_new0 (LlmPrompt, 1);

  self->parts = g_array_new (FALSE, FALSE, sizeof (LlmTextPart));
  self->texts = g_string_chunk_new (4096);
  return self;
}

void
llm_prompt_free (LlmPrompt *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->parts);
  g_string_chunk_free (self->texts);
  g_free (self);
}

/**
 * llm_prompt_add:
 * @self: the prompt
 * @text: what follows; copied; nothing is added if it is empty
 * @is_markup: whether a template wrote it
 */
void
llm_prompt_add (LlmPrompt  *self,
                const char *text,
                gboolean    is_markup)
{
  LlmTextPart part = { NULL, 0, is_markup };

  g_return_if_fail (self != NULL);
  g_return_if_fail (text != NULL);

  part.length = strlen (text);
  if (part.length == 0)
    return;
  part.text = g_string_chunk_insert_len (self->texts, text, (gssize) part.length);
  g_array_append_val (self->parts, part);
}

const LlmTextPart *
llm_prompt_get_parts (LlmPrompt *self,
                      guint     *n_parts)
{
  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (n_parts != NULL, NULL);

  *n_parts = self->parts->len;
  return (const LlmTextPart *) (void *) self->parts->data;
}
