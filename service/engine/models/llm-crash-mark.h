/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file that exists while a model is loaded, and as long as all of it is in memory that the kernel
 * can't reclaim. A start that finds it knows that the earlier process did not end by itself (it ran
 * out of memory, or of power). Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmCrashMark LlmCrashMark;

/* @folder: (nullable): where the file is; without one nothing is recorded. */
LlmCrashMark *llm_crash_mark_new    (const char   *folder);
void          llm_crash_mark_free   (LlmCrashMark *self);
/* The model @id is being loaded. Returns whether an earlier process crashed with it, and no load
 * has succeeded since. */
gboolean      llm_crash_mark_begin  (LlmCrashMark *self,
                                     const char   *id);
/* It is loaded; @is_held: in memory that the kernel can't reclaim. */
void          llm_crash_mark_loaded (LlmCrashMark *self,
                                     gboolean      is_held);
/* It is not held in such memory any more; or the process ends normally. */
void          llm_crash_mark_ended  (LlmCrashMark *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCrashMark, llm_crash_mark_free)

G_END_DECLS
