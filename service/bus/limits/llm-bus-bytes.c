/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-bytes.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>

typedef struct
{
  GByteArray *bytes;
  gsize done;
  GArray *fds;        /* (nullable) (element-type int) (owned) */
} Chunk;

void
llm_bus_bytes_close_fds (GArray *fds)
{
  for (guint i = 0; i < fds->len; i++)
    g_close (g_array_index (fds, int, i), NULL);
  g_array_set_size (fds, 0);
}

static void
chunk_free (Chunk *chunk)
{
  g_byte_array_unref (chunk->bytes);
  if (chunk->fds != NULL)
    {
      llm_bus_bytes_close_fds (chunk->fds);
      g_array_unref (chunk->fds);
    }
  g_free (chunk);
}

void
llm_bus_bytes_init (LlmBusBytes *self)
{
  g_queue_init (&self->chunks);
  self->n = 0;
}

void
llm_bus_bytes_clear (LlmBusBytes *self)
{
  g_queue_clear_full (&self->chunks, (GDestroyNotify) chunk_free);
  self->n = 0;
}

void
llm_bus_bytes_add (LlmBusBytes  *self,
                   const guint8 *bytes,
                   gsize         length,
                   GArray       *fds)
{
  Chunk *last = g_queue_peek_tail (&self->chunks);

  if (fds != NULL || last == NULL || last->fds != NULL ||
      last->bytes->len >= LLM_BUS_BYTES_READ)
    {
      last = g_new0 (Chunk, 1);
      last->bytes = g_byte_array_new ();
      last->fds = fds;
      g_queue_push_tail (&self->chunks, last);
    }
  g_byte_array_append (last->bytes, bytes, (guint) length);
  self->n += length;
}

ssize_t
llm_bus_bytes_read (int     fd,
                    guint8 *buffer,
                    GArray *fds)
{
  union
  {
    struct cmsghdr header;
    guint8 bytes[CMSG_SPACE (LLM_BUS_BYTES_MAX_FDS * sizeof (int)) +
                 CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec vector = { buffer, LLM_BUS_BYTES_READ };
  struct msghdr message = {
    .msg_iov = &vector, .msg_iovlen = 1,
    .msg_control = &control, .msg_controllen = sizeof control,
  };
  ssize_t n;

  do
    n = recvmsg (fd, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n < 0)
    return errno == EAGAIN || errno == EWOULDBLOCK ? -1 : 0;

  for (struct cmsghdr *c = CMSG_FIRSTHDR (&message); c != NULL; c = CMSG_NXTHDR (&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
      g_array_append_vals (fds, CMSG_DATA (c),
                           (guint) ((c->cmsg_len - CMSG_LEN (0)) / sizeof (int)));
  return n;
}

gboolean
llm_bus_bytes_write (LlmBusBytes *self,
                     int          fd)
{
  Chunk *chunk;

  while ((chunk = g_queue_peek_head (&self->chunks)) != NULL)
    {
      union
      {
        struct cmsghdr header;
        guint8 bytes[CMSG_SPACE (LLM_BUS_BYTES_MAX_FDS * sizeof (int))];
      } control;
      struct iovec vector = { chunk->bytes->data + chunk->done, chunk->bytes->len - chunk->done };
      struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
      ssize_t n;

      if (chunk->fds != NULL)
        {
          gsize n_bytes = chunk->fds->len * sizeof (int);

          memset (&control, 0, sizeof control);
          message.msg_control = &control;
          message.msg_controllen = CMSG_SPACE (n_bytes);
          control.header = (struct cmsghdr) { CMSG_LEN (n_bytes), SOL_SOCKET, SCM_RIGHTS };
          memcpy (CMSG_DATA (&control.header), chunk->fds->data, n_bytes);
        }
      n = sendmsg (fd, &message, MSG_NOSIGNAL);
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return TRUE;
      if (n < 0 && errno != EINTR)
        return FALSE;
      if (n < 0)
        continue;

      if (chunk->fds != NULL)
        {
          llm_bus_bytes_close_fds (chunk->fds);
          g_clear_pointer (&chunk->fds, g_array_unref);
        }
      chunk->done += (gsize) n;
      self->n -= (gsize) n;
      if (chunk->done == chunk->bytes->len)
        chunk_free (g_queue_pop_head (&self->chunks));
    }
  return TRUE;
}
