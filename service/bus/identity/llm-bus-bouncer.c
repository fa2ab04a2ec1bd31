/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/identity/llm-bus-bouncer.h"

#include <unistd.h>

#include "base/llm-fail.h"

#define POLKIT_NAME "org.freedesktop.PolicyKit1"
#define POLKIT_PATH "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE "org.freedesktop.PolicyKit1.Authority"
#define POLKIT_ALLOW_INTERACTION 1
#define POLKIT_SILENT_TIMEOUT_MS 20000
/* time to type a password */
#define POLKIT_INTERACTIVE_TIMEOUT_MS (5 * 60 * 1000)

typedef struct
{
  const char *action; /* static */
  gboolean interactive;
  LlmBusBouncerDecided decided;
  gpointer data;
} Check;

gboolean
llm_bus_bouncer_is_administrator (LlmBus    *bus,
                                  LlmCaller *caller)
{
  if (!caller->is_known || caller->is_sandboxed)
    return FALSE;

  return caller->app->uid == 0 || (!bus->is_system && caller->app->uid == getuid ());
}

gboolean
llm_bus_bouncer_may_keep (LlmCaller *caller,
                          GError   **error)
{
  return caller->is_known ||
         llm_fail (error, LLMSVC_ERROR_NOT_AUTHORIZED,
                   "The service could not find out which application calls, so it can't "
                   "keep a context under a name for it; unnamed contexts work");
}

gboolean
llm_bus_bouncer_may_register (LlmCaller *caller,
                              guint32    uid,
                              GError   **error)
{
  if (!caller->is_known)
    return llm_fail (error, LLMSVC_ERROR_NOT_AUTHORIZED,
                     "The service could not find out whether the caller is in a sandbox, "
                     "so it can't name itself");
  if (caller->is_sandboxed)
    return llm_fail (error, LLMSVC_ERROR_NOT_AUTHORIZED,
                     "The caller is known as the sandboxed application “%s” and can't take "
                     "another name", caller->app->id);

  return uid == caller->app->uid || caller->kind == LLM_CALLER_ENDPOINT
         || llm_fail (error, LLMSVC_ERROR_NOT_AUTHORIZED,
                      "Only the unit llmsvc-http.service of the system calls for other users; leave "
                      "the option uid out");
}

gboolean
llm_bus_bouncer_may_act_for (LlmBus    *bus,
                             LlmCaller *caller,
                             guint32    uid,
                             GError   **error)
{
  return caller->app->uid == uid || llm_bus_bouncer_is_administrator (bus, caller) ||
         llm_fail (error, LLMSVC_ERROR_NOT_AUTHORIZED,
                   "The caller may not change what belongs to the user %u", uid);
}

static void
on_polkit_answered (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autofree Check *check = data;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) failure = NULL;
  g_autoptr(GError) error = NULL;
  gboolean is_authorized = FALSE, is_challenge = FALSE;

  reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &failure);
  if (reply != NULL)
    g_variant_get (reply, "((bb@a{ss}))", &is_authorized, &is_challenge, NULL);
  else
    g_dbus_error_strip_remote_error (failure);

  if (reply == NULL)
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED,
              "polkit could not be asked for %s: %s", check->action, failure->message);
  else if (!is_authorized && is_challenge && !check->interactive)
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED,
              "The caller is not authorized for %s: a person would have to be asked, which this "
              "call does not allow", check->action);
  else if (!is_authorized)
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED,
              "The caller is not authorized for %s", check->action);

  check->decided (error, check->data);
}

static void
ask_polkit (LlmBus               *bus,
            LlmCaller            *caller,
            const LlmBusMethod   *method,
            gboolean              interactive,
            LlmBusBouncerDecided  decided,
            gpointer              data)
{
  Check *check = g_new0 (Check, 1);

  check->action = method->action;
  check->interactive = interactive && method->demand != LLM_BUS_SILENT_ACTION;
  check->decided = decided;
  check->data = data;

  g_dbus_connection_call (bus->connection, POLKIT_NAME, POLKIT_PATH, POLKIT_INTERFACE,
                          "CheckAuthorization",
                          g_variant_new_parsed ("(('system-bus-name', {'name': <%s>}), %s, "
                                                "@a{ss} {}, %u, '')",
                                                caller->connection, check->action,
                                                check->interactive ? POLKIT_ALLOW_INTERACTION : 0),
                          G_VARIANT_TYPE ("((bba{ss}))"), G_DBUS_CALL_FLAGS_NONE,
                          check->interactive ? POLKIT_INTERACTIVE_TIMEOUT_MS
                                             : POLKIT_SILENT_TIMEOUT_MS,
                          NULL, on_polkit_answered, check);
}

void
llm_bus_bouncer_check (LlmBus                *bus,
                       LlmCaller             *caller,
                       const LlmBusInterface *interface,
                       const LlmBusMethod    *method,
                       gboolean               interactive,
                       LlmBusBouncerDecided   decided,
                       gpointer               data)
{
  g_autoptr(GError) error = NULL;

  if (method->demand == LLM_BUS_NOBODY)
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED,
              "Nobody may call %s.%s", interface->name, method->name);
  else if (method->demand == LLM_BUS_EVERYONE || llm_bus_bouncer_is_administrator (bus, caller))
    ; /* admitted */
  else if (caller->is_sandboxed || !caller->is_known)
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED,
              "%s.%s is not for applications in a sandbox", interface->name, method->name);
  else if (method->demand == LLM_BUS_OUTSIDE_SANDBOXES)
    ; /* admitted */
  else if (!bus->is_system)
    llm_fail (&error, LLMSVC_ERROR_NOT_AUTHORIZED,
              "%s.%s is for the user whom this service belongs to", interface->name, method->name);
  else
    {
      ask_polkit (bus, caller, method, interactive, decided, data);
      return;
    }

  decided (error, data);
}
