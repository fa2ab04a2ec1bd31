/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The two implementations of the queue's transfers: io_uring, and threads. The queue's thread calls
 * all of it.
 */

#pragma once

#include "io/llm-disk.h"

/* A request, from llm_disk_read() or llm_disk_write() until its answer. With parts, offset and
 * length are of the remaining ones. */
typedef struct
{
  LlmDiskClass io_class;
  gboolean is_write;
  int fd;
  guint64 offset;
  gsize length;
  struct iovec *parts;   /* (nullable) (owned): where to read to, unless it is copied */
  guint n_parts;
  guint first_part;      /* that is not read */
  gsize n_placed;        /* bytes that were read to parts */
  gboolean is_in_blocks; /* all parts are whole blocks: a copy is never needed */
  gboolean is_copied;    /* whole blocks are read to a buffer, and copied to the parts */
  gsize skipped;         /* bytes of the blocks before the parts */
  LlmDiskFill fill;      /* (nullable) */
  LlmDiskWork work;      /* (nullable): instead of a transfer */
  LlmDiskDone done;
  gpointer data;

  int buffer;            /* index of its buffer; -1 until it has begun */
  guint8 *memory;        /* (unowned): the buffer */
  gsize n_done;          /* bytes that earlier transfers moved */
  guint n_retries;
  gssize result;         /* of the last transfer; then of the request */
} LlmDiskOp;

/* Whether the transfer is to parts. */
static inline gboolean
llm_disk_op_has_parts (const LlmDiskOp *op)
{
  return op->parts != NULL && !op->is_copied;
}

typedef struct _LlmDiskUring LlmDiskUring;
typedef struct _LlmDiskThreads LlmDiskThreads;

/* @event_fd: an eventfd to signal when a transfer has finished, which the caller keeps. NULL with
 * @reason (static) if the system lacks io_uring. */
LlmDiskUring *llm_disk_uring_new         (int           event_fd,
                                          guint         n_ops,
                                          const char  **reason);
/* No transfer may be under way, here and for threads. */
void          llm_disk_uring_free        (LlmDiskUring *self);
/* Registers buffers of LLM_DISK_MAX_BYTES in one row, or (NULL) unregisters them; no transfer is
 * under way. */
void          llm_disk_uring_set_buffers (LlmDiskUring *self,
                                          guint8       *memory,
                                          guint         n);
/* Begins to transfer the bytes of @op after @n_done. */
void          llm_disk_uring_submit      (LlmDiskUring *self,
                                          LlmDiskOp    *op);
/* Sends the submitted transfers to the kernel. */
void          llm_disk_uring_flush       (LlmDiskUring *self);
/* Appends the transfers that have finished to @finished. Never waits. */
void          llm_disk_uring_reap        (LlmDiskUring *self,
                                          GQueue       *finished);

/* The same with threads; they do an op's work, too. */
LlmDiskThreads *llm_disk_threads_new     (int             event_fd);
void          llm_disk_threads_free      (LlmDiskThreads *self);
void          llm_disk_threads_submit    (LlmDiskThreads *self,
                                          LlmDiskOp      *op);
void          llm_disk_threads_reap      (LlmDiskThreads *self,
                                          GQueue         *finished);
