/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-objects.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-names.h"

#define BUS_KEY "llm-bus"

static const struct
{
  const char *path;
  const LlmBusInterface *interface;
} own_objects[] = {
  { LLMSVC_PATH, &llm_bus_manager_interface },
  { LLMSVC_PATH, &llm_bus_memory_interface },
  { LLMSVC_PATH, &llm_bus_admin_interface },
  { LLMSVC_MODELS_PATH, &llm_bus_model_manager_interface },
};

static const LlmBusTreeKind *const trees[] = { &llm_bus_contexts_tree, &llm_bus_generations_tree };

struct _LlmBusObjects
{
  LlmBus *bus;                               /* (owned) */
  guint objects[G_N_ELEMENTS (own_objects)]; /* registrations; 0 for none */
  guint subtrees[G_N_ELEMENTS (trees)];
  guint filter;
  LlmBusModels *models;                      /* (owned) */
  LlmBusMemory *memory;                      /* (owned) */
  gulong availability_handler;
  gulong load_handler;
};

/* (nullable) */
static const LlmBusTreeKind *
find_tree (const char *path)
{
  for (guint i = 0; i < G_N_ELEMENTS (trees); i++)
    {
      gsize length = strlen (trees[i]->path);

      if (strncmp (path, trees[i]->path, length) == 0 &&
          (path[length] == '\0' || path[length] == '/'))
        return trees[i];
    }
  return NULL;
}

/* GDBus has checked that there is such an interface where a call goes. */
static const LlmBusInterface *
find_interface (const LlmBusTreeKind *tree,
                const char           *name)
{
  if (tree != NULL)
    return tree->interface;
  for (guint i = 0; i < G_N_ELEMENTS (own_objects); i++)
    if (g_str_equal (own_objects[i].interface->name, name))
      return own_objects[i].interface;

  g_assert_not_reached ();
}

/* --- the bus's own interfaces --- */

/* (transfer floating): a property that the interface does not list can't be read. */
static GVariant *
list_properties (LlmBusCall *call)
{
  const LlmBusInterface *interface = find_interface (call->tree, call->text);

  return interface->list_properties != NULL
           ? interface->list_properties (call->bus, call->object)
           : g_variant_new_array (G_VARIANT_TYPE ("{sv}"), NULL, 0);
}

/* GDBus has checked that the XML has the property, for reading. */
static gboolean
handle_get (LlmBusCall *call,
            GError    **error)
{
  g_autoptr(GVariant) all = g_variant_ref_sink (list_properties (call));
  g_autoptr(GVariant) value = NULL;
  const char *name;

  g_variant_get_child (call->arguments, 1, "&s", &name);
  value = g_variant_lookup_value (all, name, NULL);
  if (value == NULL)
    return llm_fail (error, LLMSVC_ERROR_NOT_AUTHORIZED, "Nobody may read %s.%s", call->text, name);
  llm_bus_call_return (call, g_variant_new ("(v)", value));
  return TRUE;
}

static gboolean
handle_get_all (LlmBusCall *call,
                GError    **error)
{
  llm_bus_call_return (call, g_variant_new ("(@a{sv})", list_properties (call)));
  return TRUE;
}

/* Only in a tree. */
static gboolean
handle_introspect (LlmBusCall *call,
                   GError    **error)
{
  const char *const interfaces[] = { LLM_BUS_PROPERTIES, LLM_BUS_INTROSPECTABLE,
                                     call->tree->interface->name };
  g_autoptr(GString) xml = g_string_new ("<node>\n");
  g_autoptr(GPtrArray) objects =
    call->object == NULL ? call->tree->list (call->bus->engine, call->caller) : NULL;

  for (guint i = 0; objects != NULL && i < objects->len; i++)
    g_string_append_printf (xml, "  <node name=\"%s\"/>\n",
                            call->tree->get_id (g_ptr_array_index (objects, i)));
  for (guint i = 0; objects == NULL && i < G_N_ELEMENTS (interfaces); i++)
    g_dbus_interface_info_generate_xml (llm_bus_interface_lookup_info (interfaces[i]), 2, xml);
  g_string_append (xml, "</node>\n");
  llm_bus_call_return (call, g_variant_new ("(s)", xml->str));
  return TRUE;
}

static const LlmBusMethod property_methods[] = {
  { "Get", 0, handle_get, LLM_BUS_EVERYONE },
  { "GetAll", 0, handle_get_all, LLM_BUS_EVERYONE },
  { NULL },
};

static const LlmBusMethod introspect_methods[] = {
  { "Introspect", 0, handle_introspect, LLM_BUS_EVERYONE },
  { NULL },
};

static const LlmBusInterface properties = { LLM_BUS_PROPERTIES, property_methods, NULL };
static const LlmBusInterface introspectable = { LLM_BUS_INTROSPECTABLE, introspect_methods,
                                                NULL };

/* --- calls --- */

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
  const LlmBusTreeKind *tree = find_tree (path);

  llm_bus_call_begin (data, g_dbus_method_invocation_get_message (invocation),
                      g_str_equal (interface, LLM_BUS_PROPERTIES)
                        ? &properties
                        : find_interface (tree, interface),
                      tree);
  g_object_unref (invocation);
}

