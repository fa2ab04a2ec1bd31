/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The source that is always there: a timer; and the one of the desktop, a signal. */

#include "memory/llm-memory-policy.h"
#include "memory/llm-pressure-source-private.h"

/* --- the timer --- */

#define LLM_TYPE_POLL_SOURCE (llm_poll_source_get_type ())
G_DECLARE_FINAL_TYPE (LlmPollSource, llm_poll_source, LLM, POLL_SOURCE, LlmPressureSource)

struct _LlmPollSource
{
  LlmPressureSource parent_instance;

  guint timer;          /* source */
  gboolean is_tight;
};

G_DEFINE_FINAL_TYPE (LlmPollSource, llm_poll_source, LLM_TYPE_PRESSURE_SOURCE)

static gboolean
on_time (gpointer data)
{
  llm_pressure_source_stir (data, LLM_PRESSURE_NONE);
  return G_SOURCE_CONTINUE;
}

/* While it is calm the timer goes off together with those of the rest of the process. */
static void
restart_timer (LlmPollSource *self)
{
  g_clear_handle_id (&self->timer, g_source_remove);
  self->timer = self->is_tight ? g_timeout_add (LLM_MEMORY_TIGHT_MS, on_time, self)
                               : g_timeout_add_seconds (LLM_MEMORY_CALM_MS / 1000, on_time, self);
}

static void
set_tight (LlmPressureSource *source,
           gboolean           is_tight)
{
  LlmPollSource *self = LLM_POLL_SOURCE (source);

  if (self->is_tight == is_tight)
    return;
  self->is_tight = is_tight;
  restart_timer (self);
}

static void
llm_poll_source_finalize (GObject *object)
{
  g_clear_handle_id (&LLM_POLL_SOURCE (object)->timer, g_source_remove);
  G_OBJECT_CLASS (llm_poll_source_parent_class)->finalize (object);
}

static void
llm_poll_source_class_init (LlmPollSourceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_poll_source_finalize;
  LLM_PRESSURE_SOURCE_CLASS (klass)->set_tight = set_tight;
}

static void
llm_poll_source_init (LlmPollSource *self)
{
  llm_pressure_source_set_name (LLM_PRESSURE_SOURCE (self), "poll");
  restart_timer (self);
}

LlmPressureSource *
llm_poll_source_new (void)
{
  return g_object_new (LLM_TYPE_POLL_SOURCE, NULL);
}

/* --- the desktop --- */

#define LLM_TYPE_MONITOR_SOURCE (llm_monitor_source_get_type ())
G_DECLARE_FINAL_TYPE (LlmMonitorSource, llm_monitor_source, LLM, MONITOR_SOURCE, LlmPressureSource)

struct _LlmMonitorSource
{
  LlmPressureSource parent_instance;

  GMemoryMonitor *monitor;  /* (owned) */
};

G_DEFINE_FINAL_TYPE (LlmMonitorSource, llm_monitor_source, LLM_TYPE_PRESSURE_SOURCE)

static void
on_warning (GMemoryMonitor            *monitor,
            GMemoryMonitorWarningLevel level,
            LlmPressureSource         *self)
{
  LlmPressure hint = LLM_PRESSURE_LOW;

  if (level >= G_MEMORY_MONITOR_WARNING_LEVEL_CRITICAL)
    hint = LLM_PRESSURE_CRITICAL;
  else if (level >= G_MEMORY_MONITOR_WARNING_LEVEL_MEDIUM)
    hint = LLM_PRESSURE_MEDIUM;
  llm_pressure_source_stir (self, hint);
}

static void
llm_monitor_source_dispose (GObject *object)
{
  g_clear_object (&LLM_MONITOR_SOURCE (object)->monitor);
  G_OBJECT_CLASS (llm_monitor_source_parent_class)->dispose (object);
}

static void
llm_monitor_source_class_init (LlmMonitorSourceClass *klass)
{
  G_OBJECT_CLASS (klass)->dispose = llm_monitor_source_dispose;
}

static void
llm_monitor_source_init (LlmMonitorSource *self)
{
  llm_pressure_source_set_name (LLM_PRESSURE_SOURCE (self), "monitor");
}

LlmPressureSource *
llm_monitor_source_new (GMemoryMonitor *monitor)
{
  LlmMonitorSource *self = g_object_new (LLM_TYPE_MONITOR_SOURCE, NULL);

  self->monitor = g_object_ref (monitor);
  g_signal_connect_object (monitor, "low-memory-warning", G_CALLBACK (on_warning), self, 0);
  return LLM_PRESSURE_SOURCE (self);
}
