/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Callers who mean harm, against the real daemon: whatever they do, they have no more than their
 * quota afterwards, the daemon holds no more memory and descriptors, and somebody else's
 * question is answered. How much they slow others is measured by llmsvc-bench soak --hostile. */

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"

#define N_FLOOD 20000
#define N_NAMES 100
#define N_CONNECTIONS 150
#define HUGE_BYTES (20 * 1024 * 1024)
/* What a daemon may hold more after a flood than before: a leak of each message would be
 * many times that. */
#define MAX_GROWTH (48 * 1024 * 1024)
#define SHORT "{'max-tokens': <4>, 'temperature': <0.0>}"

typedef struct
{
  BusRig *rig;
  GDBusConnection *victim;
  GDBusConnection *flooder;
  char *context;            /* the victim's */
  guint64 bytes;            /* of the daemon, before */
} Fixture;

/* Resident bytes of the daemon. */
static guint64
get_bytes (Fixture *fixture)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/statm", bus_rig_get_pid (fixture->rig));
  g_autofree char *text = NULL;
  g_auto(GStrv) fields = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  fields = g_strsplit (text, " ", -1);
  return g_ascii_strtoull (fields[1], NULL, 10) * (guint64) sysconf (_SC_PAGESIZE);
}

static guint
count_descriptors (Fixture *fixture)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/fd", bus_rig_get_pid (fixture->rig));
  g_autoptr(GDir) folder = g_dir_open (path, 0, NULL);
  guint n = 0;

  g_assert_nonnull (folder);
  while (g_dir_read_name (folder) != NULL)
    n++;
  return n;
}

static void
ask_victim (Fixture *fixture)
{
  g_autofree char *text = bus_ask (fixture->victim, fixture->context, "Hello", bus_options (SHORT), NULL);

  g_assert_nonnull (text);
}

