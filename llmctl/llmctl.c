/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl.h"

#include <stdio.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"

static gboolean
call_bus (GDBusConnection     *bus,
          const char          *method,
          GVariant            *parameters,
          const GVariantType  *reply_type,
          GVariant           **reply,
          GError             **error)
{
  *reply = g_dbus_connection_call_sync (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                        "org.freedesktop.DBus", method, parameters, reply_type,
                                        G_DBUS_CALL_FLAGS_NONE, -1, NULL, error);
  return *reply != NULL;
}

static gboolean
has_service (GDBusConnection  *bus,
             gboolean         *is_running,
             GError          **error)
{
  g_autoptr(GVariant) owner_reply = NULL;
  g_autoptr(GVariant) names_reply = NULL;
  g_autofree const char **names = NULL;

  if (!call_bus (bus, "NameHasOwner", g_variant_new ("(s)", LLMSVC_BUS_NAME),
                 G_VARIANT_TYPE ("(b)"), &owner_reply, error))
    return FALSE;
  g_variant_get (owner_reply, "(b)", is_running);
  if (*is_running)
    return TRUE;

  if (!call_bus (bus, "ListActivatableNames", NULL, G_VARIANT_TYPE ("(as)"), &names_reply, error))
    return FALSE;
  g_variant_get (names_reply, "(^a&s)", &names);
  return g_strv_contains (names, LLMSVC_BUS_NAME);
}

/* NULL without @error when the bus is there, but the service is not on it. */
static GDBusConnection *
connect_one (GBusType   type,
             gboolean  *is_running,
             GError   **error)
{
  g_autoptr(GDBusConnection) bus = g_bus_get_sync (type, NULL, error);

  if (bus == NULL)
    return NULL;

  g_dbus_connection_set_exit_on_close (bus, FALSE);
  return has_service (bus, is_running, error) ? g_steal_pointer (&bus) : NULL;
}

/* @bus_error: (nullable): why the bus that was tried last can't be reached. */
static void
set_missing_error (LlmctlBus      which,
                   const GError  *bus_error,
                   GError       **error)
{
  static const char *const places[] = {
    [LLMCTL_BUS_ANY] = "system bus and not on the session bus",
    [LLMCTL_BUS_SYSTEM] = "system bus",
    [LLMCTL_BUS_SESSION] = "session bus",
  };
  const char *start = which == LLMCTL_BUS_SYSTEM
                          ? "start it with “systemctl start llmsvc”"
                          : "start it with “systemctl --user start llmsvc” or “llmsvcd &”";

  if (bus_error == NULL)
    g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN,
                 "The service is not on the %s; %s", places[which], start);
  else if (which == LLMCTL_BUS_ANY)
    g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER,
                 "The service is not on the system bus, and there is no session bus to look on "
                 "(%s); start it with “systemctl start llmsvc”, or work inside "
                 "“dbus-run-session”", bus_error->message);
  else
    g_set_error (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_SERVER, "The %s can't be reached: %s",
                 places[which], bus_error->message);
}

GDBusConnection *
llmctl_bus_connect (LlmctlBus   which,
                    LlmctlBus  *found,
                    gboolean   *is_running,
                    GError    **error)
{
  gboolean running = FALSE;
  g_autoptr(GError) local_error = NULL;
  GDBusConnection *bus = NULL;

  g_return_val_if_fail (found != NULL, NULL);

  /* Without a bus of the first kind the second one is still worth a try. */
  *found = LLMCTL_BUS_SYSTEM;
  if (which != LLMCTL_BUS_SESSION)
    bus = connect_one (G_BUS_TYPE_SYSTEM, &running, which == LLMCTL_BUS_ANY ? NULL : &local_error);
  if (bus == NULL && which != LLMCTL_BUS_SYSTEM)
    {
      *found = LLMCTL_BUS_SESSION;
      bus = connect_one (G_BUS_TYPE_SESSION, &running, &local_error);
    }

  if (is_running != NULL)
    *is_running = running;
  if (bus != NULL)
    return bus;
  set_missing_error (which, local_error, error);
  return NULL;
}

