/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a client is made: the service is found, then followed, then read. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include <glib/gi18n-lib.h>
#include <string.h>

#include "calls/llmsvc-bus-private.h"
#include "llmsvc-error.h"

#define MAX_APP_ID_BYTES 255

/* A client that is made: the data of its task. */
typedef struct
{
  LlmsvcClient *client;  /* (nullable) (owned): NULL once it is given out */
  char *app_id;
  gboolean has_own_connection;
} Making;

static void
making_free (Making *making)
{
  g_clear_object (&making->client);
  g_free (making->app_id);
  g_free (making);
}

/* As the service has it. */
static gboolean
check_app_id (const char  *app_id,
              GError     **error)
{
  const char *allowed = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-";
  gsize length = strlen (app_id);

  if (length == 0 || (length <= MAX_APP_ID_BYTES && strspn (app_id, allowed) == length &&
                      app_id[0] != '.' && app_id[0] != '-'))
    return TRUE;

  g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       _("The app's name must be that of a desktop file without “.desktop”: at "
                         "most 255 letters, digits, “.”, “_” and “-”, not beginning with “.” or "
                         "“-”"));
  return FALSE;
}

static void
on_first_read (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;
  Making *making = g_task_get_task_data (task);
  g_autoptr(GError) error = NULL;

  if (!llmsvc_client_read_finish (result, &error))
    {
      if (error->code == LLMSVC_ERROR_CANCELLED)
        {
          g_task_return_error (task, g_steal_pointer (&error));
          return;
        }
      if (error->code == LLMSVC_ERROR_NOT_AVAILABLE)
        llmsvc_client_set_not_running (making->client, making->client->is_activatable);
      else
        g_debug ("The service can't be read: %s", error->message);
    }

  g_task_return_pointer (task, g_steal_pointer (&making->client), g_object_unref);
}