static guint64
get_statistic (Fixture    *fixture,
               const char *key)
{
  g_autoptr(GVariant) reply = bus_call_ok (fixture->victim, NULL, "", "GetStatistics",
                                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  g_autoptr(GVariant) dict = g_variant_get_child_value (reply, 0);
  guint64 value = 0;

  g_assert_true (g_variant_lookup (dict, key, "t", &value));
  return value;
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->rig = bus_rig_new (NULL, data);
  fixture->victim = bus_rig_connect_app (fixture->rig, "org.example.Victim");
  fixture->flooder = bus_rig_connect_app (fixture->rig, "org.example.Flooder");
  fixture->context = bus_open (fixture->victim, "chat");
  ask_victim (fixture);
  fixture->bytes = get_bytes (fixture);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  guint64 bytes;

  ask_victim (fixture);
  bytes = get_bytes (fixture);
  g_test_message ("%ju bytes before, %ju after", fixture->bytes, bytes);
#ifndef __SANITIZE_ADDRESS__
  g_assert_cmpuint (bytes, <, fixture->bytes + MAX_GROWTH);
#endif
  g_object_unref (fixture->victim);
  g_clear_object (&fixture->flooder);
  bus_rig_free (fixture->rig);
  g_free (fixture->context);
}

/* @is_silent: wants no reply, so that the bus sets no limit. */
static void
send_call (GDBusConnection *connection,
           const char      *path,
           const char      *interface,
           const char      *method,
           GVariant        *arguments,
           gboolean         is_silent)
{
  g_autoptr(GDBusMessage) message =
    g_dbus_message_new_method_call (LLMSVC_BUS_NAME, path, interface, method);
  g_autoptr(GError) error = NULL;

  g_dbus_message_set_body (message, arguments);
  if (is_silent)
    g_dbus_message_set_flags (message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_connection_send_message (connection, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, &error);
  g_assert_no_error (error);
}

static void
flush (GDBusConnection *connection)
{
  g_autoptr(GError) error = NULL;

  g_dbus_connection_flush_sync (connection, NULL, &error);
  g_assert_no_error (error);
}

static gboolean
has_refused (gpointer data)
{
  return get_statistic (data, "refused-floods") > 0;
}

static void
test_calls (Fixture      *fixture,
            gconstpointer data)
{
  for (guint i = 0; i < N_FLOOD; i++)
    send_call (fixture->flooder, LLMSVC_PATH, LLMSVC_INTERFACE, "GetStatistics",
               g_variant_new ("(@a{sv})", bus_options ("{}")), TRUE);
  flush (fixture->flooder);
  bus_wait_until (has_refused, fixture);
  ask_victim (fixture);
}

/* Of what wants an answer the bus lets each connection have some only; these are answered, sooner or
 * later. */
static void
test_questions (Fixture      *fixture,
                gconstpointer data)
{
  for (guint i = 0; i < N_FLOOD / 10; i++)
    send_call (fixture->flooder, LLMSVC_PATH, "org.freedesktop.DBus.Properties", "GetAll",
               g_variant_new ("(s)", LLMSVC_INTERFACE), FALSE);
  for (guint i = 0; i < N_FLOOD; i++)
    send_call (fixture->flooder, LLMSVC_CONTEXTS_PATH, "org.freedesktop.DBus.Introspectable",
               "Introspect", NULL, TRUE);
  flush (fixture->flooder);
  bus_wait_until (has_refused, fixture);
  ask_victim (fixture);
}

/* Calls that fail, of all kinds. */
static void
test_failing (Fixture      *fixture,
              gconstpointer data)
{
  for (guint i = 0; i < N_FLOOD / 4; i++)
    {
      send_call (fixture->flooder, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
                 g_variant_new ("(s@a{sv})", "", bus_options ("{'temperature': <'x'>}")), TRUE);
      send_call (fixture->flooder, LLMSVC_CONTEXTS_PATH "/0", LLMSVC_CONTEXT_INTERFACE, "Close",
                 g_variant_new ("(@a{sv})", bus_options ("{}")), TRUE);
      send_call (fixture->flooder, LLMSVC_PATH, LLMSVC_INTERFACE, "NoSuchMethod", NULL, TRUE);
      send_call (fixture->flooder, "/nowhere", "org.example.Nothing", "Do", NULL, TRUE);
    }
  flush (fixture->flooder);
  bus_wait_until (has_refused, fixture);
  ask_victim (fixture);
}

static void
on_nothing (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, NULL);

  (*(guint *) data)--;
}

/* As many at once as the bus lets through: none gets past the quota by being quick. */
static void
test_contexts (Fixture      *fixture,
               gconstpointer data)
{
  guint n_left = 100;

  for (guint i = 0; i < 100; i++)
    {
      g_autofree char *name = g_strdup_printf ("n%u", i);

      g_dbus_connection_call (fixture->flooder, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                              "OpenContext",
                              g_variant_new ("(s@a{sv})", name,
                                             bus_options ("{'create': <true>}")),
                              NULL, G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, on_nothing,
                              &n_left);
    }
  while (n_left > 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (get_statistic (fixture, "contexts"), ==, 1 + 8);
}

/* Ever new names are ever new applications, but of one user. */
static void
test_names (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(GPtrArray) connections = g_ptr_array_new_with_free_func (g_object_unref);
  guint n_made = 0;

  for (guint i = 0; i < N_NAMES; i++)
    {
      g_autofree char *name = g_strdup_printf ("org.example.N%u", i);
      GDBusConnection *connection = bus_rig_connect_app (fixture->rig, name);
      g_autoptr(GError) error = NULL;
      g_autoptr(GVariant) reply = NULL;

      g_ptr_array_add (connections, connection);
      reply = bus_call (connection, NULL, "", "CreateContext",
                        g_variant_new ("(@a{sv})", bus_options ("{}")), &error);
      n_made += reply != NULL;
      if (reply == NULL)
        bus_assert_error (error, "QuotaExceeded");
    }
  g_assert_cmpuint (n_made, ==, 9);
}

typedef struct
{
  Fixture *fixture;
  guint64 n;
} Wanted;

static gboolean
has_contexts (gpointer data)
{
  Wanted *wanted = data;

  return get_statistic (wanted->fixture, "contexts") == wanted->n;
}

/* Many connections with a context each, that all leave. */
static void
test_connections (Fixture      *fixture,
                  gconstpointer data)
{
  g_autoptr(GPtrArray) connections = g_ptr_array_new_with_free_func (g_object_unref);
  Wanted wanted = { fixture, 1 };
  guint n_before = count_descriptors (fixture);

  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < N_CONNECTIONS; i++)
        {
          GDBusConnection *connection = bus_rig_connect (fixture->rig);

          g_ptr_array_add (connections, connection);
          send_call (connection, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                     g_variant_new ("(@a{sv})", bus_options ("{}")), TRUE);
          flush (connection);
        }
      ask_victim (fixture);
      for (guint i = 0; i < connections->len; i++)
        g_dbus_connection_close_sync (g_ptr_array_index (connections, i), NULL, NULL);
      g_ptr_array_set_size (connections, 0);
      bus_wait_until (has_contexts, &wanted);
    }
  g_assert_cmpuint (count_descriptors (fixture), <=, n_before + 4);
}

