/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a context. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"
#include "engine/llm-generation-private.h"

void
llm_context_end (LlmContext *self,
                 const char *reason)
{
  g_autoptr(LlmContext) hold = g_object_ref (self);

  if (self->is_closed)
    return;
  self->is_closed = TRUE;
  if (self->engine->executor != NULL)
    llm_executor_drop_session (self->engine->executor, self->session, self->id);
  llm_engine_remove_context (self->engine, self);
  g_signal_emit_by_name (self, "closed", reason);
}

static void
on_idle_for_leave (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  llm_context_end (LLM_CONTEXT (source), data);
}

void
llm_context_leave (LlmContext *self,
                   const char *reason)
{
  if (self->generation != NULL)
    llm_generation_leave (self->generation);
  llm_context_stop_ahead (self);
  if (self->is_busy)
    g_queue_push_tail (&self->waiting_idle, g_task_new (self, NULL, on_idle_for_leave, (gpointer) reason));
  else
    llm_context_end (self, reason);
}
