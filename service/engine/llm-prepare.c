/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-prepare.h"

#include <string.h>

typedef struct
{
  LlmModel *model;         /* (owned) */
  LlmPrepareInput *input;  /* (owned) */
} Prepare;

static void
message_free (LlmMessage *message)
{
  g_free (message->role);
  g_free (message->text);
  g_free (message);
}

LlmPrepareInput *
llm_prepare_input_new (void)
{
  LlmPrepareInput *input = g_new0 (LlmPrepareInput, 1);

  input->settled = g_array_new (FALSE, FALSE, sizeof (gint32));
  input->messages = g_ptr_array_new_with_free_func ((GDestroyNotify) message_free);
  return input;
}

void
llm_prepare_input_free (LlmPrepareInput *input)
{
  g_array_unref (input->settled);
  g_ptr_array_unref (input->messages);
  g_free (input->raw);
  g_free (input);
}

void
llm_prepare_input_add_message (LlmPrepareInput *input,
                               const char      *role,
                               const char      *text)
{
  LlmMessage *message = g_new (LlmMessage, 1);

  message->role = g_strdup (role);
  message->text = g_strdup (text);
  g_ptr_array_add (input->messages, message);
}

void
llm_prepare_input_add_messages (LlmPrepareInput *input,
                                GVariant        *messages)
{
  GVariantIter iter;
  const char *role;
  const char *text;

  g_variant_iter_init (&iter, messages);
  while (g_variant_iter_next (&iter, "(&s&s@a{sv})", &role, &text, NULL))
    llm_prepare_input_add_message (input, role, text);
}

GArray *
llm_prepare (LlmModel              *model,
             const LlmPrepareInput *input,
             GError               **error)
{
  g_autoptr(GArray) tokens = g_array_copy (input->settled);
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (model);

  if (input->raw != NULL)
    {
      /* What a raw prompt says in the model's own markup is meant so. */
      LlmTextPart part = { input->raw, strlen (input->raw), TRUE };

      llm_tokenizer_encode (tokenizer, &part, 1, TRUE, tokens);
    }
  else
    {
      g_autoptr(LlmPrompt) prompt = NULL;
      g_autofree LlmMessage *messages = g_new (LlmMessage, input->messages->len + 1);
      LlmTemplate *template = llm_model_get_template (model, error);
      const LlmTextPart *parts;
      guint n_parts;

      if (template == NULL)
        return NULL;
      for (guint i = 0; i < input->messages->len; i++)
        messages[i] = *(LlmMessage *) g_ptr_array_index (input->messages, i);
      prompt = llm_template_render (template, input->point, messages, input->messages->len,
                                    input->opens_answer, error);
      if (prompt == NULL)
        return NULL;
      parts = llm_prompt_get_parts (prompt, &n_parts);
      llm_tokenizer_encode (tokenizer, parts, n_parts, input->point == LLM_POINT_START, tokens);
    }

  /* Some files ask for an EOS behind every text. Behind a prompt it would say that the
   * conversation is over. */
  if (llm_tokenizer_adds_eos (tokenizer) && input->point == LLM_POINT_START && tokens->len > 0 &&
      g_array_index (tokens, gint32, tokens->len - 1) == llm_tokenizer_get_eos (tokenizer))
    g_array_set_size (tokens, tokens->len - 1);

  return g_steal_pointer (&tokens);
}

static void
prepare_free (Prepare *prepare)
{
  llm_model_unref (prepare->model);
  llm_prepare_input_free (prepare->input);
  g_free (prepare);
}

static void
run_prepare (GTask        *task,
             gpointer      source,
             gpointer      data,
             GCancellable *cancellable)
{
  Prepare *prepare = data;
  GError *error = NULL;
  GArray *tokens = llm_prepare (prepare->model, prepare->input, &error);

  if (tokens != NULL)
    g_task_return_pointer (task, tokens, (GDestroyNotify) g_array_unref);
  else
    g_task_return_error (task, error);
}

void
llm_prepare_async (LlmModel           *model,
                   LlmPrepareInput    *input,
                   GAsyncReadyCallback callback,
                   gpointer            data)
{
  g_autoptr(GTask) task = g_task_new (NULL, NULL, callback, data);
  Prepare *prepare = g_new (Prepare, 1);

  prepare->model = llm_model_ref (model);
  prepare->input = input;
  g_task_set_task_data (task, prepare, (GDestroyNotify) prepare_free);
  g_task_run_in_thread (task, run_prepare);
}

GArray *
llm_prepare_finish (GAsyncResult *result,
                    GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}
