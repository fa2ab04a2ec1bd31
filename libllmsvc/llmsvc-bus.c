/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-bus-private.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-error-private.h"
#include "common/llmsvc-i18n.h"
#include "common/llmsvc-names.h"
#include "llmsvc-call.h"

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

/* @task: (transfer full); what is found ends the search. */
static void
settle_here (GTask *task)
{
  Search *search = g_task_get_task_data (task);

  if (search->here->is_running || search->here->is_activatable)
    {
      g_task_return_pointer (task, g_steal_pointer (&search->here),
                             (GDestroyNotify) llmsvc_place_free);
      g_object_unref (task);
      return;
    }

  /* the later one, the session's, is where a service may be put without anybody's leave */
  g_clear_pointer (&search->best, llmsvc_place_free);
  search->best = g_steal_pointer (&search->here);
  look_further (task);
}

static void
on_activatable (GObject      *source,
                GAsyncResult *result,
                gpointer      data)
{
  GTask *task = data;
  Search *search = g_task_get_task_data (task);
  g_autoptr(GVariant) reply = NULL;
  g_autofree const char **names = NULL;
  GError *error = NULL;

  reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  if (reply == NULL)
    {
      llmsvc_task_fail (task, error);
      g_object_unref (task);
      return;
    }

  g_variant_get (reply, "(^a&s)", &names);
  search->here->is_activatable = g_strv_contains (names, LLMSVC_BUS_NAME);
  settle_here (task);
}

static void
on_owned (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  GTask *task = data;
  Search *search = g_task_get_task_data (task);
  g_autoptr(GVariant) reply = NULL;
  GError *error = NULL;

  reply = g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &error);
  if (reply == NULL)
    {
      llmsvc_task_fail (task, error);
      g_object_unref (task);
      return;
    }

  g_variant_get (reply, "(b)", &search->here->is_running);
  g_dbus_connection_call (G_DBUS_CONNECTION (source), DBUS_NAME, DBUS_PATH, DBUS_NAME,
                          "ListActivatableNames", NULL, G_VARIANT_TYPE ("(as)"),
                          G_DBUS_CALL_FLAGS_NONE, G_MAXINT, g_task_get_cancellable (task),
                          on_activatable, task);
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
  g_dbus_connection_call (connection, DBUS_NAME, DBUS_PATH, DBUS_NAME, "NameHasOwner",
                          g_variant_new ("(s)", LLMSVC_BUS_NAME), G_VARIANT_TYPE ("(b)"),
                          G_DBUS_CALL_FLAGS_NONE, G_MAXINT, g_task_get_cancellable (task),
                          on_owned, task);
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
  GTask *task = data;
  Search *search = g_task_get_task_data (task);
  GBusType type = search->types[search->next - 1];
  g_autoptr(GDBusConnection) connection = NULL;
  g_autoptr(GError) error = NULL;

  connection = g_bus_get_finish (result, &error);
  if (connection != NULL)
    {
      g_dbus_connection_set_exit_on_close (connection, FALSE);
      examine (task, type, connection);
      return;
    }
  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    {
      llmsvc_task_fail (task, g_steal_pointer (&error));
      g_object_unref (task);
      return;
    }

  g_free (search->reason);
  search->reason = describe_failure (type, error);
  look_further (task);
}

/* @task: (transfer full) */
static void
look_further (GTask *task)
{
  Search *search = g_task_get_task_data (task);

  if (search->next < search->n_types)
    {
      g_bus_get (search->types[search->next++], g_task_get_cancellable (task), on_connected, task);
      return;
    }

  if (search->best != NULL)
    {
      if (search->best->type == G_BUS_TYPE_SYSTEM)
        search->best->no_session = g_steal_pointer (&search->reason);
      g_task_return_pointer (task, g_steal_pointer (&search->best),
                             (GDestroyNotify) llmsvc_place_free);
    }
  else
    g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                             _("No message bus can be reached: %s"), search->reason);
  g_object_unref (task);
}

void
llmsvc_bus_look_async (GBusType             bus_type,
                       GDBusConnection     *connection,
                       GCancellable        *cancellable,
                       GAsyncReadyCallback  callback,
                       gpointer             user_data)
{
  GTask *task = llmsvc_task_new (NULL, cancellable, callback, user_data, llmsvc_bus_look_async);
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

GError *
llmsvc_bus_make_error (const char *no_session)
{
  if (no_session == NULL)
    return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                                _("The language model service is on no bus. Is llmsvc "
                                  "installed?"));

  return g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                      _("The language model service is not on the system bus, and the session bus "
                        "can't be reached: %s"), no_session);
}

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
      g_propagate_error (error, llmsvc_bus_make_error (place->no_session));
      return NULL;
    }

  if (found_type != NULL)
    *found_type = place->type;
  if (is_running != NULL)
    *is_running = place->is_running;
  return g_object_ref (place->connection);
}
