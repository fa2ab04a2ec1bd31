/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The gate, and who callers are, against a bus that the test plays itself at the other end of
 * a connection: it says what the bus says, and who sends. */

#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus/llm-bus-caller.h"
#include "bus/llm-bus-gate.h"
#include "bus/llm-bus-head.h"
#include "bus/llm-bus-relay.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"

#define SENDER ":1.5"
#define OTHER ":1.6"
#define MAX_MESSAGE 1000
#define LONG_PATH (1024 * 1024)
#define STUCK_BYTES (4 * 1024 * 1024)
#define UNKNOWN_FIELD 77

static const char xml[] =
  "<node><interface name='org.example.Test'><method name='Do'><arg type='s' direction='in'/>"
  "</method></interface></node>";

typedef struct
{
  GDBusConnection *service;
  GDBusConnection *bus;
  LlmBusTranslator *translator;
  LlmBusGate *gate;
  GDBusNodeInfo *info;
  GQueue calls;          /* (element-type GDBusMethodInvocation): that reached main */
  gboolean answers;
  guint n_reached;
  GPtrArray *replies;    /* (element-type GDBusMessage): what the bus got */
  GMutex mutex;
  GString *gone;
  GVariant *credentials; /* what the bus says of everybody */
  int pidfd;             /* -1 for none */
  guint n_asked;         /* for a process id */
  int raw;               /* the bus's socket */
} Fixture;

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
  Fixture *fixture = data;

  fixture->n_reached++;
  if (fixture->answers)
    g_dbus_method_invocation_return_value (invocation, NULL);
  else
    g_queue_push_tail (&fixture->calls, invocation);
}

static const GDBusInterfaceVTable vtable = { on_call, NULL, NULL, { NULL } };

static void
answer_for_bus (Fixture      *fixture,
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
      fixture->n_asked++;
      g_dbus_message_set_body (reply, g_variant_new ("(u)", (guint32) getpid ()));
    }
  else if (g_str_equal (method, "GetConnectionCredentials"))
    {
      g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&builder, "{sv}", "UnixUserID", g_variant_new_uint32 (getuid ()));
      g_variant_builder_add (&builder, "{sv}", "ProcessID",
                             g_variant_new_uint32 ((guint32) getpid ()));
      if (fixture->pidfd >= 0)
        {
          g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();

          g_unix_fd_list_append (fds, fixture->pidfd, NULL);
          g_dbus_message_set_unix_fd_list (reply, fds);
          g_variant_builder_add (&builder, "{sv}", "ProcessFD", g_variant_new_handle (0));
        }
      g_dbus_message_set_body (reply, g_variant_new ("(a{sv})", &builder));
    }
  g_dbus_connection_send_message (fixture->bus, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, NULL);
}

/* In the thread of the bus's connection. */
static GDBusMessage *
on_bus_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  Fixture *fixture = data;
  GDBusMessageType type = g_dbus_message_get_message_type (message);

  if (!incoming)
    return message;
  if (type == G_DBUS_MESSAGE_TYPE_METHOD_CALL &&
      g_strcmp0 (g_dbus_message_get_interface (message), "org.freedesktop.DBus") == 0)
    {
      answer_for_bus (fixture, message);
      g_object_unref (message);
      return NULL;
    }
  if (type == G_DBUS_MESSAGE_TYPE_METHOD_RETURN || type == G_DBUS_MESSAGE_TYPE_ERROR)
    {
      g_mutex_lock (&fixture->mutex);
      g_ptr_array_add (fixture->replies, g_object_ref (message));
      g_mutex_unlock (&fixture->mutex);
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
make_connection (int                   fd,
                 GDBusConnectionFlags  flags,
                 const char           *guid,
                 Made                 *made)
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

/* @data: whether the service has a relay. */
static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  g_autoptr(GThread) thread = NULL;
  g_autofree char *guid = g_dbus_generate_guid ();
  Made service = { NULL }, bus = { NULL };
  g_autoptr(GError) error = NULL;
  int fds[2];

  g_assert_cmpint (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), ==, 0);
  fixture->pidfd = -1;
  g_queue_init (&fixture->calls);
  g_mutex_init (&fixture->mutex);
  fixture->replies = g_ptr_array_new_with_free_func (g_object_unref);
  fixture->gone = g_string_new (NULL);

  make_connection (fds[0],
                   G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_SERVER |
                     G_DBUS_CONNECTION_FLAGS_DELAY_MESSAGE_PROCESSING,
                   guid, &bus);
  fixture->raw = dup (fds[0]);
  if (data != NULL)
    thread = g_thread_new ("connect", connect_relay, GINT_TO_POINTER (fds[1]));
  else
    make_connection (fds[1],
                     G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                       G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                     NULL, &service);
  while (bus.connection == NULL)
    g_main_context_iteration (NULL, TRUE);
  fixture->bus = bus.connection;
  g_dbus_connection_add_filter (fixture->bus, on_bus_message, fixture, NULL);
  g_dbus_connection_start_message_processing (fixture->bus);
  if (thread != NULL)
    service.connection = g_thread_join (g_steal_pointer (&thread));
  while (service.connection == NULL)
    g_main_context_iteration (NULL, TRUE);
  fixture->service = service.connection;
  fixture->translator = llm_bus_translator_new ("/nonexistent", NULL);
  fixture->gate = llm_bus_gate_new (fixture->service, fixture->translator, MAX_MESSAGE);

  fixture->info = g_dbus_node_info_new_for_xml (xml, &error);
  g_assert_no_error (error);
  g_dbus_connection_register_object (fixture->service, "/test", fixture->info->interfaces[0],
                                     &vtable, fixture, NULL, &error);
  g_assert_no_error (error);
}

