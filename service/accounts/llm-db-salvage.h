/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A damaged database: what can be read of it goes into a new one. Database thread. */

#pragma once

#include "accounts/llm-db.h"

G_BEGIN_DECLS

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

G_END_DECLS
