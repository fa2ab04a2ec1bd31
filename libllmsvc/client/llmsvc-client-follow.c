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

typedef void (*SignalHandler) (LlmsvcClient *self,
                               const char   *path,
                               GVariant     *arguments);

typedef struct
{
  GWeakRef client;
  guint n_owners;                   /* of the client when it began */
  SignalHandler handler;            /* (nullable): of a signal */
  const GVariantType *type;         /* of its arguments */
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

/* --- signals --- */

static void
on_name_owner_changed (LlmsvcClient *self,
                       const char   *path,
                       GVariant     *arguments)
{
  const char *name, *old_owner, *new_owner;

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
  llmsvc_bus_look_async (self->bus_type, self->peer->connection, NULL, on_looked,
                         following_new (self));
  g_main_context_pop_thread_default (self->home);
}

static void
on_properties_changed (LlmsvcClient *self,
                       const char   *path,
                       GVariant     *arguments)
{
  g_autoptr(GVariant) values = NULL;
  g_autoptr(GVariant) invalidated = NULL;
  const char *interface;

  g_variant_get (arguments, "(&s@a{sv}@as)", &interface, &values, &invalidated);
  if (g_str_equal (interface, LLMSVC_INTERFACE) && g_str_equal (path, LLMSVC_PATH))
    llmsvc_client_apply_properties (self, values);
  else if (g_str_equal (interface, LLMSVC_MODEL_INTERFACE))
    llmsvc_client_update_model (self, path, values);
  if (g_variant_n_children (invalidated) > 0)
    read_again (self);
}

static void
on_interfaces_added (LlmsvcClient *self,
                     const char   *path,
                     GVariant     *arguments)
{
  g_autoptr(GVariant) interfaces = NULL;
  const char *object;

  g_variant_get (arguments, "(&o@a{sa{sv}})", &object, &interfaces);
  llmsvc_client_add_model (self, object, interfaces);
}

static void
on_interfaces_removed (LlmsvcClient *self,
                       const char   *path,
                       GVariant     *arguments)
{
  g_autofree const char **names = NULL;
  const char *object;

  g_variant_get (arguments, "(&o^a&s)", &object, &names);
  if (g_strv_contains (names, LLMSVC_MODEL_INTERFACE))
    llmsvc_client_remove_model (self, object);
}

static void
on_context_closed (LlmsvcClient *self,
                   const char   *path,
                   GVariant     *arguments)
{
  g_autoptr(GPtrArray) contexts = ref_contexts (self);
  const char *reason;

  g_variant_get (arguments, "(&s)", &reason);
  for (guint i = 0; i < contexts->len; i++)
    if (g_str_equal (llmsvc_context_get_path (g_ptr_array_index (contexts, i)), path))
      llmsvc_context_mark_closed (g_ptr_array_index (contexts, i), reason);
}

static const struct
{
  const char *sender;
  const char *interface;
  const char *name;
  const char *path;  /* (nullable) */
  const char *arg0;  /* (nullable) */
  const char *type;
  SignalHandler handler;
} signals[] = {
  { DBUS_NAME, DBUS_NAME, "NameOwnerChanged", DBUS_PATH, LLMSVC_BUS_NAME, "(sss)",
    on_name_owner_changed },
  { LLMSVC_BUS_NAME, DBUS_PROPERTIES_INTERFACE, "PropertiesChanged", LLMSVC_PATH, LLMSVC_INTERFACE,
    "(sa{sv}as)", on_properties_changed },
  { LLMSVC_BUS_NAME, DBUS_PROPERTIES_INTERFACE, "PropertiesChanged", NULL, LLMSVC_MODEL_INTERFACE,
    "(sa{sv}as)", on_properties_changed },
  { LLMSVC_BUS_NAME, DBUS_OBJECT_MANAGER_INTERFACE, "InterfacesAdded", LLMSVC_MODELS_PATH, NULL,
    "(oa{sa{sv}})", on_interfaces_added },
  { LLMSVC_BUS_NAME, DBUS_OBJECT_MANAGER_INTERFACE, "InterfacesRemoved", LLMSVC_MODELS_PATH, NULL,
    "(oas)", on_interfaces_removed },
  { LLMSVC_BUS_NAME, LLMSVC_CONTEXT_INTERFACE, "Closed", NULL, NULL, "(s)", on_context_closed },
};

static void
on_signal (GDBusConnection *connection,
           const char      *sender,
           const char      *path,
           const char      *interface,
           const char      *name,
           GVariant        *arguments,
           gpointer         data)
{
  Following *following = data;
  g_autoptr(LlmsvcClient) self = g_weak_ref_get (&following->client);

  if (self != NULL && g_variant_is_of_type (arguments, following->type))
    following->handler (self, path, arguments);
}

/* --- the end of the connection --- */

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

void
llmsvc_client_follow (LlmsvcClient *self)
{
  g_main_context_push_thread_default (self->home);
  for (guint i = 0; i < G_N_ELEMENTS (signals); i++)
    {
      Following *following = following_new (self);
      guint id;

      following->handler = signals[i].handler;
      following->type = G_VARIANT_TYPE (signals[i].type);
      id = g_dbus_connection_signal_subscribe (self->peer->connection, signals[i].sender,
                                               signals[i].interface, signals[i].name,
                                               signals[i].path, signals[i].arg0,
                                               G_DBUS_SIGNAL_FLAGS_NONE, on_signal, following,
                                               following_free);
      g_array_append_val (self->subscriptions, id);
    }
  g_main_context_pop_thread_default (self->home);

  self->closed_handler =
    g_signal_connect_data (self->peer->connection, "closed", G_CALLBACK (on_connection_closed),
                           following_new (self), free_following_closure, 0);
}
