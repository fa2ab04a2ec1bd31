/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The client follows the service by its signals and the bus's. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include "calls/llmsvc-bus-private.h"
#include "common/llmsvc-names.h"
#include "context/llmsvc-context-private.h"

#define DBUS_NAME "org.freedesktop.DBus"
#define DBUS_PATH "/org/freedesktop/DBus"

static void
on_read_again (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GError) error = NULL;

  if (!llmsvc_client_read_finish (result, &error))
    g_debug ("The service that came can't be read: %s", error->message);
}

/* Something has to be read outside of any call. */
static void
read_again (LlmsvcClient *self)
{
  g_main_context_push_thread_default (self->home);
  llmsvc_client_read_async (self, LLMSVC_CALL_NO_START, NULL, on_read_again, NULL);
  g_main_context_pop_thread_default (self->home);
}

typedef struct
{
  GWeakRef client;
  guint n_owners;  /* of the client when it began */
} Following;

static Following *
following_new (LlmsvcClient *self)
{
  Following *following = g_new0 (Following, 1);

  g_weak_ref_init (&following->client, self);
  following->n_owners = self->n_owners;
  return following;
}

static void
following_free (gpointer data)
{
  Following *following = data;

  g_weak_ref_clear (&following->client);
  g_free (following);
}

static void
on_looked (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  Following *following = data;
  g_autoptr(LlmsvcPlace) place = llmsvc_bus_look_finish (result, NULL);
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);

  if (self != NULL && place != NULL && !place->is_running &&
      following->n_owners == self->n_owners)
    llmsvc_client_set_not_running (self, place->is_activatable);
  following_free (following);
}

/* (transfer full) (element-type LlmsvcContext): contexts come and go while one is told. */
static GPtrArray *
ref_contexts (LlmsvcClient *self)
{
  GPtrArray *contexts = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < self->contexts->len; i++)
    g_ptr_array_add (contexts, g_object_ref (g_ptr_array_index (self->contexts, i)));

  return contexts;
}

static void
tell_contexts_gone (LlmsvcClient *self,
                    const char   *owner)
{
  g_autoptr(GPtrArray) contexts = ref_contexts (self);

  for (guint i = 0; i < contexts->len; i++)
    llmsvc_context_service_gone (g_ptr_array_index (contexts, i), owner);
}

/* The new service tells those alone of a context's end that have used it. */
static void
reopen_contexts (LlmsvcClient *self)
{
  g_autoptr(GPtrArray) contexts = ref_contexts (self);

  g_main_context_push_thread_default (self->home);
  for (guint i = 0; i < contexts->len; i++)
    llmsvc_context_reopen (g_ptr_array_index (contexts, i));
  g_main_context_pop_thread_default (self->home);
}

static void
on_name_owner_changed (GDBusConnection *connection,
                       const char      *sender,
                       const char      *path,
                       const char      *interface,
                       const char      *signal,
                       GVariant        *arguments,
                       gpointer         data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);
  const char *name, *old_owner, *new_owner;

  if (self == NULL || !g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sss)")))
    return;
  g_variant_get (arguments, "(&s&s&s)", &name, &old_owner, &new_owner);
  if (!g_str_equal (name, LLMSVC_BUS_NAME))
    return;

  self->n_owners++;
  if (old_owner[0] != '\0')
    tell_contexts_gone (self, old_owner);
  if (new_owner[0] != '\0')
    {
      read_again (self);
      reopen_contexts (self);
      return;
    }

  llmsvc_client_set_not_running (self, self->is_activatable);
  g_main_context_push_thread_default (self->home);
  llmsvc_bus_look_async (self->bus_type, connection, NULL, on_looked, following_new (self));
  g_main_context_pop_thread_default (self->home);
}

static void
on_properties_changed (GDBusConnection *connection,
                       const char      *sender,
                       const char      *path,
                       const char      *interface,
                       const char      *signal,
                       GVariant        *arguments,
                       gpointer         data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);
  g_autoptr(GVariant) values = NULL;
  g_autoptr(GVariant) invalidated = NULL;
  const char *changed_interface;

  if (self == NULL || !g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sa{sv}as)")))
    return;
  g_variant_get (arguments, "(&s@a{sv}@as)", &changed_interface, &values, &invalidated);

  if (g_str_equal (changed_interface, LLMSVC_INTERFACE) && g_str_equal (path, LLMSVC_PATH))
    {
      llmsvc_client_apply_properties (self, values);
    }
  else if (g_str_equal (changed_interface, LLMSVC_MODEL_INTERFACE))
    {
      llmsvc_client_update_model (self, path, values);
    }
  if (g_variant_n_children (invalidated) > 0)
    read_again (self);
}

