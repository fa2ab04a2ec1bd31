/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-objects.h"

#include "base/llm-fail.h"
#include "bus/identity/llm-bus-bouncer.h"
#include "bus/identity/llm-bus-caller.h"
#include "bus/identity/llm-bus-identity.h"
#include "bus/llm-bus-translate.h"
#include "common/llmsvc-names.h"
#include "common/llmsvc-statistics.h"
#include "config.h"

/* --- properties --- */

/* (transfer full): in English, because all callers get the same signal of its changes. */
static char *
dup_reason (LlmBus *bus)
{
  const GError *reason = llm_engine_get_availability_reason (bus->engine);

  return reason != NULL ? llm_bus_translate (NULL, reason) : g_strdup ("");
}

static char *
dup_model_path (LlmBus *bus)
{
  LlmModelInfo *model = llm_engine_get_active_model (bus->engine);

  return model != NULL && model->error == NULL ? llm_bus_models_dup_path (model) : g_strdup ("/");
}

static GVariant *
list_properties (LlmBus  *bus,
                 gpointer object)
{
  g_autofree char *reason = dup_reason (bus);
  g_autofree char *model = dup_model_path (bus);
  guint64 total;
  guint64 done = llm_engine_get_load_progress (bus->engine, &total);

  return g_variant_new_parsed ("{'Version': <%s>, 'ApiVersion': <%u>, 'Availability': <%s>, "
                               "'AvailabilityReason': <%s>, 'Features': <%^as>, "
                               "'ActiveModel': <%o>, 'LoadProgress': <(%t, %t)>}",
                               LLM_VERSION, (guint32) LLMSVC_API_VERSION,
                               llm_engine_get_availability (bus->engine), reason,
                               llm_engine_get_features (bus->engine), model, done, total);
}

void
llm_bus_manager_announce_load (LlmBus *bus)
{
  guint64 total;
  guint64 done = llm_engine_get_load_progress (bus->engine, &total);

  llm_bus_emit_properties_changed (
    bus, LLMSVC_INTERFACE, g_variant_new_parsed ("{'LoadProgress': <(%t, %t)>}", done, total));
}

void
llm_bus_manager_announce (LlmBus *bus)
{
  g_autofree char *reason = dup_reason (bus);
  g_autofree char *model = dup_model_path (bus);

  llm_bus_emit_properties_changed (
    bus, LLMSVC_INTERFACE,
    g_variant_new_parsed ("{'Availability': <%s>, 'AvailabilityReason': <%s>, 'ActiveModel': <%o>}",
                          llm_engine_get_availability (bus->engine), reason, model));
}

/* --- methods --- */

