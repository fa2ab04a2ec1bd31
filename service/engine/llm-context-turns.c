/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The turns of a context: read, changed, made into a prompt. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-call.h"

void
llm_context_set_session (LlmContext *self,
                         LlmRequest *request)
{
  request->session_id = self->session;
  request->context = g_strdup (self->id);
  request->is_named = llm_context_is_named (self);
}

void
llm_context_stop_ahead (LlmContext *self)
{
  if (self->ahead == NULL)
    return;
  __atomic_store_n (&self->ahead->stop_request, LLM_FINISH_CANCELLED, __ATOMIC_RELEASE);
  llm_executor_poke (self->engine->executor);
}

/* --- reading what is stored --- */

static void
on_loaded (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  GError *error = NULL;
  gpointer loaded;
  gboolean is_read = llm_db_run_finish (result, &loaded, &error);
  LlmStoredContext *stored = loaded;

  if (stored->damage != NULL && self->damage == NULL && self->conversation == NULL)
    {
      self->damage = g_steal_pointer (&stored->damage);
      g_warning ("The stored data of the context %s is damaged; it can't be used", self->id);
    }
  if (self->damage != NULL)
    {
      is_read = FALSE;
      g_clear_error (&error);
      llm_context_check (self, &error);
    }
  if (!is_read)
    {
      g_task_return_error (task, error);
      return;
    }
  if (self->conversation == NULL)
    self->conversation = g_steal_pointer (&stored->turns);
  llm_context_count (self);
  g_task_return_boolean (task, TRUE);
}

void
llm_context_load (LlmContext         *self,
                  GAsyncReadyCallback callback,
                  gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  GError *error = NULL;

  self->n_loading++;
  if (!llm_context_check (self, &error))
    {
      g_task_return_error (task, error);
      g_object_unref (task);
    }
  else if (self->conversation != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
  else
    {
      LlmStoredContext *stored = llm_stored_context_new ();

      stored->id = g_strdup (self->id);
      llm_db_run_async (self->engine->db, llm_store_load_turns, stored,
                        (GDestroyNotify) llm_stored_context_free, on_loaded, task);
    }
}

gboolean
llm_context_load_finish (LlmContext   *self,
                         GAsyncResult *result,
                         GError      **error)
{
  self->n_loading--;
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- its prompt --- */

LlmPrepareInput *
llm_context_make_input (LlmContext *self,
                        LlmModel   *model,
                        GVariant   *messages,
                        gboolean    counts_system)
{
  LlmPrepareInput *input = llm_prepare_input_new ();
  LlmConversation *conversation = self != NULL ? self->conversation : NULL;
  guint n = conversation != NULL ? conversation->messages->len : 0;
  const char *identity = llm_model_get_identity (model);
  guint first = 0;
  GVariantIter iter;
  const char *role;
  const char *text;

  if (conversation != NULL
      && !llm_conversation_check_tokens (conversation, identity,
                                         llm_model_get_hparams (model)->n_vocab))
    g_warning ("Stored tokens of the context %s are damaged; its text is used instead", self->id);
  if (conversation != NULL)
    input->point = llm_conversation_get_settled (conversation, identity, input->settled, &first);
  for (guint i = 0; i < n; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (conversation->messages, i);
      gboolean is_leading = counts_system && i == input->n_settled && i < first
                            && g_str_equal (message->role, "system");

      input->n_settled += is_leading;
      if (is_leading || i >= first)
        llm_prepare_input_add_message (input, message->role, message->text);
    }
  if (messages != NULL)
    {
      g_variant_iter_init (&iter, messages);
      while (g_variant_iter_next (&iter, "(&s&s@a{sv})", &role, &text, NULL))
        llm_prepare_input_add_message (input, role, text);
    }

  input->counts_system = counts_system;
  input->n_system = input->n_settled;
  while (input->n_settled == first && input->n_system < input->messages->len
         && g_str_equal (g_array_index (input->messages, LlmMessage, input->n_system).role,
                         "system"))
    input->n_system++;
  return input;
}
