/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who asks: as the bus found it out, for the engine to keep contexts apart and
 * count by. Immutable and reference-counted. Main thread.
 */

#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

typedef struct
{
  gatomicrefcount ref_count;
  guint32 uid;
  char *app_id;         /* "" when the application is not identified */
  char *connection;     /* unique bus name: unnamed contexts and answers end with it */
  gboolean is_sandboxed;
  gboolean is_known;    /* FALSE: reading its identity failed, the least is granted */
} LlmCaller;

LlmCaller *llm_caller_new      (guint32     uid,
                                const char *app_id,
                                const char *connection,
                                gboolean    is_sandboxed,
                                gboolean    is_known);
LlmCaller *llm_caller_ref      (LlmCaller  *self);
void       llm_caller_unref    (LlmCaller  *self);
/* Whether both are the same user's same application. */
gboolean   llm_caller_same_app (const LlmCaller *a,
                                const LlmCaller *b);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCaller, llm_caller_unref)

G_END_DECLS
