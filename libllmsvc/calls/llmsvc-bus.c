/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "calls/llmsvc-bus-private.h"

#include <glib/gi18n-lib.h>

#include "calls/llmsvc-task.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-i18n.h"
#include "common/llmsvc-names.h"

#define DBUS_NAME "org.freedesktop.DBus"
#define DBUS_PATH "/org/freedesktop/DBus"

/* A search: the buses still to be looked at, and the best place so far. */
typedef struct
{
  GBusType types[2];
  guint n_types;
  guint next;
  LlmsvcPlace *here;   /* (owned) (nullable): under examination */
  LlmsvcPlace *best;   /* (owned) (nullable) */
  char *reason;        /* (owned) (nullable): why the last bus could not be reached */
} Search;

void
llmsvc_place_free (LlmsvcPlace *self)
{
  if (self == NULL)
    return;

  g_clear_object (&self->connection);
  g_free (self->no_session);
  g_free (self);
}

static void
search_free (Search *search)
{
  llmsvc_place_free (search->here);
  llmsvc_place_free (search->best);
  g_free (search->reason);
  g_free (search);
}

static void look_further (GTask *task);

/* What is found ends the search. */
static void
settle_here (GTask *task)
{
  Search *search = g_task_get_task_data (task);

  if (search->here->is_running || search->here->is_activatable)
    {
      g_task_return_pointer (task, g_steal_pointer (&search->here),
                             (GDestroyNotify) llmsvc_place_free);
      return;
    }

  /* the later one, the session's: a user may start a service there without more rights */
  g_clear_pointer (&search->best, llmsvc_place_free);
  search->best = g_steal_pointer (&search->here);
  look_further (task);
}

static void
ask_bus (GTask               *task,
         const char          *method,
         GVariant            *arguments,
         const char          *reply_type,
         GAsyncReadyCallback  callback)
{
  Search *search = g_task_get_task_data (task);

  g_dbus_connection_call (search->here->connection, DBUS_NAME, DBUS_PATH, DBUS_NAME, method,
                          arguments, G_VARIANT_TYPE (reply_type), G_DBUS_CALL_FLAGS_NONE, G_MAXINT,
                          g_task_get_cancellable (task), callback, g_object_ref (task));
}

/* (nullable): NULL when @task has failed with it. */
static GVariant *
finish_asking (GTask        *task,
               GObject      *source,
               GAsyncResult *result)
{
  GError *error = NULL;
  GVariant *reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);

  if (reply == NULL)
    llmsvc_task_fail (task, error);
  return reply;
}

static void
on_activatable (GObject      *source,
                GAsyncResult *result,
                gpointer      data)
{
  g_autoptr(GTask) task = data;
  Search *search = g_task_get_task_data (task);
  g_autoptr(GVariant) reply = finish_asking (task, source, result);
  g_autofree const char **names = NULL;

  if (reply == NULL)
    return;

  g_variant_get (reply, "(^a&s)", &names);
  search->here->is_activatable = g_strv_contains (names, LLMSVC_BUS_NAME);
  settle_here (task);
}

static void
on_owned (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  Search *search = g_task_get_task_data (task);
  g_autoptr(GVariant) reply = finish_asking (task, source, result);

  if (reply == NULL)
    return;

  g_variant_get (reply, "(b)", &search->here->is_running);
  ask_bus (task, "ListActivatableNames", NULL, "(as)", on_activatable);
}

static void
examine (GTask           *task,
         GBusType         type,
         GDBusConnection *connection)
{
  Search *search = g_task_get_task_data (task);

  search->here = g_new0 (LlmsvcPlace, 1);
  search->here->type = type;
  search->here->connection = g_object_ref (connection);
  ask_bus (task, "NameHasOwner", g_variant_new ("(s)", LLMSVC_BUS_NAME), "(b)", on_owned);
}

/* (transfer full): GIO says of a missing session bus that it can't start one, which is no
 * advice. */
static char *
describe_failure (GBusType      type,
                  const GError *error)
{
  const char *address = g_getenv ("DBUS_SESSION_BUS_ADDRESS");

  if (type != G_BUS_TYPE_SESSION)
    return g_strdup (error->message);
  if (address == NULL || *address == '\0')
    return g_strdup (_("DBUS_SESSION_BUS_ADDRESS is not set, so this process belongs to no login "
                       "session; run it in one, or with “dbus-run-session”"));

  return g_strdup_printf (_("DBUS_SESSION_BUS_ADDRESS is “%s”: %s"), address, error->message);
}

static void
on_connected (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GTask) task = data;
  Search *search = g_task_get_task_data (task);
  GBusType type = search->types[search->next - 1];
  g_autoptr(GDBusConnection) connection = NULL;
  g_autoptr(GError) error = NULL;

  connection = g_bus_get_finish (result, &error);
  if (connection != NULL)
    {
      g_dbus_connection_set_exit_on_close (connection, FALSE);
      examine (task, type, connection);
    }
  else if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    {
      llmsvc_task_fail (task, g_steal_pointer (&error));
    }
  else
    {
      g_free (search->reason);
      search->reason = describe_failure (type, error);
      look_further (task);
    }
}

