/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-objects.h"

#include "common/llmsvc-names.h"

#define OBJECT_MANAGER "org.freedesktop.DBus.ObjectManager"

/* GDBusObjectManagerServer answers with what is exported, which is nothing before the folders were
 * read: who has made the bus start the service would hear that there is no model. */
static const char manager_xml[] =
  "<node>"
  "  <interface name='" OBJECT_MANAGER "'>"
  "    <method name='GetManagedObjects'>"
  "      <arg name='object_paths_interfaces_and_properties' type='a{oa{sa{sv}}}' direction='out'/>"
  "    </method>"
  "    <signal name='InterfacesAdded'>"
  "      <arg name='object_path' type='o'/>"
  "      <arg name='interfaces_and_properties' type='a{sa{sv}}'/>"
  "    </signal>"
  "    <signal name='InterfacesRemoved'>"
  "      <arg name='object_path' type='o'/>"
  "      <arg name='interfaces' type='as'/>"
  "    </signal>"
  "  </interface>"
  "</node>";

/* Reference-counted: calls under way hold it. */
struct _LlmBusModels
{
  LlmBus *bus;           /* (owned) */
  gulong handler;
  GDBusNodeInfo *manager_info;
  guint manager;         /* registration */
  GHashTable *exported;  /* (element-type utf8 Exported) (owned): by path */
};

typedef struct
{
  LlmModelInfo *info;    /* (owned) */
  guint registration;
} Exported;

static GVariant *
list_properties (LlmBus  *bus,
                 gpointer object)
{
  const LlmModelInfo *info = object;

  return g_variant_new_parsed ("{'Id': <%s>, 'Title': <%s>, 'Info': <@a{sv} {"
                               "'architecture': <%s>, 'parameters': <%t>, 'file-bytes': <%t>, "
                               "'context-length': <%u>, 'quantization': <%s>, 'license': <%s>, "
                               "'sub-models': <@as []>}>}",
                               info->id, info->title, info->architecture,
                               (guint64) info->parameters, (guint64) info->file_bytes,
                               (guint32) info->context_length, info->quantization, info->license);
}

const LlmBusInterface llm_bus_model_interface = { LLMSVC_MODEL_INTERFACE, NULL, list_properties };

/* An id may hold any character of a file name, a path letters, digits and '_'. */
char *
llm_bus_models_dup_path (LlmModelInfo *model)
{
  GString *path = g_string_new (LLMSVC_MODELS_PATH "/");

  for (const char *p = model->id; *p != '\0'; p++)
    {
      if (g_ascii_isalnum (*p))
        g_string_append_c (path, *p);
      else
        g_string_append_printf (path, "_%02x", (guint8) *p);
    }

  return g_string_free (path, FALSE);
}

/* --- the models --- */

static void
exported_free (gpointer data)
{
  Exported *exported = data;

  llm_model_info_unref (exported->info);
  g_free (exported);
}

static gboolean
is_same (LlmModelInfo *a,
         LlmModelInfo *b)
{
  return g_str_equal (a->path, b->path) && g_str_equal (a->title, b->title) &&
         a->file_bytes == b->file_bytes && a->parameters == b->parameters;
}

static GVariant *
get_property (GDBusConnection *connection,
              const char      *sender,
              const char      *path,
              const char      *interface,
              const char      *name,
              GError         **error,
              gpointer         data)
{
  return llm_bus_interface_get_property (&llm_bus_model_interface, NULL, data, name, error);
}

static void
export_model (LlmBusModels *self,
              const char   *path,
              LlmModelInfo *info)
{
  static const GDBusInterfaceVTable vtable = { NULL, get_property, NULL, { NULL } };
  GDBusConnection *connection = self->bus->connection;
  Exported *exported = g_new0 (Exported, 1);

  exported->info = llm_model_info_ref (info);
  exported->registration = g_dbus_connection_register_object (
    connection, path, llm_bus_interface_lookup_info (LLMSVC_MODEL_INTERFACE), &vtable,
    llm_model_info_ref (info), (GDestroyNotify) llm_model_info_unref, NULL);
  g_hash_table_insert (self->exported, g_strdup (path), exported);
  g_dbus_connection_emit_signal (
    connection, NULL, LLMSVC_MODELS_PATH, OBJECT_MANAGER, "InterfacesAdded",
    g_variant_new_parsed ("(%o, {%s: %@a{sv}})", path, LLMSVC_MODEL_INTERFACE,
                          list_properties (NULL, info)),
    NULL);
}

