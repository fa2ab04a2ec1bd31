/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-caller.h"

LlmCaller *
llm_caller_new (guint32     uid,
                const char *app_id,
                const char *connection,
                gboolean    is_sandboxed,
                gboolean    is_known)
{
  LlmCaller *self = g_new0 (LlmCaller, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->uid = uid;
  self->app_id = g_strdup (app_id);
  self->connection = g_strdup (connection);
  self->is_sandboxed = is_sandboxed;
  self->is_known = is_known;
  return self;
}

LlmCaller *
llm_caller_ref (LlmCaller *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_caller_unref (LlmCaller *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_free (self->app_id);
  g_free (self->connection);
  g_free (self);
}

gboolean
llm_caller_same_app (const LlmCaller *a,
                     const LlmCaller *b)
{
  return a->uid == b->uid && g_str_equal (a->app_id, b->app_id);
}
