/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a request asks for, from JSON that may be anything: OpenAI's chat completions. Members that
 * nobody knows are ignored, as clients send many; those that are known and can't be honoured are
 * refused, by name. Any thread.
 */

#pragma once

#include <llmsvc.h>

G_BEGIN_DECLS

typedef struct
{
  char *model;             /* (nullable) (owned): as the client names it */
  GPtrArray *messages;     /* (element-type LlmsvcMessage) (owned): at least one */
  LlmsvcOptions *options;  /* (owned) */
  gboolean streams;
  gboolean tells_usage;    /* in a stream, behind its last piece */
  gboolean has_logprobs;
} HttpRequest;

/* (transfer full) (nullable): @body need not end with NUL. */
HttpRequest *http_request_new_chat (const char   *body,
                                    gsize         length,
                                    GError      **error) G_GNUC_WARN_UNUSED_RESULT;
void         http_request_free     (HttpRequest  *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpRequest, http_request_free)

G_END_DECLS
