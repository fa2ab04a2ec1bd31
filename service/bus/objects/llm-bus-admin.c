/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-admin.h"

#include "bus/identity/llm-bus-bouncer.h"
#include "bus/identity/llm-bus-caller.h"
#include "bus/identity/llm-bus-identity.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"

static gboolean
handle_list_apps (LlmBusCall *call,
                  GError    **error)
{
  g_autoptr(GVariant) apps = NULL;

  if (!llm_engine_check_stored (call->bus->engine, error))
    return FALSE;
  apps = llm_engine_list_apps (call->bus->engine, call->caller->uid,
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

  /* the gate holds applications to their quotas, too */
  llm_bus_callers_announce (call->bus->callers);
  llm_bus_call_on_done (source, result, call);
}

static gboolean
handle_set_quota (LlmBusCall *call,
                  GError    **error)
{
  guint32 uid = (guint32) llm_call_options_get_uint (call->options, LLMSVC_OPTION_UID,
                                                     call->caller->uid);
  const char *app_id;

  g_variant_get_child (call->arguments, 0, "&s", &app_id);
  if (app_id[0] != '\0' && !llm_bus_identity_is_app_id (app_id))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "app_id must be the id of an application, as ListApps gives "
                           "it, or empty for the default of all");
      return FALSE;
    }
  if (!llm_bus_bouncer_may_act_for (call->bus, call->caller, uid, error))
    return FALSE;

  llm_engine_set_quota_async (call->bus->engine, uid, app_id, call->options, on_quota_set,
                              llm_bus_call_ref (call));
  return TRUE;
}

static const LlmBusMethod methods[] = {
  { "ListApps", LLMSVC_CALL_LIST_APPS, handle_list_apps },
  { "SetQuota", LLMSVC_CALL_SET_QUOTA, handle_set_quota },
  { NULL },
};

const LlmBusInterface llm_bus_admin_interface = { LLMSVC_ADMIN_INTERFACE, methods, NULL };