/* Properties come to on_method_call(), because get_property is not set. */
static const GDBusInterfaceVTable vtable = { on_method_call, NULL, NULL, { NULL } };

static char **
enumerate_nothing (GDBusConnection *connection,
                   const char      *sender,
                   const char      *path,
                   gpointer         data)
{
  return g_new0 (char *, 1);
}

static GDBusInterfaceInfo **
list_interfaces (GDBusConnection *connection,
                 const char      *sender,
                 const char      *path,
                 const char      *node,
                 gpointer         data)
{
  GDBusInterfaceInfo **infos = g_new0 (GDBusInterfaceInfo *, 2);

  if (node != NULL)
    infos[0] = g_dbus_interface_info_ref (
      llm_bus_interface_lookup_info (find_tree (path)->interface->name));

  return infos;
}

static const GDBusInterfaceVTable *
dispatch (GDBusConnection *connection,
          const char      *sender,
          const char      *path,
          const char      *interface,
          const char      *node,
          gpointer        *vtable_data,
          gpointer         data)
{
  *vtable_data = data;
  return node != NULL ? &vtable : NULL;
}

static const GDBusSubtreeVTable subtree_vtable = { enumerate_nothing, list_interfaces, dispatch,
                                                   { NULL } };

static gboolean
begin_introspect (gpointer data)
{
  llm_bus_call_begin (g_object_get_data (data, BUS_KEY), data, &introspectable,
                      find_tree (g_dbus_message_get_path (data)));
  return G_SOURCE_REMOVE;
}

/* In GDBus's thread: hands Introspect of a tree to the main thread. */
static GDBusMessage *
filter_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  if (!incoming || g_dbus_message_get_message_type (message) != G_DBUS_MESSAGE_TYPE_METHOD_CALL ||
      g_strcmp0 (g_dbus_message_get_member (message), "Introspect") != 0 ||
      g_strcmp0 (g_dbus_message_get_interface (message), LLM_BUS_INTROSPECTABLE) != 0 ||
      g_dbus_message_get_signature (message)[0] != '\0' ||
      g_dbus_message_get_sender (message) == NULL || g_dbus_message_get_path (message) == NULL ||
      find_tree (g_dbus_message_get_path (message)) == NULL)
    return message;

  g_object_set_data_full (G_OBJECT (message), BUS_KEY, llm_bus_ref (data),
                          (GDestroyNotify) llm_bus_unref);
  g_main_context_invoke_full (NULL, G_PRIORITY_DEFAULT, begin_introspect, message, g_object_unref);
  return NULL;
}

/* --- export --- */

LlmBusObjects *
llm_bus_objects_export (LlmBus  *bus,
                        GError **error)
{
  LlmBusObjects *self = g_new0 (LlmBusObjects, 1);
  GDBusConnection *connection = bus->connection;
  gboolean is_exported = TRUE;

  self->bus = llm_bus_ref (bus);
  self->filter = g_dbus_connection_add_filter (connection, filter_message, llm_bus_ref (bus),
                                               (GDestroyNotify) llm_bus_unref);
  self->memory = llm_bus_memory_watch (bus);
  self->availability_handler = g_signal_connect_swapped (
    bus->engine, "availability-changed", G_CALLBACK (llm_bus_manager_announce), bus);
  self->load_handler = g_signal_connect_swapped (
    bus->engine, "load-progress", G_CALLBACK (llm_bus_manager_announce_load), bus);

  for (guint i = 0; is_exported && i < G_N_ELEMENTS (own_objects); i++)
    {
      self->objects[i] = g_dbus_connection_register_object (
        connection, own_objects[i].path,
        llm_bus_interface_lookup_info (own_objects[i].interface->name), &vtable, bus, NULL, error);
      is_exported = self->objects[i] != 0;
    }
  for (guint i = 0; is_exported && i < G_N_ELEMENTS (trees); i++)
    {
      self->subtrees[i] = g_dbus_connection_register_subtree (
        connection, trees[i]->path, &subtree_vtable,
        G_DBUS_SUBTREE_FLAGS_DISPATCH_TO_UNENUMERATED_NODES, llm_bus_ref (bus),
        (GDestroyNotify) llm_bus_unref, error);
      is_exported = self->subtrees[i] != 0;
      /* GDBus does not call the notify when it fails */
      if (!is_exported)
        llm_bus_unref (bus);
    }
  self->models = llm_bus_models_export (bus);
  if (!is_exported)
    g_clear_pointer (&self, llm_bus_objects_unexport);
  return self;
}

void
llm_bus_objects_unexport (LlmBusObjects *self)
{
  GDBusConnection *connection = self->bus->connection;

  for (guint i = 0; i < G_N_ELEMENTS (own_objects); i++)
    g_dbus_connection_unregister_object (connection, self->objects[i]);
  for (guint i = 0; i < G_N_ELEMENTS (trees); i++)
    g_dbus_connection_unregister_subtree (connection, self->subtrees[i]);
  g_dbus_connection_remove_filter (connection, self->filter);
  llm_bus_models_unexport (self->models);
  llm_bus_memory_unwatch (self->memory);
  g_signal_handler_disconnect (self->bus->engine, self->availability_handler);
  g_signal_handler_disconnect (self->bus->engine, self->load_handler);
  llm_bus_unref (self->bus);
  g_free (self);
}