/* Answers that nobody reads, and cancels by the thousand. */
static void
test_cancels (Fixture      *fixture,
              gconstpointer data)
{
  g_autofree char *context = bus_create (fixture->flooder, bus_options ("{}"));
  g_autofree char *generation = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  generation = bus_generate (fixture->flooder, context, "Tell me a long story",
                             bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < N_FLOOD; i++)
    send_call (fixture->flooder, generation, LLMSVC_GENERATION_INTERFACE, "Cancel",
               g_variant_new ("(@a{sv})", bus_options ("{}")), TRUE);
  flush (fixture->flooder);
  bus_wait_until (has_refused, fixture);
  ask_victim (fixture);
  close (fd);
}

/* Each holds a pipe and its place until it is closed; no more of them than the quota. */
static void
test_pipes (Fixture      *fixture,
            gconstpointer data)
{
  int fds[20];
  guint n = 0;
  guint n_before = count_descriptors (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (fds); i++)
    {
      g_autofree char *context = NULL;
      g_autofree char *generation = NULL;
      g_autoptr(GError) error = NULL;
      g_autoptr(GVariant) reply = bus_call (fixture->flooder, NULL, "", "CreateContext",
                                            g_variant_new ("(@a{sv})", bus_options ("{}")), &error);

      if (reply == NULL)
        break;
      g_variant_get (reply, "(o)", &context);
      generation = bus_generate (fixture->flooder, context, "Tell me a long story",
                                 bus_options (BUS_LONG_ANSWER "}"), &fds[n], &error);
      if (generation == NULL)
        {
          bus_assert_error (error, "QuotaExceeded");
          break;
        }
      fcntl (fds[n], F_SETPIPE_SZ, 4096);
      n++;
    }
  g_test_message ("%u answers under way", n);
  g_assert_cmpuint (n, ==, 4);
  g_assert_cmpuint (count_descriptors (fixture), <, n_before + 30);
  ask_victim (fixture);
  for (guint i = 0; i < n; i++)
    close (fds[i]);
}

static void
test_huge (Fixture      *fixture,
           gconstpointer data)
{
  g_autofree char *text = g_strnfill (HUGE_BYTES, 'x');

  for (guint i = 0; i < 5; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(GVariant) reply =
        bus_call (fixture->flooder, NULL, "", "Complete",
                  g_variant_new ("(s@a{sv})", text, bus_options ("{}")), &error);

      g_assert_null (reply);
      bus_assert_error (error, "MessageTooLarge");
    }
}

