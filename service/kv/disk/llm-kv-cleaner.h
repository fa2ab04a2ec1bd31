/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread that gives blocks back to file systems, which can take longer than a call should
 * wait: the last close of a removed file, and holes where chunks are dead. Its owner's
 * thread calls everything here.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _LlmKvCleaner LlmKvCleaner;

typedef struct
{
  guint64 begin;
  guint64 end;
} LlmKvRange;

typedef void (*LlmKvCleanerFunc) (gpointer data);

LlmKvCleaner *llm_kv_cleaner_new   (void);
/* Waits for the thread. */
void          llm_kv_cleaner_free  (LlmKvCleaner *self);
/* Removes a name; what it stood for goes later. */
void          llm_kv_cleaner_unlink (LlmKvCleaner *self,
                                    int           folder_fd,
                                    const char   *name);
/* Takes @fd, and closes it. */
void          llm_kv_cleaner_close (LlmKvCleaner *self,
                                    int           fd);
/* Writes @header (transfer full) to the beginning of @fd (transfer full), and gives the blocks in
 * @ranges (transfer full) (element-type LlmKvRange) back. */
void          llm_kv_cleaner_punch (LlmKvCleaner *self,
                                    int           fd,
                                    GBytes       *header,
                                    GArray       *ranges);
/* Calls @func (@data) in the thread, when all that was given before is done. */
void          llm_kv_cleaner_call  (LlmKvCleaner *self,
                                    LlmKvCleanerFunc func,
                                    gpointer      data);
/* What a file that was punched takes now; FALSE when there is none to tell of. Each is told
 * once. */
gboolean      llm_kv_cleaner_take_result (LlmKvCleaner *self,
                                    guint64      *inode,
                                    guint64      *bytes);

G_END_DECLS
