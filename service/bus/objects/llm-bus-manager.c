/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-manager.h"

#include "bus/identity/llm-bus-bouncer.h"
#include "bus/identity/llm-bus-caller.h"
#include "bus/objects/llm-bus-contexts.h"
#include "bus/limits/llm-bus-gate.h"
#include "bus/objects/llm-bus-messages.h"
#include "bus/objects/llm-bus-models.h"
#include "common/llmsvc-names.h"
#include "config.h"

static GVariant *
get_version (LlmBus  *bus,
             gpointer object)
{
  return g_variant_new_string (LLM_VERSION);
}

static GVariant *
get_api_version (LlmBus  *bus,
                 gpointer object)
{
  return g_variant_new_uint32 (LLMSVC_API_VERSION);
}

static GVariant *
get_availability (LlmBus  *bus,
                  gpointer object)
{
  return g_variant_new_string (llm_engine_get_availability (bus->engine));
}

static GVariant *
get_availability_reason (LlmBus  *bus,
                         gpointer object)
{
  /* everybody is told of its changes at once, so it can't be in one caller's language */
  return g_variant_new_take_string (llm_bus_translator_translate (
    bus->translator, NULL, llm_engine_get_availability_reason (bus->engine)));
}

static GVariant *
get_features (LlmBus  *bus,
              gpointer object)
{
  return g_variant_new_strv (llm_engine_get_features (bus->engine), -1);
}

static GVariant *
get_active_model (LlmBus  *bus,
                  gpointer object)
{
  LlmModelInfo *model = llm_engine_get_active_model (bus->engine);
  g_autofree char *path = model != NULL ? llm_bus_models_dup_path (model) : g_strdup ("/");

  return g_variant_new_object_path (path);
}

/* Checks the texts that a call brings; answers when they are wrong. */
static gboolean
check_texts (LlmBusCall *call,
             GVariant   *messages,
             const char *prompt)
{
  GError *error = NULL;

  if (!llm_bus_messages_check (messages, prompt, call->options,
                               llm_bus_call_get_max_message (call), &error))
    {
      llm_bus_call_return_error (call, error);
      return FALSE;
    }

  return TRUE;
}

/* The same for a context's name. */
static gboolean
check_name (LlmBusCall *call,
            const char *name)
{
  GError *error = NULL;

  if (!llm_bus_name_check (name, &error) ||
      !llm_bus_bouncer_may_keep (call->bus->bouncer, call->caller, &error))
    {
      llm_bus_call_return_error (call, error);
      return FALSE;
    }

  return TRUE;
}

/* @context: (transfer full) (nullable); @error: (transfer full) */
static void
return_context (LlmBusCall *call,
                LlmContext *context,
                GError     *error)
{
  g_autoptr(LlmContext) owned = context;
  g_autofree char *path = NULL;

  if (owned == NULL)
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  llm_bus_contexts_hold (call->bus->contexts, owned, call->caller->connection);
  path = llm_bus_contexts_dup_path (owned);
  llm_bus_call_return (call, g_variant_new ("(o)", path));
}

static void
on_context_created (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;
  LlmContext *context = llm_engine_create_context_finish (LLM_ENGINE (source), result, &error);

  return_context (call, context, error);
}

static void
handle_create_context (LlmBusCall *call)
{
  const char *name = llm_call_options_get_string (call->options, LLMSVC_OPTION_NAME, NULL);

  if (check_texts (call, NULL, NULL) && (name == NULL || check_name (call, name)))
    llm_engine_create_context_async (call->bus->engine, call->caller, call->options,
                                     on_context_created, llm_bus_call_ref (call));
}

static void
on_context_opened (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;
  LlmContext *context = llm_engine_open_context_finish (LLM_ENGINE (source), result, &error);

  return_context (call, context, error);
}

static void
handle_open_context (LlmBusCall *call)
{
  const char *name;

  g_variant_get_child (call->arguments, 0, "&s", &name);
  if (check_name (call, name))
    llm_engine_open_context_async (call->bus->engine, call->caller, name, call->options,
                                   on_context_opened, llm_bus_call_ref (call));
}

static void
on_contexts_listed (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(GPtrArray) contexts = NULL;
  GVariantBuilder builder;
  GError *error = NULL;

  contexts = llm_engine_list_contexts_finish (LLM_ENGINE (source), result, &error);
  if (contexts == NULL)
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(oa{sv})"));
  for (guint i = 0; i < contexts->len; i++)
    {
      LlmContext *context = g_ptr_array_index (contexts, i);
      g_autofree char *path = llm_bus_contexts_dup_path (context);

      g_variant_builder_add (&builder, "(o@a{sv})", path,
                             llm_bus_interface_list_properties (llm_bus_contexts_tree.interface,
                                                                call->bus, context));
    }
  llm_bus_call_return (call, g_variant_new ("(@a(oa{sv}))", g_variant_builder_end (&builder)));
}

static void
handle_list_contexts (LlmBusCall *call)
{
  llm_engine_list_contexts_async (call->bus->engine, call->caller, on_contexts_listed,
                                  llm_bus_call_ref (call));
}

