/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Connections, who is at their other end, and what they ask for. Unix sockets tell the user; over
 * TCP, on loopback alone, a key does. How many connections there are, how long a request may take to
 * arrive, and how large it is are limited. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "http-keys.h"

G_BEGIN_DECLS

typedef struct _HttpServer HttpServer;

/* @keys: outlives it */
HttpServer *http_server_new     (GBusType     bus_type,
                                 HttpKeys    *keys);
void        http_server_free    (HttpServer  *self);
/* Takes connections from a listening socket. */
gboolean    http_server_listen  (HttpServer  *self,
                                 int          fd,
                                 GError     **error);
/* Since when it has had no connection (monotonic time); 0: it has some. */
gint64      http_server_get_idle_us (const HttpServer *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpServer, http_server_free)

G_END_DECLS
