/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A folder of large files that can be made again at any time: the least recently used are removed
 * for new ones, a file appears under its name when it is whole, and any of them may be removed from
 * outside. Several processes may use one folder. Any thread.
 */

#pragma once

#include <gio/gio.h>

/* Suffix of finished files; files with other names are left alone. */
#define LLM_CACHE_SUFFIX ".prepared"

/* Makes the folder and those above it, for this user alone, or with @is_shared for
 * all to read. */
gboolean llm_cache_folder_make   (const char *folder,
                                  gboolean    is_shared,
                                  GError    **error);

/* Removes the least recently used files until @bytes more fit: into @limit bytes of
 * all files together, and onto the disk. @limit: 0 for half of what the disk would
 * have free without them. @spared: (nullable): the name of one that stays. Fails when they never
 * will, and removes nothing then unless others stay. */
gboolean llm_cache_folder_make_room (const char *folder,
                                     guint64     bytes,
                                     guint64     limit,
                                     const char *spared,
                                     GError    **error);

/* A new file that no other process sees as one of the folder's, open for reading
 * and writing, with @bytes set aside on the disk where the file system can do that;
 * -1 on error. @path: (out) (transfer full): its name until it is whole. */
int      llm_cache_folder_create (const char *folder,
                                  gboolean    is_shared,
                                  guint64     bytes,
                                  char      **path,
                                  GError    **error);

/* Writes all of @bytes at @offset; FALSE with errno set. */
gboolean llm_cache_folder_write  (int           fd,
                                  gconstpointer bytes,
                                  gsize         size,
                                  guint64       offset);

/* Fails with STORAGE: what could not be written, and where space is missing if that is the cause.
 * Returns FALSE. */
gboolean llm_cache_folder_fail_write (const char  *path,
                                      int          saved_errno,
                                      GError     **error);

/* Marks the open file as used now. Does nothing on files of other users. */
void     llm_cache_folder_touch  (int         fd);
