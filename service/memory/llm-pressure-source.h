/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reports when memory should be read; llm-memory-reading.h reads it. Constructors differ in what is
 * waited on; each takes a path or an object that tests replace. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "memory/llm-pressure.h"

G_BEGIN_DECLS

typedef struct _LlmPressureSource LlmPressureSource;

/* @hint: level of a desktop or manager; LLM_PRESSURE_NONE from the kernel. */
typedef void (*LlmPressureFunc) (LlmPressure hint,
                                 gpointer    data);

/* Sets the callback; events before are dropped. */
void               llm_pressure_source_set_func (LlmPressureSource *self,
                                                 LlmPressureFunc    func,
                                                 gpointer           data);
void               llm_pressure_source_free     (LlmPressureSource *self);

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

/* Version 2: the file memory.events of a group, which changes when a limit is reached. */
LlmPressureSource *llm_events_source_new  (const char        *path,
                                           GError           **error);

/* Version 1: the group in @folder reports when its usage passes @bytes, upwards or downwards; or
 * when the kernel reclaims in it (@bytes 0). */
LlmPressureSource *llm_usage_source_new   (const char        *folder,
                                           guint64            bytes,
                                           GError           **error);

/* The desktop's low-memory signal. */
LlmPressureSource *llm_monitor_source_new (GMemoryMonitor    *monitor);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPressureSource, llm_pressure_source_free)

G_END_DECLS