static void
look_further (GTask *task)
{
  Search *search = g_task_get_task_data (task);

  if (search->next < search->n_types)
    {
      g_bus_get (search->types[search->next++], g_task_get_cancellable (task), on_connected,
                 g_object_ref (task));
      return;
    }
  if (search->best == NULL)
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                               _("No message bus can be reached: %s"), search->reason);
      return;
    }

  if (search->best->type == G_BUS_TYPE_SYSTEM)
    search->best->no_session = g_steal_pointer (&search->reason);
  g_task_return_pointer (task, g_steal_pointer (&search->best),
                         (GDestroyNotify) llmsvc_place_free);
}

void
llmsvc_bus_look_async (GBusType             bus_type,
                       GDBusConnection     *connection,
                       GCancellable        *cancellable,
                       GAsyncReadyCallback  callback,
                       gpointer             user_data)
{
  g_autoptr(GTask) task =
    llmsvc_task_new (NULL, cancellable, callback, user_data, llmsvc_bus_look_async);
  Search *search = g_new0 (Search, 1);

  llmsvc_i18n_init ();
  (void) llmsvc_error_quark ();
  g_task_set_task_data (task, search, (GDestroyNotify) search_free);
  if (connection != NULL)
    {
      examine (task, bus_type, connection);
      return;
    }

  if (bus_type != G_BUS_TYPE_SESSION)
    search->types[search->n_types++] = G_BUS_TYPE_SYSTEM;
  if (bus_type != G_BUS_TYPE_SYSTEM)
    search->types[search->n_types++] = G_BUS_TYPE_SESSION;
  look_further (task);
}

LlmsvcPlace *
llmsvc_bus_look_finish (GAsyncResult  *result,
                        GError       **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * llmsvc_bus_find_async:
 * @bus_type: %G_BUS_TYPE_SYSTEM, %G_BUS_TYPE_SESSION, or %G_BUS_TYPE_NONE for the
 *   system bus when the service is there, else the session bus
 * @cancellable: (nullable): to stop looking
 * @callback: (scope async): called when it is found or not
 * @user_data: for @callback
 *
 * Looks for a bus on which the service runs or can be started. Does not start it.
 *
 * Since: 0.1
 */
void
llmsvc_bus_find_async (GBusType             bus_type,
                       GCancellable        *cancellable,
                       GAsyncReadyCallback  callback,
                       gpointer             user_data)
{
  g_return_if_fail (bus_type == G_BUS_TYPE_NONE || bus_type == G_BUS_TYPE_SYSTEM ||
                    bus_type == G_BUS_TYPE_SESSION);

  llmsvc_bus_look_async (bus_type, NULL, cancellable, callback, user_data);
}

/**
 * llmsvc_bus_find_finish:
 * @result: given to the callback
 * @found_type: (out) (optional): %G_BUS_TYPE_SYSTEM or %G_BUS_TYPE_SESSION
 * @is_running: (out) (optional): whether the service runs; it can be started if not
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE
 *   when it is on no bus
 *
 * Ends what llmsvc_bus_find_async() began.
 *
 * Returns: (transfer full): the connection, shared as g_bus_get() shares it and not
 *   ending the process when it closes
 *
 * Since: 0.1
 */
GDBusConnection *
llmsvc_bus_find_finish (GAsyncResult  *result,
                        GBusType      *found_type,
                        gboolean      *is_running,
                        GError       **error)
{
  g_autoptr(LlmsvcPlace) place = NULL;

  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, llmsvc_bus_look_async), NULL);

  place = llmsvc_bus_look_finish (result, error);
  if (place == NULL)
    return NULL;
  if (!place->is_running && !place->is_activatable)
    {
      g_propagate_error (error, llmsvc_task_make_absent (place->no_session));
      return NULL;
    }

  if (found_type != NULL)
    *found_type = place->type;
  if (is_running != NULL)
    *is_running = place->is_running;
  return g_object_ref (place->connection);
}

/* --- for a search that is waited for --- */

void
llmsvc_buses_connect (LlmsvcBuses  *self,
                      GBusType      bus_type,
                      GCancellable *cancellable)
{
  g_autoptr(GDBusConnection) found = NULL;

  if (bus_type != G_BUS_TYPE_SESSION)
    self->system = g_bus_get_sync (G_BUS_TYPE_SYSTEM, cancellable, NULL);
  if (self->system != NULL && bus_type == G_BUS_TYPE_NONE)
    {
      g_auto(LlmsvcWait) wait = { NULL, NULL, NULL };

      llmsvc_wait_begin (&wait);
      llmsvc_bus_find_async (G_BUS_TYPE_SYSTEM, cancellable, llmsvc_wait_on_ready, &wait);
      found = llmsvc_bus_find_finish (llmsvc_wait_for_result (&wait), NULL, NULL, NULL);
    }

  /* g_bus_get() starts a session bus where there is none, so only when it is needed */
  if (bus_type != G_BUS_TYPE_SYSTEM && found == NULL)
    self->session = g_bus_get_sync (G_BUS_TYPE_SESSION, cancellable, NULL);
}

void
llmsvc_buses_clear (LlmsvcBuses *self)
{
  g_clear_object (&self->system);
  g_clear_object (&self->session);
}
