/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-fail.h"
#include "io/llm-disk-private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

/* Twice the depth of the best class, so that the disk has work while answers are taken from the
 * buffers; 4 MiB, half of what a process may lock by default. */
#define N_BUFFERS 16
#define MEMORY_BYTES ((gsize) N_BUFFERS * LLM_DISK_MAX_BYTES)
#define MAX_RETRIES 16

/* Requests under way at once. Restores gain nothing from more on the disks that we know, and a new
 * restore waits for write-ahead requests. Weights have enough for the disk to have work while a
 * stage computes. */
static const guint depths[LLM_N_DISK_CLASSES] = { 8, 32, 2 };
/* Buffers of one class, so that another finds one. */
#define MAX_BUFFERED 8
/* More than all depths together. */
#define RING_OPS 64

struct _LlmDisk
{
  LlmDiskUring *uring;                    /* (nullable) (owned) */
  LlmDiskThreads *threads;                /* (nullable) (owned): made with the first work for
                                           * them */
  int event_fd;                           /* signalled by both */
  guint8 *memory;                         /* (nullable) (owned): the buffers */
  guint32 used_buffers;                   /* a bit each */
  GQueue waiting[LLM_N_DISK_CLASSES];     /* (element-type LlmDiskOp) (owned) */
  guint n_under_way[LLM_N_DISK_CLASSES];
  guint n_pending[LLM_N_DISK_CLASSES];
  GQueue finished;                        /* (element-type LlmDiskOp) (owned): to be answered */
  guint64 copied_bytes;                   /* of parts */
  gboolean is_answering;
  gboolean is_ending;
};

G_STATIC_ASSERT (N_BUFFERS <= 32);

LlmDisk *
llm_disk_new (const char  *backend,
              GError     **error)
{
  g_autoptr(LlmDisk) self = g_new0 (LlmDisk, 1);
  const char *reason;

  self->event_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (self->event_fd < 0)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED, "No disk queue can be made: %s",
                          g_strerror (errno));
  if (backend != NULL && !g_str_equal (backend, "threads") && !g_str_equal (backend, "uring"))
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "There is no disk queue “%s”; “uring” and “threads” can be chosen",
                          backend);
  if (g_strcmp0 (backend, "threads") != 0)
    {
      self->uring = llm_disk_uring_new (self->event_fd, RING_OPS, &reason);
      if (self->uring == NULL && backend != NULL)
        return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                              "io_uring can't be used here: %s. Choose “threads”", reason);
      if (self->uring == NULL)
        g_message ("io_uring can't be used here, threads read and write instead: %s", reason);
    }
  return g_steal_pointer (&self);
}

static guint
count_pending (LlmDisk *self)
{
  guint n = 0;

  for (guint i = 0; i < LLM_N_DISK_CLASSES; i++)
    n += self->n_pending[i];
  return n;
}

/* --- buffers --- */

