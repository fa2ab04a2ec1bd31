/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reports files that are added, removed or changed in folders, by inotify: nothing wakes up without
 * changes, and a file that is being written is reported when it appears and when its writer closes
 * it, not in between. For a missing folder, the nearest existing one above is watched. Where the
 * kernel can't watch (the limits of inotify), a change is reported every few seconds. Made in any
 * thread, because it looks at paths, which may block; used in one, with the default main context.
 */

#pragma once

#include <glib.h>

typedef struct _LlmFolderWatch LlmFolderWatch;

/* @suffix: of the names that matter; those with a dot in front never do. Watches from here on, so a
 * scan that begins afterwards misses nothing. */
LlmFolderWatch *llm_folder_watch_new      (const char *const *folders,
                                           const char        *suffix);
void            llm_folder_watch_free     (LlmFolderWatch    *self);

/* @changed is called a moment after a change, once for all that came until then. */
void            llm_folder_watch_start    (LlmFolderWatch    *self,
                                           GSourceOnceFunc    changed,
                                           gpointer           data);

/* Whether a folder has come or gone, or the kernel could not watch: then a new watch is needed. */
gboolean        llm_folder_watch_is_stale (LlmFolderWatch    *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmFolderWatch, llm_folder_watch_free)
