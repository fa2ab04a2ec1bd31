/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What moves bytes for the queue: io_uring, and threads. The queue's thread calls all of it.
 */

#pragma once

#include "io/llm-disk.h"

/* A request, from llm_disk_read() or llm_disk_write() until its answer. With parts, offset and
 * length are of those that are left. */
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
  gboolean is_in_blocks; /* all parts are whole blocks: there is no need ever to copy */
  gboolean is_copied;    /* whole blocks are read to a buffer, and copied to the parts */
  gsize skipped;         /* bytes of the blocks before the parts */
  LlmDiskFill fill;      /* (nullable) */
  LlmDiskWork work;      /* (nullable): instead of a transfer */
  LlmDiskDone done;
  gpointer data;

  int buffer;            /* index of its buffer; -1 until it is begun */
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

/* @event_fd: an eventfd to signal when something has finished, which the caller keeps. NULL with
 * @reason (static) where the system does not have it. */
LlmDiskUring *llm_disk_uring_new         (int           event_fd,
                                          guint         n_ops,
                                          const char  **reason);
/* Nothing is under way, here and for threads. */
void          llm_disk_uring_free        (LlmDiskUring *self);
/* Buffers of LLM_DISK_MAX_BYTES in one row come, or (NULL) go; nothing is under way. */
void          llm_disk_uring_set_buffers (LlmDiskUring *self,
                                          guint8       *memory,
                                          guint         n);
/* Begins to transfer the bytes of @op behind @n_done. */
void          llm_disk_uring_submit      (LlmDiskUring *self,
                                          LlmDiskOp    *op);
/* The row of submits has ended: the kernel gets them now. */
void          llm_disk_uring_flush       (LlmDiskUring *self);
/* Appends the transfers that have finished to @finished. Never waits. */
void          llm_disk_uring_reap        (LlmDiskUring *self,
                                          GQueue       *finished);

/* The same; they do an op's work, too. */
LlmDiskThreads *llm_disk_threads_new     (int             event_fd);
void          llm_disk_threads_free      (LlmDiskThreads *self);
void          llm_disk_threads_submit    (LlmDiskThreads *self,
                                          LlmDiskOp      *op);
void          llm_disk_threads_reap      (LlmDiskThreads *self,
                                          GQueue         *finished);