static void
answer_all (Fixture *fixture)
{
  GDBusMethodInvocation *invocation;

  while ((invocation = g_queue_pop_head (&fixture->calls)) != NULL)
    g_dbus_method_invocation_return_value (invocation, NULL);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  answer_all (fixture);
  llm_bus_gate_free (fixture->gate);
  llm_bus_translator_unref (fixture->translator);
  llm_bus_relay_close (fixture->service);
  close (fixture->raw);
  g_dbus_connection_close_sync (fixture->bus, NULL, NULL);
  g_object_unref (fixture->service);
  g_object_unref (fixture->bus);
  g_dbus_node_info_unref (fixture->info);
  g_ptr_array_unref (fixture->replies);
  g_string_free (fixture->gone, TRUE);
  g_mutex_clear (&fixture->mutex);
}

static guint32
send_call (Fixture    *fixture,
           const char *sender,
           const char *text,
           gboolean    is_silent)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint32 serial = 0;

  g_dbus_message_set_sender (message, sender);
  g_dbus_message_set_body (message, g_variant_new ("(s)", text));
  if (is_silent)
    g_dbus_message_set_flags (message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_connection_send_message (fixture->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, &serial,
                                  &error);
  g_assert_no_error (error);
  return serial;
}

static void
send_owner_change (Fixture    *fixture,
                   const char *name,
                   const char *before,
                   const char *after)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_signal ("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged");
  g_autoptr(GError) error = NULL;

  g_dbus_message_set_sender (message, "org.freedesktop.DBus");
  g_dbus_message_set_body (message, g_variant_new ("(sss)", name, before, after));
  g_dbus_connection_send_message (fixture->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  &error);
  g_assert_no_error (error);
}

static guint
count_replies (Fixture *fixture)
{
  guint n;

  g_mutex_lock (&fixture->mutex);
  n = fixture->replies->len;
  g_mutex_unlock (&fixture->mutex);
  return n;
}

/* A call that is refused does not wake the main thread. */
static void
look_again (void)
{
  if (!g_main_context_iteration (NULL, FALSE))
    g_usleep (1000);
}

/* Until so many calls have reached main, so many were refused, and so many answers came back. */
static void
wait_for (Fixture *fixture,
          guint    n_reached,
          guint    n_refused,
          guint    n_replies)
{
  while (fixture->n_reached < n_reached || count_replies (fixture) < n_replies ||
         llm_bus_gate_get_n_refused (fixture->gate) < n_refused)
    look_again ();
  g_assert_cmpuint (fixture->n_reached, ==, n_reached);
  g_assert_cmpuint (llm_bus_gate_get_n_refused (fixture->gate), ==, n_refused);
  g_assert_cmpuint (count_replies (fixture), ==, n_replies);
}

