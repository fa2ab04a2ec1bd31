/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-call.h"

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>
#include <string.h>

#include "base/llm-fail.h"
#include "bus/identity/llm-bus-bouncer.h"
#include "bus/identity/llm-bus-caller.h"
#include "bus/llm-bus-translate.h"
#include "common/llmsvc-error-private.h"
#include "decoding/llm-buffer-sink.h"
#include "llm-bus-resource.h"

#define XML_PATH "/org/llm/Service/org.llm.Service.xml"

/* --- interfaces --- */

static const char standard_xml[] =
  "<node>"
  "  <interface name='" LLM_BUS_PROPERTIES "'>"
  "    <method name='Get'>"
  "      <arg name='interface_name' type='s' direction='in'/>"
  "      <arg name='property_name' type='s' direction='in'/>"
  "      <arg name='value' type='v' direction='out'/>"
  "    </method>"
  "    <method name='GetAll'>"
  "      <arg name='interface_name' type='s' direction='in'/>"
  "      <arg name='properties' type='a{sv}' direction='out'/>"
  "    </method>"
  "    <method name='Set'>"
  "      <arg name='interface_name' type='s' direction='in'/>"
  "      <arg name='property_name' type='s' direction='in'/>"
  "      <arg name='value' type='v' direction='in'/>"
  "    </method>"
  "  </interface>"
  "  <interface name='" LLM_BUS_INTROSPECTABLE "'>"
  "    <method name='Introspect'>"
  "      <arg name='xml_data' type='s' direction='out'/>"
  "    </method>"
  "  </interface>"
  "  <interface name='" LLM_BUS_OBJECT_MANAGER "'>"
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

/* The XML is compiled in: a parse error is a fault of the build. */
GDBusInterfaceInfo *
llm_bus_interface_lookup_info (const char *name)
{
  static GDBusNodeInfo *own = NULL;
  static GDBusNodeInfo *standard = NULL;
  GDBusInterfaceInfo *info;

  if (own == NULL)
    {
      g_autoptr(GBytes) xml = g_resource_lookup_data (llm_bus_resource_get_resource (), XML_PATH,
                                                      G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);

      own = g_dbus_node_info_new_for_xml (g_bytes_get_data (xml, NULL), NULL);
      standard = g_dbus_node_info_new_for_xml (standard_xml, NULL);
    }
  info = g_dbus_node_info_lookup_interface (own, name);
  if (info == NULL)
    info = g_dbus_node_info_lookup_interface (standard, name);
  if (info == NULL)
    g_error ("The interface description lacks %s", name);
  return info;
}

/* --- calls --- */

LlmBusCall *
llm_bus_call_ref (LlmBusCall *self)
{
  return g_rc_box_acquire (self);
}

static void
clear_call (gpointer data)
{
  LlmBusCall *self = data;

  if (self->message != NULL)
    llm_bus_call_return_error (self, llmsvc_error_new (LLMSVC_ERROR_CANCELLED, NULL,
                                                       "The service is stopping"));
  g_clear_pointer (&self->options, llm_call_options_unref);
  g_clear_pointer (&self->caller, llm_caller_unref);
  g_clear_pointer (&self->messages, g_variant_unref);
  g_clear_pointer (&self->arguments, g_variant_unref);
  g_clear_object (&self->object);
  if (self->fd >= 0)
    g_close (self->fd, NULL);
  g_free (self->locale);
  llm_bus_unref (self->bus);
}

void
llm_bus_call_unref (LlmBusCall *self)
{
  g_rc_box_release_full (self, clear_call);
}

/* @reply: (transfer full) */
static void
send_reply (LlmBusCall   *self,
            GDBusMessage *reply)
{
  g_dbus_connection_send_message (self->bus->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE,
                                  NULL, NULL);
  g_object_unref (reply);
  g_clear_object (&self->message);

  /* Ends what the call has made for a connection that left meanwhile: the engine and the holders of
   * contexts heard of the leaving before they knew of it. */
  if (self->caller != NULL &&
      !llm_bus_callers_is_present (self->bus->callers, self->caller->connection))
    llm_bus_forget (self->bus, self->caller->connection);
}

void
llm_bus_call_return_fds (LlmBusCall  *self,
                         GVariant    *value,
                         GUnixFDList *fd_list)
{
  GDBusMessage *reply;

  g_return_if_fail (self->message != NULL);

  reply = g_dbus_message_new_method_reply (self->message);
  if (value != NULL)
    g_dbus_message_set_body (reply, value);
  g_dbus_message_set_unix_fd_list (reply, fd_list);
  send_reply (self, reply);
}

void
llm_bus_call_return (LlmBusCall *self,
                     GVariant   *value)
{
  llm_bus_call_return_fds (self, value, NULL);
}

const char *
llm_bus_call_get_locale (LlmBusCall *self)
{
  g_return_val_if_fail (self->message != NULL, NULL);

  return self->locale != NULL ? self->locale
                              : llm_bus_callers_get_locale (
                                  self->bus->callers, g_dbus_message_get_sender (self->message));
}

