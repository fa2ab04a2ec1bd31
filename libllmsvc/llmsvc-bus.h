/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the service is: on the system bus, or on the session bus for one user. For
 * programs that speak plain D-Bus; #LlmsvcClient uses it itself.
 */

#pragma once

#include <gio/gio.h>

#include "llmsvc-version.h"

G_BEGIN_DECLS

/**
 * llmsvc_bus_find_async:
 * @bus_type: %G_BUS_TYPE_SYSTEM, %G_BUS_TYPE_SESSION, or %G_BUS_TYPE_NONE for the
 *   system bus when the service is there, else the session bus
 * @cancellable: (nullable): to stop looking
 * @callback: (scope async): called when it is found or not
 * @user_data: for @callback
 *
 * Looks for a bus on which the service runs or can be started. Does not start it.
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
void             llmsvc_bus_find_async  (GBusType             bus_type,
                                         GCancellable        *cancellable,
                                         GAsyncReadyCallback  callback,
                                         gpointer             user_data);

/**
 * llmsvc_bus_find_finish:
 * @result: given to the callback
 * @found_type: (out) (optional): %G_BUS_TYPE_SYSTEM or %G_BUS_TYPE_SESSION
 * @is_running: (out) (optional): whether the service runs; it can be started if not
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE
 *   when it is on no bus
 *
 * Ends what llmsvc_bus_find_async() began.
 *
 * Returns: (transfer full): the connection, shared as g_bus_get() shares it and not
 *   ending the process when it closes
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
GDBusConnection *llmsvc_bus_find_finish (GAsyncResult        *result,
                                         GBusType            *found_type,
                                         gboolean            *is_running,
                                         GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