/* What the bus got with this serial. (transfer none) */
static GDBusMessage *
find_reply (Fixture *fixture,
            guint32  serial)
{
  for (guint i = 0; i < fixture->replies->len; i++)
    {
      GDBusMessage *reply = g_ptr_array_index (fixture->replies, i);

      if (g_dbus_message_get_reply_serial (reply) == serial)
        return reply;
    }

  return NULL;
}

static void
set_caller (Fixture    *fixture,
            const char *sender,
            guint       calls,
            guint       rate)
{
  const LlmAppLimits limits = {
    .calls = calls, .queue = 10, .rate = rate, .default_rate = rate, .message = MAX_MESSAGE,
  };
  g_autoptr(LlmCaller) caller = llm_caller_new (1000, sender, sender, LLM_CALLER_HOST);

  send_owner_change (fixture, sender, "", sender);
  while (llm_bus_gate_get_seen (fixture->gate, sender) == 0)
    g_usleep (1000);
  llm_bus_gate_set_caller (fixture->gate, caller, &limits);
}

/* Of a connection that nobody knows yet, main sees so many calls and no more, and others are not
 * in its way. */
static void
test_unanswered (Fixture      *fixture,
                 gconstpointer data)
{
  GDBusMessage *reply;
  guint32 serial = 0;

  for (guint i = 0; i < LLM_BUS_GATE_NEW_CALLS; i++)
    send_call (fixture, SENDER, "", FALSE);
  serial = send_call (fixture, SENDER, "", FALSE);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS, 1, 0);
  send_call (fixture, OTHER, "", FALSE);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS + 1, 1, 0);

  /* the refusal comes later, and says when to try again */
  while (count_replies (fixture) == 0)
    g_main_context_iteration (NULL, TRUE);
  reply = find_reply (fixture, serial);
  g_assert_nonnull (reply);
  g_assert_cmpstr (g_dbus_message_get_error_name (reply), ==, LLMSVC_ERROR_PREFIX "Overloaded");
  {
    g_autoptr(GError) error = NULL;

    g_assert_true (g_dbus_message_to_gerror (reply, &error));
    g_assert_cmpint (llmsvc_error_get_retry_after (error), ==, LLM_BUS_GATE_REFUSAL_MS);
  }

  /* answers make room */
  answer_all (fixture);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS + 1, 1, LLM_BUS_GATE_NEW_CALLS + 2);
  send_call (fixture, SENDER, "", FALSE);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS + 2, 1, LLM_BUS_GATE_NEW_CALLS + 2);
}

/* Whoever wants no answers is counted all the same, and gets none. */
static void
test_silent (Fixture      *fixture,
             gconstpointer data)
{
  for (guint i = 0; i < LLM_BUS_GATE_NEW_CALLS + 5; i++)
    send_call (fixture, SENDER, "", TRUE);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS, 5, 0);
  answer_all (fixture);
  send_call (fixture, OTHER, "", FALSE);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS + 1, 5, 0);
  answer_all (fixture);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS + 1, 5, 1);
  for (guint i = 0; i < 3; i++)
    send_call (fixture, SENDER, "", TRUE);
  wait_for (fixture, LLM_BUS_GATE_NEW_CALLS + 4, 5, 1);
}

