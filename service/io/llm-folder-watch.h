/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tells that files come to folders, leave them or change there, by inotify: nothing wakes up while
 * nothing happens, and a file that is being written is told of when it appears and when its writer
 * closes it, not in between. A folder that is not there yet is watched for in the nearest one that
 * is. Where the kernel can't watch (the limits of inotify), it is as if something had changed every
 * few seconds. Made in any thread, as it looks at paths, which may block; used in one, with the
 * default main context.
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

/* Whether a folder has come or gone, or the kernel could not watch: time for a new one. */
gboolean        llm_folder_watch_is_stale (LlmFolderWatch    *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmFolderWatch, llm_folder_watch_free)
