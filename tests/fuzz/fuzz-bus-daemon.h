/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The real service on a private bus, as a child whose end is seen: with a state folder that may
 * outlive it, what it says in a file, and the sanitizers' reports in files of their own. One
 * thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _FuzzBusDaemon FuzzBusDaemon;

/* The bus and the folders; the service is started by fuzz_bus_daemon_start(). */
FuzzBusDaemon   *fuzz_bus_daemon_new         (const char     *program,
                                              const char     *model);
void             fuzz_bus_daemon_free        (FuzzBusDaemon  *self);
/* Returns when the service has its name. @keep_state: with what the last one left, and with the usual
 * limit on how often one may call, which is lifted otherwise. */
gboolean         fuzz_bus_daemon_start       (FuzzBusDaemon  *self,
                                              gboolean        keep_state,
                                              GError        **error);
/* Ends it in order. FALSE when it did not end so, or a sanitizer had something to say. */
gboolean         fuzz_bus_daemon_stop        (FuzzBusDaemon  *self,
                                              GError        **error);
/* FALSE with @error when it has ended by itself, or a sanitizer has reported. */
gboolean         fuzz_bus_daemon_check       (FuzzBusDaemon  *self,
                                              GError        **error);
/* (transfer full): another caller. */
GDBusConnection *fuzz_bus_daemon_connect     (FuzzBusDaemon  *self,
                                              GError        **error);
/* Resident memory of the service, in KiB; 0 when it is not there. */
guint64          fuzz_bus_daemon_get_kib     (FuzzBusDaemon  *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (FuzzBusDaemon, fuzz_bus_daemon_free)

G_END_DECLS
