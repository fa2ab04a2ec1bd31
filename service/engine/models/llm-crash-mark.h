/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file that is there while a model is loaded, and as long as all of it is held in memory that only we
 * can give back: what a start finds of the one before, whose process did not end by itself (it ran out
 * of memory, or of power). Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmCrashMark LlmCrashMark;

/* @folder: (nullable): where the file lies; without one nothing is noted. */
LlmCrashMark *llm_crash_mark_new    (const char   *folder);
void          llm_crash_mark_free   (LlmCrashMark *self);
/* The model @id is being loaded. Returns whether an earlier process ended with it, and no load was good
 * since. */
gboolean      llm_crash_mark_begin  (LlmCrashMark *self,
                                     const char   *id);
/* It is loaded; @is_held: in memory that only we can give back. */
void          llm_crash_mark_loaded (LlmCrashMark *self,
                                     gboolean      is_held);
/* It is not held, or not any more; or the process ends by itself. */
void          llm_crash_mark_ended  (LlmCrashMark *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCrashMark, llm_crash_mark_free)

G_END_DECLS