/* The reply is the sink's, unless the answer is not admitted. */
static void
on_completing (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(LlmGeneration) generation = NULL;
  GError *error = NULL;

  generation = llm_engine_complete_finish (LLM_ENGINE (source), result, &error);
  if (generation == NULL)
    llm_bus_call_return_error (call, error);
}

static void
handle_complete (LlmBusCall *call)
{
  g_autoptr(LlmSink) sink = NULL;
  const char *prompt;

  g_variant_get_child (call->arguments, 0, "&s", &prompt);
  if (!check_texts (call, NULL, prompt))
    return;

  sink = llm_bus_call_new_sink (call);
  llm_engine_complete_async (call->bus->engine, call->caller, prompt, call->options, sink,
                             on_completing, llm_bus_call_ref (call));
}

static void
on_tokens_counted (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;
  guint tokens = 0;

  if (!llm_engine_count_tokens_finish (LLM_ENGINE (source), result, &tokens, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, g_variant_new ("(u)", tokens));
}

static void
handle_count_tokens (LlmBusCall *call)
{
  g_autoptr(GVariant) messages = g_variant_get_child_value (call->arguments, 0);

  if (check_texts (call, messages, NULL))
    llm_engine_count_tokens_async (call->bus->engine, call->caller, messages, call->options,
                                   on_tokens_counted, llm_bus_call_ref (call));
}

static void
on_prewarmed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;

  if (!llm_engine_prewarm_finish (LLM_ENGINE (source), result, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, NULL);
}

static void
handle_prewarm (LlmBusCall *call)
{
  llm_engine_prewarm_async (call->bus->engine, on_prewarmed, llm_bus_call_ref (call));
}

static void
handle_register (LlmBusCall *call)
{
  const char *app_id;
  GError *error = NULL;

  g_variant_get_child (call->arguments, 0, "&s", &app_id);
  if (!llm_bus_bouncer_may_register (call->bus->bouncer, call->caller, &error) ||
      !llm_bus_callers_register (call->bus->callers, call->caller->connection, app_id, &error))
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  llm_bus_callers_set_locale (call->bus->callers, call->caller->connection,
                              llm_call_options_get_locale (call->options));
  llm_bus_call_return (call, NULL);
}

static void
on_model_selected (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;

  if (!llm_engine_select_model_finish (LLM_ENGINE (source), result, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, NULL);
}

static void
handle_select_model (LlmBusCall *call)
{
  const char *id;

  g_variant_get_child (call->arguments, 0, "&s", &id);
  llm_engine_select_model_async (call->bus->engine, id, on_model_selected, llm_bus_call_ref (call));
}

GVariant *
llm_bus_manager_get_statistics (LlmBus *bus)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llm_engine_add_statistics (bus->engine, &builder);
  g_variant_builder_add (&builder, "{sv}", "refused-floods",
                         g_variant_new_uint64 (llm_bus_gate_get_n_refused (bus->gate)));
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static void
handle_get_statistics (LlmBusCall *call)
{
  g_autoptr(GVariant) statistics = llm_bus_manager_get_statistics (call->bus);

  llm_bus_call_return (call, g_variant_new ("(@a{sv})", statistics));
}

static const LlmBusMethod methods[] = {
  { "CreateContext", LLMSVC_CALL_CREATE_CONTEXT, handle_create_context },
  { "OpenContext", LLMSVC_CALL_OPEN_CONTEXT, handle_open_context },
  { "ListContexts", LLMSVC_CALL_LIST_CONTEXTS, handle_list_contexts },
  { "Complete", LLMSVC_CALL_COMPLETE, handle_complete },
  { "CountTokens", LLMSVC_CALL_COUNT_TOKENS, handle_count_tokens },
  { "Prewarm", LLMSVC_CALL_PREWARM, handle_prewarm },
  { "Register", LLMSVC_CALL_REGISTER, handle_register },
  { "SelectModel", LLMSVC_CALL_SELECT_MODEL, handle_select_model },
  { "GetStatistics", LLMSVC_CALL_GET_STATISTICS, handle_get_statistics },
  { NULL },
};

static const LlmBusProperty properties[] = {
  { "Version", get_version },
  { "ApiVersion", get_api_version },
  { "Availability", get_availability },
  { "AvailabilityReason", get_availability_reason },
  { "Features", get_features },
  { "ActiveModel", get_active_model },
  { NULL },
};

const LlmBusInterface llm_bus_manager_interface = { LLMSVC_INTERFACE, methods, properties };

void
llm_bus_manager_announce (LlmBus *bus)
{
  GVariantBuilder changed;

  g_variant_builder_init (&changed, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&changed, "{sv}", "Availability", get_availability (bus, NULL));
  g_variant_builder_add (&changed, "{sv}", "AvailabilityReason",
                         get_availability_reason (bus, NULL));
  g_variant_builder_add (&changed, "{sv}", "ActiveModel", get_active_model (bus, NULL));
  llm_bus_emit_properties_changed (bus, LLMSVC_INTERFACE, g_variant_builder_end (&changed));
}
