/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-tree.h"

#include <string.h>

#include "bus/identity/llm-bus-caller.h"
#include "bus/llm-bus-translate.h"

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"
#define INTROSPECTABLE_INTERFACE "org.freedesktop.DBus.Introspectable"

/* Reference-counted atomically, because the filter runs in GDBus's thread; all
 * but the count and @kind is of the main thread. */
struct _LlmBusTree
{
  const LlmBusTreeKind *kind;
  LlmBus *bus;       /* (owned) */
  guint subtree;
  guint filter;
};

/* A call of one of the bus's own interfaces. */
typedef struct
{
  LlmBusTree *tree;       /* (owned) */
  GDBusMessage *message;  /* (owned) */
} Question;

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

static void
question_free (Question *question)
{
  g_object_unref (question->message);
  tree_unref (question->tree);
  g_free (question);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Question, question_free)

/* The last part of a path right below the tree's; NULL for any other. */
static const char *
get_id (LlmBusTree *self,
        const char *path)
{
  gsize length = strlen (self->kind->path);

  if (strncmp (path, self->kind->path, length) != 0 || path[length] != '/' ||
      strchr (path + length + 1, '/') != NULL)
    return NULL;

  return path + length + 1;
}

static char *
make_root_xml (LlmBusTree *self,
               LlmCaller  *caller)
{
  g_auto(GStrv) ids = self->kind->list (self->bus, caller);
  GString *xml = g_string_new ("<node>\n");

  for (guint i = 0; ids[i] != NULL; i++)
    g_string_append_printf (xml, "  <node name=\"%s\"/>\n", ids[i]);

  g_string_append (xml, "</node>\n");
  return g_string_free (xml, FALSE);
}

static char *
make_object_xml (LlmBusTree *self)
{
  GString *xml = g_string_new ("<node>\n");

  g_string_append (xml, standard_xml);
  g_dbus_interface_info_generate_xml (llm_bus_interface_lookup_info (self->kind->interface->name),
                                      2, xml);
  g_string_append (xml, "</node>\n");
  return g_string_free (xml, FALSE);
}

/* (transfer floating) (nullable): the body of the reply; GDBus has checked the arguments, and that
 * the XML has the property, for reading. */
static GVariant *
answer (Question  *question,
        LlmCaller *caller,
        GError   **error)
{
  LlmBusTree *self = question->tree;
  const LlmBusInterface *interface = self->kind->interface;
  const char *path = g_dbus_message_get_path (question->message);
  const char *method = g_dbus_message_get_member (question->message);
  const char *id = get_id (self, path);
  g_autoptr(GObject) object = NULL;
  g_autoptr(GVariant) value = NULL;
  const char *name;

  if (g_str_equal (path, self->kind->path))
    return g_variant_new ("(@s)", g_variant_new_take_string (make_root_xml (self, caller)));

  object = id != NULL ? self->kind->lookup (self->bus, caller, id) : NULL;
  if (object == NULL)
    {
      g_propagate_error (error, llm_bus_unknown_object (path));
      return NULL;
    }
  if (g_str_equal (method, "Introspect"))
    return g_variant_new ("(@s)", g_variant_new_take_string (make_object_xml (self)));
  if (g_str_equal (method, "GetAll"))
    return g_variant_new ("(@a{sv})", interface->list_properties (self->bus, object));

  g_variant_get_child (g_dbus_message_get_body (question->message), 1, "&s", &name);
  value = llm_bus_interface_get_property (interface, self->bus, object, name, error);
  return value != NULL ? g_variant_new ("(v)", value) : NULL;
}

static void
on_caller (LlmCaller    *caller,
           const GError *failure,
           gpointer      data)
{
  g_autoptr(Question) question = data;
  LlmBus *bus = question->tree->bus;
  g_autoptr(GError) error = failure != NULL ? g_error_copy (failure) : NULL;
  GVariant *body = caller != NULL ? answer (question, caller, &error) : NULL;
  g_autoptr(GDBusMessage) reply = NULL;

  if (body != NULL)
    {
      reply = g_dbus_message_new_method_reply (question->message);
      g_dbus_message_set_body (reply, body);
    }
  else
    {
      const char *sender = g_dbus_message_get_sender (question->message);
      g_autofree char *name = g_dbus_error_encode_gerror (error);
      g_autofree char *text = llm_bus_translate (
        llm_bus_callers_get_locale (bus->callers, sender), error->message);

      reply = g_dbus_message_new_method_error_literal (question->message, name, text);
    }
  g_dbus_connection_send_message (bus->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  NULL);
}

static gboolean
ask (gpointer data)
{
  Question *question = data;
  LlmBusTree *self = question->tree;

  llm_bus_identify (self->bus, g_dbus_message_get_sender (question->message),
                    self->kind->with_contexts, on_caller, question);
  return G_SOURCE_REMOVE;
}

/* @message: (transfer full) */
static Question *
question_new (LlmBusTree   *self,
              GDBusMessage *message)
{
  Question *question = g_new0 (Question, 1);

  question->tree = g_atomic_rc_box_acquire (self);
  question->message = message;
  return question;
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
  LlmBusTree *self = data;

  if (g_str_equal (interface, PROPERTIES_INTERFACE))
    {
      ask (question_new (self, g_object_ref (g_dbus_method_invocation_get_message (invocation))));
      g_object_unref (invocation);
    }
  else
    {
      llm_bus_call_begin (self->bus, invocation, self->kind->interface, self->kind->lookup,
                          get_id (self, path));
    }
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

  g_main_context_invoke (NULL, ask, question_new (self, message));
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