/* Of whoever owns the service's name. (transfer full) */
static char *
get_unique_name (Fixture *fixture)
{
  g_autoptr(GVariant) reply = g_dbus_connection_call_sync (
    fixture->victim, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
    "GetNameOwner", g_variant_new ("(s)", LLMSVC_BUS_NAME), G_VARIANT_TYPE ("(s)"),
    G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
  char *name;

  g_assert_nonnull (reply);
  g_variant_get (reply, "(s)", &name);
  return name;
}

static void
assert_same_daemon (Fixture    *fixture,
                    int         pid,
                    const char *name)
{
  g_autofree char *name_now = NULL;

  ask_victim (fixture);
  name_now = get_unique_name (fixture);
  g_assert_cmpstr (name_now, ==, name);
  g_assert_cmpint (bus_rig_get_pid (fixture->rig), ==, pid);
}

/* A well-formed message that GDBus takes for damaged, at which it would end the service's
 * connection: as a call, as a signal, and as an answer to nothing. The array's last entry has four
 * bytes, behind one without padding; GDBus goes on in the midst of it. The caller is told, and the
 * daemon stays on the bus. */
static void
test_spoilt (Fixture      *fixture,
             gconstpointer data)
{
  static const GDBusMessageType types[] = { G_DBUS_MESSAGE_TYPE_METHOD_CALL,
                                            G_DBUS_MESSAGE_TYPE_SIGNAL,
                                            G_DBUS_MESSAGE_TYPE_ERROR };
  static const char body[] = "({'x': <@a{yg} {1: 'uuuuu', 2: 'u'}>, 'y': <'some text'>},)";
  int pid = bus_rig_get_pid (fixture->rig);
  g_autofree char *name = get_unique_name (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_autoptr(GDBusMessage) message = g_dbus_message_new_method_call (
        LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "GetStatistics");
      g_autoptr(GError) error = NULL;

      g_dbus_message_set_message_type (message, types[i]);
      g_dbus_message_set_body (message, g_variant_new_parsed (body));
      if (types[i] == G_DBUS_MESSAGE_TYPE_ERROR)
        {
          g_dbus_message_set_reply_serial (message, 1);
          g_dbus_message_set_error_name (message, "org.example.Error");
        }
      g_dbus_connection_send_message (fixture->flooder, message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                      &error);
      g_assert_no_error (error);
      flush (fixture->flooder);
      assert_same_daemon (fixture, pid, name);
    }
}

/* The longest part of a head: a path has no limit but that of the message. */
static void
test_long_paths (Fixture      *fixture,
                 gconstpointer data)
{
  int pid = bus_rig_get_pid (fixture->rig);
  g_autofree char *name = get_unique_name (fixture);

  for (gsize length = 1000; length < HUGE_BYTES; length *= 10)
    {
      g_autofree char *letters = g_strnfill (length, 'a');
      g_autofree char *path = g_strconcat (LLMSVC_PATH "/", letters, NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(GVariant) reply = g_dbus_connection_call_sync (
        fixture->flooder, LLMSVC_BUS_NAME, path, LLMSVC_INTERFACE, "GetStatistics",
        g_variant_new ("(@a{sv})", bus_options ("{}")), NULL, G_DBUS_CALL_FLAGS_NONE,
        BUS_RIG_TIMEOUT_MS, NULL, &error);

      g_autofree char *error_name = NULL;

      g_assert_null (reply);
      error_name = g_dbus_error_get_remote_error (error);
      g_test_message ("%zu letters: %s", length, error_name);
      assert_same_daemon (fixture, pid, name);
    }
}

/* Rules that match what the service says to others: the bus keeps those. */
static void
test_subscriptions (Fixture      *fixture,
                    gconstpointer data)
{
  for (guint i = 0; i < 400; i++)
    {
      g_autofree char *rule = g_strdup_printf ("sender='%s',arg0='%u'", LLMSVC_BUS_NAME, i);
      g_autoptr(GVariant) reply = g_dbus_connection_call_sync (
        fixture->flooder, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus",
        "AddMatch", g_variant_new ("(s)", rule), NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);

      g_assert_nonnull (reply);
    }
  ask_victim (fixture);
}

int
main (int   argc,
      char *argv[])
{
  static const char small[] = "[quota]\ncontexts=8\ncalls=4\napps=10\n";
  static const struct
  {
    const char *path;
    void (*test) (Fixture *fixture, gconstpointer data);
    const char *config;
  } tests[] = {
    { "/hostile/calls", test_calls, small },
    { "/hostile/questions", test_questions, small },
    { "/hostile/failing", test_failing, small },
    { "/hostile/contexts", test_contexts, small },
    { "/hostile/names", test_names, small },
    { "/hostile/connections", test_connections, small },
    { "/hostile/cancels", test_cancels, small },
    { "/hostile/pipes", test_pipes, small },
    { "/hostile/huge", test_huge, small },
    { "/hostile/spoilt", test_spoilt, small },
    { "/hostile/long-paths", test_long_paths, small },
    { "/hostile/subscriptions", test_subscriptions, small },
  };

  g_test_init (&argc, &argv, NULL);
  signal (SIGPIPE, SIG_IGN);

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, Fixture, tests[i].config, set_up, tests[i].test, tear_down);

  return g_test_run ();
}
