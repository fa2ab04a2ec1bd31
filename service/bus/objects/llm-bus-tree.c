/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-objects.h"

#include <string.h>

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"
#define INTROSPECTABLE_INTERFACE "org.freedesktop.DBus.Introspectable"
#define TREE_KEY "llm-bus-tree"

/* Reference-counted atomically, because the filter runs in GDBus's thread; all
 * but the count and @kind is of the main thread. */
struct _LlmBusTree
{
  const LlmBusTreeKind *kind;
  LlmBus *bus;       /* (owned) */
  guint subtree;
  guint filter;
};

static const char standard_xml[] =
  "  <interface name=\"" PROPERTIES_INTERFACE "\">\n"
  "    <method name=\"Get\">\n"
  "      <arg name=\"interface_name\" type=\"s\" direction=\"in\"/>\n"
  "      <arg name=\"property_name\" type=\"s\" direction=\"in\"/>\n"
  "      <arg name=\"value\" type=\"v\" direction=\"out\"/>\n"
  "    </method>\n"
  "    <method name=\"GetAll\">\n"
  "      <arg name=\"interface_name\" type=\"s\" direction=\"in\"/>\n"
  "      <arg name=\"properties\" type=\"a{sv}\" direction=\"out\"/>\n"
  "    </method>\n"
  "    <method name=\"Set\">\n"
  "      <arg name=\"interface_name\" type=\"s\" direction=\"in\"/>\n"
  "      <arg name=\"property_name\" type=\"s\" direction=\"in\"/>\n"
  "      <arg name=\"value\" type=\"v\" direction=\"in\"/>\n"
  "    </method>\n"
  "  </interface>\n"
  "  <interface name=\"" INTROSPECTABLE_INTERFACE "\">\n"
  "    <method name=\"Introspect\">\n"
  "      <arg name=\"xml_data\" type=\"s\" direction=\"out\"/>\n"
  "    </method>\n"
  "  </interface>\n";

static void
clear_tree (gpointer data)
{
  LlmBusTree *self = data;

  llm_bus_unref (self->bus);
}

static void
tree_unref (gpointer data)
{
  g_atomic_rc_box_release_full (data, clear_tree);
}

/* --- the bus's own interfaces --- */

/* GDBus has checked that the XML has the property, for reading. */
static gboolean
handle_get (LlmBusCall *call,
            GError    **error)
{
  g_autoptr(GVariant) value = NULL;
  const char *name;

  g_variant_get_child (call->arguments, 1, "&s", &name);
  value = llm_bus_interface_get_property (call->tree->interface, call->bus, call->object, name,
                                          error);
  if (value != NULL)
    llm_bus_call_return (call, g_variant_new ("(v)", value));
  return value != NULL;
}

static gboolean
handle_get_all (LlmBusCall *call,
                GError    **error)
{
  llm_bus_call_return (call, g_variant_new ("(@a{sv})", call->tree->interface->list_properties (
                                                          call->bus, call->object)));
  return TRUE;
}

static gboolean
handle_introspect (LlmBusCall *call,
                   GError    **error)
{
  g_autoptr(GString) xml = g_string_new ("<node>\n");

  if (call->object == NULL)
    {
      g_auto(GStrv) ids = call->tree->list (call->bus, call->caller);

      for (guint i = 0; ids[i] != NULL; i++)
        g_string_append_printf (xml, "  <node name=\"%s\"/>\n", ids[i]);
    }
  else
    {
      g_string_append (xml, standard_xml);
      g_dbus_interface_info_generate_xml (
        llm_bus_interface_lookup_info (call->tree->interface->name), 2, xml);
    }
  g_string_append (xml, "</node>\n");
  llm_bus_call_return (call, g_variant_new ("(s)", xml->str));
  return TRUE;
}

static const LlmBusMethod property_methods[] = {
  { "Get", 0, handle_get },
  { "GetAll", 0, handle_get_all },
  { NULL },
};

static const LlmBusMethod introspect_methods[] = {
  { "Introspect", 0, handle_introspect },
  { NULL },
};

static const LlmBusInterface properties = { PROPERTIES_INTERFACE, property_methods, NULL };
static const LlmBusInterface introspectable = { INTROSPECTABLE_INTERFACE, introspect_methods,
                                                NULL };

/* --- the subtree --- */

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
  LlmBusTree *self = data;

  llm_bus_call_begin (self->bus, g_dbus_method_invocation_get_message (invocation),
                      g_str_equal (interface, PROPERTIES_INTERFACE) ? &properties
                                                                    : self->kind->interface,
                      self->kind);
  g_object_unref (invocation);
}

/* Properties come to on_method_call(), because there is no get_property here. */
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
  LlmBusTree *self = data;
  GDBusInterfaceInfo **infos = g_new0 (GDBusInterfaceInfo *, 2);

  if (node != NULL)
    infos[0] = g_dbus_interface_info_ref (
      llm_bus_interface_lookup_info (self->kind->interface->name));

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
  LlmBusTree *self = g_object_get_data (data, TREE_KEY);

  llm_bus_call_begin (self->bus, data, &introspectable, self->kind);
  return G_SOURCE_REMOVE;
}

/* In GDBus's thread: hands Introspect of this tree to the main thread. */
static GDBusMessage *
filter_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  LlmBusTree *self = data;
  gsize length = strlen (self->kind->path);
  const char *path = g_dbus_message_get_path (message);

  if (!incoming || g_dbus_message_get_message_type (message) != G_DBUS_MESSAGE_TYPE_METHOD_CALL ||
      g_strcmp0 (g_dbus_message_get_member (message), "Introspect") != 0 ||
      g_strcmp0 (g_dbus_message_get_interface (message), INTROSPECTABLE_INTERFACE) != 0 ||
      g_dbus_message_get_signature (message)[0] != '\0' ||
      g_dbus_message_get_sender (message) == NULL || path == NULL ||
      strncmp (path, self->kind->path, length) != 0 ||
      (path[length] != '\0' && path[length] != '/'))
    return message;

  g_object_set_data_full (G_OBJECT (message), TREE_KEY, g_atomic_rc_box_acquire (self), tree_unref);
  g_main_context_invoke_full (NULL, G_PRIORITY_DEFAULT, begin_introspect, message, g_object_unref);
  return NULL;
}

LlmBusTree *
llm_bus_tree_export (LlmBus                *bus,
                     const LlmBusTreeKind  *kind,
                     GError               **error)
{
  LlmBusTree *self = g_atomic_rc_box_new0 (LlmBusTree);

  self->kind = kind;
  self->bus = llm_bus_ref (bus);
  self->subtree = g_dbus_connection_register_subtree (
    bus->connection, kind->path, &subtree_vtable,
    G_DBUS_SUBTREE_FLAGS_DISPATCH_TO_UNENUMERATED_NODES, g_atomic_rc_box_acquire (self),
    tree_unref, error);
  if (self->subtree == 0)
    {
      /* GDBus does not call the notify when it fails */
      tree_unref (self);
      tree_unref (self);
      return NULL;
    }

  self->filter = g_dbus_connection_add_filter (bus->connection, filter_message,
                                               g_atomic_rc_box_acquire (self), tree_unref);
  return self;
}

void
llm_bus_tree_unexport (LlmBusTree *self)
{
  GDBusConnection *connection = self->bus->connection;

  g_dbus_connection_remove_filter (connection, self->filter);
  g_dbus_connection_unregister_subtree (connection, self->subtree);
  tree_unref (self);
}
