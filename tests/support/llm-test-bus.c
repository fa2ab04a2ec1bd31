/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-bus.h"

#include <signal.h>

#define BUS_NAME "org.freedesktop.DBus"
#define CALL_TIMEOUT_MS 120000

/* How tests fail: assertions, fatal messages, faults. */
static const int failures[] = { SIGABRT, SIGTRAP, SIGSEGV };

static struct sigaction before[G_N_ELEMENTS (failures)];
static volatile sig_atomic_t bus_pid;

static void
restore_handlers (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (failures); i++)
    sigaction (failures[i], &before[i], NULL);
}

static void
on_failure (int number)
{
  kill (bus_pid, SIGTERM);
  restore_handlers ();
  raise (number);
}

void
llm_test_bus_up (GTestDBus *bus)
{
  const struct sigaction action = { .sa_handler = on_failure };
  g_autoptr(GDBusConnection) connection = NULL;

  g_assert_cmpint (bus_pid, ==, 0);
  g_test_dbus_up (bus);
  connection = llm_test_bus_connect (bus);
  bus_pid = llm_test_bus_get_owner (connection, BUS_NAME);
  g_assert_cmpint (bus_pid, !=, 0);
  g_dbus_connection_close_sync (connection, NULL, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (failures); i++)
    sigaction (failures[i], &action, &before[i]);
}

void
llm_test_bus_down (GTestDBus *bus)
{
  restore_handlers ();
  bus_pid = 0;
  g_test_dbus_down (bus);
}

GDBusConnection *
llm_test_bus_connect (GTestDBus *bus)
{
  g_autoptr(GError) error = NULL;
  GDBusConnection *connection;

  connection = g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (bus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, &error);
  g_assert_no_error (error);
  return connection;
}

int
llm_test_bus_get_owner (GDBusConnection *connection,
                        const char      *name)
{
  g_autoptr(GVariant) reply = NULL;
  guint32 pid = 0;

  reply = g_dbus_connection_call_sync (connection, BUS_NAME, "/org/freedesktop/DBus", BUS_NAME,
                                       "GetConnectionUnixProcessID", g_variant_new ("(s)", name),
                                       G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE,
                                       CALL_TIMEOUT_MS, NULL, NULL);
  if (reply != NULL)
    g_variant_get (reply, "(u)", &pid);
  return (int) pid;
}
