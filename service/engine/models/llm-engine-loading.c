/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Progress of loading a model: repacking gigabytes takes long enough for users to wonder. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-engine-private.h"

#define INTERVAL_MS 400

guint64
llm_engine_get_load_progress (LlmEngine *self,
                              guint64   *total_bytes)
{
  guint64 total = __atomic_load_n (&self->loading.load.total_bytes, __ATOMIC_RELAXED);

  *total_bytes = total;
  return MIN (__atomic_load_n (&self->loading.load.done_bytes, __ATOMIC_RELAXED), total);
}

static gboolean
on_interval (gpointer data)
{
  LlmEngine *self = data;
  guint64 total;
  guint64 done = llm_engine_get_load_progress (self, &total);

  if (total > 0 && done != self->loading.told_load_bytes)
    g_signal_emit_by_name (self, "load-progress");
  self->loading.told_load_bytes = done;
  return G_SOURCE_CONTINUE;
}

void
llm_engine_begin_load_progress (LlmEngine *self)
{
  g_clear_handle_id (&self->loading.load_timer, g_source_remove);
  self->loading.told_load_bytes = G_MAXUINT64;
  self->loading.load_timer = g_timeout_add (INTERVAL_MS, on_interval, self);
}

void
llm_engine_end_load_progress (LlmEngine *self)
{
  gboolean was_told = self->loading.told_load_bytes != G_MAXUINT64;

  g_clear_handle_id (&self->loading.load_timer, g_source_remove);
  __atomic_store_n (&self->loading.load.done_bytes, 0, __ATOMIC_RELAXED);
  __atomic_store_n (&self->loading.load.total_bytes, 0, __ATOMIC_RELAXED);
  if (was_told)
    g_signal_emit_by_name (self, "load-progress");
}
