/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two threads that block in pread() and pwrite(), where there is no io_uring, and in what is no
 * transfer. More of them would gain little: with requests of this size one keeps most disks
 * busy. */

#include "io/llm-disk-private.h"

#include <errno.h>
#include <unistd.h>

#define N_THREADS 2

struct _LlmDiskThreads
{
  int event_fd;
  GThreadPool *pool;
  GAsyncQueue *finished;   /* (element-type LlmDiskOp) */
};

static gssize
transfer (const LlmDiskOp *op)
{
  guint8 *memory;
  gsize length = op->length - op->n_done;
  off_t offset = (off_t) (op->offset + op->n_done);
  gssize n;

  if (op->work != NULL)
    return op->work (op->data);
  memory = op->memory + op->n_done;
  n = op->is_write ? pwrite (op->fd, memory, length, offset)
                   : pread (op->fd, memory, length, offset);
  return n < 0 ? -errno : n;
}

static void
run (gpointer data,
     gpointer user_data)
{
  LlmDiskThreads *self = user_data;
  LlmDiskOp *op = data;
  const guint64 one = 1;

  op->result = transfer (op);
  g_async_queue_push (self->finished, op);
  (void) !write (self->event_fd, &one, sizeof one);
}

void
llm_disk_threads_submit (LlmDiskThreads *self,
                         LlmDiskOp      *op)
{
  g_thread_pool_push (self->pool, op, NULL);
}

void
llm_disk_threads_reap (LlmDiskThreads *self,
                       GQueue         *finished)
{
  LlmDiskOp *op;

  while ((op = g_async_queue_try_pop (self->finished)) != NULL)
    g_queue_push_tail (finished, op);
}

void
llm_disk_threads_free (LlmDiskThreads *self)
{
  g_thread_pool_free (self->pool, FALSE, TRUE);
  g_async_queue_unref (self->finished);
  g_free (self);
}

LlmDiskThreads *
llm_disk_threads_new (int event_fd)
{
  LlmDiskThreads *self = g_new0 (LlmDiskThreads, 1);

  self->event_fd = event_fd;
  self->finished = g_async_queue_new ();
  self->pool = g_thread_pool_new (run, self, N_THREADS, TRUE, NULL);
  return self;
}
