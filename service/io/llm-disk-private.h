/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the queue asks of those who move bytes: io_uring, threads, and the one that slows another
 * down. The queue's thread owns a backend and calls all of its functions.
 */

#pragma once

#include "io/llm-disk.h"

G_BEGIN_DECLS

/* A request, from llm_disk_read() or llm_disk_write() until its answer. */
typedef struct
{
  LlmDiskClass io_class;
  gboolean is_write;
  int fd;
  guint64 offset;
  gsize length;
  LlmDiskFill fill;      /* (nullable) */
  LlmDiskWork work;      /* (nullable): instead of a transfer */
  LlmDiskDone done;
  gpointer data;

  int buffer;            /* index of its buffer; -1 until it is begun */
  guint8 *memory;        /* (unowned): the buffer */
  gsize n_done;          /* bytes that earlier transfers moved */
  guint n_retries;
  gssize result;         /* of the last transfer, set by the backend; then of the request */
  gint64 due_us;         /* the paced backend's */
} LlmDiskOp;

typedef struct _LlmDiskBackend LlmDiskBackend;

struct _LlmDiskBackend
{
  const char *name;
  /* Becomes readable when a transfer has finished; the queue clears its own event. */
  int event_fd;
  /* Buffers of LLM_DISK_MAX_BYTES in one row come, or (NULL) go; nothing is under way. */
  void (*set_buffers) (LlmDiskBackend *self, guint8 *memory, guint n);
  /* Begins to transfer the bytes of @op behind @n_done, or its work, for which it has no buffer. */
  void (*submit)      (LlmDiskBackend *self, LlmDiskOp *op);
  /* The row of submits has ended: what collected them hands them on now. */
  void (*flush)       (LlmDiskBackend *self);
  /* Appends the transfers that have finished to @finished. Never waits. */
  void (*reap)        (LlmDiskBackend *self, GQueue *finished);
  /* Nothing is under way. */
  void (*free)        (LlmDiskBackend *self);
};

/* @event_fd: an eventfd to signal, which the caller keeps. NULL with @reason (static) where the
 * system does not have it. */
LlmDiskBackend *llm_disk_uring_new   (int             event_fd,
                                      guint           n_ops,
                                      const char    **reason);
LlmDiskBackend *llm_disk_threads_new (int             event_fd);
/* Takes @inner. */
LlmDiskBackend *llm_disk_paced_new   (LlmDiskBackend *inner,
                                      guint           latency_us,
                                      guint64         bytes_per_second);

G_END_DECLS