static void
on_looked (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  Making *making = g_task_get_task_data (task);
  LlmsvcClient *self = making->client;
  g_autoptr(LlmsvcPlace) place = NULL;
  GError *error = NULL;

  place = llmsvc_bus_look_finish (result, &error);
  if (place == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  self->peer = llmsvc_peer_new (place->connection, making->app_id, place->no_session);
  self->bus_type = making->has_own_connection ? G_BUS_TYPE_NONE : place->type;
  self->is_activatable = place->is_activatable;

  /* following first, so that nothing is missed between the two */
  llmsvc_client_follow (self);
  llmsvc_client_read_async (self, LLMSVC_CALL_REPEAT | LLMSVC_CALL_NO_START,
                            g_task_get_cancellable (task), on_first_read, g_object_ref (task));
}

/* (transfer full): the caller's main context, when it is this thread's to dispatch. What belongs
 * to another thread, such as the main one's for a thread without its own, would emit signals
 * there: then one that is not dispatched, and the client knows what its calls bring. */
static GMainContext *
make_home (void)
{
  g_autoptr(GMainContext) wanted = llmsvc_wait_ref_outer ();

  if (!g_main_context_acquire (wanted))
    return g_main_context_new ();

  g_main_context_release (wanted);
  return g_steal_pointer (&wanted);
}

/* @connection: (nullable): NULL to find the service on @bus_type. */
static void
make_client (GBusType             bus_type,
             GDBusConnection     *connection,
             const char          *app_id,
             GCancellable        *cancellable,
             GAsyncReadyCallback  callback,
             gpointer             user_data)
{
  g_autoptr(GTask) task =
    llmsvc_task_new (NULL, cancellable, callback, user_data, llmsvc_client_new_async);
  Making *making = g_new0 (Making, 1);
  GApplication *application = g_application_get_default ();
  GError *error = NULL;

  making->client = g_object_new (LLMSVC_TYPE_CLIENT, NULL);
  making->client->home = make_home ();
  making->client->has_own_app_id = app_id != NULL;
  making->has_own_connection = connection != NULL;
  if (app_id == NULL && application != NULL)
    app_id = g_application_get_application_id (application);
  making->app_id = g_strdup (app_id != NULL ? app_id : "");
  g_task_set_task_data (task, making, (GDestroyNotify) making_free);

  if (!check_app_id (making->app_id, &error))
    g_task_return_error (task, error);
  else
    llmsvc_bus_look_async (bus_type, connection, cancellable, on_looked, g_object_ref (task));
}

/**
 * llmsvc_client_new_async:
 * @bus_type: %G_BUS_TYPE_SYSTEM, %G_BUS_TYPE_SESSION, or %G_BUS_TYPE_NONE for the system
 *   bus when the service is there, else the session bus
 * @app_id: (nullable): registers an app outside a sandbox under the name of its desktop
 *   file without `.desktop`; %NULL for the id of g_application_get_default(), if there is an
 *   application, "" for none
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when it is made or not
 * @user_data: for @callback
 *
 * Makes a client. Does not start the service; when it runs, its properties and models are
 * read. A service that is not there is no error: then
 * [property@Llmsvc.Client:availability] is %LLMSVC_AVAILABILITY_ABSENT until it comes.
 *
 * The app is registered again whenever the service has been restarted. A sandboxed app is
 * known by its sandbox, and @app_id has no effect. One connection to a bus has one name: all
 * of a process' clients on the shared connection give the same.
 *
 * Since: 0.1
 */
void
llmsvc_client_new_async (GBusType             bus_type,
                         const char          *app_id,
                         GCancellable        *cancellable,
                         GAsyncReadyCallback  callback,
                         gpointer             user_data)
{
  g_return_if_fail (bus_type == G_BUS_TYPE_NONE || bus_type == G_BUS_TYPE_SYSTEM ||
                    bus_type == G_BUS_TYPE_SESSION);

  make_client (bus_type, NULL, app_id, cancellable, callback, user_data);
}

/**
 * llmsvc_client_new_finish:
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE when no
 *   bus can be reached, %LLMSVC_ERROR_INVALID_ARGUMENT when the app can't have that name
 *
 * Ends llmsvc_client_new_async().
 *
 * Returns: (transfer full): a client
 *
 * Since: 0.1
 */
LlmsvcClient *
llmsvc_client_new_finish (GAsyncResult  *result,
                          GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, NULL), NULL);
  g_return_val_if_fail (g_async_result_is_tagged (result, llmsvc_client_new_async), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/**
 * llmsvc_client_new_for_connection_async:
 * @connection: a connection to a message bus
 * @app_id: (nullable): registers an app outside a sandbox under the name of its desktop
 *   file without `.desktop`; %NULL for the id of g_application_get_default(), if there is an
 *   application, "" for none
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when it is made or not
 * @user_data: for @callback
 *
 * Makes a client on a connection of the app's own, such as one to a private bus; else as
 * llmsvc_client_new_async().
 *
 * Since: 0.1
 */
void
llmsvc_client_new_for_connection_async (GDBusConnection     *connection,
                                        const char          *app_id,
                                        GCancellable        *cancellable,
                                        GAsyncReadyCallback  callback,
                                        gpointer             user_data)
{
  g_return_if_fail (G_IS_DBUS_CONNECTION (connection));

  make_client (G_BUS_TYPE_NONE, connection, app_id, cancellable, callback, user_data);
}

/**
 * llmsvc_client_new_for_connection_finish:
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE when the
 *   connection is closed, %LLMSVC_ERROR_INVALID_ARGUMENT when the app can't have that name
 *
 * Ends llmsvc_client_new_for_connection_async().
 *
 * Returns: (transfer full): a client
 *
 * Since: 0.1
 */
LlmsvcClient *
llmsvc_client_new_for_connection_finish (GAsyncResult  *result,
                                         GError       **error)
{
  return llmsvc_client_new_finish (result, error);
}