gboolean
llmctl_parse (int                  *argc,
              char               ***argv,
              const char           *parameters,
              const char           *summary,
              const GOptionEntry   *entries,
              LlmctlExit           *status)
{
  gboolean wants_help = FALSE;
  const GOptionEntry help_entries[] = {
    { "help", 'h', 0, G_OPTION_ARG_NONE, &wants_help, "Show this help", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GOptionContext) context = g_option_context_new (parameters);
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) rest = NULL;
  const char *command = (*argv)[0];
  g_autofree char *program = g_strconcat ("llmctl ", command, NULL);

  /* Arguments are taken as UTF-8 whatever the locale says: a bare system has
   * none, and the bus speaks nothing else. */
  g_set_prgname (program);
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_summary (context, summary);
  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_add_main_entries (context, help_entries, NULL);

  rest = g_strdupv (*argv);
  if (!g_option_context_parse_strv (context, &rest, &error))
    {
      llmctl_complain ("%s; see “%s --help”", error->message, program);
      *status = LLMCTL_EXIT_USAGE;
      return FALSE;
    }
  if (wants_help)
    {
      g_autofree char *help = g_option_context_get_help (context, TRUE, NULL);

      fputs (help, stdout);
      *status = LLMCTL_EXIT_OK;
      return FALSE;
    }

  *argc = (int) g_strv_length (rest);
  *argv = g_steal_pointer (&rest);
  return TRUE;
}

void
llmctl_complain (const char *format,
                 ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);

  fprintf (stderr, "llmctl: %s\n", message);
}

static LlmctlExit
get_service_status (int code)
{
  switch (code)
    {
    case LLMSVC_ERROR_INVALID_OPTION:
    case LLMSVC_ERROR_INVALID_ARGUMENT:
      return LLMCTL_EXIT_USAGE;
    case LLMSVC_ERROR_DEADLINE_EXCEEDED:
      return LLMCTL_EXIT_TIME_LIMIT;
    case LLMSVC_ERROR_NO_MODEL:
    case LLMSVC_ERROR_INVALID_MODEL:
      return LLMCTL_EXIT_NOT_AVAILABLE;
    case LLMSVC_ERROR_NOT_AUTHORIZED:
      return LLMCTL_EXIT_NOT_AUTHORIZED;
    case LLMSVC_ERROR_OVERLOADED:
    case LLMSVC_ERROR_QUOTA_EXCEEDED:
    case LLMSVC_ERROR_NO_MEMORY:
      return LLMCTL_EXIT_OVERLOADED;
    default:
      return LLMCTL_EXIT_FAILED;
    }
}

static LlmctlExit
get_bus_status (int code)
{
  switch (code)
    {
    case G_DBUS_ERROR_ACCESS_DENIED:
    case G_DBUS_ERROR_AUTH_FAILED:
      return LLMCTL_EXIT_NOT_AUTHORIZED;
    case G_DBUS_ERROR_TIMEOUT:
    case G_DBUS_ERROR_TIMED_OUT:
      return LLMCTL_EXIT_TIME_LIMIT;
    case G_DBUS_ERROR_LIMITS_EXCEEDED:
      return LLMCTL_EXIT_OVERLOADED;
    case G_DBUS_ERROR_SERVICE_UNKNOWN:
    case G_DBUS_ERROR_NAME_HAS_NO_OWNER:
    case G_DBUS_ERROR_NO_REPLY:
    case G_DBUS_ERROR_NO_SERVER:
    case G_DBUS_ERROR_DISCONNECTED:
    case G_DBUS_ERROR_SPAWN_EXEC_FAILED:
    case G_DBUS_ERROR_SPAWN_FORK_FAILED:
    case G_DBUS_ERROR_SPAWN_CHILD_EXITED:
    case G_DBUS_ERROR_SPAWN_CHILD_SIGNALED:
    case G_DBUS_ERROR_SPAWN_FAILED:
    case G_DBUS_ERROR_SPAWN_SERVICE_NOT_FOUND:
    case G_DBUS_ERROR_UNKNOWN_OBJECT:
    case G_DBUS_ERROR_UNKNOWN_INTERFACE:
    case G_DBUS_ERROR_UNKNOWN_METHOD:
      return LLMCTL_EXIT_NOT_AVAILABLE;
    default:
      return LLMCTL_EXIT_FAILED;
    }
}

LlmctlExit
llmctl_fail (GError *error)
{
  g_return_val_if_fail (error != NULL, LLMCTL_EXIT_FAILED);

  if (g_dbus_error_is_remote_error (error))
    g_dbus_error_strip_remote_error (error);
  llmctl_complain ("%s", error->message);

  if (error->domain == LLMSVC_ERROR)
    return get_service_status (error->code);
  if (error->domain == G_DBUS_ERROR)
    return get_bus_status (error->code);
  if (error->domain == G_IO_ERROR && error->code == G_IO_ERROR_CLOSED)
    return LLMCTL_EXIT_NOT_AVAILABLE;
  return LLMCTL_EXIT_FAILED;
}
