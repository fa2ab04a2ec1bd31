/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gate-rig.h"

#include <gio/gunixfdlist.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/limits/llm-bus-relay.h"

#define MAX_MESSAGE 1000

static const char xml[] =
  "<node><interface name='org.example.Test'><method name='Do'><arg type='s' direction='in'/>"
  "</method></interface></node>";

static void
on_call (GDBusConnection       *connection,
         const char            *sender,
         const char            *path,
         const char            *interface,
         const char            *method,
         GVariant              *arguments,
         GDBusMethodInvocation *invocation,
         gpointer               data)
{
  GateRig *rig = data;

  rig->n_reached++;
  if (rig->answers)
    g_dbus_method_invocation_return_value (invocation, NULL);
  else
    g_queue_push_tail (&rig->calls, invocation);
}

static const GDBusInterfaceVTable vtable = { on_call, NULL, NULL, { NULL } };

static void
answer_for_bus (GateRig      *rig,
                GDBusMessage *message)
{
  g_autoptr(GDBusMessage) reply = g_dbus_message_new_method_reply (message);
  const char *method = g_dbus_message_get_member (message);
  GVariantBuilder builder;

  if (g_str_equal (method, "Hello"))
    {
      g_dbus_message_set_body (reply, g_variant_new ("(s)", ":1.0"));
    }
  else if (g_str_equal (method, "GetConnectionUnixProcessID"))
    {
      rig->n_asked++;
      g_dbus_message_set_body (reply, g_variant_new ("(u)", (guint32) getpid ()));
    }
  else if (g_str_equal (method, "GetConnectionCredentials"))
    {
      const char *sender;
      gboolean is_other;

      g_variant_get (g_dbus_message_get_body (message), "(&s)", &sender);
      is_other = g_str_has_prefix (sender, GATE_RIG_OTHER_USER);
      g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&builder, "{sv}", "UnixUserID",
                             g_variant_new_uint32 (getuid () + is_other));
      g_variant_builder_add (&builder, "{sv}", "ProcessID",
                             g_variant_new_uint32 (is_other ? 1 : (guint32) getpid ()));
      if (rig->pidfd >= 0)
        {
          g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();

          g_unix_fd_list_append (fds, rig->pidfd, NULL);
          g_dbus_message_set_unix_fd_list (reply, fds);
          g_variant_builder_add (&builder, "{sv}", "ProcessFD", g_variant_new_handle (0));
        }
      g_dbus_message_set_body (reply, g_variant_new ("(a{sv})", &builder));
    }
  g_dbus_connection_send_message (rig->bus, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, NULL);
}

/* In the thread of the bus's connection. */
static GDBusMessage *
on_bus_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  GateRig *rig = data;
  GDBusMessageType type = g_dbus_message_get_message_type (message);

  if (!incoming)
    return message;
  if (type == G_DBUS_MESSAGE_TYPE_METHOD_CALL &&
      g_strcmp0 (g_dbus_message_get_interface (message), "org.freedesktop.DBus") == 0)
    {
      answer_for_bus (rig, message);
      g_object_unref (message);
      return NULL;
    }
  if (type == G_DBUS_MESSAGE_TYPE_METHOD_RETURN || type == G_DBUS_MESSAGE_TYPE_ERROR)
    {
      g_mutex_lock (&rig->mutex);
      g_ptr_array_add (rig->replies, g_object_ref (message));
      g_mutex_unlock (&rig->mutex);
      g_main_context_wakeup (NULL);
    }
  return message;
}

typedef struct
{
  GDBusConnection *connection;
} Made;

static void
on_made (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GError) error = NULL;

  ((Made *) data)->connection = g_dbus_connection_new_finish (result, &error);
  g_assert_no_error (error);
}

