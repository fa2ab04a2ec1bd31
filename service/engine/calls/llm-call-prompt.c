/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The steps of calls with text: it is tokenized, and at the end stored as a turn. */

#include "engine/calls/llm-call.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error-private.h"
#include "engine/calls/llm-engine-calls.h"
#include "engine/contexts/llm-engine-contexts.h"
#include "engine/models/llm-engine-models.h"

/* --- the prompt --- */

/* Whether the call continues with tokenizing. Takes @error (nullable). */
static gboolean
check_wanted (GTask  *task,
              GError *error)
{
  LlmCall *call = g_task_get_task_data (task);

  if (error == NULL && call->answer.is_cancelled)
    error = llmsvc_error_new (LLMSVC_ERROR_CANCELLED, NULL, "The answer was cancelled");
  if (error == NULL && call->step != NULL)
    return TRUE;
  if (call->may_fail)
    g_clear_error (&error);
  llm_call_go_on (task, error);
  return FALSE;
}

static void on_prefill (GObject *source, GAsyncResult *result, gpointer data);

/* The tokens are there. If the model was unloaded or changed while the text was prepared, they are
 * useless. */
static void
use_tokens (GTask *task)
{
  LlmCall *call = g_task_get_task_data (task);

  if (call->engine->use.model != call->model || call->engine->loading.is_loading)
    llm_call_tokenize (task, call->step);
  else if (call->answer.generation != NULL
           && llm_engine_delays_prefill (call->engine, call->options))
    llm_engine_await_prefill (call->engine, on_prefill, g_object_ref (task));
  else
    call->step (task, call);
}

static void
on_prefill (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  g_task_propagate_boolean (G_TASK (result), &error);
  if (check_wanted (task, error))
    use_tokens (task);
}

static void
on_prepared (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->tokens = llm_prepare_finish (result, &call->n_system, &call->masks, &error);
  call->thought = llm_prepare_get_thought (result);
  call->n_left_out = llm_prepare_get_left_out (result);
  if (check_wanted (task, error))
    use_tokens (task);
}

static void
on_model (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  LlmPrepareInput *input;
  LlmConstraintKind kind = LLM_CONSTRAINT_JSON;
  g_autofree char *constraint = NULL;
  const char *tools = NULL, *name = NULL;
  LlmThinking thinking = LLM_THINKING_AUTO;

  call->model = g_task_propagate_pointer (G_TASK (result), &error);
  if (call->options != NULL)
    name = llm_call_options_get_string (call->options, LLMSVC_OPTION_TEMPLATE, NULL);
  if (call->model != NULL && name != NULL)
    (void) llm_model_choose_template (call->model, name, FALSE, &error);
  if (call->model != NULL && call->answer.generation != NULL && error == NULL)
    llm_engine_read_constraint (call->options, &kind, &constraint, &error);
  if (!check_wanted (task, error))
    return;
  if (call->options != NULL && !call->counts_held)
    {
      tools = llm_call_options_get_string (call->options, LLMSVC_OPTION_TOOLS, NULL);
      thinking = llm_engine_read_thinking (call->options);
    }
  input = llm_context_make_input (call->context, call->model,
                                  call->counts_held ? llm_model_get_template (call->model, NULL)
                                                    : llm_call_get_template (call),
                                  tools, thinking, call->counts_held ? 100 : llm_call_get_prompt_level (call),
                                  call->counts_held ? NULL : call->messages, call->slides);
  input->raw = g_strdup (call->raw);
  if (call->options != NULL)
    input->suffix =
      g_strdup (llm_call_options_get_string (call->options, LLMSVC_OPTION_SUFFIX, NULL));
  input->continues = call->continues;
  input->opens_answer = call->answer.generation != NULL;
  if (constraint != NULL)
    {
      input->constraints = llm_constraint_cache_ref (call->engine->use.constraints);
      input->kind = kind;
      input->constraint = g_steal_pointer (&constraint);
      input->app = call->caller != NULL
                     ? g_strdup_printf ("%u %s", call->caller->app->uid, call->caller->app->id)
                     : g_strdup ("");
      input->cancellable = g_cancellable_new ();
      g_set_object (&call->answer.compiling, input->cancellable);
    }
  llm_prepare_async (call->model, input, on_prepared, g_object_ref (task));
}

void
llm_call_tokenize (GTask      *task,
                   LlmCallStep step)
{
  LlmCall *call = g_task_get_task_data (task);

  call->step = step;
  g_clear_pointer (&call->model, llm_model_unref);
  g_clear_pointer (&call->tokens, g_array_unref);
  g_clear_pointer (&call->masks, llm_mask_table_unref);
  llm_engine_await_model (call->engine, on_model, g_object_ref (task));
}

/* --- the turn --- */

static void
apply_commit (GTask   *task,
              LlmCall *call)
{
  LlmContext *self = call->context;

  llm_conversation_truncate (self->conversation, call->n_turns);
  if (call->turn != NULL)
    llm_conversation_add_turn (self->conversation, g_steal_pointer (&call->turn));
  llm_context_count (self);
  self->revision++;
  self->used = llm_clock_wall_s ();
  llm_engine_count_later (call->engine, self);
  call->then (task, call);
}

void
llm_call_commit (GTask      *task,
                 guint       n_turns,
                 LlmTurn    *turn,
                 LlmCallStep step)
{
  LlmCall *call = g_task_get_task_data (task);
  LlmContext *self = call->context;
  guint dropped = self->conversation->dropped;
  LlmStoredContext *change;

  self->conversation->dropped = G_MAXUINT;
  g_assert (self->is_busy);
  call->n_turns = n_turns;
  call->turn = turn;
  call->then = step;
  if (!llm_context_is_named (self))
    {
      apply_commit (task, call);
      return;
    }
  change = llm_stored_context_new ();
  change->id = g_strdup (self->id);
  change->revision = self->revision + 1;
  change->used = llm_clock_wall_s ();
  change->n_turns = n_turns;
  change->dropped = turn != NULL && turn->is_whole ? 0 : dropped;
  change->added = turn;
  llm_call_store (task, llm_store_change, change, (GDestroyNotify) llm_stored_context_free,
                  apply_commit);
}
