/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A backend in front of another that holds answers back until a slower device would have given
 * them. */

#define G_LOG_DOMAIN "llm-io"

#include "io/llm-disk-private.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

typedef struct
{
  LlmDiskBackend parent;
  LlmDiskBackend *inner;
  guint latency_us;
  guint64 bytes_per_second;
  gint64 idle_us;        /* when the device has transferred all it was asked for */
  GQueue held;           /* (element-type LlmDiskOp): finished, but not due; in order of due_us */
  int timer_fd;
} Paced;

static void
set_buffers (LlmDiskBackend *backend,
             guint8         *memory,
             guint           n)
{
  Paced *self = (Paced *) backend;

  self->inner->set_buffers (self->inner, memory, n);
}

static void
submit (LlmDiskBackend *backend,
        LlmDiskOp      *op)
{
  Paced *self = (Paced *) backend;
  gint64 begin_us = g_get_monotonic_time () + self->latency_us;
  guint64 bytes = op->length - op->n_done;

  self->idle_us = MAX (begin_us, self->idle_us) +
                  (gint64) (bytes * G_USEC_PER_SEC / self->bytes_per_second);
  op->due_us = self->idle_us;
  self->inner->submit (self->inner, op);
}

static void
flush (LlmDiskBackend *backend)
{
  Paced *self = (Paced *) backend;

  self->inner->flush (self->inner);
}

static int
compare_due (gconstpointer a,
             gconstpointer b,
             gpointer      data)
{
  const LlmDiskOp *x = a;
  const LlmDiskOp *y = b;

  return (x->due_us > y->due_us) - (x->due_us < y->due_us);
}

static void
reap (LlmDiskBackend *backend,
      GQueue         *finished)
{
  Paced *self = (Paced *) backend;
  struct itimerspec when = { 0 };
  GQueue arrived = G_QUEUE_INIT;
  gint64 now_us = g_get_monotonic_time ();
  LlmDiskOp *op;

  self->inner->reap (self->inner, &arrived);
  while ((op = g_queue_pop_head (&arrived)) != NULL)
    g_queue_insert_sorted (&self->held, op, compare_due, NULL);
  while ((op = g_queue_peek_head (&self->held)) != NULL && op->due_us <= now_us)
    g_queue_push_tail (finished, g_queue_pop_head (&self->held));

  /* Without one that is held the timer ends. */
  if (op != NULL)
    {
      when.it_value.tv_sec = op->due_us / G_USEC_PER_SEC;
      when.it_value.tv_nsec = op->due_us % G_USEC_PER_SEC * 1000;
    }
  timerfd_settime (self->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

static void
free_paced (LlmDiskBackend *backend)
{
  Paced *self = (Paced *) backend;

  g_queue_clear (&self->held);
  self->inner->free (self->inner);
  close (self->timer_fd);
  close (self->parent.event_fd);
  g_free (self);
}

LlmDiskBackend *
llm_disk_paced_new (LlmDiskBackend *inner,
                    guint           latency_us,
                    guint64         bytes_per_second)
{
  Paced *self = g_new0 (Paced, 1);
  struct epoll_event event = { .events = EPOLLIN };

  self->inner = inner;
  self->latency_us = latency_us;
  self->bytes_per_second = MAX (bytes_per_second, 1);
  g_queue_init (&self->held);
  self->timer_fd = timerfd_create (CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  self->parent.event_fd = epoll_create1 (EPOLL_CLOEXEC);
  if (self->timer_fd < 0 || self->parent.event_fd < 0 ||
      epoll_ctl (self->parent.event_fd, EPOLL_CTL_ADD, self->timer_fd, &event) < 0 ||
      epoll_ctl (self->parent.event_fd, EPOLL_CTL_ADD, inner->event_fd, &event) < 0)
    g_error ("No timer can be made for a paced disk");

  self->parent.name = "paced";
  self->parent.set_buffers = set_buffers;
  self->parent.submit = submit;
  self->parent.flush = flush;
  self->parent.reap = reap;
  self->parent.free = free_paced;
  return &self->parent;
}