void
llm_bus_call_return_error (LlmBusCall *self,
                           GError     *error)
{
  g_autoptr(GError) owned = error;
  g_autofree char *name = NULL;
  g_autofree char *text = NULL;

  g_return_if_fail (self->message != NULL);
  g_return_if_fail (error != NULL);

  llmsvc_error_convert (&owned);
  /* the bus has a word of its own for this one */
  name = self->has_no_object ? g_strdup ("org.freedesktop.DBus.Error.UnknownObject")
                             : g_dbus_error_encode_gerror (owned);
  text = llm_bus_translate (llm_bus_call_get_locale (self), owned);
  send_reply (self, g_dbus_message_new_method_error_literal (self->message, name, text));
}

void
llm_bus_call_finish (LlmBusCall *self,
                     GVariant   *value,
                     GError     *error)
{
  if (error != NULL)
    llm_bus_call_return_error (self, error);
  else
    llm_bus_call_return (self, value);
  llm_bus_call_unref (self);
}

/* (transfer full) (nullable): the options are the last argument of a method that has some. */
static GVariant *
get_options (LlmBusCall *self)
{
  gsize n_arguments = g_variant_n_children (self->arguments);

  if (self->method->call == 0)
    return NULL;

  g_assert (n_arguments > 0);
  return g_variant_get_child_value (self->arguments, n_arguments - 1);
}

/* Texts of the call, in its arguments and options. */
static gboolean
check_texts (LlmBusCall *self,
             GError    **error)
{
  const gboolean is_prompt =
    (self->method->call & (LLMSVC_CALL_ASK | LLMSVC_CALL_COMPLETE)) != 0;
  LlmAppLimits limits;

  if (self->options == NULL)
    return TRUE;
  llm_engine_get_limits (self->bus->engine, self->caller, &limits);
  return llm_bus_messages_check (self->messages, is_prompt ? self->text : NULL, self->options,
                                 limits.message, error);
}

static void
on_decided (const GError *error,
            gpointer      data)
{
  g_autoptr(LlmBusCall) self = data;
  GError *failure = NULL;

  if (error != NULL)
    llm_bus_call_return_error (self, g_error_copy (error));
  else if (!check_texts (self, &failure) || !self->method->handle (self, &failure))
    llm_bus_call_return_error (self, failure);
}

static gboolean
find_object (LlmBusCall *self,
             GError    **error)
{
  const char *path = g_dbus_message_get_path (self->message);
  const char *id;
  gpointer object;

  if (self->tree == NULL || g_str_equal (path, self->tree->path))
    return TRUE;

  /* deeper paths do not exist */
  id = path + strlen (self->tree->path) + 1;
  object = strchr (id, '/') == NULL
             ? self->tree->lookup (self->bus->engine, self->caller, id)
             : NULL;
  if (object == NULL && self->tree->is_contexts
      && !llm_engine_check_stored (self->bus->engine, error))
    return FALSE;
  self->has_no_object = object == NULL;
  if (object == NULL)
    return llm_fail (error, LLMSVC_ERROR_NOT_FOUND, "This application has no object at “%s”",
                     path);
  self->object = g_object_ref (object);
  if (self->tree->is_contexts)
    llm_bus_hold_context (self->bus, object, self->caller->connection);
  return TRUE;
}

static gboolean
parse_options (LlmBusCall  *self,
               GError     **error)
{
  g_autoptr(GVariant) dict = get_options (self);

  if (dict != NULL)
    self->options = llm_call_options_parse (dict, self->method->call,
                                            llm_engine_get_features (self->bus->engine), error);
  return dict == NULL || self->options != NULL;
}

static void on_caller_found (LlmCaller    *caller,
                             const GError *failure,
                             gpointer      data);

static void
on_index_read (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(LlmBusCall) self = data;
  GError *error = NULL;

  if (!g_task_propagate_boolean (G_TASK (result), &error))
    {
      llm_bus_call_return_error (self, error);
      return;
    }

  self->has_waited = TRUE;
  self->bus->has_index = llm_engine_check_stored (self->bus->engine, NULL);
  /* it may have left meanwhile: nothing may be made or held for it any more */
  llm_bus_callers_resolve (self->bus->callers, g_dbus_message_get_sender (self->message),
                           on_caller_found, llm_bus_call_ref (self));
}

