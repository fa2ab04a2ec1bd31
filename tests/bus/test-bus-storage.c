/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What callers hear when the service's state can't be used, and that it heals without a restart. */

#include <glib/gstdio.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "bus-rig.h"
#include "support/llm-test-folder.h"

#define SHORT "{'max-tokens': <uint32 12>, 'temperature': <0.0>}"

static char *
get_availability (GDBusConnection *app,
                  const char      *property)
{
  g_autoptr(GVariant) value = bus_get (app, NULL, "", property);

  return g_variant_dup_string (value, NULL);
}

/* (transfer floating) */
static GVariant *
name_and_options (const char *name,
                  const char *options)
{
  return g_variant_new ("(s@a{sv})", name, bus_options (options));
}

static void
assert_fails (GDBusConnection *app,
              const char      *interface,
              const char      *method,
              GVariant        *arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = bus_call (app, NULL, interface, method, arguments, &error);

  g_test_message ("%s", method);
  g_assert_null (reply);
  bus_assert_error (error, "Storage");
}

typedef struct
{
  GString *words;  /* of Availability, as they were announced, “!” where there is a reason */
  char *reason;    /* (nullable) */
} Announced;

static void
on_properties (GDBusConnection *connection,
               const char      *sender,
               const char      *path,
               const char      *interface,
               const char      *signal,
               GVariant        *parameters,
               gpointer         data)
{
  Announced *announced = data;
  g_autoptr(GVariant) changed = g_variant_get_child_value (parameters, 1);
  const char *word;

  if (!g_variant_lookup (changed, "Availability", "&s", &word))
    return;
  g_free (announced->reason);
  g_assert_true (g_variant_lookup (changed, "AvailabilityReason", "s", &announced->reason));
  g_string_append_printf (announced->words, "%s%s ", word, *announced->reason != '\0' ? "!" : "");
}

static gboolean
is_ready (gpointer data)
{
  return g_str_has_suffix (((Announced *) data)->words->str, "ready ");
}

static guint
subscribe (GDBusConnection *app,
           Announced       *announced)
{
  announced->words = g_string_new (NULL);
  announced->reason = NULL;
  return g_dbus_connection_signal_subscribe (app, NULL, "org.freedesktop.DBus.Properties",
                                             "PropertiesChanged", LLMSVC_PATH, LLMSVC_INTERFACE,
                                             G_DBUS_SIGNAL_FLAGS_NONE, on_properties, announced,
                                             NULL);
}

static void
unsubscribe (GDBusConnection *app,
             guint            subscription,
             Announced       *announced)
{
  g_dbus_connection_signal_unsubscribe (app, subscription);
  g_string_free (announced->words, TRUE);
  g_free (announced->reason);
}

/* What needs nothing that is stored. */
static void
assert_answers (GDBusConnection *app)
{
  g_autoptr(GVariant) completed =
    bus_call_ok (app, NULL, "", "Complete", name_and_options ("Hello", SHORT));
  g_autoptr(GVariant) made =
    bus_call_ok (app, NULL, "", "CreateContext", g_variant_new ("(@a{sv})", bus_options ("{}")));
  const char *path;

  g_variant_get (made, "(&o)", &path);
  g_free (bus_ask (app, path, "Hello", bus_options (SHORT), NULL));
  g_free (bus_ask (app, path, "And now?", bus_options (SHORT), NULL));
  g_assert_cmpuint (bus_count_messages (app, path, NULL), ==, 4);
}

