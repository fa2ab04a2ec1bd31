/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc-http"

#include "http-caller.h"

#include "common/llmsvc-error-private.h"
#include "common/llmsvc-names.h"

/* A caller that has asked for nothing for so long is forgotten; its contexts stay at the service. */
#define IDLE_S 300
#define MAX_CALLERS 256

struct _HttpCallers
{
  GBusType bus_type;
  GHashTable *callers;  /* (element-type utf8 HttpCaller) (owned), by "uid app" */
  guint timer;          /* 0: none */
};

HttpCaller *
http_caller_ref (HttpCaller *self)
{
  return g_rc_box_acquire (self);
}

static void
clear (gpointer data)
{
  HttpCaller *self = data;

  g_clear_pointer (&self->conversations, http_conversations_free);
  g_clear_handle_id (&self->watch, g_bus_unwatch_name);
  if (self->client != NULL)
    g_dbus_connection_close (llmsvc_client_get_connection (self->client), NULL, NULL, NULL);
  g_clear_object (&self->client);
  g_clear_pointer (&self->waiting, g_ptr_array_unref);
  g_free (self->app);
}

void
http_caller_unref (HttpCaller *self)
{
  g_rc_box_release_full (self, clear);
}

/* --- forgetting --- */

static gboolean
is_idle (HttpCaller *self,
         gint64      now_us)
{
  return self->waiting == NULL && !http_conversations_are_in_use (self->conversations)
         && now_us - self->used_us > IDLE_S * G_USEC_PER_SEC;
}

static gboolean
on_timer (gpointer data)
{
  HttpCallers *self = data;
  GHashTableIter iter;
  HttpCaller *caller;

  g_hash_table_iter_init (&iter, self->callers);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &caller))
    if (is_idle (caller, g_get_monotonic_time ()))
      g_hash_table_iter_remove (&iter);
  if (g_hash_table_size (self->callers) > 0)
    return G_SOURCE_CONTINUE;
  self->timer = 0;
  return G_SOURCE_REMOVE;
}

static void
forget (HttpCaller *caller)
{
  g_autofree char *key = g_strdup_printf ("%u %s", caller->uid, caller->app);
  HttpCallers *self = g_steal_pointer (&caller->callers);

  if (self != NULL && g_hash_table_lookup (self->callers, key) == caller)
    g_hash_table_remove (self->callers, key);
}

/* A restarted service has forgotten this registration: the next request makes a new connection. */
static void
on_service_vanished (GDBusConnection *connection,
                     const char      *name,
                     gpointer         data)
{
  forget (data);
}

/* --- connecting --- */

static void
end_connecting (HttpCaller *caller,
                GError     *error)
{
  g_autoptr(GPtrArray) waiting = g_steal_pointer (&caller->waiting);
  g_autoptr(GError) owned = error;

  if (owned != NULL)
    {
      llmsvc_error_convert (&owned);
      forget (caller);
    }
  for (guint i = 0; i < waiting->len; i++)
    if (owned != NULL)
      g_task_return_error (g_ptr_array_index (waiting, i), g_error_copy (owned));
    else
      g_task_return_pointer (g_ptr_array_index (waiting, i), http_caller_ref (caller),
                             (GDestroyNotify) http_caller_unref);
  http_caller_unref (caller);
}

static void
on_conversations (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  HttpCaller *caller = data;
  GError *error = NULL;

  http_conversations_load_finish (caller->conversations, result, &error);
  end_connecting (caller, error);
}

static void
on_client (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  HttpCaller *caller = data;
  GError *error = NULL;

  caller->client = llmsvc_client_new_for_connection_finish (result, &error);
  if (caller->client == NULL)
    {
      end_connecting (caller, error);
      return;
    }
  caller->watch = g_bus_watch_name_on_connection (llmsvc_client_get_connection (caller->client),
                                                  LLMSVC_BUS_NAME, G_BUS_NAME_WATCHER_FLAGS_NONE, NULL,
                                                  on_service_vanished, caller, NULL);
  http_conversations_load_async (caller->conversations, caller->client, on_conversations, caller);
}

