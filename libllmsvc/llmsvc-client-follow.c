/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The service as it is: read once, then followed by its signals and the bus's. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-client-private.h"

#include <string.h>

#include "common/llmsvc-names.h"
#include "llmsvc-bus-private.h"
#include "llmsvc-context-private.h"
#include "llmsvc-error.h"
#include "llmsvc-model-private.h"

#define DBUS_NAME "org.freedesktop.DBus"
#define DBUS_PATH "/org/freedesktop/DBus"
#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"
#define MANAGER_INTERFACE "org.freedesktop.DBus.ObjectManager"

static const struct
{
  const char *word;
  LlmsvcAvailability availability;
} availabilities[] = {
  { "ready", LLMSVC_AVAILABILITY_READY },       { "loading", LLMSVC_AVAILABILITY_LOADING },
  { "no-model", LLMSVC_AVAILABILITY_NO_MODEL }, { "disabled", LLMSVC_AVAILABILITY_DISABLED },
  { "failed", LLMSVC_AVAILABILITY_FAILED },
};

/* --- properties --- */

static void
set_availability (LlmsvcClient       *self,
                  LlmsvcAvailability  availability)
{
  if (self->availability == availability)
    return;

  self->availability = availability;
  g_object_notify (G_OBJECT (self), "availability");
}

static void
set_string (LlmsvcClient *self,
            char        **field,
            const char   *value,
            const char   *property)
{
  if (g_str_equal (*field, value))
    return;

  g_free (*field);
  *field = g_strdup (value);
  g_object_notify (G_OBJECT (self), property);
}

static guint
find_model (LlmsvcClient *self,
            const char   *path)
{
  guint n = g_list_model_get_n_items (G_LIST_MODEL (self->models));

  for (guint i = 0; i < n; i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (G_LIST_MODEL (self->models), i);

      if (g_str_equal (llmsvc_model_get_path (model), path))
        return i;
    }

  return G_MAXUINT;
}

static void
update_active_model (LlmsvcClient *self)
{
  g_autoptr(LlmsvcModel) model = NULL;
  guint position = find_model (self, self->active_path);

  if (position != G_MAXUINT)
    model = g_list_model_get_item (G_LIST_MODEL (self->models), position);
  if (g_set_object (&self->active_model, model))
    g_object_notify (G_OBJECT (self), "active-model");
}

static void
apply_availability (LlmsvcClient *self,
                    GVariant     *values)
{
  LlmsvcAvailability availability = LLMSVC_AVAILABILITY_UNKNOWN;
  const char *word;

  if (!g_variant_lookup (values, "Availability", "&s", &word))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (availabilities); i++)
    if (g_str_equal (word, availabilities[i].word))
      availability = availabilities[i].availability;
  set_availability (self, availability);
}

static void
apply_features (LlmsvcClient *self,
                GVariant     *values)
{
  g_auto(GStrv) features = NULL;

  if (!g_variant_lookup (values, "Features", "^as", &features) ||
      g_strv_equal ((const char *const *) features, (const char *const *) self->features))
    return;

  g_strfreev (self->features);
  self->features = g_steal_pointer (&features);
  g_object_notify (G_OBJECT (self), "features");
}

/* Values of a wrong type change nothing. */
static void
apply_properties (LlmsvcClient *self,
                  GVariant     *values)
{
  const char *string;
  guint32 number;

  g_object_freeze_notify (G_OBJECT (self));
  if (g_variant_lookup (values, "AvailabilityReason", "&s", &string))
    set_string (self, &self->reason, string, "availability-reason");
  apply_availability (self, values);
  if (g_variant_lookup (values, "Version", "&s", &string))
    set_string (self, &self->version, string, "version");
  if (g_variant_lookup (values, "ApiVersion", "u", &number) && number != self->api_version)
    {
      self->api_version = number;
      g_object_notify (G_OBJECT (self), "api-version");
    }
  apply_features (self, values);
  if (g_variant_lookup (values, "ActiveModel", "&o", &string))
    {
      g_free (self->active_path);
      self->active_path = g_strdup (string);
      update_active_model (self);
    }
  g_object_thaw_notify (G_OBJECT (self));
}

/* --- models --- */

static int
compare_models (gconstpointer a,
                gconstpointer b,
                gpointer      data)
{
  return strcmp (llmsvc_model_get_path ((LlmsvcModel *) a),
                 llmsvc_model_get_path ((LlmsvcModel *) b));
}

/* @interfaces: a{sa{sv}} of the object at @path */
static void
add_model (LlmsvcClient *self,
           const char   *path,
           GVariant     *interfaces)
{
  g_autoptr(GVariant) values = NULL;
  g_autoptr(LlmsvcModel) model = NULL;
  guint position;

  values = g_variant_lookup_value (interfaces, LLMSVC_MODEL_INTERFACE, G_VARIANT_TYPE_VARDICT);
  if (values == NULL)
    return;

  position = find_model (self, path);
  if (position != G_MAXUINT)
    {
      model = g_list_model_get_item (G_LIST_MODEL (self->models), position);
      llmsvc_model_update (model, values);
      return;
    }

  model = llmsvc_model_new (path, values);
  g_list_store_insert_sorted (self->models, model, compare_models, NULL);
  update_active_model (self);
}

static void
remove_model (LlmsvcClient *self,
              const char   *path)
{
  guint position = find_model (self, path);

  if (position == G_MAXUINT)
    return;

  g_list_store_remove (self->models, position);
  update_active_model (self);
}

