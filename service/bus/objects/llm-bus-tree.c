/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-tree.h"

#include <string.h>

#include "bus/identity/llm-bus-bouncer.h"
#include "bus/identity/llm-bus-caller.h"

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
  LlmBusTree *tree;                   /* (owned) */
  GDBusMethodInvocation *invocation;  /* (owned) (nullable): of Properties */
  GDBusMessage *message;              /* (owned) (nullable): of Introspect */
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
  g_clear_object (&question->message);
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

static void
on_property_caller (LlmCaller    *caller,
                    const GError *error,
                    gpointer      data)
{
  g_autoptr(Question) question = data;
  g_autoptr(GObject) object = NULL;
  g_autoptr(GError) unknown = NULL;
  g_autoptr(GError) translated = NULL;
  LlmBusTree *self = question->tree;
  GDBusMethodInvocation *invocation = g_steal_pointer (&question->invocation);
  const char *path = g_dbus_method_invocation_get_object_path (invocation);
  const LlmBusProperty *property;
  const char *name;

  if (caller == NULL)
    {
      translated = llm_bus_translator_translate_error (self->bus->translator, NULL, error);
      g_dbus_method_invocation_return_gerror (invocation, translated);
      return;
    }

  object = self->kind->lookup (self->bus, caller, get_id (self, path));
  if (object == NULL)
    {
      unknown = llm_bus_unknown_object (path);
      translated = llm_bus_translator_translate_error (
        self->bus->translator, llm_bus_callers_get_locale (self->bus->callers, caller->connection),
        unknown);
      g_dbus_method_invocation_return_gerror (invocation, translated);
      return;
    }

  if (g_str_equal (g_dbus_method_invocation_get_method_name (invocation), "GetAll"))
    {
      g_dbus_method_invocation_return_value (
        invocation, g_variant_new ("(@a{sv})", llm_bus_interface_list_properties (
                                                 self->kind->interface, self->bus, object)));
      return;
    }

  /* GDBus has checked that the XML has it, for reading */
  g_variant_get_child (g_dbus_method_invocation_get_parameters (invocation), 1, "&s", &name);
  property = llm_bus_interface_find_property (self->kind->interface, name);
  g_assert (property != NULL);
  if (!llm_bus_bouncer_check_property (self->kind->interface->name, name, &unknown))
    {
      g_dbus_method_invocation_return_gerror (invocation, unknown);
      return;
    }
  g_dbus_method_invocation_return_value (
    invocation, g_variant_new ("(v)", property->get (self->bus, object)));
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
  Question *question;

  if (!g_str_equal (interface, PROPERTIES_INTERFACE))
    {
      llm_bus_call_begin (self->bus, invocation, self->kind->interface, self->kind->lookup,
                          get_id (self, path));
      return;
    }

  question = g_new0 (Question, 1);
  question->tree = g_atomic_rc_box_acquire (self);
  question->invocation = invocation;
  llm_bus_identify (self->bus, sender, self->kind->with_contexts, on_property_caller, question);
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

static void
on_introspect_caller (LlmCaller    *caller,
                      const GError *failure,
                      gpointer      data)
{
  g_autoptr(Question) question = data;
  LlmBusTree *self = question->tree;
  g_autoptr(GDBusMessage) reply = NULL;
  g_autoptr(GError) error = failure != NULL ? g_error_copy (failure) : NULL;
  g_autofree char *xml = NULL;
  const char *path = g_dbus_message_get_path (question->message);

  if (caller != NULL && g_str_equal (path, self->kind->path))
    {
      xml = make_root_xml (self, caller);
    }
  else if (caller != NULL)
    {
      const char *id = get_id (self, path);
      g_autoptr(GObject) object =
        id != NULL ? self->kind->lookup (self->bus, caller, id) : NULL;

      if (object != NULL)
        xml = make_object_xml (self);
      else
        error = llm_bus_unknown_object (path);
    }

  if (xml != NULL)
    {
      reply = g_dbus_message_new_method_reply (question->message);
      g_dbus_message_set_body (reply, g_variant_new ("(s)", xml));
    }
  else
    {
      const char *sender = g_dbus_message_get_sender (question->message);
      g_autofree char *name = g_dbus_error_encode_gerror (error);
      g_autofree char *message = llm_bus_translator_translate (
        self->bus->translator, llm_bus_callers_get_locale (self->bus->callers, sender),
        error->message);

      reply = g_dbus_message_new_method_error_literal (question->message, name, message);
    }

  g_dbus_connection_send_message (self->bus->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE,
                                  NULL, NULL);
}

static gboolean
answer_introspect (gpointer data)
{
  Question *question = data;
  LlmBusTree *self = question->tree;

  llm_bus_identify (self->bus, g_dbus_message_get_sender (question->message),
                    self->kind->with_contexts, on_introspect_caller, question);
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
  Question *question;

  if (!incoming || g_dbus_message_get_message_type (message) != G_DBUS_MESSAGE_TYPE_METHOD_CALL ||
      g_strcmp0 (g_dbus_message_get_member (message), "Introspect") != 0 ||
      g_strcmp0 (g_dbus_message_get_interface (message), INTROSPECTABLE_INTERFACE) != 0 ||
      g_dbus_message_get_signature (message)[0] != '\0' ||
      g_dbus_message_get_sender (message) == NULL || path == NULL ||
      strncmp (path, self->kind->path, length) != 0 ||
      (path[length] != '\0' && path[length] != '/'))
    return message;

  question = g_new0 (Question, 1);
  question->tree = g_atomic_rc_box_acquire (self);
  question->message = message;
  g_main_context_invoke (NULL, answer_introspect, question);
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
