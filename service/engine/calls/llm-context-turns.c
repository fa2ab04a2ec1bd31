/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The turns of a context: loading, changing, rendering into a prompt. */

#define G_LOG_DOMAIN "llm-engine"

#include <string.h>

#include "common/llmsvc-json.h"
#include "engine/calls/llm-call.h"
#include "engine/calls/llm-engine-calls.h"

void
llm_context_set_session (LlmContext *self,
                         LlmRequest *request)
{
  request->memory.session_id = self->session;
  request->memory.context = g_strdup (self->id);
  request->memory.is_named = llm_context_is_named (self);
  request->memory.is_exact = (self->traits & LLM_CONTEXT_EXACT) != 0;
  request->memory.shares_any = (self->traits & LLM_CONTEXT_SHARES_ANY) != 0;
}

void
llm_context_set_levels (LlmContext *self,
                        LlmCall    *call,
                        LlmRequest *request)
{
  g_autofree char *identity = llm_call_get_token_identity (call);
  g_autoptr(GArray) settled = g_array_new (FALSE, FALSE, sizeof (gint32));
  guint first;

  request->model.levels = g_array_new (FALSE, FALSE, sizeof (guint16));
  llm_conversation_get_settled (self->conversation, identity, settled, request->model.levels,
                                &first);
  /* a turn is of one sub-model, also when its answer is continued */
  g_array_set_size (request->model.levels, llm_call_count_settled (call, identity));
  request->model.goes_on = llm_call_goes_on (call, identity, &request->model.n_w8);
}

static void
on_traits_stored (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(GError) error = NULL;

  if (!llm_db_run_finish (result, NULL, &error))
    g_message ("What was chosen for a context can't be stored: %s", error->message);
}

void
llm_context_set_traits (LlmContext      *self,
                        LlmContextTraits traits)
{
  LlmStoredContext *stored;

  if (self->traits == traits)
    return;

  self->traits = traits;
  if (self->engine->store.db == NULL || !llm_context_is_named (self))
    return;
  stored = llm_stored_context_new ();
  stored->id = g_strdup (self->id);
  stored->traits = traits;
  llm_db_run_async (self->engine->store.db, llm_store_set_traits, stored,
                    (GDestroyNotify) llm_stored_context_free, on_traits_stored, NULL);
}

void
llm_context_note_result (LlmContext             *self,
                         const LlmRequestResult *result)
{
  if (result->took_quantized)
    llm_context_set_traits (self, self->traits | LLM_CONTEXT_TOOK_QUANTIZED);
}

