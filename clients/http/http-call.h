/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One request for an answer, from its body to the last byte of the reply. When the client goes, the
 * answer is cancelled; a client that reads slowly is sent no more than it takes. Main thread.
 */

#pragma once

#include <libsoup/soup.h>

#include "http-caller.h"
#include "http-dialect.h"

G_BEGIN_DECLS

/* Replies to @message of the connection @socket, later. @request: (transfer full); @name: (nullable): of
 * a context */
void http_call_start     (SoupServerMessage *message,
                          GSocket           *socket,
                          HttpCaller        *caller,
                          const HttpDialect *dialect,
                          HttpRequest       *request,
                          const char        *name);

/* Replies with an error. */
void http_reply_error    (SoupServerMessage *message,
                          const GError      *error);
/* @json: (transfer full) */
void http_reply_json     (SoupServerMessage *message,
                          guint              status,
                          char              *json);

G_END_DECLS
