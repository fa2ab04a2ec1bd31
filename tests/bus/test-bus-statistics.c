/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The figures that the daemon tells: those of the engine, each of which has a test that moves it
 * (engine/statistics), and what the bus adds, which is moved here. */

#include "bus/bus-rig.h"
#include "common/llmsvc-statistics.h"
#include "engine/engine-rig.h"

/* More than any quota of calls lets through at once. */
#define N_FLOOD 20000

static GVariant *
read_daemon (BusFixture *fixture)
{
  g_autoptr(GVariant) reply = bus_call_ok (fixture->app, NULL, "", "GetStatistics",
                                           g_variant_new ("(@a{sv})", bus_options ("{}")));

  return g_variant_get_child_value (reply, 0);
}

static void
test_keys (BusFixture   *fixture,
           gconstpointer data)
{
  Fixture engine = { 0 };
  g_autoptr(GVariant) of_engine = NULL;
  g_autoptr(GVariant) of_daemon = NULL;

  set_up (&engine, NULL);
  of_engine = read_statistics (engine.engine);
  of_daemon = read_daemon (fixture);
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    {
      const char *key = llmsvc_statistic_get_info (i)->key;

      g_assert_true (g_variant_lookup (of_daemon, key, "t", NULL));
      g_assert_cmpint (g_variant_lookup (of_engine, key, "t", NULL), ==,
                       i != LLMSVC_STATISTIC_REFUSED_FLOODS);
    }
  g_assert_cmpuint (g_variant_n_children (of_daemon), ==, LLMSVC_N_STATISTICS);
  tear_down (&engine, NULL);
}

static gboolean
has_refused (gpointer data)
{
  g_autoptr(GVariant) statistics = read_daemon (data);
  guint64 n = 0;

  g_assert_true (g_variant_lookup (statistics, "refused-floods", "t", &n));
  return n > 0;
}

/* The replies are not awaited. */
static void
test_floods (BusFixture   *fixture,
             gconstpointer data)
{
  g_autoptr(GDBusConnection) flooder = bus_rig_connect_app (fixture->rig, "org.example.Flooder");

  g_assert_false (has_refused (fixture));
  for (guint i = 0; i < N_FLOOD; i++)
    {
      g_autoptr(GDBusMessage) message = g_dbus_message_new_method_call (
          LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "GetStatistics");

      g_dbus_message_set_flags (message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
      g_dbus_message_set_body (message, g_variant_new ("(@a{sv})", bus_options ("{}")));
      g_assert_true (g_dbus_connection_send_message (flooder, message,
                                                     G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, NULL));
    }
  g_assert_true (g_dbus_connection_flush_sync (flooder, NULL, NULL));
  bus_wait_until (has_refused, fixture);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/bus/statistics/keys", BusFixture, NULL, bus_fixture_set_up, test_keys,
              bus_fixture_tear_down);
  g_test_add ("/bus/statistics/floods", BusFixture, NULL, bus_fixture_set_up, test_floods,
              bus_fixture_tear_down);
  return g_test_run ();
}