static void
on_interfaces_changed (GDBusConnection *connection,
                       const char      *sender,
                       const char      *path,
                       const char      *interface,
                       const char      *signal,
                       GVariant        *arguments,
                       gpointer         data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);
  const char *object;

  if (self == NULL)
    return;

  if (g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oa{sa{sv}})")))
    {
      g_autoptr(GVariant) interfaces = NULL;

      g_variant_get (arguments, "(&o@a{sa{sv}})", &object, &interfaces);
      llmsvc_client_add_model (self, object, interfaces);
    }
  else if (g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oas)")))
    {
      g_autofree const char **names = NULL;

      g_variant_get (arguments, "(&o^a&s)", &object, &names);
      if (g_strv_contains (names, LLMSVC_MODEL_INTERFACE))
        llmsvc_client_remove_model (self, object);
    }
}

static void
on_context_closed (GDBusConnection *connection,
                   const char      *sender,
                   const char      *path,
                   const char      *interface,
                   const char      *signal,
                   GVariant        *arguments,
                   gpointer         data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);
  g_autoptr(GPtrArray) contexts = NULL;
  const char *reason;

  if (self == NULL || !g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(s)")))
    return;

  g_variant_get (arguments, "(&s)", &reason);
  contexts = ref_contexts (self);
  for (guint i = 0; i < contexts->len; i++)
    if (g_str_equal (llmsvc_context_get_path (g_ptr_array_index (contexts, i)), path))
      llmsvc_context_mark_closed (g_ptr_array_index (contexts, i), reason);
}

static gboolean
end_following (gpointer data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);

  if (self == NULL)
    return G_SOURCE_REMOVE;

  self->n_owners++;
  tell_contexts_gone (self, NULL);
  llmsvc_client_set_not_running (self, FALSE);
  return G_SOURCE_REMOVE;
}

/* In the main context of the connection, which need not be the client's. */
static void
on_connection_closed (GDBusConnection *connection,
                      gboolean         remote_vanished,
                      GError          *error,
                      gpointer         data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);

  if (self != NULL)
    g_main_context_invoke_full (self->home, G_PRIORITY_DEFAULT, end_following,
                                following_new (self), following_free);
}

static void
free_following_closure (gpointer  data,
                        GClosure *closure)
{
  following_free (data);
}

static void
subscribe (LlmsvcClient       *self,
           const char         *sender,
           const char         *interface,
           const char         *signal,
           const char         *path,
           const char         *arg0,
           GDBusSignalCallback callback)
{
  guint id = g_dbus_connection_signal_subscribe (self->peer->connection, sender, interface, signal,
                                                 path, arg0, G_DBUS_SIGNAL_FLAGS_NONE, callback,
                                                 following_new (self), following_free);

  g_array_append_val (self->subscriptions, id);
}

void
llmsvc_client_follow (LlmsvcClient *self)
{
  g_main_context_push_thread_default (self->home);
  subscribe (self, DBUS_NAME, DBUS_NAME, "NameOwnerChanged", DBUS_PATH, LLMSVC_BUS_NAME,
             on_name_owner_changed);
  subscribe (self, LLMSVC_BUS_NAME, DBUS_PROPERTIES_INTERFACE, "PropertiesChanged", LLMSVC_PATH,
             LLMSVC_INTERFACE, on_properties_changed);
  subscribe (self, LLMSVC_BUS_NAME, DBUS_PROPERTIES_INTERFACE, "PropertiesChanged", NULL,
             LLMSVC_MODEL_INTERFACE, on_properties_changed);
  subscribe (self, LLMSVC_BUS_NAME, DBUS_OBJECT_MANAGER_INTERFACE, "InterfacesAdded", LLMSVC_MODELS_PATH, NULL,
             on_interfaces_changed);
  subscribe (self, LLMSVC_BUS_NAME, DBUS_OBJECT_MANAGER_INTERFACE, "InterfacesRemoved", LLMSVC_MODELS_PATH,
             NULL, on_interfaces_changed);
  subscribe (self, LLMSVC_BUS_NAME, LLMSVC_CONTEXT_INTERFACE, "Closed", NULL, NULL,
             on_context_closed);
  g_main_context_pop_thread_default (self->home);

  self->closed_handler =
    g_signal_connect_data (self->peer->connection, "closed", G_CALLBACK (on_connection_closed),
                           following_new (self), free_following_closure, 0);
}
