/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool-draw.h"

#include <glib/gi18n.h>

#include "tool-model.h"
#include "tool.h"
#include "tool/llm-own-text.h"

static void
on_tokens (guint n)
{
  tool_progress (_("drawing text from the model, %u tokens"), n);
}

/* (transfer full): the tokens of a user's @text in the model's template; none without one. */
static GArray *
render (ToolModel  *model,
        char       *text)
{
  const LlmMessage message = { (char *) "user", text, NULL };
  const LlmTemplateCall call = { .messages = &message, .n_messages = 1 };
  LlmTemplate *template = llm_model_get_template (model->model, NULL);
  g_autoptr(LlmPrompt) prompt = template != NULL ? llm_template_render (template, &call, NULL) : NULL;
  GArray *tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  const LlmTextPart *parts;
  guint n_parts;

  if (prompt == NULL)
    return tokens;
  parts = llm_prompt_get_parts (prompt, &n_parts);
  llm_tokenizer_encode (model->tokenizer, parts, n_parts, TRUE, tokens);
  return tokens;
}

/* (transfer full): what two texts have in common before them. */
static GArray *
find_beginning (ToolModel *model,
                guint      n_most)
{
  char one[] = "a", other[] = "Z";
  g_autoptr(GArray) tokens = render (model, one);
  g_autoptr(GArray) others = render (model, other);
  guint n = 0;

  while (n < MIN (tokens->len, others->len) && n < n_most
         && g_array_index (tokens, gint32, n) == g_array_index (others, gint32, n))
    n++;
  g_array_set_size (tokens, n);
  return g_steal_pointer (&tokens);
}

/* The service's arithmetic is faster than the exact one. */
GArray *
tool_draw (guint    n_windows,
           guint    n_ctx,
           GError **error)
{
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(GArray) beginning = NULL;
  LlmOwnText own;

  tool_model_options.is_exact = tool_model_options.is_f32 = FALSE;
  model = tool_model_open (error);
  if (model == NULL)
    return NULL;
  n_ctx = MIN (n_ctx, model->hparams->n_ctx);
  beginning = find_beginning (model, n_ctx / 2);
  own = (LlmOwnText) {
    .forward = model->forward, .store = model->store, .hparams = model->hparams,
    .tokenizer = model->tokenizer, .beginning = beginning->len > 0 ? beginning : NULL,
    .n_ctx = n_ctx, .n_windows = n_windows,
  };
  return llm_own_text_draw (&own, on_tokens, error);
}
