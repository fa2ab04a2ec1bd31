/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Errors as OpenAI's API has them: a status and {"error":{"message","type","param","code"}}. The
 * domain's codes are the statuses; errors of the service get theirs here. Any thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define HTTP_ERROR (http_error_quark ())

GQuark      http_error_quark (void);

/* FALSE, with an error. @param: (nullable): the member of the request that it is about; @code:
 * (nullable): a name for programs. */
gboolean    http_fail        (GError     **error,
                              guint        status,
                              const char  *param,
                              const char  *code,
                              const char  *format,
                              ...) G_GNUC_PRINTF (5, 6);

/* Of errors of the service, too. */
guint       http_error_get_status      (const GError *error);
/* Seconds after which another try is worth it; 0: nothing is known of that. */
guint       http_error_get_retry_s     (const GError *error);
/* (transfer full): the body. */
char       *http_error_to_json         (const GError *error);

G_END_DECLS