static void
unexport_model (LlmBusModels *self,
                const char   *path,
                Exported     *exported)
{
  g_dbus_connection_unregister_object (self->bus->connection, exported->registration);
  g_dbus_connection_emit_signal (
    self->bus->connection, NULL, LLMSVC_MODELS_PATH, OBJECT_MANAGER, "InterfacesRemoved",
    g_variant_new_parsed ("(%o, [%s])", path, LLMSVC_MODEL_INTERFACE), NULL);
}

static void
follow_list (LlmBusModels *self)
{
  g_autoptr(GHashTable) wanted = NULL;
  GPtrArray *models = llm_engine_get_models (self->bus->engine);
  GHashTableIter iter;
  gpointer key, value;

  wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; models != NULL && i < models->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (models, i);

      g_hash_table_insert (wanted, llm_bus_models_dup_path (info), info);
    }

  g_hash_table_iter_init (&iter, self->exported);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      LlmModelInfo *now = g_hash_table_lookup (wanted, key);

      if (now != NULL && is_same (now, ((Exported *) value)->info))
        continue;
      unexport_model (self, key, value);
      g_hash_table_iter_remove (&iter);
    }

  g_hash_table_iter_init (&iter, wanted);
  while (g_hash_table_iter_next (&iter, &key, &value))
    if (!g_hash_table_contains (self->exported, key))
      export_model (self, key, value);
}

/* --- the list, once it is known --- */

static void
clear_models (gpointer data)
{
  LlmBusModels *self = data;

  g_hash_table_unref (self->exported);
  g_dbus_node_info_unref (self->manager_info);
  llm_bus_unref (self->bus);
}

static void
models_unref (gpointer data)
{
  g_rc_box_release_full (data, clear_models);
}

static void
on_started (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  GDBusMethodInvocation *invocation = data;
  LlmBusModels *self = g_dbus_method_invocation_get_user_data (invocation);
  g_autoptr(GError) error = NULL;
  GVariantBuilder list;
  GHashTableIter iter;
  const char *path;
  Exported *exported;

  /* what is stored may not be readable while the models are known */
  if (!g_task_propagate_boolean (G_TASK (result), &error)
      && g_hash_table_size (self->exported) == 0)
    {
      g_dbus_method_invocation_return_gerror (invocation, error);
      models_unref (self);
      return;
    }

  g_variant_builder_init (&list, G_VARIANT_TYPE ("a{oa{sa{sv}}}"));
  g_hash_table_iter_init (&iter, self->exported);
  while (g_hash_table_iter_next (&iter, (gpointer *) &path, (gpointer *) &exported))
    g_variant_builder_add_parsed (&list, "{%o, {%s: %@a{sv}}}", path, LLMSVC_MODEL_INTERFACE,
                                  list_properties (NULL, exported->info));
  g_dbus_method_invocation_return_value (invocation, g_variant_new ("(a{oa{sa{sv}}})", &list));
  models_unref (self);
}

static void
on_method_call (GDBusConnection       *connection,
                const char            *sender,
                const char            *path,
                const char            *interface,
                const char            *method,
                GVariant              *arguments,
                GDBusMethodInvocation *invocation,
                gpointer               data)
{
  LlmBusModels *self = g_rc_box_acquire (data);

  llm_engine_await_start (self->bus->engine, on_started, invocation);
}

LlmBusModels *
llm_bus_models_export (LlmBus  *bus,
                       GError **error)
{
  static const GDBusInterfaceVTable vtable = { on_method_call, NULL, NULL, { NULL } };
  LlmBusModels *self = g_rc_box_new0 (LlmBusModels);

  self->bus = llm_bus_ref (bus);
  self->exported = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, exported_free);
  self->manager_info = g_dbus_node_info_new_for_xml (manager_xml, NULL);
  self->manager = g_dbus_connection_register_object (
    bus->connection, LLMSVC_MODELS_PATH, self->manager_info->interfaces[0], &vtable,
    g_rc_box_acquire (self), models_unref, error);
  if (self->manager == 0)
    {
      /* GDBus does not call the notify when it fails */
      models_unref (self);
      models_unref (self);
      return NULL;
    }

  follow_list (self);
  self->handler =
    g_signal_connect_swapped (bus->engine, "models-changed", G_CALLBACK (follow_list), self);
  return self;
}

void
llm_bus_models_unexport (LlmBusModels *self)
{
  GHashTableIter iter;
  Exported *exported;

  g_clear_signal_handler (&self->handler, self->bus->engine);
  g_hash_table_iter_init (&iter, self->exported);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &exported))
    g_dbus_connection_unregister_object (self->bus->connection, exported->registration);
  g_dbus_connection_unregister_object (self->bus->connection, self->manager);
  models_unref (self);
}