static void
on_registered (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  HttpCaller *caller = data;
  GDBusConnection *connection = G_DBUS_CONNECTION (source);
  GError *error = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_finish (connection, result, &error);

  if (reply == NULL)
    end_connecting (caller, error);
  else
    llmsvc_client_new_for_connection_async (connection, NULL, NULL, on_client, caller);
}

static void
on_connected (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  HttpCaller *caller = data;
  GError *error = NULL;
  g_autoptr(GDBusConnection) connection = g_dbus_connection_new_for_address_finish (result, &error);
  g_autoptr(GVariant) options = NULL;

  if (connection == NULL)
    {
      end_connecting (caller, error);
      return;
    }
  options = g_variant_ref_sink (g_variant_new_parsed ("{'uid': <%u>}", caller->uid));
  g_dbus_connection_call (connection, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "Register",
                          g_variant_new ("(s@a{sv})", caller->app, options), NULL,
                          G_DBUS_CALL_FLAGS_NONE, -1, NULL, on_registered, caller);
}

static void
connect_caller (HttpCallers *self,
                HttpCaller  *caller)
{
    GError *error = NULL;
  g_autofree char *address = g_dbus_address_get_for_bus_sync (self->bus_type, NULL, &error);

  http_caller_ref (caller);
  if (address == NULL)
    end_connecting (caller, error);
  else
    g_dbus_connection_new_for_address (address,
                                       G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT
                                         | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                       NULL, NULL, on_connected, caller);
}

void
http_callers_get_async (HttpCallers         *self,
                        guint32              uid,
                        const char          *app,
                        GCancellable        *cancellable,
                        GAsyncReadyCallback  callback,
                        gpointer             data)
{
  g_autoptr(GTask) task = g_task_new (NULL, cancellable, callback, data);
  g_autofree char *key = g_strdup_printf ("%u %s", uid, app);
  HttpCaller *caller = g_hash_table_lookup (self->callers, key);
  gboolean is_new;

  if (caller != NULL && caller->client != NULL
      && g_dbus_connection_is_closed (llmsvc_client_get_connection (caller->client)))
    {
      g_hash_table_remove (self->callers, key);
      caller = NULL;
    }
  if (caller == NULL && g_hash_table_size (self->callers) >= MAX_CALLERS)
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED,
                               "Too many applications use the endpoint at once");
      return;
    }
  is_new = caller == NULL;
  if (is_new)
    {
      caller = g_rc_box_new0 (HttpCaller);
      caller->callers = self;
      caller->uid = uid;
      caller->app = g_strdup (app);
      caller->conversations = http_conversations_new ();
      caller->waiting = g_ptr_array_new_with_free_func (g_object_unref);
      g_hash_table_insert (self->callers, g_steal_pointer (&key), caller);
    }
  caller->used_us = g_get_monotonic_time ();
  if (self->timer == 0)
    self->timer = g_timeout_add_seconds (IDLE_S / 5, on_timer, self);
  if (caller->waiting == NULL)
    {
      g_task_return_pointer (task, http_caller_ref (caller), (GDestroyNotify) http_caller_unref);
      return;
    }
  g_ptr_array_add (caller->waiting, g_steal_pointer (&task));
  if (is_new)
    connect_caller (self, caller);
}

HttpCaller *
http_callers_get_finish (HttpCallers   *self,
                         GAsyncResult  *result,
                         GError       **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

HttpCallers *
http_callers_new (GBusType bus_type)
{
  HttpCallers *self = g_new0 (HttpCallers, 1);

  /* errors of the first call have their names, too */
  llmsvc_error_quark ();
  self->bus_type = bus_type;
  self->callers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                         (GDestroyNotify) http_caller_unref);
  return self;
}

void
http_callers_free (HttpCallers *self)
{
  g_clear_handle_id (&self->timer, g_source_remove);
  g_hash_table_unref (self->callers);
  g_free (self);
}
