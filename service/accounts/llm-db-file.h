/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The file of the database: opened with an exclusive lock, set up, and compared with what its name
 * stands for now. One thread at a time has all of it; everything here may block.
 */

#pragma once

#include <sys/stat.h>

#include "accounts/llm-db.h"

G_BEGIN_DECLS

/* the database and its journal */
#define LLM_DB_N_FILES 2

typedef struct
{
  sqlite3 *db;
  char *path;                    /* (nullable): NULL for one in memory */
  char *folder;                  /* (nullable): as it was given */
  int fd;                        /* of the folder, or -1 */
  struct stat folder_status;
  struct stat statuses[LLM_DB_N_FILES]; /* as last seen */
} LlmDbFile;

/**
 * llm_db_file_open:
 * @folder: (nullable): %NULL for a database in memory
 * @is_damaged: whether it was found to be so
 * @fault: (out): why it failed
 *
 * Opens FOLDER/contexts.db, making both. The folder may be a symbolic link of root or of the user
 * who runs the service; what is in it may not. Of a damaged file what can be read is copied into a
 * new one (llm_db_salvage()); it is kept beside it with a warning, never deleted.
 *
 * Returns: (transfer full): or %NULL with LLMSVC_ERROR_STORAGE
 */
LlmDbFile *llm_db_file_open    (const char        *folder,
                                const LlmDbSchema *schema,
                                gboolean           is_damaged,
                                LlmDbFault        *fault,
                                GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Writes the journal into the database, and closes it; leaves both alone when others are there by
 * now under their names. */
void       llm_db_file_close   (LlmDbFile         *self);
/* Whether what was written is still there under its name, and as long as it was; or fails with
 * LLMSVC_ERROR_STORAGE: then it is to be closed. */
gboolean   llm_db_file_check   (LlmDbFile         *self,
                                GError           **error);

/* --- llm-db-journal.c --- */

/* Looks whether the journal of @db, which has the file for itself and has written nothing yet, was
 * written over; then it is kept as PATH-wal.damaged-TIME, with a warning, and SQLite uses what is
 * before the damage. FALSE with LLMSVC_ERROR_STORAGE when it can't be kept: all stays
 * as it was. */
gboolean llm_db_check_journal (const char *path,
                               sqlite3    *db,
                               GError    **error);

/* --- llm-db-salvage.c --- */

/* (transfer full): PATH.damaged-TIME, now, or a little later: one that was kept before stays. */
char    *llm_db_find_copy_path (const char *path);


/**
 * llm_db_salvage:
 * @path: the database, which must not be open
 *
 * Copies the database row by row into a new one, which takes its place; it is kept itself as
 * PATH.damaged-TIME, with a warning. Rows are looked for in all pages, without SQLite's trees:
 * where an inner page is damaged, the rows below it are still there. @schema says what becomes of
 * them.
 * The new one is complete on the disk before it takes the place of the old one. When nothing can be
 * read, there is none in its place.
 *
 * Returns: %FALSE with LLMSVC_ERROR_STORAGE when nothing can be written; then all is as it was
 */
gboolean llm_db_salvage (const char        *path,
                         const LlmDbSchema *schema,
                         GError           **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDbFile, llm_db_file_close)

G_END_DECLS
