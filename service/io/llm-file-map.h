/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file mapped for reading, or several as one. Another program may truncate the file while it is
 * mapped: a lost page then reads as zeros and marks the map as damaged, instead of killing the
 * process with SIGBUS. Any thread.
 */

#pragma once

#include <gio/gio.h>

typedef struct _LlmFileMap LlmFileMap;

/* Bytes of a huge page. */
#define LLM_FILE_MAP_HUGE ((gsize) 2 << 20)

/* Identifies the content of a file without reading it. */
typedef struct
{
  guint64 device;
  guint64 inode;
  guint64 size;
  gint64 modified_s;
  gint64 modified_ns;
  gint64 changed_s;      /* ctime: no program can set it back */
  gint64 changed_ns;
  guint32 uid;
  guint32 mode;
} LlmFileIdentity;

/* Of the file that is open as @fd, as of now. FALSE when the system does not tell. */
gboolean      llm_file_identity_read      (int              fd,
                                           LlmFileIdentity *identity);
/* The same for a path. */
gboolean      llm_file_identity_read_path (const char      *path,
                                           LlmFileIdentity *identity);
/* Whether both have the same content, as far as that is known without reading it. A device may
 * have another number after a restart of the machine, so it is compared only where @is_strict. */
gboolean      llm_file_identity_equal     (const LlmFileIdentity *a,
                                           const LlmFileIdentity *b,
                                           gboolean               is_strict);

/* Maps a regular file read-only. The error names the path and the reason. */
LlmFileMap   *llm_file_map_open           (const char   *path,
                                           GError      **error) G_GNUC_WARN_UNUSED_RESULT;
/* Maps the file that is open as @fd, which it takes, also when it fails; @path is
 * for messages. For files that are read as a whole and for long: the mapping
 * begins at a multiple of LLM_FILE_MAP_HUGE, so that runs of the file that the page
 * cache holds in one piece take one entry of the page tables. */
LlmFileMap   *llm_file_map_new_for_fd     (int           fd,
                                           const char   *path,
                                           GError      **error) G_GNUC_WARN_UNUSED_RESULT;
/* The files of @maps, each of one file, as one: each begins at a page after the one before. */
LlmFileMap   *llm_file_map_join           (LlmFileMap *const *maps,
                                           guint         n_maps,
                                           GError      **error) G_GNUC_WARN_UNUSED_RESULT;
LlmFileMap   *llm_file_map_new_for_bytes  (GBytes       *bytes);
LlmFileMap   *llm_file_map_ref            (LlmFileMap   *self);
void          llm_file_map_unref          (LlmFileMap   *self);

const guint8 *llm_file_map_get_data       (LlmFileMap   *self);
guint64       llm_file_map_get_size       (LlmFileMap   *self);

/* As of when it was mapped; of several files the size is that of all, the times are the latest, and
 * the rest is the first one's. FALSE for bytes, which are no file. */
gboolean      llm_file_map_get_identity   (LlmFileMap      *self,
                                           LlmFileIdentity *identity);

/* The mapped file, the first of several, to open it once more; -1 for bytes. */
int           llm_file_map_get_fd         (LlmFileMap   *self);
/* File @i of those that are mapped, and where it begins; -1 behind the last. */
int           llm_file_map_get_part       (LlmFileMap      *self,
                                           guint            i,
                                           guint64         *offset,
                                           LlmFileIdentity *identity);

/* Whether the file lost pages since it was mapped: what was computed from it is worthless. */
gboolean      llm_file_map_is_damaged     (LlmFileMap   *self);
/* For callers that find damage in another way. */
void          llm_file_map_set_damaged    (LlmFileMap   *self);

/* Bytes of the range that are in memory now, as the kernel says: in the page cache (mincore); for a
 * file that this process may not write, where mincore is refused, those that are mapped here
 * (pagemap); if neither works, and for bytes, all. Takes some 10 ms per 512 MiB that are not
 * mapped. */
guint64       llm_file_map_count_resident (LlmFileMap   *self,
                                           guint64       offset,
                                           guint64       length);
/* Where the last @bytes in memory of [@first, @end) begin, or a little before; @first if fewer are
 * in memory. @resident: (out): bytes in memory from there on. */
guint64       llm_file_map_find_resident_tail (LlmFileMap *self,
                                           guint64       first,
                                           guint64       end,
                                           guint64       bytes,
                                           guint64      *resident);

/* Whether the kernel's read-ahead is off, so that dropped pages do not come back with their
 * neighbours. */
void          llm_file_map_set_random     (LlmFileMap   *self,
                                           gboolean      is_random);
/* Asks the kernel to read the range ahead. */
void          llm_file_map_prefetch       (LlmFileMap   *self,
                                           guint64       offset,
                                           guint64       length);
/* Reads the range and maps it, so that later accesses meet no page fault. Waits
 * for the disk. */
void          llm_file_map_populate       (LlmFileMap   *self,
                                           guint64       offset,
                                           guint64       length);
/* Releases the range's memory, both mapping (MADV_DONTNEED) and page cache (POSIX_FADV_DONTNEED).
 * The bytes can be read again later. */
void          llm_file_map_drop           (LlmFileMap   *self,
                                           guint64       offset,
                                           guint64       length);
/* The same, exactly. The page cache holds large folios, up to a huge page, and reclaims each as a
 * whole or not at all: those that cross a border are split first, which takes some milliseconds. */
void          llm_file_map_drop_exactly   (LlmFileMap   *self,
                                           guint64       offset,
                                           guint64       length);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmFileMap, llm_file_map_unref)
