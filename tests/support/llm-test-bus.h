/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The private bus of a test that talks over one: GTestDBus, and a test that aborts ends
 * at once. GIO alone; main thread; one bus at a time in a process.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* As g_test_dbus_up() and g_test_dbus_down(). In between, a test that aborts or crashes
 * takes its bus along, and so what has that bus's connections or was started by it: who
 * waits for the test's output waits for them too. GTestDBus does that for the first bus
 * of a process only, the later ones inherit the pipe it watches. */
void             llm_test_bus_up        (GTestDBus       *bus);
void             llm_test_bus_down      (GTestDBus       *bus);

/* (transfer full): a connection of its own, another caller. */
GDBusConnection *llm_test_bus_connect   (GTestDBus       *bus) G_GNUC_WARN_UNUSED_RESULT;

/* The process that owns @name, 0 for none. Asks the bus. */
int              llm_test_bus_get_owner (GDBusConnection *connection,
                                         const char      *name);

G_END_DECLS
