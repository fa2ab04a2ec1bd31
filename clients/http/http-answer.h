/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a client of chat completions reads: an object, or pieces of one as events. Any thread. */

#pragma once

#include <llmsvc.h>

G_BEGIN_DECLS

/* What all pieces of one answer have alike. */
typedef struct
{
  char *id;        /* (owned) */
  gint64 created;  /* seconds since 1970 */
  char *model;     /* (owned) */
} HttpAnswer;

HttpAnswer *http_answer_new          (const char       *model);
void        http_answer_free         (HttpAnswer       *self);

/* (transfer full): all of it. */
char       *http_answer_write_whole  (const HttpAnswer *self,
                                      LlmsvcAnswer     *answer);

/* Each appends one event to @out. */
void        http_answer_append_role  (const HttpAnswer *self,
                                      GString          *out);
/* @key: content, or reasoning_content */
void        http_answer_append_text  (const HttpAnswer *self,
                                      GString          *out,
                                      const char       *key,
                                      const char       *text);
/* @call: JSON, as the service has it; number @index of the answer */
void        http_answer_append_call  (const HttpAnswer *self,
                                      GString          *out,
                                      const char       *call,
                                      guint             index);
/* Why it ended; then, with @tells_usage, what it took; then that nothing follows. */
void        http_answer_append_end   (const HttpAnswer *self,
                                      GString          *out,
                                      LlmsvcAnswer     *answer,
                                      gboolean          tells_usage);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpAnswer, http_answer_free)

G_END_DECLS
