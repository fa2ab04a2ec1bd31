/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Small files of keys and values that the service writes for itself, in folders that others may
 * have written to: read with a limit, and replaced as a whole. Any thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* (transfer full) (nullable): NULL when it can't be read, is no such file, or has more than
 * @max_bytes. What it says was not looked at. */
GKeyFile *llm_key_file_read  (const char  *path,
                              gsize        max_bytes);
/* Replaces FOLDER/@name. @folder is made where it is missing. @is_shared: all users may read it.
 * @waits: until it is on the disk, and so outlives a crash of the system. Fails with STORAGE. */
gboolean  llm_key_file_write (GKeyFile    *file,
                              const char  *folder,
                              const char  *name,
                              gboolean     is_shared,
                              gboolean     waits,
                              GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
