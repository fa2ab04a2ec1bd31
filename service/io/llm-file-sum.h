/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The checksum of a whole file, read piece by piece through a disk queue, past the page cache, or
 * so that pages that were not cached before are not cached afterwards either. For files of many
 * gigabytes, in idle time: the owner says when the next piece may be read, and at most one is under
 * way. One thread: the queue's.
 */

#pragma once

#include "base/llm-status.h"
#include "io/llm-disk.h"
#include "io/llm-file-map.h"

typedef struct _LlmFileSum LlmFileSum;

/* Hexadecimal digits of a checksum (XXH3, 128 bits). */
#define LLM_FILE_SUM_DIGITS 32

/* Of the file, or of the files one behind the other, that is mapped as @map, and was not changed
 * since. Fails with FAILED. @disk (unowned) must stay until the end. */
LlmFileSum *llm_file_sum_new  (LlmDisk     *disk,
                               LlmFileMap  *map,
                               GError     **error) G_GNUC_WARN_UNUSED_RESULT;
/* Also while a piece is under way, whose read is then dropped. */
void        llm_file_sum_free (LlmFileSum  *self);

/* Asks for the next piece, unless one is under way: its answer comes with llm_disk_poll(). PENDING
 * while there is more; then READY with the checksum in @digits, LLM_FILE_SUM_DIGITS and a NUL; or
 * FAILED when the file can't be read, or was changed meanwhile. */
LlmStatus   llm_file_sum_work (LlmFileSum  *self,
                               char        *digits,
                               GError     **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmFileSum, llm_file_sum_free)