/* The state folder can't be made when the service starts. */
static void
test_start (BusFixture   *fixture,
            gconstpointer data)
{
  g_autofree char *state = g_build_filename (bus_rig_get_folder (fixture->rig), "state", NULL);
  g_autofree char *word = NULL;
  g_autofree char *reason = NULL;
  g_autofree char *context = NULL;
  g_autofree char *text = NULL;
  Announced announced;
  guint subscription;
  int pid;

  g_assert_true (g_file_set_contents (state, "a file", -1, NULL));
  assert_fails (fixture->app, "", "OpenContext", name_and_options ("notes", "{}"));
  pid = bus_rig_get_pid (fixture->rig);
  assert_fails (fixture->app, "", "OpenContext",
                name_and_options ("notes", "{'create': <true>}"));
  assert_fails (fixture->app, "", "CreateContext",
                g_variant_new ("(@a{sv})", bus_options ("{'name': <'notes'>}")));
  assert_fails (fixture->app, "", "ListContexts", g_variant_new ("(@a{sv})", bus_options ("{}")));
  assert_fails (fixture->app, "", "SelectModel",
                name_and_options ("llmsvc-demo-8M-Q8_0", "{}"));
  assert_fails (fixture->app, ".Admin", "ListApps", g_variant_new ("(@a{sv})", bus_options ("{}")));
  assert_fails (fixture->app, ".Admin", "SetQuota",
                name_and_options ("", "{'calls': <uint32 3>}"));
  assert_answers (fixture->app);
  word = get_availability (fixture->app, "Availability");
  g_assert_cmpstr (word, ==, "ready");
  reason = get_availability (fixture->app, "AvailabilityReason");
  g_assert_nonnull (strstr (reason, state));

  subscription = subscribe (fixture->app, &announced);
  g_assert_cmpint (g_unlink (state), ==, 0);
  bus_wait_until (is_ready, &announced);
  g_assert_cmpstr (announced.reason, ==, "");
  context = bus_open (fixture->app, "notes");
  text = bus_ask (fixture->app, context, "Hello", bus_options (SHORT), NULL);
  g_assert_cmpuint (bus_count_messages (fixture->app, context, NULL), ==, 2);
  g_assert_cmpint (bus_rig_get_pid (fixture->rig), ==, pid);
  unsubscribe (fixture->app, subscription, &announced);
}

/* Removed and truncated under the running service, which goes on. */
static void
test_running (BusFixture   *fixture,
              gconstpointer data)
{
  static const char *const names[] = { "contexts.db-shm", "contexts.db-wal", "contexts.db", NULL };
  g_autofree char *state = g_build_filename (bus_rig_get_folder (fixture->rig), "state", NULL);
  g_autofree char *context = bus_open (fixture->app, "notes");
  g_autofree char *word = NULL;
  int pid = bus_rig_get_pid (fixture->rig);

  g_free (bus_ask (fixture->app, context, "Hello", bus_options (SHORT), NULL));
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *path = g_build_filename (state, names[i], NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(GVariant) reply = NULL;
      g_autofree char *made = g_strdup_printf ("made-%u", i);
      g_autofree char *more = g_strdup_printf ("more-%u", i);
      Announced announced;
      guint subscription = subscribe (fixture->app, &announced);

      if (names[i] == NULL)
        llm_test_folder_remove (state);
      else if (g_file_test (path, G_FILE_TEST_EXISTS))
        g_assert_cmpint (truncate (path, 0), ==, 0);
      reply = bus_call (fixture->app, NULL, "", "CreateContext",
                        g_variant_new ("(@a{sv})", bus_options ("{'name': <%s>}", more)), &error);
      if (reply == NULL)
        {
          bus_assert_error (error, "Storage");
          bus_wait_until (is_ready, &announced);
          g_assert_nonnull (strstr (announced.words->str, "ready! "));
        }
      else
        {
          /* there is no such file, so nothing happened */
          g_assert_cmpuint (i, ==, 0);
        }
      g_free (g_steal_pointer (&context));
      context = bus_open (fixture->app, made);
      g_free (bus_ask (fixture->app, context, "Hello", bus_options (SHORT), NULL));
      g_assert_cmpint (bus_rig_get_pid (fixture->rig), ==, pid);
      unsubscribe (fixture->app, subscription, &announced);
    }

  /* what was acknowledged last is there after it was killed */
  bus_rig_end_daemon (fixture->rig, SIGKILL);
  g_free (g_steal_pointer (&context));
  context = bus_open (fixture->app, "made-3");
  g_assert_cmpuint (bus_count_messages (fixture->app, context, NULL), ==, 2);
  word = get_availability (fixture->app, "Availability");
  g_assert_cmpstr (word, ==, "ready");
}

#define ADD(path, func) \
  g_test_add (path, BusFixture, NULL, bus_fixture_set_up, func, bus_fixture_tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/bus/storage/start", test_start);
  ADD ("/bus/storage/running", test_running);
  return g_test_run ();
}