/* @objects: a{oa{sa{sv}}}, all there are; models that stay keep their object. */
static void
apply_models (LlmsvcClient *self,
              GVariant     *objects)
{
  g_autoptr(GHashTable) paths = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GVariantIter iter;
  const char *path;
  GVariant *interfaces;

  g_variant_iter_init (&iter, objects);
  while (g_variant_iter_next (&iter, "{&o@a{sa{sv}}}", &path, &interfaces))
    {
      g_hash_table_add (paths, g_strdup (path));
      add_model (self, path, interfaces);
      g_variant_unref (interfaces);
    }

  for (guint i = g_list_model_get_n_items (G_LIST_MODEL (self->models)); i > 0; i--)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (G_LIST_MODEL (self->models), i - 1);

      if (!g_hash_table_contains (paths, llmsvc_model_get_path (model)))
        g_list_store_remove (self->models, i - 1);
    }
  update_active_model (self);
}

/* --- reading all --- */

static void
on_models_read (GObject      *source,
                GAsyncResult *result,
                gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GVariant) objects = NULL;
  GError *error = NULL;

  reply = llmsvc_call_finish (result, NULL, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  objects = g_variant_get_child_value (reply->body, 0);
  apply_models (g_task_get_source_object (task), objects);
  g_task_return_boolean (task, TRUE);
}

static void
on_properties_read (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcClient *self = g_task_get_source_object (task);
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GVariant) values = NULL;
  GError *error = NULL;
  const LlmsvcCallInfo info = {
    .path = LLMSVC_MODELS_PATH,
    .interface = MANAGER_INTERFACE,
    .method = "GetManagedObjects",
    .reply_type = "(a{oa{sa{sv}}})",
    .flags = (LlmsvcCallFlags) GPOINTER_TO_UINT (g_task_get_task_data (task)),
  };

  reply = llmsvc_call_finish (result, NULL, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  values = g_variant_get_child_value (reply->body, 0);
  apply_properties (self, values);
  llmsvc_call_async (self->peer, &info, NULL, g_task_get_cancellable (task), on_models_read,
                     g_object_ref (task));
}

void
llmsvc_client_read_async (LlmsvcClient        *self,
                          LlmsvcCallFlags      flags,
                          GCancellable        *cancellable,
                          GAsyncReadyCallback  callback,
                          gpointer             user_data)
{
  GTask *task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_read_async);
  const LlmsvcCallInfo info = {
    .path = LLMSVC_PATH,
    .interface = PROPERTIES_INTERFACE,
    .method = "GetAll",
    .reply_type = "(a{sv})",
    .flags = flags,
  };

  g_task_set_task_data (task, GUINT_TO_POINTER (flags), NULL);
  llmsvc_call_async (self->peer, &info, g_variant_new ("(s)", LLMSVC_INTERFACE), cancellable,
                     on_properties_read, task);
}

gboolean
llmsvc_client_read_finish (LlmsvcClient  *self,
                           GAsyncResult  *result,
                           GError       **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- following --- */

static void
on_read_again (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GError) error = NULL;

  if (!llmsvc_client_read_finish (LLMSVC_CLIENT (source), result, &error))
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

void
llmsvc_client_set_not_running (LlmsvcClient *self,
                               gboolean      is_activatable)
{
  self->is_activatable = is_activatable;
  set_string (self, &self->reason, "", "availability-reason");
  set_availability (self, is_activatable ? LLMSVC_AVAILABILITY_IDLE : LLMSVC_AVAILABILITY_ABSENT);
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
      apply_properties (self, values);
    }
  else if (g_str_equal (changed_interface, LLMSVC_MODEL_INTERFACE))
    {
      guint position = find_model (self, path);
      g_autoptr(LlmsvcModel) model =
        position != G_MAXUINT ? g_list_model_get_item (G_LIST_MODEL (self->models), position)
                              : NULL;

      if (model != NULL)
        llmsvc_model_update (model, values);
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
      add_model (self, object, interfaces);
    }
  else if (g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(oas)")))
    {
      g_autofree const char **names = NULL;

      g_variant_get (arguments, "(&o^a&s)", &object, &names);
      if (g_strv_contains (names, LLMSVC_MODEL_INTERFACE))
        remove_model (self, object);
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

/* In the main context of the connection, whichever that is. */
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
  subscribe (self, LLMSVC_BUS_NAME, PROPERTIES_INTERFACE, "PropertiesChanged", LLMSVC_PATH,
             LLMSVC_INTERFACE, on_properties_changed);
  subscribe (self, LLMSVC_BUS_NAME, PROPERTIES_INTERFACE, "PropertiesChanged", NULL,
             LLMSVC_MODEL_INTERFACE, on_properties_changed);
  subscribe (self, LLMSVC_BUS_NAME, MANAGER_INTERFACE, "InterfacesAdded", LLMSVC_MODELS_PATH, NULL,
             on_interfaces_changed);
  subscribe (self, LLMSVC_BUS_NAME, MANAGER_INTERFACE, "InterfacesRemoved", LLMSVC_MODELS_PATH,
             NULL, on_interfaces_changed);
  subscribe (self, LLMSVC_BUS_NAME, LLMSVC_CONTEXT_INTERFACE, "Closed", NULL, NULL,
             on_context_closed);
  g_main_context_pop_thread_default (self->home);

  self->closed_handler =
    g_signal_connect_data (self->peer->connection, "closed", G_CALLBACK (on_connection_closed),
                           following_new (self), free_following_closure, 0);
}

void
llmsvc_client_unfollow (LlmsvcClient *self)
{
  for (guint i = 0; i < self->subscriptions->len; i++)
    g_dbus_connection_signal_unsubscribe (self->peer->connection,
                                          g_array_index (self->subscriptions, guint, i));
  g_array_set_size (self->subscriptions, 0);
  g_clear_signal_handler (&self->closed_handler, self->peer->connection);
}