static void
make_connection (int                  fd,
                 GDBusConnectionFlags flags,
                 const char          *guid,
                 Made                *made)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GSocket) socket = g_socket_new_from_fd (fd, &error);
  g_autoptr(GSocketConnection) stream = NULL;

  g_assert_no_error (error);
  stream = g_socket_connection_factory_create_connection (socket);
  g_dbus_connection_new (G_IO_STREAM (stream), guid, flags, NULL, NULL, on_made, made);
}

/* The service's end of a relay, made in a thread: the greeting takes both sides. */
static gpointer
connect_relay (gpointer data)
{
  g_autoptr(GError) error = NULL;
  GDBusConnection *connection = llm_bus_relay_connect_socket (GPOINTER_TO_INT (data), &error);

  g_assert_no_error (error);
  return connection;
}

void
gate_rig_set_up (GateRig      *rig,
                 gconstpointer data)
{
  g_autoptr(GThread) thread = NULL;
  g_autofree char *guid = g_dbus_generate_guid ();
  Made service = { NULL }, bus = { NULL };
  g_autoptr(GError) error = NULL;
  int fds[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), ==, 0);
  rig->pidfd = -1;
  g_queue_init (&rig->calls);
  g_mutex_init (&rig->mutex);
  rig->replies = g_ptr_array_new_with_free_func (g_object_unref);
  rig->gone = g_string_new (NULL);

  make_connection (fds[0],
                   G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_SERVER |
                     G_DBUS_CONNECTION_FLAGS_DELAY_MESSAGE_PROCESSING,
                   guid, &bus);
  rig->raw = dup (fds[0]);
  if (data != NULL)
    thread = g_thread_new ("connect", connect_relay, GINT_TO_POINTER (fds[1]));
  else
    make_connection (fds[1],
                     G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                       G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                     NULL, &service);
  while (bus.connection == NULL)
    g_main_context_iteration (NULL, TRUE);
  rig->bus = bus.connection;
  g_dbus_connection_add_filter (rig->bus, on_bus_message, rig, NULL);
  g_dbus_connection_start_message_processing (rig->bus);
  if (thread != NULL)
    service.connection = g_thread_join (g_steal_pointer (&thread));
  while (service.connection == NULL)
    g_main_context_iteration (NULL, TRUE);
  rig->service = service.connection;
  rig->gate = llm_bus_gate_new (rig->service, MAX_MESSAGE);
  llm_bus_relay_set_gate (rig->service, rig->gate);

  rig->info = g_dbus_node_info_new_for_xml (xml, &error);
  g_assert_no_error (error);
  g_dbus_connection_register_object (rig->service, "/test", rig->info->interfaces[0], &vtable,
                                     rig, NULL, &error);
  g_assert_no_error (error);
}

void
gate_rig_answer_all (GateRig *rig)
{
  GDBusMethodInvocation *invocation;

  while ((invocation = g_queue_pop_head (&rig->calls)) != NULL)
    g_dbus_method_invocation_return_value (invocation, NULL);
}

void
gate_rig_answer_with (GateRig *rig,
                      gsize    n_bytes)
{
  g_autoptr(GDBusMethodInvocation) invocation = g_queue_pop_head (&rig->calls);
  g_autoptr(GDBusMessage) reply =
    g_dbus_message_new_method_reply (g_dbus_method_invocation_get_message (invocation));
  g_autofree char *text = g_strnfill (n_bytes, 'x');
  g_autoptr(GError) error = NULL;

  g_dbus_message_set_body (reply, g_variant_new ("(s)", text));
  g_dbus_connection_send_message (rig->service, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  &error);
  g_assert_no_error (error);
}

void
gate_rig_tear_down (GateRig      *rig,
                    gconstpointer data)
{
  gate_rig_answer_all (rig);
  llm_bus_relay_set_gate (rig->service, NULL);
  llm_bus_gate_free (rig->gate);
  llm_bus_relay_close (rig->service);
  close (rig->raw);
  g_dbus_connection_close_sync (rig->bus, NULL, NULL);
  g_object_unref (rig->service);
  g_object_unref (rig->bus);
  g_dbus_node_info_unref (rig->info);
  g_ptr_array_unref (rig->replies);
  g_string_free (rig->gone, TRUE);
  g_mutex_clear (&rig->mutex);
}