static gboolean
make_buffers (LlmDisk *self)
{
  void *memory;

  if (self->memory != NULL)
    return TRUE;
  memory = mmap (NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return FALSE;
  self->memory = memory;
  if (self->uring != NULL)
    llm_disk_uring_set_buffers (self->uring, memory, N_BUFFERS);
  return TRUE;
}

static void
drop_buffers (LlmDisk *self)
{
  if (self->memory == NULL)
    return;
  if (self->uring != NULL)
    llm_disk_uring_set_buffers (self->uring, NULL, 0);
  munmap (self->memory, MEMORY_BYTES);
  self->memory = NULL;
}

void
llm_disk_trim (LlmDisk *self)
{
  if (self->used_buffers == 0)
    drop_buffers (self);
}

static gboolean
take_buffer (LlmDisk   *self,
             LlmDiskOp *op)
{
  for (int i = 0; i < N_BUFFERS; i++)
    if ((self->used_buffers & 1u << i) == 0)
      {
        self->used_buffers |= 1u << i;
        op->buffer = i;
        op->memory = self->memory + (gsize) i * LLM_DISK_MAX_BYTES;
        return TRUE;
      }
  return FALSE;
}

/* --- what is under way --- */

static void
finish (LlmDisk   *self,
        LlmDiskOp *op,
        gssize     result)
{
  op->result = result;
  g_queue_push_tail (&self->finished, op);
}

static void
submit (LlmDisk   *self,
        LlmDiskOp *op)
{
  if (self->uring != NULL && op->work == NULL)
    {
      llm_disk_uring_submit (self->uring, op);
      return;
    }
  if (self->threads == NULL)
    self->threads = llm_disk_threads_new (self->event_fd);
  llm_disk_threads_submit (self->threads, op);
}

static gboolean
needs_buffer (const LlmDiskOp *op)
{
  return op->work == NULL && !llm_disk_op_has_parts (op);
}

/* (nullable): the waiting class that may begin one. */
static GQueue *
find_waiting (LlmDisk *self)
{
  for (guint i = 0; i < LLM_N_DISK_CLASSES; i++)
    {
      const LlmDiskOp *op = g_queue_peek_head (&self->waiting[i]);

      if (op != NULL
          && self->n_under_way[i] < (needs_buffer (op) ? MIN (depths[i], MAX_BUFFERED) : depths[i]))
        return &self->waiting[i];
    }
  return NULL;
}

static void
begin_waiting (LlmDisk *self)
{
  GQueue *waiting;

  while ((waiting = find_waiting (self)) != NULL)
    {
      LlmDiskOp *op = g_queue_peek_head (waiting);

      if (needs_buffer (op) && !make_buffers (self))
        {
          finish (self, g_queue_pop_head (waiting), -ENOMEM);
          continue;
        }
      if (needs_buffer (op) && !take_buffer (self, op))
        break;
      g_queue_pop_head (waiting);
      self->n_under_way[op->io_class]++;
      if (op->is_write)
        op->fill (op->memory, op->length, op->data);
      submit (self, op);
    }
  if (self->uring != NULL)
    llm_disk_uring_flush (self->uring);
}

/* --- parts --- */

/* @n bytes of the remaining ones were read. */
static void
advance_parts (LlmDiskOp *op,
               gsize      n)
{
  op->n_placed += n;
  op->offset += n;
  op->length -= n;
  while (n > 0)
    {
      struct iovec *part = &op->parts[op->first_part];
      gsize here = MIN (n, part->iov_len);

      part->iov_base = (guint8 *) part->iov_base + here;
      part->iov_len -= here;
      n -= here;
      if (part->iov_len == 0)
        op->first_part++;
    }
}

static gsize
round_up (gsize n)
{
  return (n + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
}

/* The device requires whole blocks: the rest is read again, through a buffer. */
static void
copy_parts_instead (LlmDisk   *self,
                    LlmDiskOp *op)
{
  op->is_copied = TRUE;
  op->skipped = op->offset % LLM_DISK_BLOCK;
  op->offset -= op->skipped;
  op->length = round_up (op->skipped + op->length);
  self->n_under_way[op->io_class]--;
  g_queue_push_head (&self->waiting[op->io_class], op);
}

static void
copy_parts (LlmDisk   *self,
            LlmDiskOp *op)
{
  gsize length = 0, left, at;

  for (guint i = op->first_part; i < op->n_parts; i++)
    length += op->parts[i].iov_len;
  /* bytes of the blocks before the parts or after them */
  at = op->skipped;
  left = op->result > (gssize) at ? MIN ((gsize) op->result - at, length) : 0;
  self->copied_bytes += left;
  op->result = (gssize) (op->n_placed + left);
  for (guint i = op->first_part; left > 0; i++)
    {
      gsize here = MIN (left, op->parts[i].iov_len);

      memcpy (op->parts[i].iov_base, op->memory + at, here);
      at += here;
      left -= here;
    }
}

static gboolean
needs_more_parts (LlmDiskOp *op)
{
  if (op->result > 0)
    advance_parts (op, (gsize) op->result);
  else if (op->result < 0)
    return FALSE;
  /* a block that is not whole is the last of its file */
  if (op->length > 0 && op->result > 0
      && !(op->is_in_blocks && op->n_placed % LLM_DISK_BLOCK != 0))
    return TRUE;
  op->result = (gssize) op->n_placed;
  return FALSE;
}

/* Whether the request needs another transfer; otherwise its result is set. */
static gboolean
needs_more (LlmDiskOp *op)
{
  gsize rest;

  if (op->work != NULL)
    return FALSE;
  if (op->result == -EINTR || op->result == -EAGAIN)
    return op->n_retries++ < MAX_RETRIES;
  if (llm_disk_op_has_parts (op))
    return needs_more_parts (op);
  if (op->result < 0)
    return FALSE;
  if (op->result == 0)
    {
      op->result = op->is_write ? -EIO : (gssize) op->n_done;
      return FALSE;
    }

  op->n_done += (gsize) op->result;
  op->result = (gssize) op->n_done;
  rest = op->n_done % LLM_DISK_BLOCK;
  if (op->n_done >= op->length || (rest != 0 && !op->is_write))
    return FALSE;
  /* A write continues at a whole block. */
  op->n_done -= rest;
  if (op->n_retries++ < MAX_RETRIES)
    return TRUE;
  op->result = -EIO;
  return FALSE;
}

static void
take_finished (LlmDisk *self)
{
  GQueue arrived = G_QUEUE_INIT;
  LlmDiskOp *op;

  if (self->uring != NULL)
    llm_disk_uring_reap (self->uring, &arrived);
  if (self->threads != NULL)
    llm_disk_threads_reap (self->threads, &arrived);
  while ((op = g_queue_pop_head (&arrived)) != NULL)
    if (llm_disk_op_has_parts (op) && op->result == -EINVAL && !op->is_in_blocks)
      copy_parts_instead (self, op);
    else if (needs_more (op))
      submit (self, op);
    else
      {
        self->n_under_way[op->io_class]--;
        g_queue_push_tail (&self->finished, op);
      }
}

/* Answers those that have finished by now: a callback that submits again must not keep us here. */
static guint
answer_finished (LlmDisk *self)
{
  guint n = self->finished.length;

  self->is_answering = TRUE;
  for (guint i = 0; i < n; i++)
    {
      LlmDiskOp *op = g_queue_pop_head (&self->finished);

      gboolean has_buffer = !op->is_write && op->parts == NULL && op->result >= 0;

      self->n_pending[op->io_class]--;
      if (op->is_copied && op->result >= 0)
        copy_parts (self, op);
      op->done (op->result, has_buffer ? op->memory : NULL, op->data);
      if (op->buffer >= 0)
        self->used_buffers &= ~(1u << op->buffer);
      g_free (op->parts);
      g_free (op);
      begin_waiting (self);
    }
  self->is_answering = FALSE;
  return n;
}

guint
llm_disk_poll (LlmDisk *self,
               gint64   timeout_us)
{
  gint64 end_us = 0;

  g_return_val_if_fail (!self->is_answering, 0);

  for (;;)
    {
      struct pollfd event = { .fd = self->event_fd, .events = POLLIN };
      struct timespec wait;
      gint64 now_us, left_us;
      guint64 count;
      guint n;

      (void) !read (self->event_fd, &count, sizeof count);
      take_finished (self);
      begin_waiting (self);
      n = answer_finished (self);
      if (n > 0 || timeout_us <= 0 || count_pending (self) == 0)
        return n;

      now_us = g_get_monotonic_time ();
      if (end_us == 0)
        end_us = timeout_us > G_MAXINT64 - now_us ? G_MAXINT64 : now_us + timeout_us;
      if (now_us >= end_us)
        return 0;
      left_us = end_us - now_us;
      wait.tv_sec = left_us / G_USEC_PER_SEC;
      wait.tv_nsec = left_us % G_USEC_PER_SEC * 1000;
      ppoll (&event, 1, &wait, NULL);
    }
}

void
llm_disk_cancel (LlmDisk       *self,
                 gconstpointer  data)
{
  for (guint i = 0; i < LLM_N_DISK_CLASSES; i++)
    for (GList *link = self->waiting[i].head, *next; link != NULL; link = next)
      {
        LlmDiskOp *op = link->data;

        next = link->next;
        if (op->data != data)
          continue;
        g_queue_delete_link (&self->waiting[i], link);
        finish (self, op, -ECANCELED);
      }
}

void
llm_disk_free (LlmDisk *self)
{
  if (self == NULL)
    return;

  g_return_if_fail (!self->is_answering);
  self->is_ending = TRUE;
  for (guint i = 0; i < LLM_N_DISK_CLASSES; i++)
    while (!g_queue_is_empty (&self->waiting[i]))
      finish (self, g_queue_pop_head (&self->waiting[i]), -ECANCELED);
  while (count_pending (self) > 0)
    llm_disk_poll (self, G_MAXINT64);
  drop_buffers (self);
  g_clear_pointer (&self->uring, llm_disk_uring_free);
  g_clear_pointer (&self->threads, llm_disk_threads_free);
  if (self->event_fd >= 0)
    close (self->event_fd);
  g_free (self);
}

guint
llm_disk_get_n_pending (LlmDisk      *self,
                        LlmDiskClass  io_class)
{
  return self->n_pending[io_class];
}

/* --- asking --- */

int
llm_disk_open (LlmDisk    *self,
               int         folder_fd,
               const char *name,
               int         flags)
{
  const mode_t mode = S_IRUSR | S_IWUSR;
  int fd = openat (folder_fd, name, flags | O_CLOEXEC | O_DIRECT, mode);

  /* O_EXCL would now find the file of the first try. */
  if (fd < 0 && errno == EINVAL)
    fd = openat (folder_fd, name, (flags & ~O_EXCL) | O_CLOEXEC, mode);
  return fd < 0 ? -errno : fd;
}

static gboolean
is_in_blocks (LlmDiskClass io_class,
              guint64      offset,
              gsize        length)
{
  return io_class < LLM_N_DISK_CLASSES && length <= LLM_DISK_MAX_BYTES
         && length % LLM_DISK_BLOCK == 0 && offset % LLM_DISK_BLOCK == 0;
}

static void
ask (LlmDisk   *self,
     LlmDiskOp  request)
{
  LlmDiskOp *op;

  op = g_memdup2 (&request, sizeof request);
  op->buffer = -1;
  self->n_pending[op->io_class]++;
  if ((op->length == 0 && op->work == NULL) || self->is_ending)
    {
      finish (self, op, self->is_ending ? -ECANCELED : 0);
      return;
    }
  g_queue_push_tail (&self->waiting[op->io_class], op);
  begin_waiting (self);
}

void
llm_disk_read (LlmDisk      *self,
               LlmDiskClass  io_class,
               int           fd,
               guint64       offset,
               gsize         length,
               LlmDiskDone   done,
               gpointer      data)
{
  g_return_if_fail (is_in_blocks (io_class, offset, length));

  ask (self, (LlmDiskOp) { .io_class = io_class, .fd = fd, .offset = offset, .length = length,
                           .done = done, .data = data });
}

void
llm_disk_read_parts (LlmDisk            *self,
                     LlmDiskClass        io_class,
                     int                 fd,
                     guint64             offset,
                     const struct iovec *parts,
                     guint               n,
                     LlmDiskDone         done,
                     gpointer            data)
{
  gsize length = 0;

  for (guint i = 0; i < n; i++)
    length += parts[i].iov_len;
  g_return_if_fail (io_class < LLM_N_DISK_CLASSES && n > 0 && n <= LLM_DISK_MAX_PARTS);
  g_return_if_fail (length <= LLM_DISK_MAX_BYTES
                    && round_up (offset % LLM_DISK_BLOCK + length) <= LLM_DISK_MAX_BYTES);

  ask (self, (LlmDiskOp) { .io_class = io_class, .fd = fd, .offset = offset, .length = length,
                           .parts = g_memdup2 (parts, n * sizeof *parts), .n_parts = n,
                           .done = done, .data = data });
}

void
llm_disk_read_into (LlmDisk      *self,
                    LlmDiskClass  io_class,
                    int           fd,
                    guint64       offset,
                    gpointer      memory,
                    gsize         length,
                    LlmDiskDone   done,
                    gpointer      data)
{
  const struct iovec part = { memory, length };

  const gboolean is_whole = offset % LLM_DISK_BLOCK == 0 && length % LLM_DISK_BLOCK == 0
                            && (guintptr) memory % LLM_DISK_BLOCK == 0;

  if (!is_whole)
    {
      llm_disk_read_parts (self, io_class, fd, offset, &part, 1, done, data);
      return;
    }
  g_return_if_fail (io_class < LLM_N_DISK_CLASSES && length <= LLM_DISK_MAX_INTO);

  ask (self, (LlmDiskOp) { .io_class = io_class, .fd = fd, .offset = offset, .length = length,
                           .parts = g_memdup2 (&part, sizeof part), .n_parts = 1,
                           .is_in_blocks = TRUE, .done = done, .data = data });
}

guint64
llm_disk_get_copied_bytes (LlmDisk *self)
{
  return self->copied_bytes;
}

void
llm_disk_write (LlmDisk      *self,
                LlmDiskClass  io_class,
                int           fd,
                guint64       offset,
                gsize         length,
                LlmDiskFill   fill,
                LlmDiskDone   done,
                gpointer      data)
{
  g_return_if_fail (is_in_blocks (io_class, offset, length));

  ask (self, (LlmDiskOp) { .io_class = io_class, .is_write = TRUE, .fd = fd, .offset = offset,
                           .length = length, .fill = fill, .done = done, .data = data });
}

void
llm_disk_run (LlmDisk      *self,
              LlmDiskClass  io_class,
              LlmDiskWork   work,
              LlmDiskDone   done,
              gpointer      data)
{
  g_return_if_fail (io_class < LLM_N_DISK_CLASSES);

  ask (self, (LlmDiskOp) { .io_class = io_class, .fd = -1, .work = work, .done = done,
                           .data = data });
}
