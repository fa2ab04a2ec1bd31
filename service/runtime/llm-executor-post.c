/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the executor's thread and main tell each other. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"

LlmCommand *
llm_command_new (LlmExecutor *executor,
                 void       (*run) (LlmCommand *),
                 GCallback    done,
                 gpointer     data)
{
  LlmCommand *self = g_atomic_rc_box_new0 (LlmCommand);

  self->executor = executor;
  self->run = run;
  self->done = done;
  self->data = data;
  return self;
}

static void
clear_command (gpointer data)
{
  LlmCommand *self = data;

  g_clear_pointer (&self->model, llm_model_unref);
  g_clear_pointer (&self->weights, llm_weights_free);
  g_clear_pointer (&self->request, llm_request_unref);
  if (self->text != NULL)
    g_string_free (self->text, TRUE);
  if (self->thoughts != NULL)
    g_string_free (self->thoughts, TRUE);
  if (self->logprobs != NULL)
    g_string_free (self->logprobs, TRUE);
  if (self->token_bytes != NULL)
    g_string_free (self->token_bytes, TRUE);
  g_clear_pointer (&self->table, g_hash_table_unref);
  g_clear_pointer (&self->pieces, g_array_unref);
  g_clear_pointer (&self->memory, llm_context_memory_free);
  g_free (self->context);
}

void
llm_command_unref (LlmCommand *self)
{
  g_atomic_rc_box_release_full (self, clear_command);
}

static void
run_command (gpointer data)
{
  LlmCommand *command = data;

  command->run (command);
}

void
llm_command_send (LlmCommand *self)
{
  llm_mailbox_post (self->executor->inbox, run_command, self, (GDestroyNotify) llm_command_unref);
}

void
llm_command_reply (LlmCommand *self,
                   void      (*run) (LlmCommand *))
{
  self->run = run;
  llm_mailbox_post (self->executor->main_box, run_command, self,
                    (GDestroyNotify) llm_command_unref);
}

static LlmCommand *
command_for (LlmRequest *request)
{
  LlmCommand *command = llm_command_new (request->executor, NULL, NULL, NULL);

  command->request = llm_request_ref (request);
  return command;
}

static void
deliver_text (LlmCommand *command)
{
  LlmRequest *request = command->request;
  const GString *thoughts = command->thoughts;

  if (thoughts->len > 0 && request->on_reasoning != NULL)
    request->on_reasoning (request, thoughts->str, thoughts->len, request->data);
  if (command->text->len > 0)
    request->on_text (request, command->text->str, command->text->len, request->data);
  if (command->token_bytes->len > 0)
    request->on_bytes (request, command->token_bytes->str, command->token_bytes->len, request->data);
  if (command->logprobs->len > 0)
    request->on_logprobs (request, command->logprobs->str, request->data);
  __atomic_fetch_sub (&request->n_unread,
                      command->text->len + thoughts->len + command->logprobs->len,
                      __ATOMIC_RELEASE);
}

/* Hands over what is to be posted, and keeps it for the result. */
static GString *
take_text (GString **text,
           GString  *all)
{
  GString *taken = *text;

  *text = g_string_new (NULL);
  g_string_append_len (all, taken->str, (gssize) taken->len);
  return taken;
}

void
llm_executor_post_text (LlmExecutor *self,
                        LlmRequest  *request)
{
  LlmCommand *command;

  if (request->text->len + request->thoughts->len + request->logprobs->len
        + request->bytes->len == 0)
    return;
  command = command_for (request);
  command->text = take_text (&request->text, request->result.text);
  command->thoughts = take_text (&request->thoughts, request->result.reasoning);
  command->logprobs = g_steal_pointer (&request->logprobs);
  request->logprobs = g_string_new (NULL);
  command->token_bytes = g_steal_pointer (&request->bytes);
  request->bytes = g_string_new (NULL);
  __atomic_fetch_add (&request->n_unread,
                      command->text->len + command->thoughts->len + command->logprobs->len,
                      __ATOMIC_RELEASE);
  llm_command_reply (command, deliver_text);
}

static void
deliver_admission (LlmCommand *command)
{
  command->request->on_admitted (command->request, command->request->data);
}

void
llm_executor_post_admission (LlmExecutor *self,
                             LlmRequest  *request)
{
  if (request->on_admitted != NULL)
    llm_command_reply (command_for (request), deliver_admission);
}

static void
deliver_end (LlmCommand *command)
{
  LlmRequest *request = command->request;

  request->on_done (request, &request->result, request->data);
}

void
llm_executor_post_end (LlmExecutor *self,
                       LlmRequest  *request)
{
  llm_command_reply (command_for (request), deliver_end);
}

static void
deliver_moved (LlmCommand *command)
{
  LlmExecutor *self = command->executor;

  self->moved (command->from, command->residency, command->bytes, self->moved_data);
}

void
llm_executor_post_moved (LlmExecutor *self,
                         guint64      session,
                         LlmResidency residency,
                         guint64      bytes)
{
  LlmCommand *command;

  if (self->moved == NULL)
    return;
  command = llm_command_new (self, NULL, NULL, NULL);
  command->from = session;
  command->residency = residency;
  command->bytes = bytes;
  llm_command_reply (command, deliver_moved);
}

void
llm_executor_set_moved (LlmExecutor    *self,
                        LlmSessionMoved moved,
                        gpointer        data)
{
  self->moved = moved;
  self->moved_data = data;
}

/* --- heartbeat --- */

static void
nothing (LlmCommand *command)
{
}

void
llm_executor_poke (LlmExecutor *self)
{
  llm_command_send (llm_command_new (self, nothing, NULL, NULL));
}

/* On the executor's thread, which looks into its inbox between any two stages: so this comes late
 * in the middle of a long one, and never when the thread hangs. */
static void
answer_heartbeat (LlmCommand *command)
{
  __atomic_store_n (&command->executor->has_answered, TRUE, __ATOMIC_RELEASE);
}

guint
llm_executor_probe (LlmExecutor *self)
{
  if (self->n_unanswered > 0 && !__atomic_load_n (&self->has_answered, __ATOMIC_ACQUIRE))
    return self->n_unanswered++;

  __atomic_store_n (&self->has_answered, FALSE, __ATOMIC_RELAXED);
  self->n_unanswered = 1;
  llm_command_send (llm_command_new (self, answer_heartbeat, NULL, NULL));
  return 0;
}
