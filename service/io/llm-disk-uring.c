/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Transfers through io_uring, into buffers that are registered with the kernel if it may lock that
 * much memory (RLIMIT_MEMLOCK), so that it need not find and pin their pages for each transfer. */

#include "io/llm-disk-private.h"

#include <errno.h>
#include <sys/uio.h>

#include <liburing.h>

struct _LlmDiskUring
{
  struct io_uring ring;
  gboolean is_registered;  /* the buffers */
  guint n_unsent;          /* entries that io_uring_submit() has not taken yet */
};

void
llm_disk_uring_set_buffers (LlmDiskUring *self,
                            guint8       *memory,
                            guint         n)
{
  g_autofree struct iovec *buffers = NULL;
  int code;

  if (self->is_registered)
    io_uring_unregister_buffers (&self->ring);
  self->is_registered = FALSE;
  if (memory == NULL)
    return;

  buffers = g_new (struct iovec, n);
  for (guint i = 0; i < n; i++)
    {
      buffers[i].iov_base = memory + (gsize) i * LLM_DISK_MAX_BYTES;
      buffers[i].iov_len = LLM_DISK_MAX_BYTES;
    }
  code = io_uring_register_buffers (&self->ring, buffers, n);
  self->is_registered = code == 0;
  if (code != 0)
    g_debug ("Buffers can't be registered: %s", g_strerror (-code));
}

void
llm_disk_uring_submit (LlmDiskUring *self,
                       LlmDiskOp    *op)
{
  unsigned length = (unsigned) (op->length - op->n_done);
  guint64 offset = op->offset + op->n_done;
  guint8 *memory = op->memory != NULL ? op->memory + op->n_done : NULL;
  struct io_uring_sqe *entry = io_uring_get_sqe (&self->ring);

  /* The ring is large enough for all ops that may be under way. */
  g_assert (entry != NULL);
  if (llm_disk_op_has_parts (op))
    io_uring_prep_readv (entry, op->fd, op->parts + op->first_part, op->n_parts - op->first_part,
                         op->offset);
  else if (self->is_registered && op->is_write)
    io_uring_prep_write_fixed (entry, op->fd, memory, length, offset, op->buffer);
  else if (self->is_registered)
    io_uring_prep_read_fixed (entry, op->fd, memory, length, offset, op->buffer);
  else if (op->is_write)
    io_uring_prep_write (entry, op->fd, memory, length, offset);
  else
    io_uring_prep_read (entry, op->fd, memory, length, offset);
  io_uring_sqe_set_data (entry, op);
  self->n_unsent++;
}

void
llm_disk_uring_flush (LlmDiskUring *self)
{
  while (self->n_unsent > 0)
    {
      int n = io_uring_submit (&self->ring);

      if (n == -EINTR)
        continue;
      /* The kernel is short of memory: the next poll tries again. */
      if (n <= 0)
        return;
      self->n_unsent -= MIN ((guint) n, self->n_unsent);
    }
}

void
llm_disk_uring_reap (LlmDiskUring *self,
                     GQueue       *finished)
{
  struct io_uring_cqe *entry;

  llm_disk_uring_flush (self);
  while (io_uring_peek_cqe (&self->ring, &entry) == 0)
    {
      LlmDiskOp *op = io_uring_cqe_get_data (entry);

      op->result = entry->res;
      io_uring_cqe_seen (&self->ring, entry);
      g_queue_push_tail (finished, op);
    }
}

void
llm_disk_uring_free (LlmDiskUring *self)
{
  io_uring_queue_exit (&self->ring);
  g_free (self);
}

/* A filter may allow a ring to be made and then refuse its use, and an old kernel knows fewer
 * operations. */
static int
try_ring (struct io_uring *ring)
{
  struct io_uring_probe *probe = io_uring_get_probe_ring (ring);
  struct io_uring_cqe *answer;
  struct io_uring_sqe *entry;
  gboolean is_able;
  int code;

  if (probe == NULL)
    return -ENOSYS;
  is_able = io_uring_opcode_supported (probe, IORING_OP_READ) &&
            io_uring_opcode_supported (probe, IORING_OP_READV) &&
            io_uring_opcode_supported (probe, IORING_OP_WRITE) &&
            io_uring_opcode_supported (probe, IORING_OP_READ_FIXED) &&
            io_uring_opcode_supported (probe, IORING_OP_WRITE_FIXED);
  io_uring_free_probe (probe);
  if (!is_able)
    return -ENOSYS;

  entry = io_uring_get_sqe (ring);
  io_uring_prep_nop (entry);
  code = io_uring_submit (ring);
  if (code < 0)
    return code;
  code = io_uring_wait_cqe (ring, &answer);
  if (code < 0)
    return code;
  io_uring_cqe_seen (ring, answer);
  return 0;
}

LlmDiskUring *
llm_disk_uring_new (int          event_fd,
                    guint        n_ops,
                    const char **reason)
{
  LlmDiskUring *self = g_new0 (LlmDiskUring, 1);
  int code = io_uring_queue_init (n_ops, &self->ring, 0);

  if (code == 0)
    {
      code = try_ring (&self->ring);
      if (code == 0)
        code = io_uring_register_eventfd (&self->ring, event_fd);
      if (code < 0)
        io_uring_queue_exit (&self->ring);
    }
  if (code < 0)
    {
      *reason = g_strerror (-code);
      g_free (self);
      return NULL;
    }
  return self;
}
