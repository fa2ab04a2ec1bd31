/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Two threads that block in pread() and pwrite(), where io_uring is missing, and in other blocking
 * work. More of them would gain little: with requests of this size one keeps most disks busy. The
 * queues are our own because the thread sanitizer sees no locks within GLib's. */

#define G_LOG_DOMAIN "llm-io"

#include "io/llm-disk-private.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#define N_THREADS 2

struct _LlmDiskThreads
{
  int event_fd;
  GThread *threads[N_THREADS];
  GMutex lock;
  GCond changed;
  GQueue asked;          /* (element-type LlmDiskOp), guarded by lock: better classes first */
  GQueue finished;       /* (element-type LlmDiskOp), guarded by lock */
  gboolean is_ending;    /* guarded by lock */
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
  if (llm_disk_op_has_parts (op))
    {
      n = preadv (op->fd, op->parts + op->first_part, (int) (op->n_parts - op->first_part),
                  (off_t) op->offset);
      return n < 0 ? -errno : n;
    }
  memory = op->memory + op->n_done;
  n = op->is_write ? pwrite (op->fd, memory, length, offset)
                   : pread (op->fd, memory, length, offset);
  return n < 0 ? -errno : n;
}

static gpointer
run_thread (gpointer data)
{
  LlmDiskThreads *self = data;
  const guint64 one = 1;

  g_mutex_lock (&self->lock);
  while (!self->is_ending)
    {
      LlmDiskOp *op = g_queue_pop_head (&self->asked);

      if (op == NULL)
        {
          g_cond_wait (&self->changed, &self->lock);
          continue;
        }
      g_mutex_unlock (&self->lock);
      op->result = transfer (op);
      g_mutex_lock (&self->lock);
      g_queue_push_tail (&self->finished, op);
      (void) !write (self->event_fd, &one, sizeof one);
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

void
llm_disk_threads_submit (LlmDiskThreads *self,
                         LlmDiskOp      *op)
{
  GList *place;

  g_mutex_lock (&self->lock);
  for (place = self->asked.tail; place != NULL; place = place->prev)
    if (((const LlmDiskOp *) place->data)->io_class <= op->io_class)
      break;
  g_queue_insert_after (&self->asked, place, op);
  g_cond_signal (&self->changed);
  g_mutex_unlock (&self->lock);
}

void
llm_disk_threads_reap (LlmDiskThreads *self,
                       GQueue         *finished)
{
  LlmDiskOp *op;

  g_mutex_lock (&self->lock);
  while ((op = g_queue_pop_head (&self->finished)) != NULL)
    g_queue_push_tail (finished, op);
  g_mutex_unlock (&self->lock);
}

void
llm_disk_threads_free (LlmDiskThreads *self)
{
  g_mutex_lock (&self->lock);
  self->is_ending = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < N_THREADS; i++)
    g_thread_join (self->threads[i]);
  g_queue_clear (&self->asked);
  g_queue_clear (&self->finished);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}

LlmDiskThreads *
llm_disk_threads_new (int event_fd)
{
  LlmDiskThreads *self = g_new0 (LlmDiskThreads, 1);

  self->event_fd = event_fd;
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  for (guint i = 0; i < N_THREADS; i++)
    self->threads[i] = g_thread_new ("llm-disk", run_thread, self);
  return self;
}