/* A known application has what its quotas say; so has a user with all of them. */
static void
test_quotas (Fixture      *fixture,
             gconstpointer data)
{
  guint n = 0;

  set_caller (fixture, SENDER, 2, 0);
  while (llm_bus_gate_get_n_refused (fixture->gate) == 0)
    {
      send_call (fixture, SENDER, "", FALSE);
      n++;
      while (fixture->n_reached + llm_bus_gate_get_n_refused (fixture->gate) < n)
        look_again ();
    }
  g_test_message ("%u calls unanswered", fixture->n_reached);
  g_assert_cmpuint (fixture->n_reached, >, LLM_BUS_GATE_NEW_CALLS);
  g_assert_cmpuint (fixture->n_reached, <, 1000);
  answer_all (fixture);
  n = fixture->n_reached;
  wait_for (fixture, n, 1, n + 1);

  /* ten a second, and what was saved up */
  fixture->answers = TRUE;
  fixture->n_reached = 0;
  set_caller (fixture, OTHER, 100, 1);
  for (guint i = 0; i < 10 * LLM_BUS_GATE_BURST_S; i++)
    send_call (fixture, OTHER, "", FALSE);
  while (fixture->n_reached + llm_bus_gate_get_n_refused (fixture->gate) <
         10 * LLM_BUS_GATE_BURST_S + 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (fixture->n_reached, >=, LLM_BUS_GATE_BURST_S);
  g_assert_cmpuint (fixture->n_reached, <, 10 * LLM_BUS_GATE_BURST_S);
}

/* What is larger than any text may be never gets to main. */
static void
test_large (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *text = g_strnfill (10 * 1000 * 1000, 'x');
  guint32 serial = send_call (fixture, SENDER, text, FALSE);
  GDBusMessage *reply;

  send_call (fixture, SENDER, "", FALSE);
  while (fixture->n_reached < 1 || count_replies (fixture) < 1)
    g_main_context_iteration (NULL, TRUE);
  reply = find_reply (fixture, serial);
  g_assert_nonnull (reply);
  g_assert_cmpstr (g_dbus_message_get_error_name (reply), ==,
                   LLMSVC_ERROR_PREFIX "MessageTooLarge");
}

static void
on_gone (GDBusConnection *connection,
         const char      *sender,
         const char      *path,
         const char      *interface,
         const char      *signal,
         GVariant        *arguments,
         gpointer         data)
{
  const char *name;

  g_variant_get (arguments, "(&s&s&s)", &name, NULL, NULL);
  g_string_append_printf (((Fixture *) data)->gone, "%s ", name);
}

/* Main hears of names, and of callers that leave: not of all who come and go. */
static void
test_owners (Fixture      *fixture,
             gconstpointer data)
{
  g_dbus_connection_signal_subscribe (fixture->service, NULL, "org.freedesktop.DBus",
                                      "NameOwnerChanged", NULL, NULL, G_DBUS_SIGNAL_FLAGS_NONE,
                                      on_gone, fixture, NULL);
  fixture->answers = TRUE;
  g_assert_cmpint (llm_bus_gate_get_seen (fixture->gate, SENDER), ==, 0);
  send_owner_change (fixture, SENDER, "", SENDER);
  send_owner_change (fixture, OTHER, "", OTHER);
  send_call (fixture, SENDER, "", FALSE);
  send_owner_change (fixture, OTHER, OTHER, "");
  send_owner_change (fixture, SENDER, SENDER, "");
  send_owner_change (fixture, "org.example.Name", "", ":1.9");
  while (strstr (fixture->gone->str, "org.example.Name") == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (fixture->gone->str, ==, SENDER " org.example.Name ");
  g_assert_cmpint (llm_bus_gate_get_seen (fixture->gate, SENDER), ==, 0);

  send_owner_change (fixture, SENDER, "", SENDER);
  send_call (fixture, OTHER, "", FALSE);
  wait_for (fixture, 2, 0, 2);
  g_assert_cmpint (llm_bus_gate_get_seen (fixture->gate, SENDER), >, 0);
  g_assert_cmpint (llm_bus_gate_get_seen (fixture->gate, OTHER), >=,
                   llm_bus_gate_get_seen (fixture->gate, SENDER));
}

/* --- the relay --- */

/* (transfer full): a call of the test's object as bytes, from @sender. */
static guint8 *
make_blob (const char *sender,
           const char *text,
           gsize      *length)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint8 *blob;

  g_dbus_message_set_sender (message, sender);
  g_dbus_message_set_serial (message, 77);
  g_dbus_message_set_body (message, g_variant_new ("(s)", text));
  blob = g_dbus_message_to_blob (message, length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  return blob;
}

static void
test_head (void)
{
  gsize length;
  g_autofree guint8 *blob = make_blob (SENDER, "text", &length);
  g_autoptr(GRand) random = g_rand_new_with_seed (1);
  LlmBusHeadBytes head;

  g_assert_true (llm_bus_head_measure (blob, &head));
  g_assert_cmpuint (head.n_head + head.n_body, ==, length);
  g_assert_true (llm_bus_head_parse (blob, &head));
  g_assert_cmpstr (head.sender, ==, SENDER);
  g_assert_cmpuint (head.serial, ==, 77);
  g_assert_cmpuint (head.type, ==, G_DBUS_MESSAGE_TYPE_METHOD_CALL);
  g_assert_cmpuint (head.n_fds, ==, 0);

  /* damaged in any way, it is read within its bounds */
  for (guint i = 0; i < 20000; i++)
    {
      g_autofree guint8 *copy = g_memdup2 (blob, length);
      g_autofree guint8 *exact = NULL;

      for (guint n = 0; n < 3; n++)
        copy[g_rand_int_range (random, 0, (gint32) length)] = (guint8) g_rand_int (random);
      if (!llm_bus_head_measure (copy, &head) || head.n_head > length)
        continue;
      exact = g_memdup2 (copy, head.n_head);
      if (llm_bus_head_parse (exact, &head) && head.sender != NULL)
        g_assert_cmpuint (strlen (head.sender), <, head.n_head);
    }
}

/* What GDBus can't read does not end the connection, and its sender is told. */
static void
test_spoilt (Fixture      *fixture,
             gconstpointer data)
{
  gsize length;
  g_autofree guint8 *blob = make_blob (SENDER, "some text", &length);
  LlmBusHeadBytes head;

  fixture->answers = TRUE;
  g_assert_true (llm_bus_head_measure (blob, &head));
  /* the text's length goes past the end */
  blob[head.n_head] = 200;
  for (guint i = 0; i < 3; i++)
    g_assert_cmpint (write (fixture->raw, blob, length), ==, (gssize) length);
  while (llm_bus_gate_get_n_refused (fixture->gate) < 3)
    g_usleep (1000);
  send_call (fixture, OTHER, "", FALSE);
  while (fixture->n_reached < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (g_dbus_connection_is_closed (fixture->service));
  while (count_replies (fixture) < 2)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (g_dbus_message_get_error_name (find_reply (fixture, 77)), ==,
                   LLMSVC_ERROR_PREFIX "InvalidArgument");
}

/* A well-formed call whose array of entries ends with one of four bytes, right behind one that
 * fills its eight; GDBus goes on in the midst of the array. */
static guint8 *
make_misread_blob (const char *sender,
                   gsize      *length)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint8 *blob;

  g_dbus_message_set_sender (message, sender);
  g_dbus_message_set_serial (message, 77);
  g_dbus_message_set_body (message, g_variant_new_parsed ("([(@y 1, @g 'uuuuu'), (2, 'u')], 'x')"));
  blob = g_dbus_message_to_blob (message, length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
  g_assert_no_error (error);
  return blob;
}

/* That body on the wire, by the specification. */
static const guint8 misread_body[] = {
  12, 0, 0, 0, 0, 0, 0, 0,          /* bytes of the array, and the padding in front of it */
  1, 5, 'u', 'u', 'u', 'u', 'u', 0, /* an entry of eight bytes */
  2, 1, 'u', 0,                     /* the last, of four */
  1, 0, 0, 0, 'x', 0,
};

static gboolean
is_no_end (const char    *domain,
           GLogLevelFlags level,
           const char    *message,
           gpointer       data)
{
  return FALSE;
}

static void
say_nothing (const char    *domain,
             GLogLevelFlags level,
             const char    *message,
             gpointer       data)
{
}

/* Without a relay, such a message ends the connection of GDBus, as of GLib 2.74; with one, its
 * sender is told. */
static void
test_misread (Fixture      *fixture,
              gconstpointer data)
{
  gsize length;
  g_autofree guint8 *blob = make_misread_blob (SENDER, &length);
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_from_blob (blob, length, G_DBUS_CAPABILITY_FLAGS_NONE, NULL);
  LlmBusHeadBytes head;

  fixture->answers = TRUE;
  g_assert_true (llm_bus_head_measure (blob, &head));
  g_assert_cmpmem (blob + head.n_head, head.n_body, misread_body, sizeof misread_body);
  if (message != NULL)
    {
      g_test_skip ("This GDBus reads arrays of small entries right");
      return;
    }

  if (data == NULL)
    {
      /* GDBus warns */
      guint handler = g_log_set_handler ("GLib-GIO", G_LOG_LEVEL_WARNING | G_LOG_FLAG_FATAL,
                                         say_nothing, NULL);

      g_test_log_set_fatal_handler (is_no_end, NULL);
      g_assert_cmpint (write (fixture->raw, blob, length), ==, (gssize) length);
      while (!g_dbus_connection_is_closed (fixture->service))
        g_main_context_iteration (NULL, TRUE);
      g_log_remove_handler ("GLib-GIO", handler);
      return;
    }
  g_assert_cmpint (write (fixture->raw, blob, length), ==, (gssize) length);
  while (count_replies (fixture) < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (g_dbus_message_get_error_name (find_reply (fixture, 77)), ==,
                   LLMSVC_ERROR_PREFIX "InvalidArgument");
  send_call (fixture, OTHER, "", FALSE);
  while (fixture->n_reached < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (g_dbus_connection_is_closed (fixture->service));
}

/* GDBus closes by itself what it can't read, as of the bus, whose messages nobody tries before. The
 * service must end all the same: tear_down() closes again. */
static void
test_parted (Fixture      *fixture,
             gconstpointer data)
{
  gsize length;
  g_autofree guint8 *blob = make_misread_blob ("org.freedesktop.DBus", &length);
  guint handler;

  /* the text's length goes past the end */
  blob[length - 6] = 200;
  handler = g_log_set_handler ("GLib-GIO", G_LOG_LEVEL_WARNING | G_LOG_FLAG_FATAL, say_nothing,
                               NULL);
  g_test_log_set_fatal_handler (is_no_end, NULL);
  g_assert_cmpint (write (fixture->raw, blob, length), ==, (gssize) length);
  while (!g_dbus_connection_is_closed (fixture->service))
    g_main_context_iteration (NULL, TRUE);
  llm_bus_relay_close (fixture->service);
  g_log_remove_handler ("GLib-GIO", handler);
}

/* A path may be as long as a message: that is too large, and nothing worse. */
static void
test_long_path (Fixture      *fixture,
                gconstpointer data)
{
  g_autofree char *name = g_strnfill (LONG_PATH, 'a');
  g_autofree char *path = g_strconcat ("/", name, NULL);
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (NULL, path, "org.example.Test", "Do");
  g_autoptr(GError) error = NULL;
  guint32 serial;

  fixture->answers = TRUE;
  g_dbus_message_set_sender (message, SENDER);
  g_dbus_connection_send_message (fixture->bus, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, &serial,
                                  &error);
  g_assert_no_error (error);
  while (count_replies (fixture) < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpstr (g_dbus_message_get_error_name (find_reply (fixture, serial)), ==,
                   LLMSVC_ERROR_PREFIX "MessageTooLarge");
  send_call (fixture, OTHER, "", FALSE);
  while (fixture->n_reached < 1)
    g_main_context_iteration (NULL, TRUE);
  g_assert_false (g_dbus_connection_is_closed (fixture->service));
}

/* A field that the specification does not have. Of a fixed size, it is passed over; of another
 * type, whoever sends it does not get past the gate with it. */
static void
test_unknown_field (Fixture      *fixture,
                    gconstpointer data)
{
  static const char *const values[] = { "[uint32 7]", "uint64 7" };

  fixture->answers = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    {
      g_autoptr(GDBusMessage) message =
        g_dbus_message_new_method_call (NULL, "/test", "org.example.Test", "Do");
      g_autofree guint8 *blob = NULL;
      g_autoptr(GError) error = NULL;
      gsize length;

      g_dbus_message_set_header (message, (GDBusMessageHeaderField) UNKNOWN_FIELD,
                                 g_variant_new_parsed (values[i]));
      g_dbus_message_set_sender (message, SENDER);
      g_dbus_message_set_serial (message, 80 + i);
      g_dbus_message_set_body (message, g_variant_new ("(s)", "text"));
      blob = g_dbus_message_to_blob (message, &length, G_DBUS_CAPABILITY_FLAGS_NONE, &error);
      g_assert_no_error (error);
      g_assert_cmpint (write (fixture->raw, blob, length), ==, (gssize) length);
    }
  send_call (fixture, OTHER, "", FALSE);
  while (fixture->n_reached < 2 || count_replies (fixture) < 2)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (find_reply (fixture, 80));
  g_assert_nonnull (find_reply (fixture, 81));
}

/* The end of the service does not wait for a bus that reads nothing any more. */
static void
test_stuck (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *text = g_strnfill (STUCK_BYTES, 'x');
  g_autoptr(GError) error = NULL;

  /* the socket stays open, for there is another descriptor of it */
  g_dbus_connection_close_sync (fixture->bus, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 2; i++)
    {
      g_dbus_connection_emit_signal (fixture->service, NULL, "/test", "org.example.Test", "Said",
                                     g_variant_new ("(s)", text), &error);
      g_assert_no_error (error);
    }
  llm_bus_relay_close (fixture->service);
  g_assert_true (g_dbus_connection_is_closed (fixture->service));
}

/* --- callers --- */

typedef struct
{
  LlmCaller *caller;
  GError *error;
} Found;

static void
on_found (LlmCaller    *caller,
          const GError *error,
          gpointer      data)
{
  Found *found = data;

  found->caller = caller != NULL ? llm_caller_ref (caller) : NULL;
  found->error = error != NULL ? g_error_copy (error) : NULL;
}

/* Which kind the service takes this process for; the kind it has in truth depends on where the
 * test runs. */
static LlmCallerKind
resolve (Fixture *fixture)
{
  const char *const folders[] = { NULL };
  g_autoptr(LlmBusCallers) callers =
    llm_bus_callers_new (fixture->service, fixture->gate, "/proc", folders);
  g_autoptr(LlmCaller) caller = NULL;
  Found found = { NULL };

  llm_bus_callers_resolve (callers, SENDER, on_found, &found);
  while (found.caller == NULL && found.error == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_no_error (found.error);
  caller = found.caller;
  g_assert_cmpuint (caller->uid, ==, getuid ());
  return caller->kind;
}

/* The bus gives the process itself along: one that is gone has left its number to others. */
static void
test_process_fd (Fixture      *fixture,
                 gconstpointer data)
{
  LlmCallerKind kind = resolve (fixture);
  int pid;

  g_assert_cmpint (kind, !=, LLM_CALLER_UNKNOWN);
  g_assert_cmpuint (fixture->n_asked, ==, 1);

  fixture->pidfd = (int) syscall (SYS_pidfd_open, getpid (), 0);
  g_assert_cmpint (fixture->pidfd, >=, 0);
  g_assert_cmpint (resolve (fixture), ==, kind);
  g_assert_cmpuint (fixture->n_asked, ==, 1);
  close (fixture->pidfd);

  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    _exit (0);
  fixture->pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
  g_assert_cmpint (fixture->pidfd, >=, 0);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
  g_assert_cmpint (resolve (fixture), ==, LLM_CALLER_UNKNOWN);
  close (fixture->pidfd);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/bus/gate/unanswered", Fixture, NULL, set_up, test_unanswered, tear_down);
  g_test_add ("/bus/gate/silent", Fixture, NULL, set_up, test_silent, tear_down);
  g_test_add ("/bus/gate/quotas", Fixture, NULL, set_up, test_quotas, tear_down);
  g_test_add ("/bus/gate/large", Fixture, NULL, set_up, test_large, tear_down);
  g_test_add ("/bus/gate/owners", Fixture, NULL, set_up, test_owners, tear_down);
  g_test_add_func ("/bus/relay/head", test_head);
  g_test_add ("/bus/relay/unanswered", Fixture, GINT_TO_POINTER (TRUE), set_up, test_unanswered,
              tear_down);
  g_test_add ("/bus/relay/silent", Fixture, GINT_TO_POINTER (TRUE), set_up, test_silent, tear_down);
  g_test_add ("/bus/relay/large", Fixture, GINT_TO_POINTER (TRUE), set_up, test_large, tear_down);
  g_test_add ("/bus/gdbus/misread", Fixture, NULL, set_up, test_misread, tear_down);
  g_test_add ("/bus/relay/misread", Fixture, GINT_TO_POINTER (TRUE), set_up, test_misread,
              tear_down);
  g_test_add ("/bus/relay/parted", Fixture, GINT_TO_POINTER (TRUE), set_up, test_parted, tear_down);
  g_test_add ("/bus/relay/long-path", Fixture, GINT_TO_POINTER (TRUE), set_up, test_long_path,
              tear_down);
  g_test_add ("/bus/relay/unknown-field", Fixture, GINT_TO_POINTER (TRUE), set_up,
              test_unknown_field, tear_down);
  g_test_add ("/bus/relay/stuck", Fixture, GINT_TO_POINTER (TRUE), set_up, test_stuck, tear_down);
  g_test_add ("/bus/relay/spoilt", Fixture, GINT_TO_POINTER (TRUE), set_up, test_spoilt, tear_down);
  g_test_add ("/bus/relay/process-fd", Fixture, GINT_TO_POINTER (TRUE), set_up, test_process_fd,
              tear_down);
  g_test_add ("/bus/gate/process-fd", Fixture, NULL, set_up, test_process_fd, tear_down);

  return g_test_run ();
}
