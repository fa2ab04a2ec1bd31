/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A prepared copy in use: a mapped file, or memory of this process where there is
 * no place for one. What can wait happens on a thread of its own: reading ahead,
 * writing a new file through to the disk and giving it its name, and comparing
 * checksums. Any thread.
 */

#pragma once

#include "weights/llm-prepared-file.h"

G_BEGIN_DECLS

typedef struct _LlmPreparedCopy LlmPreparedCopy;

/* Memory for @plan, in huge pages where there are any; all zeros. NULL when there is none. */
LlmPreparedCopy *llm_prepared_copy_new_in_memory (const LlmPreparedPlan *plan);
/* A file of the cache, checked, at @path. @fd: an own one of it, which is taken,
 * when its checksums are to be compared as soon as there is time; -1 when not. */
LlmPreparedCopy *llm_prepared_copy_new_for_file  (const LlmPreparedPlan *plan,
                                                  LlmFileMap            *map,
                                                  const LlmPreparedHead *head,
                                                  int                    fd,
                                                  const char            *path);
/* A file that was just written, mapped as @map and called @part so far: it becomes
 * @path when it is safe on the disk. Takes @fd, an own one. */
LlmPreparedCopy *llm_prepared_copy_new_for_part  (const LlmPreparedPlan *plan,
                                                  LlmFileMap            *map,
                                                  int                    fd,
                                                  const char            *part,
                                                  const char            *path);
/* Begins with what can wait. @packed_from: (nullable): the file that the matrices of
 * @plan were packed from now: memory of their rows is given back, mapping and page
 * cache. */
void             llm_prepared_copy_start         (LlmPreparedCopy       *self,
                                                  const LlmPreparedPlan *plan,
                                                  LlmGguf               *packed_from);
/* Gives the memory back, page cache included unless @keeps_cache. */
void             llm_prepared_copy_end           (LlmPreparedCopy       *self,
                                                  gboolean               keeps_cache);
static inline void
llm_prepared_copy_free (LlmPreparedCopy *self)
{
  llm_prepared_copy_end (self, FALSE);
}

/* The matrices: LlmPreparedMatrix.offset counts from here. */
const guint8    *llm_prepared_copy_get_data      (LlmPreparedCopy       *self);
/* (nullable): where to pack to, of a copy in memory. */
guint8          *llm_prepared_copy_get_memory    (LlmPreparedCopy       *self);
/* Whether the kernel can take its memory by itself: a file's. */
gboolean         llm_prepared_copy_is_file       (LlmPreparedCopy       *self);
/* Gives the memory of the range of matrices back. Memory of this process reads as zeros then;
 * a file is read again when it is used. What waits on the thread waits until it is taken. */
void             llm_prepared_copy_drop          (LlmPreparedCopy       *self,
                                                  guint64                offset,
                                                  guint64                length);
void             llm_prepared_copy_take          (LlmPreparedCopy       *self);
/* Of a file: where the last @bytes that are in memory of the first @end bytes of matrices begin, or
 * a little before. @resident: (out): bytes in memory from there on. */
guint64          llm_prepared_copy_find_tail     (LlmPreparedCopy       *self,
                                                  guint64                end,
                                                  guint64                bytes,
                                                  guint64               *resident);
/* Of a file: appends the first @end bytes of matrices, as LlmWeightPiece. */
void             llm_prepared_copy_list_piece    (LlmPreparedCopy       *self,
                                                  guint64                end,
                                                  GArray                *pieces);
/* Has the system read the range of a file. */
void             llm_prepared_copy_prefetch      (LlmPreparedCopy       *self,
                                                  guint64                offset,
                                                  guint64                length);
/* FALSE when what was read may not have been what was packed. */
gboolean         llm_prepared_copy_is_good       (LlmPreparedCopy       *self);

/* Compares the checksums of a file for which that is due, and notes that it was done;
 * removes a file that is damaged. What the thread does in the end. */
void             llm_prepared_copy_verify        (LlmPreparedCopy       *self);

/* Waits until all new files of this process have their names: for a program that
 * is about to end. */
void             llm_prepared_copy_wait_for_all  (void);

/* The extended attribute of files whose checksums were compared. */
#define LLM_PREPARED_VERIFIED "user.llmsvc.verified"

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPreparedCopy, llm_prepared_copy_free)

G_END_DECLS