static gboolean
handle_create_context (LlmBusCall *call,
                       GError    **error)
{
  if (llm_call_options_has (call->options, LLMSVC_OPTION_NAME) &&
      !llm_bus_bouncer_may_keep (call->caller, error))
    return FALSE;
  llm_engine_create_context_async (call->bus->engine, call->caller, call->options,
                                   llm_bus_call_on_context, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_open_context (LlmBusCall *call,
                     GError    **error)
{
  if (!llm_bus_name_check (call->text, error) || !llm_bus_bouncer_may_keep (call->caller, error))
    return FALSE;
  llm_engine_open_context_async (call->bus->engine, call->caller, call->text, call->options,
                                 llm_bus_call_on_context, llm_bus_call_ref (call));
  return TRUE;
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

  if (!g_task_propagate_boolean (G_TASK (result), &error))
    {
      llm_bus_call_return_error (call, error);
      return;
    }

  contexts = llm_engine_get_contexts (call->bus->engine, call->caller);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(oa{sv})"));
  for (guint i = 0; i < contexts->len; i++)
    {
      LlmContext *context = g_ptr_array_index (contexts, i);
      g_autofree char *path = llm_bus_dup_context_path (context);

      g_variant_builder_add (&builder, "(o@a{sv})", path,
                             llm_bus_contexts_tree.interface->list_properties (call->bus, context));
    }
  llm_bus_call_return (call, g_variant_new ("(@a(oa{sv}))", g_variant_builder_end (&builder)));
}

static gboolean
handle_list_contexts (LlmBusCall *call,
                      GError    **error)
{
  llm_engine_await_stored (call->bus->engine, on_contexts_listed, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_complete (LlmBusCall *call,
                 GError    **error)
{
  g_autoptr(LlmSink) sink = llm_bus_call_new_sink (call);

  llm_engine_complete_async (call->bus->engine, call->caller, call->text, call->options, sink,
                             llm_bus_call_on_admitted, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_count_tokens (LlmBusCall *call,
                     GError    **error)
{
  llm_engine_count_tokens_async (call->bus->engine, call->caller, call->messages, call->options,
                                 llm_bus_call_on_count, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_prewarm (LlmBusCall *call,
                GError    **error)
{
  llm_engine_prewarm_async (call->bus->engine, llm_bus_call_on_done, llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_register (LlmBusCall *call,
                 GError    **error)
{
  guint32 uid = (guint32) llm_call_options_get_uint (call->options, LLMSVC_OPTION_UID,
                                                     call->caller->app->uid);

  if (!llm_bus_bouncer_may_register (call->caller, uid, error) ||
      !llm_bus_callers_register (call->bus->callers, call->caller->connection, uid, call->text,
                                 llm_call_options_get_locale (call->options), error))
    return FALSE;

  llm_bus_call_return (call, NULL);
  return TRUE;
}

static gboolean
handle_select_model (LlmBusCall *call,
                     GError    **error)
{
  llm_engine_select_model_async (call->bus->engine, call->text, llm_bus_call_on_done,
                                 llm_bus_call_ref (call));
  return TRUE;
}

GVariant *
llm_bus_manager_get_statistics (LlmBus *bus)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llm_engine_add_statistics (bus->engine, &builder);
  g_variant_builder_add (&builder, "{sv}",
                         llmsvc_statistic_get_info (LLMSVC_STATISTIC_REFUSED_FLOODS)->key,
                         g_variant_new_uint64 (llm_bus_gate_get_n_refused (bus->gate)));
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static gboolean
handle_get_statistics (LlmBusCall *call,
                       GError    **error)
{
  g_autoptr(GVariant) statistics = llm_bus_manager_get_statistics (call->bus);

  llm_bus_call_return (call, g_variant_new ("(@a{sv})", statistics));
  return TRUE;
}

static const LlmBusMethod methods[] = {
  { "CreateContext", LLMSVC_CALL_CREATE_CONTEXT, handle_create_context, LLM_BUS_EVERYONE },
  { "OpenContext", LLMSVC_CALL_OPEN_CONTEXT, handle_open_context, LLM_BUS_EVERYONE },
  { "ListContexts", LLMSVC_CALL_LIST_CONTEXTS, handle_list_contexts, LLM_BUS_EVERYONE },
  { "Complete", LLMSVC_CALL_COMPLETE, handle_complete, LLM_BUS_EVERYONE },
  { "CountTokens", LLMSVC_CALL_COUNT_TOKENS, handle_count_tokens, LLM_BUS_EVERYONE },
  { "Prewarm", LLMSVC_CALL_PREWARM, handle_prewarm, LLM_BUS_EVERYONE },
  { "Register", LLMSVC_CALL_REGISTER, handle_register, LLM_BUS_EVERYONE },
  { "SelectModel", LLMSVC_CALL_SELECT_MODEL, handle_select_model, LLM_BUS_ACTION,
    LLMSVC_BUS_NAME ".select-model" },
  { "GetStatistics", LLMSVC_CALL_GET_STATISTICS, handle_get_statistics, LLM_BUS_EVERYONE },
  { NULL },
};

const LlmBusInterface llm_bus_manager_interface = { LLMSVC_INTERFACE, methods, list_properties };

/* --- org.llm.Service.Admin --- */

static gboolean
handle_list_apps (LlmBusCall *call,
                  GError    **error)
{
  g_autoptr(GVariant) apps = NULL;

  if (!llm_engine_check_stored (call->bus->engine, error))
    return FALSE;
  apps = llm_engine_list_apps (call->bus->engine, call->caller->app->uid,
                               llm_bus_bouncer_is_administrator (call->bus, call->caller));
  llm_bus_call_return (call, g_variant_new ("(@aa{sv})", apps));
  return TRUE;
}

static void
on_quota_set (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  LlmBusCall *call = data;

  /* the gate enforces quotas, too */
  llm_bus_callers_announce (call->bus->callers);
  llm_bus_call_on_done (source, result, call);
}

static gboolean
handle_set_quota (LlmBusCall *call,
                  GError    **error)
{
  guint32 uid = (guint32) llm_call_options_get_uint (call->options, LLMSVC_OPTION_UID,
                                                     call->caller->app->uid);

  if (call->text[0] != '\0' && !llm_bus_identity_is_app_id (call->text))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "app_id must be the id of an application, as ListApps gives "
                     "it, or empty for the default of all");
  if (!llm_bus_bouncer_may_act_for (call->bus, call->caller, uid, error))
    return FALSE;

  llm_engine_set_quota_async (call->bus->engine, uid, call->text, call->options, on_quota_set,
                              llm_bus_call_ref (call));
  return TRUE;
}

static const LlmBusMethod admin_methods[] = {
  { "ListApps", LLMSVC_CALL_LIST_APPS, handle_list_apps, LLM_BUS_OUTSIDE_SANDBOXES },
  { "SetQuota", LLMSVC_CALL_SET_QUOTA, handle_set_quota, LLM_BUS_ACTION,
    LLMSVC_BUS_NAME ".set-quota" },
  { NULL },
};

const LlmBusInterface llm_bus_admin_interface = { LLMSVC_ADMIN_INTERFACE, admin_methods, NULL };
