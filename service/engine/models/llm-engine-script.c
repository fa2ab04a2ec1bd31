/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers from a script (the mock): the model that replaces a real one, its availability, and the
 * replies. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/calls/llm-generation-private.h"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "engine/calls/llm-engine-calls.h"
#include "engine/models/llm-engine-models.h"

/* How long a script phase that should end waits for a load under way. */
#define LOAD_WAIT_MS 1

/* (transfer full) (nullable): NULL while the script says that models are unknown. */
static GPtrArray *
list_models (LlmEngine *self)
{
  const LlmScriptPhase *phase = llm_script_get_phase (self->settings->script, self->script.phase);
  g_autoptr(GPtrArray) models =
    g_ptr_array_new_with_free_func ((GDestroyNotify) llm_model_info_unref);

  switch (phase->state)
    {
    case LLM_SCRIPT_LOADING:
      return NULL;
    case LLM_SCRIPT_FAILED:
      {
        LlmModelInfo *broken = llm_script_make_model (self->settings->script);

        broken->error =
          g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL, phase->reason);
        g_ptr_array_add (models, broken);
        break;
      }
    case LLM_SCRIPT_READY:
      g_ptr_array_add (models, llm_model_info_ref (self->script.mock));
      break;
    case LLM_SCRIPT_NO_MODEL:
    default:
      break;
    }
  return g_steal_pointer (&models);
}

/* --- availability as a script says --- */

static void begin_phase (LlmEngine *self);

static gboolean
on_phase_over (gpointer data)
{
  LlmEngine *self = data;

  self->script.phase_timer = 0;
  if (self->loading.is_loading)
    {
      self->script.phase_timer = g_timeout_add (LOAD_WAIT_MS, on_phase_over, self);
      return G_SOURCE_REMOVE;
    }
  self->script.phase++;
  begin_phase (self);
  return G_SOURCE_REMOVE;
}

static void
begin_phase (LlmEngine *self)
{
  const LlmScriptPhase *phase = llm_script_get_phase (self->settings->script, self->script.phase);

  if (phase->for_ms > 0)
    self->script.phase_timer = g_timeout_add (phase->for_ms, on_phase_over, self);
  llm_engine_take_models (self, list_models (self));
}

void
llm_engine_script_start (LlmEngine *self)
{
  if (self->settings->script == NULL)
    return;
  self->script.mock = llm_script_make_model (self->settings->script);
  g_message ("Answers come from the script %s, not from a model",
             llm_script_get_path (self->settings->script));
  begin_phase (self);
}

void
llm_engine_script_stop (LlmEngine *self)
{
  g_clear_handle_id (&self->script.phase_timer, g_source_remove);
}

/* --- replies --- */

typedef struct
{
  const char *prompt;    /* (unowned) */
  GString *system;
  guint n_answers;
} History;

static void
add_message (History    *history,
             const char *role,
             const char *text)
{
  if (g_str_equal (role, "user"))
    history->prompt = text;
  else if (g_str_equal (role, "assistant"))
    history->n_answers++;
  else if (g_str_equal (role, "system"))
    g_string_append_printf (history->system, "%s%s", history->system->len > 0 ? "\n" : "", text);
}

static void
read_history (History       *history,
              const LlmCall *call)
{
  LlmConversation *conversation = call->context != NULL ? call->context->conversation : NULL;
  guint n = conversation != NULL ? conversation->messages->len : 0;
  GVariantIter iter;
  const char *role;
  const char *text;

  for (guint i = 0; i < n; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (conversation->messages, i);

      add_message (history, message->role, message->text);
    }
  g_variant_iter_init (&iter, call->messages);
  while (g_variant_iter_next (&iter, "(&s&s@a{sv})", &role, &text, NULL))
    add_message (history, role, text);
  if (call->raw != NULL)
    add_message (history, "user", call->raw);
}

static gboolean
on_exit_idle (gpointer data)
{
  g_message ("The script says that the service goes away here");
  g_signal_emit_by_name (data, "script-exit");
  return G_SOURCE_REMOVE;
}

/* The caller must not see the end of its answer before: the sink stays. */
void
llm_engine_script_exit (LlmEngine *self,
                        LlmSink   *sink)
{
  g_object_set_data_full (G_OBJECT (self), "script-sink", sink, llm_sink_unref);
  g_idle_add_full (G_PRIORITY_LOW, on_exit_idle, self, NULL);
}

/* The words of a script must match the call's constraint: otherwise a test would see what no model
 * can answer. */
static gboolean
check_constraint (const LlmRequest *request,
                  LlmMaskTable     *masks,
                  const LlmReply   *reply,
                  GError          **error)
{
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (masks, FALSE);
  guint n = 0;

  if (!llm_engine_check_room (request, masks, llm_mask_table_get_grammar (masks)->min_bytes, &n,
                              error))
    return FALSE;
  for (n = 0; n < reply->steps->len; n++)
    if (!llm_constraint_accept (constraint, g_array_index (reply->steps, LlmReplyStep, n).token))
      return llm_fail (error, LLMSVC_ERROR_FAILED,
                       "The mock script's answer does not keep to what response-format asks for, "
                       "from byte %u on", n);
  return TRUE;
}

gboolean
llm_engine_script_reply (LlmCall    *call,
                         LlmRequest *request,
                         GError    **error)
{
  LlmEngine *self = call->engine;
  g_autoptr(GString) system = g_string_new (NULL);
  History history = { "", system, 0 };
  LlmScriptQuestion question;
  LlmReply *reply;
  guint n_steps;

  read_history (&history, call);
  question = (LlmScriptQuestion) { history.prompt, system->str, history.n_answers + 1 };
  reply = llm_script_answer (self->settings->script, llm_model_get_tokenizer (self->use.model),
                             &question, error);
  if (reply == NULL)
    return FALSE;
  if (call->masks != NULL && !check_constraint (request, call->masks, reply, error))
    {
      llm_reply_free (reply);
      return FALSE;
    }

  /* The limits of the request produce the end that the script asks for. */
  n_steps = reply->steps->len;
  if (reply->exit == LLM_REPLY_EXIT_BEFORE_KEEP)
    ;
  else if (reply->end == LLM_REPLY_LENGTH
           || (reply->end == LLM_REPLY_CONTEXT_FULL && request->window.slides))
    request->max_tokens = MIN (request->max_tokens, n_steps);
  else if (reply->end == LLM_REPLY_CONTEXT_FULL)
    request->window.n_ctx = MIN (request->window.n_ctx, request->prompt->len + n_steps - 1);
  /* the script's text begins exactly as it is written */
  request->answer.strips_space = FALSE;
  call->answer.generation->exits = reply->exit == LLM_REPLY_EXIT_AFTER_KEEP;
  request->decoder = llm_decoder_new_scripted (reply, on_exit_idle, self);
  return TRUE;
}
