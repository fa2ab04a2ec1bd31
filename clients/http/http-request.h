/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a request asks for, from untrusted JSON. Unknown members are ignored, as clients send many; known ones
 * that can't be honoured are refused, by name. Any thread.
 */

#pragma once

#include <json-glib/json-glib.h>
#include <llmsvc.h>

G_BEGIN_DECLS

typedef struct
{
  char *model;             /* (nullable) (owned): as the client names it */
  char *prompt;            /* (nullable) (owned): instead of messages */
  GPtrArray *messages;     /* (element-type LlmsvcMessage) (owned) */
  LlmsvcOptions *options;  /* (owned) */
  gboolean streams;
  gboolean tells_usage;    /* in a stream, behind its last piece */
} HttpRequest;

HttpRequest *http_request_new          (void);
void         http_request_free         (HttpRequest  *self);

/* (transfer full) (nullable): the object that @body is, which need not end with NUL. */
JsonNode    *http_request_parse        (const char   *body,
                                        gsize         length,
                                        GError      **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full) (nullable): of chat completions. */
HttpRequest *http_request_read_chat    (JsonObject   *object,
                                        GError      **error) G_GNUC_WARN_UNUSED_RESULT;

/* --- for other kinds of requests --- */

/* (nullable): NULL where there is none, or null. */
JsonNode    *http_request_get_member   (JsonObject   *object,
                                        const char   *key);
/* FALSE: it is there, and no string. @text: (out): NULL where there is none. */
gboolean     http_request_read_string  (JsonObject   *object,
                                        const char   *key,
                                        const char  **text,
                                        GError      **error);
gboolean     http_request_read_boolean (JsonObject   *object,
                                        const char   *key,
                                        gboolean     *value,
                                        GError      **error);
/* What all kinds have: the model, sampling, when it ends, and whether it streams. */
gboolean     http_request_read_common  (HttpRequest  *self,
                                        JsonObject   *object,
                                        GError      **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpRequest, http_request_free)

G_END_DECLS
