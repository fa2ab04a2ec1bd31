/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A damaged context database: what can be read of it goes into a new one. Database thread. */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/**
 * llm_db_salvage:
 * @path: the database, which must not be open
 *
 * Copies the database row by row into a new one, which takes its place; it is kept itself as
 * PATH.damaged-TIME. Rows that SQLite does not find any more are looked for in all pages, and taken
 * where their checksums are right. A context that can't be read as a whole is there without its text and with its
 * damage noted, where at least its owner and name can be read. The new one is complete on the disk
 * before it takes the place of the old one.
 *
 * Returns: %FALSE with LLMSVC_ERROR_STORAGE when nothing at all can be read, or nothing be written;
 *   then all is as it was
 */
gboolean llm_db_salvage (const char *path,
                         GError    **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same, or else it is kept with a warning, never deleted, and there is none in its place. */
gboolean llm_db_replace (const char *path,
                         GError    **error) G_GNUC_WARN_UNUSED_RESULT;

/* --- llm-db-aside.c --- */

/* (transfer full): PATH.damaged-TIME, now, or a little later: one that was kept before stays. */
char    *llm_db_find_copy_path (const char *path);
/* The file and its journal, which would otherwise be played into the next file, are kept as @copy.
 * @target (nullable) takes its place: a database left by a crash in between is whole, the old one
 * until the last rename. */
gboolean llm_db_put_aside (const char *path,
                           const char *copy,
                           const char *target,
                           GError    **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
