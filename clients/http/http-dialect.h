/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The ways in which clients ask and are answered: each a path of OpenAI's API, with a request of its
 * own and an answer of its own, whole or as events. What is between, the messages, the options and
 * what the service answers, is the same. Main thread.
 */

#pragma once

#include <llmsvc.h>

#include "http-request.h"

G_BEGIN_DECLS

typedef struct _HttpDialect HttpDialect;

/* An answer on its way to the client. */
typedef struct
{
  const HttpDialect *dialect;
  char *id;                /* (owned): without what the dialect puts before it */
  gint64 created;          /* seconds since 1970 */
  char *model;             /* (owned) */
  gboolean tells_usage;
  guint n_calls;           /* of tools, so far */

  /* of /v1/responses */
  guint n_events;
  guint n_items;           /* that have ended */
  GString *item;           /* (nullable) (owned): text of the one under way, NULL: none is */
  gboolean is_reasoning;   /* what that is */
  GString *items;          /* (owned): JSON of those that have ended */
} HttpAnswer;

struct _HttpDialect
{
  const char *path;
  /* (transfer full) (nullable) */
  HttpRequest *(*read) (JsonObject *object, GError **error);
  /* (transfer full): all of it, as JSON */
  char *(*write) (const HttpAnswer *self, LlmsvcAnswer *answer);

  /* Each appends events to @out, or none. */
  void (*begin) (HttpAnswer *self, GString *out);
  void (*add_text) (HttpAnswer *self, GString *out, const char *text);
  void (*add_reasoning) (HttpAnswer *self, GString *out, const char *text);
  /* @call: JSON, as the service has it */
  void (*add_call) (HttpAnswer *self, GString *out, const char *call);
  /* Why it ended and what it took, and that nothing follows. */
  void (*end) (HttpAnswer *self, GString *out, LlmsvcAnswer *answer);
  void (*fail) (HttpAnswer *self, GString *out, const GError *error);
};

extern const HttpDialect http_chat;
extern const HttpDialect http_completions;
extern const HttpDialect http_responses;

HttpAnswer *http_answer_new     (const HttpDialect *dialect,
                                 const char        *model,
                                 gboolean           tells_usage);
void        http_answer_free    (HttpAnswer        *self);

/* --- for dialects --- */

gboolean    http_has_text       (const char        *text);
/* Quoted. */
void        http_append_string  (GString           *out,
                                 const char        *text);
/* "length", "tool_calls" or "stop". */
const char *http_get_reason     (LlmsvcAnswer      *answer);
/* `"usage":{…}` as chat completions have it. */
void        http_append_usage   (GString           *out,
                                 LlmsvcAnswer      *answer);
/* What ends a stream in which an error is one more event. */
void        http_append_failure (HttpAnswer        *self,
                                 GString           *out,
                                 const GError      *error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpAnswer, http_answer_free)

G_END_DECLS