static void
on_caller_found (LlmCaller    *caller,
                 const GError *failure,
                 gpointer      data)
{
  g_autoptr(LlmBusCall) self = data;
  GError *error = NULL;

  if (caller == NULL)
    {
      llm_bus_call_return_error (self, g_error_copy (failure));
      return;
    }

  g_clear_pointer (&self->caller, llm_caller_unref);
  self->caller = llm_caller_ref (caller);
  /* listing contexts waits for their index; the list itself is not needed here */
  if (self->tree != NULL && self->tree->is_contexts && !self->bus->has_index && !self->has_waited)
    {
      gboolean is_one = !g_str_equal (g_dbus_message_get_path (self->message), self->tree->path);

      /* an unnamed context is not in the index */
      (is_one ? llm_engine_await_start : llm_engine_await_stored) (
        self->bus->engine, on_index_read, llm_bus_call_ref (self));
      return;
    }

  /* the bus's own methods have no options, and do not depend on the caller */
  if (self->method->call != 0 && self->method->call != LLMSVC_CALL_REGISTER)
    llm_bus_callers_settle (self->bus->callers, caller->connection);
  if (!find_object (self, &error) || !parse_options (self, &error))
    {
      llm_bus_call_return_error (self, error);
      return;
    }

  llm_bus_bouncer_check (self->bus, caller, self->interface, self->method,
                         (g_dbus_message_get_flags (self->message) &
                          G_DBUS_MESSAGE_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION) != 0,
                         on_decided, llm_bus_call_ref (self));
}

void
llm_bus_call_begin (LlmBus                *bus,
                    GDBusMessage          *message,
                    const LlmBusInterface *interface,
                    const LlmBusTreeKind  *tree)
{
  LlmBusCall *self = g_rc_box_new0 (LlmBusCall);
  GVariant *body = g_dbus_message_get_body (message);
  const LlmBusMethod *method = interface->methods;
  g_autoptr(GVariant) options = NULL;

  /* a test checks that all methods of the XML have an entry */
  while (!g_str_equal (method->name, g_dbus_message_get_member (message)))
    method++;
  self->bus = llm_bus_ref (bus);
  self->message = g_object_ref (message);
  self->interface = interface;
  self->method = method;
  self->tree = tree;
  self->fd = -1;
  self->arguments = g_variant_ref_sink (body != NULL ? body : g_variant_new ("()"));
  if (g_str_has_prefix (g_variant_get_type_string (self->arguments), "(s"))
    g_variant_get_child (self->arguments, 0, "&s", &self->text);
  else if (g_str_has_prefix (g_variant_get_type_string (self->arguments), "(a(ssa{sv})"))
    self->messages = g_variant_get_child_value (self->arguments, 0);
  options = get_options (self);
  self->locale = llm_call_options_peek_locale (options);

  /* outside of trees, the bus's own methods answer all callers alike: the caller need not be
   * known */
  if (tree == NULL && method->call == 0)
    on_decided (NULL, self);
  else
    llm_bus_callers_resolve (bus->callers, g_dbus_message_get_sender (message), on_caller_found,
                             self);
}

static void
on_answered (const char   *text,
             GVariant     *results,
             const GError *error,
             gpointer      data)
{
  llm_bus_call_finish (llm_bus_call_ref (data),
                       error == NULL ? g_variant_new ("(s@a{sv})", text, results) : NULL,
                       error != NULL ? g_error_copy (error) : NULL);
}

LlmSink *
llm_bus_call_new_sink (LlmBusCall *self)
{
  return llm_buffer_sink_new (NULL, on_answered, llm_bus_call_ref (self),
                              (GDestroyNotify) llm_bus_call_unref);
}

void
llm_bus_call_on_done (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  GError *error = NULL;

  g_task_propagate_boolean (G_TASK (result), &error);
  llm_bus_call_finish (data, NULL, error);
}

void
llm_bus_call_on_count (GObject      *source,
                       GAsyncResult *result,
                       gpointer      data)
{
  GError *error = NULL;
  gssize n = g_task_propagate_int (G_TASK (result), &error);

  llm_bus_call_finish (data, error == NULL ? g_variant_new ("(u)", (guint32) n) : NULL, error);
}

void
llm_bus_call_on_variant (GObject      *source,
                         GAsyncResult *result,
                         gpointer      data)
{
  GError *error = NULL;
  g_autoptr(GVariant) value = g_task_propagate_pointer (G_TASK (result), &error);

  llm_bus_call_finish (data, value != NULL ? g_variant_new_tuple (&value, 1) : NULL, error);
}

void
llm_bus_call_on_context (GObject      *source,
                         GAsyncResult *result,
                         gpointer      data)
{
  LlmBusCall *self = data;
  GError *error = NULL;
  g_autoptr(LlmContext) context = g_task_propagate_pointer (G_TASK (result), &error);
  g_autofree char *path = context != NULL ? llm_bus_dup_context_path (context) : NULL;

  if (context != NULL)
    llm_bus_hold_context (self->bus, context, self->caller->connection);
  llm_bus_call_finish (self, path != NULL ? g_variant_new ("(o)", path) : NULL, error);
}

void
llm_bus_call_on_admitted (GObject      *source,
                          GAsyncResult *result,
                          gpointer      data)
{
  g_autoptr(LlmBusCall) self = data;
  GError *error = NULL;
  g_autoptr(GObject) generation = g_task_propagate_pointer (G_TASK (result), &error);

  if (generation == NULL)
    llm_bus_call_return_error (self, error);
}
