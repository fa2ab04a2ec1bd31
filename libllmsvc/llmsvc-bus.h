/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the service is: on the system bus, or on the session bus for one user. For
 * programs that speak plain D-Bus; #LlmsvcClient uses it itself.
 */

#pragma once

#include <gio/gio.h>

#include "llmsvc-version.h"

G_BEGIN_DECLS

LLMSVC_AVAILABLE_IN_0_1
void             llmsvc_bus_find_async  (GBusType             bus_type,
                                         GCancellable        *cancellable,
                                         GAsyncReadyCallback  callback,
                                         gpointer             user_data);
LLMSVC_AVAILABLE_IN_0_1
GDBusConnection *llmsvc_bus_find_finish (GAsyncResult        *result,
                                         GBusType            *found_type,
                                         gboolean            *is_running,
                                         GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
