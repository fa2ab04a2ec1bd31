/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Something that says when to look at memory: signal `stirred` (@hint, an LlmPressure) on the main
 * thread, which is all it does; what there is to see, llm-memory-reading.h reads. Kinds differ in
 * what they wait on; each takes a path or an object that tests replace. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "memory/llm-pressure.h"

G_BEGIN_DECLS

#define LLM_TYPE_PRESSURE_SOURCE (llm_pressure_source_get_type ())
G_DECLARE_DERIVABLE_TYPE (LlmPressureSource, llm_pressure_source, LLM, PRESSURE_SOURCE, GObject)

struct _LlmPressureSourceClass
{
  GObjectClass parent_class;

  /* (nullable): whether memory is tight, for kinds that look more often then */
  void (*set_tight) (LlmPressureSource *self,
                     gboolean           is_tight);
};

/* Names the kind, for logs: "poll", "psi", "watch", "events", "usage", "level", "monitor". */
const char        *llm_pressure_source_get_name  (LlmPressureSource *self);
/* Whether to look more often. */
void               llm_pressure_source_set_tight (LlmPressureSource *self,
                                                  gboolean           is_tight);
/* So far. */
guint64            llm_pressure_source_get_n_stirred (LlmPressureSource *self);

/* Looks every LLM_MEMORY_CALM_MS, and every LLM_MEMORY_TIGHT_MS while it is tight. */
LlmPressureSource *llm_poll_source_new    (void);

/* A stall trigger on a PSI file: @stall_us of some tasks' time within @window_us, which has to be a
 * multiple of two seconds. One fd, never read. NULL where the kernel or the sandbox refuses. */
LlmPressureSource *llm_psi_source_new     (const char        *path,
                                           gint64             stall_us,
                                           gint64             window_us,
                                           GError           **error);

/* What a manager asks to watch by MEMORY_PRESSURE_WATCH (@path) and MEMORY_PRESSURE_WRITE
 * (@encoded, nullable, in base64): a PSI file, a FIFO or a socket. NULL for /dev/null, without an
 * error, when watching is switched off; @error when it can't be watched. */
LlmPressureSource *llm_watch_source_new   (const char        *path,
                                           const char        *encoded,
                                           GError           **error);

/* Version 2: the file memory.events of a group, which changes when a limit is met. */
LlmPressureSource *llm_events_source_new  (const char        *path,
                                           GError           **error);

/* Version 1: the group in @folder tells when its usage passes @bytes, upwards or downwards; or when
 * the kernel has to look for pages in it (@bytes 0). */
LlmPressureSource *llm_usage_source_new   (const char        *folder,
                                           guint64            bytes,
                                           GError           **error);

/* The desktop's low-memory signal. */
LlmPressureSource *llm_monitor_source_new (GMemoryMonitor    *monitor);

G_END_DECLS