/* --- the bus --- */

static GDBusMessage *
make_call (const char *sender,
           const char *text)
{
  GDBusMessage *message =
    g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");

  g_dbus_message_set_sender (message, sender);
  g_dbus_message_set_body (message, g_variant_new ("(s)", text));
  return message;
}

guint32
gate_rig_send_call (GateRig    *rig,
                    const char *sender,
                    const char *text,
                    gboolean    is_silent)
{
  g_autoptr(GDBusMessage) message = make_call (sender, text);
  g_autoptr(GError) error = NULL;
  guint32 serial = 0;

  if (is_silent)
    g_dbus_message_set_flags (message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_connection_send_message (rig->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, &serial,
                                  &error);
  g_assert_no_error (error);
  return serial;
}

void
gate_rig_send_again (GateRig    *rig,
                     const char *sender,
                     guint32     serial,
                     const char *text)
{
  g_autoptr(GDBusMessage) message = make_call (sender, text);
  g_autoptr(GError) error = NULL;

  g_dbus_message_set_serial (message, serial);
  g_dbus_connection_send_message (rig->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_PRESERVE_SERIAL,
                                  NULL, &error);
  g_assert_no_error (error);
}

void
gate_rig_send_owner_change (GateRig    *rig,
                            const char *name,
                            const char *before,
                            const char *after)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_signal ("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged");
  g_autoptr(GError) error = NULL;

  g_dbus_message_set_sender (message, "org.freedesktop.DBus");
  g_dbus_message_set_body (message, g_variant_new ("(sss)", name, before, after));
  g_dbus_connection_send_message (rig->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, &error);
  g_assert_no_error (error);
}

/* --- what came of it --- */

guint
gate_rig_count_replies (GateRig *rig)
{
  guint n;

  g_mutex_lock (&rig->mutex);
  n = rig->replies->len;
  g_mutex_unlock (&rig->mutex);
  return n;
}

void
gate_rig_look_again (void)
{
  if (!g_main_context_iteration (NULL, FALSE))
    g_usleep (1000);
}

void
gate_rig_wait_for (GateRig *rig,
                   guint    n_reached,
                   guint    n_refused,
                   guint    n_replies)
{
  while (rig->n_reached < n_reached || gate_rig_count_replies (rig) < n_replies ||
         llm_bus_gate_get_n_refused (rig->gate) < n_refused)
    gate_rig_look_again ();
  g_assert_cmpuint (rig->n_reached, ==, n_reached);
  g_assert_cmpuint (llm_bus_gate_get_n_refused (rig->gate), ==, n_refused);
  g_assert_cmpuint (gate_rig_count_replies (rig), ==, n_replies);
}

GDBusMessage *
gate_rig_find_reply (GateRig *rig,
                     guint32  serial)
{
  for (guint i = 0; i < rig->replies->len; i++)
    {
      GDBusMessage *reply = g_ptr_array_index (rig->replies, i);

      if (g_dbus_message_get_reply_serial (reply) == serial)
        return reply;
    }

  return NULL;
}

void
gate_rig_set_caller (GateRig    *rig,
                     const char *sender,
                     guint       calls,
                     guint       rate)
{
  const LlmAppLimits limits = {
    .calls = calls, .queue = 10, .rate = rate, .default_rate = rate, .message = MAX_MESSAGE,
  };
  g_autoptr(LlmCaller) caller = llm_caller_new (1000, sender, sender, LLM_CALLER_HOST);

  gate_rig_send_owner_change (rig, sender, "", sender);
  while (llm_bus_gate_get_seen (rig->gate, sender) == 0)
    g_usleep (1000);
  llm_bus_gate_set_caller (rig->gate, caller, &limits);
}