void
llm_context_stop_ahead (LlmContext *self)
{
  if (self->ahead == NULL)
    return;
  __atomic_store_n (&self->ahead->progress.stop_request, LLM_FINISH_CANCELLED, __ATOMIC_RELEASE);
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
      llm_db_run_async (self->engine->store.db, llm_store_load_turns, stored,
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

LlmTemplate *
llm_call_get_template (const LlmCall *call)
{
  const LlmCallOptions *options = call->options;

  return options == NULL
           ? llm_model_get_template (call->model, NULL)
           : llm_model_choose_template (
               call->model, llm_call_options_get_string (options, LLMSVC_OPTION_TEMPLATE, NULL),
               llm_call_options_has (options, LLMSVC_OPTION_TOOLS), NULL);
}

guint
llm_call_get_prompt_level (const LlmCall *call)
{
  guint level = call->options != NULL
                  ? (guint) llm_call_options_get_uint (call->options, LLMSVC_OPTION_PROMPT_LEVEL, 0)
                  : 0;

  return level > 0 ? level : 100;
}

static char *
get_token_identity (LlmModel    *model,
                    LlmTemplate *template,
                    const char  *tools,
                    LlmThinking  thinking,
                    guint        level)
{
  static const char *const modes[LLM_N_THINKING] = {
    "", "+thinking-off", "+thinking-on", "+thinking-low", "+thinking-medium", "+thinking-high",
  };
  const char *name = llm_model_get_template_name (model, template);
  const char *identity = llm_model_get_identity (model);
  const LlmTemplateFeatures *features =
    template != NULL ? llm_template_get_features (template) : NULL;
  const char *mode = features != NULL && (features->switches_all || features->has_effort)
                       ? modes[thinking] : "";
  g_autofree char *sum =
    tools != NULL ? g_compute_checksum_for_string (G_CHECKSUM_SHA256, tools, -1) : NULL;

  if (sum != NULL)
    sum[16] = '\0';

  return g_strconcat (identity, sum != NULL ? "+" : "", sum != NULL ? sum : "", mode,
                      name != NULL ? "+template-" : "", name != NULL ? name : "",
                      level < 100 ? LLM_TURN_SHORTENED : "", NULL);
}

char *
llm_call_get_token_identity (const LlmCall *call)
{
  return get_token_identity (
    call->model, llm_call_get_template (call),
    llm_call_options_get_string (call->options, LLMSVC_OPTION_TOOLS, NULL),
    llm_engine_read_thinking (call->options), llm_call_get_prompt_level (call));
}

/* (transfer full) (nullable): the part of a message's extras that the template sees, as JSON. */
static char *
write_extras (GVariant *extras)
{
  static const struct
  {
    const char *key;
    const char *member;
    gboolean is_json;
  } known[] = {
    { "tool-calls", "tool_calls", TRUE },
    { "tool-call-id", "tool_call_id", FALSE },
    { "name", "name", FALSE },
    { "reasoning", "reasoning_content", FALSE },
  };
  g_autoptr(GString) text = g_string_new ("{");

  for (guint i = 0; i < G_N_ELEMENTS (known); i++)
    {
      const char *value;

      if (!g_variant_lookup (extras, known[i].key, "&s", &value))
        continue;
      g_string_append_printf (text, "%s\"%s\":%s", text->len > 1 ? "," : "", known[i].member,
                              known[i].is_json ? "" : "\"");
      if (known[i].is_json)
        g_string_append (text, value);
      else
        llmsvc_json_append_escaped (text, value, strlen (value));
      g_string_append (text, known[i].is_json ? "" : "\"");
    }
  if (text->len == 1)
    return NULL;
  g_string_append_c (text, '}');
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
add_message (LlmPrepareInput *input,
             const char      *role,
             const char      *text,
             GVariant        *extras)
{
  g_autofree char *written = write_extras (extras);

  llm_prepare_input_add_message (input, role, text, written);
}

LlmPrepareInput *
llm_context_make_input (LlmContext *self,
                        LlmModel   *model,
                        LlmTemplate *template,
                        const char *tools,
                        LlmThinking thinking,
                        guint       level,
                        GVariant   *messages,
                        gboolean    counts_system)
{
  LlmPrepareInput *input = llm_prepare_input_new ();
  LlmConversation *conversation = self != NULL ? self->conversation : NULL;
  guint n = conversation != NULL ? conversation->messages->len : 0;
  g_autofree char *identity = get_token_identity (model, template, tools, thinking, level);
  guint first = 0;
  GVariantIter iter;
  const char *role;
  const char *text;
  GVariant *extras;

  if (conversation != NULL
      && !llm_conversation_check_tokens (conversation, identity,
                                         llm_model_get_hparams (model)->n_vocab))
    g_warning ("Stored tokens of the context %s are damaged; its text is used instead", self->id);
  if (conversation != NULL)
    input->point = llm_conversation_get_settled (conversation, identity, input->settled, NULL,
                                                 &first);
  input->n_settled = first;
  for (guint i = 0; i < n; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (conversation->messages, i);

      add_message (input, message->role, message->text, message->extras);
    }
  if (messages != NULL)
    {
      g_variant_iter_init (&iter, messages);
      while (g_variant_iter_loop (&iter, "(&s&s@a{sv})", &role, &text, &extras))
        add_message (input, role, text, extras);
    }

  input->template = template;
  input->tools = g_strdup (tools);
  input->thinking = thinking;
  input->level = level;
  input->counts_system = counts_system;
  while (counts_system && input->n_system < input->messages->len
         && g_str_equal (g_array_index (input->messages, LlmMessage, input->n_system).role,
                         "system"))
    input->n_system++;
  return input;
}
