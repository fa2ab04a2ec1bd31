/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A queue of reads and writes of files that never blocks its owner: io_uring with registered
 * buffers where the system has it, threads with pread and pwrite otherwise. Data passes through the
 * queue's own aligned buffers, so that files opened with O_DIRECT need no alignment by the caller,
 * or goes right into the caller's memory. Requests of a better class go first; the number of
 * write-ahead requests is limited.
 *
 * One thread owns a queue: it submits requests, and gets the answers in llm_disk_poll().
 */

#pragma once

#include <gio/gio.h>
#include <sys/uio.h>

/* Offsets, lengths and buffers are multiples of it. */
#define LLM_DISK_BLOCK 4096
/* Limit of bytes of a request, in whole blocks. */
#define LLM_DISK_MAX_BYTES (256 * 1024)
/* Limit of bytes of a request of llm_disk_read_into(). */
#define LLM_DISK_MAX_INTO ((gsize) 1024 * 1024)
/* Offset, addresses and lengths of llm_disk_read_parts() should be multiples of this: most devices
 * can read such parts without a copy. */
#define LLM_DISK_SECTOR 512
/* Limit of parts of a request. */
#define LLM_DISK_MAX_PARTS 256

typedef enum
{
  LLM_DISK_RESTORE,     /* a call waits for it */
  LLM_DISK_WEIGHTS,
  LLM_DISK_AHEAD,       /* not asked for yet */
  LLM_N_DISK_CLASSES,
} LlmDiskClass;

typedef struct _LlmDisk LlmDisk;

/* @n: bytes read or written, fewer than asked for at the end of a file; or -errno. @buffer: of
 * a read, good until the function returns. */
typedef void (*LlmDiskDone) (gssize        n,
                             const guint8 *buffer,
                             gpointer      data);
/* Fills in the data of a write when its turn has come. */
typedef void (*LlmDiskFill) (guint8  *buffer,
                             gsize    length,
                             gpointer data);

/* Blocking work that is no transfer, such as opening files: @done gets its result as @n. It runs on
 * a thread of the queue's, which may use @data's object until @done. */
typedef gssize (*LlmDiskWork) (gpointer data);

/* "uring", "threads", or NULL for the first that works. Fails with UNSUPPORTED. */
LlmDisk    *llm_disk_new       (const char   *backend,
                                GError      **error) G_GNUC_WARN_UNUSED_RESULT;
/* Waits for requests under way; those that have not begun end with -ECANCELED. */
void        llm_disk_free      (LlmDisk      *self);

/* Opens a file past the page cache where the file system allows it. -errno on failure. @flags: of
 * open(), O_CLOEXEC is added; a new file is for its owner alone. */
int         llm_disk_open      (LlmDisk      *self,
                                int           folder_fd,
                                const char   *name,
                                int           flags);

/* @done is called once, by llm_disk_poll() or llm_disk_free(). A request of no bytes (@fd is
 * ignored) is answered by the next llm_disk_poll(). A request that has begun is completed: @fd must
 * stay open until @done. */
void        llm_disk_read      (LlmDisk      *self,
                                LlmDiskClass  io_class,
                                int           fd,
                                guint64       offset,
                                gsize         length,
                                LlmDiskDone   done,
                                gpointer      data);
/* Reads consecutive bytes from @offset on into the @n @parts (copied), which must stay until @done,
 * where @buffer is NULL. If the device or file system can't do that (O_DIRECT with larger sectors,
 * or parts that are no multiples of LLM_DISK_SECTOR), the data passes through a buffer. Its blocks
 * have at most LLM_DISK_MAX_BYTES. */
void        llm_disk_read_parts (LlmDisk     *self,
                                LlmDiskClass  io_class,
                                int           fd,
                                guint64       offset,
                                const struct iovec *parts,
                                guint         n,
                                LlmDiskDone   done,
                                gpointer      data);
/* Reads a run of a file into @memory, which must stay until @done, where @buffer is NULL. @offset,
 * @length (at most LLM_DISK_MAX_INTO) and @memory are multiples of LLM_DISK_BLOCK; no buffer is
 * used. For large sequential reads (C4: weights that stream). Or they are multiples of
 * LLM_DISK_SECTOR, as in llm_disk_read_parts(). */
void        llm_disk_read_into (LlmDisk      *self,
                                LlmDiskClass  io_class,
                                int           fd,
                                guint64       offset,
                                gpointer      memory,
                                gsize         length,
                                LlmDiskDone   done,
                                gpointer      data);
/* Bytes of parts that passed through a buffer so far. */
guint64     llm_disk_get_copied_bytes (LlmDisk *self);
void        llm_disk_write     (LlmDisk      *self,
                                LlmDiskClass  io_class,
                                int           fd,
                                guint64       offset,
                                gsize         length,
                                LlmDiskFill   fill,
                                LlmDiskDone   done,
                                gpointer      data);

/* The same for @work. */
void        llm_disk_run       (LlmDisk      *self,
                                LlmDiskClass  io_class,
                                LlmDiskWork   work,
                                LlmDiskDone   done,
                                gpointer      data);

/* The requests with this @data that are not yet begun end with -ECANCELED; their @fill or @work is
 * never called. */
void        llm_disk_cancel    (LlmDisk      *self,
                                gconstpointer data);

/* Answers finished requests; waits up to @timeout_us for one, unless none is pending. Returns the
 * number of answers. Not from inside a LlmDiskDone. */
guint       llm_disk_poll      (LlmDisk      *self,
                                gint64        timeout_us);
/* Requests that are not answered. */
guint       llm_disk_get_n_pending (LlmDisk  *self,
                                LlmDiskClass  io_class);
/* Releases the queue's own buffers, if no request is under way; the next request takes new ones.
 * For an owner that goes to sleep. */
void        llm_disk_trim      (LlmDisk      *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDisk, llm_disk_free)
