/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/llm-bus-head.h"

#define RELAY_KEY "llm-bus-relay"
#define BUS_NAME "org.freedesktop.DBus"
#define READ_BYTES (64 * 1024)
/* What GDBus has not taken yet: more is not read from the bus. */
#define MAX_WAITING (4 * 1024 * 1024)
/* A head with more than this is counted with the body. */
#define USUAL_HEAD_BYTES (64 * 1024)
/* Room for messages that is kept when they have gone on. */
#define KEPT_BYTES (1024 * 1024)
/* How long a bus may take to read what is left at the end. */
#define DRAIN_US (2 * G_USEC_PER_SEC)
#define DRAIN_STEP_MS 100
/* Descriptors of one message; the kernel's limit is 253. */
#define MAX_FDS 253
static const char begin_line[] = "BEGIN\r\n";

/* Bytes on their way, and the descriptors that go with the first of them. */
typedef struct
{
  GByteArray *bytes;
  gsize done;
  GArray *fds;        /* (nullable) (element-type int) (owned) */
} Chunk;

/* Atomically reference-counted: by the connection and the thread. */
struct _LlmBusRelay
{
  int bus;                /* nonblocking */
  int peer;               /* the end of a pair of sockets whose other end GDBus has */
  GThread *thread;        /* (nullable) (owned): main's */
  GMutex mutex;           /* for the two below */
  const LlmBusRelayGate *gate; /* (nullable) */
  gpointer data;

  /* the thread's */
  GQueue to_bus;          /* (element-type Chunk) (owned) */
  GQueue to_peer;         /* (element-type Chunk) (owned) */
  gsize n_to_peer;
  GByteArray *in;         /* from the bus */
  gsize in_done;          /* of it, looked at */
  gsize in_most;          /* bytes that were in it */
  GArray *in_fds;         /* (element-type int) (owned): that came along */
  guint64 skip;           /* bytes of a message that was refused, yet to come */
  gboolean is_admitted;   /* the message that comes next in @in */
  gboolean is_begun;      /* messages come, after the greeting in lines */
  guint n_matched;        /* of begin_line, so far, in what went out */
};

static void
close_fds (GArray *fds)
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
      close_fds (chunk->fds);
      g_array_unref (chunk->fds);
    }
  g_free (chunk);
}

static void
clear_relay (gpointer data)
{
  LlmBusRelay *self = data;

  g_close (self->bus, NULL);
  g_close (self->peer, NULL);
  g_queue_clear_full (&self->to_bus, (GDestroyNotify) chunk_free);
  g_queue_clear_full (&self->to_peer, (GDestroyNotify) chunk_free);
  g_byte_array_unref (self->in);
  close_fds (self->in_fds);
  g_array_unref (self->in_fds);
  g_clear_pointer (&self->thread, g_thread_unref);
  g_mutex_clear (&self->mutex);
}

static void
relay_unref (gpointer data)
{
  g_atomic_rc_box_release_full (data, clear_relay);
}

/* --- bytes --- */

/* @fds: (nullable) (transfer full) */
static void
add_bytes (GQueue       *queue,
           const guint8 *bytes,
           gsize         length,
           GArray       *fds)
{
  Chunk *last = g_queue_peek_tail (queue);

  if (fds != NULL || last == NULL || last->fds != NULL || last->bytes->len >= READ_BYTES)
    {
      last = g_new0 (Chunk, 1);
      last->bytes = g_byte_array_new ();
      last->fds = fds;
      g_queue_push_tail (queue, last);
    }
  g_byte_array_append (last->bytes, bytes, (guint) length);
}

/* Reads what there is; descriptors come to @fds. 0 at the end or on failure, -1 when there is
 * nothing now. */
static ssize_t
read_some (int     fd,
           guint8 *buffer,
           GArray *fds)
{
  union
  {
    struct cmsghdr header;
    guint8 bytes[CMSG_SPACE (MAX_FDS * sizeof (int)) + CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec vector = { buffer, READ_BYTES };
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
      g_array_append_vals (fds, CMSG_DATA (c), (guint) ((c->cmsg_len - CMSG_LEN (0)) / sizeof (int)));
  return n;
}

/* FALSE when the other side is gone. */
static gboolean
write_some (int     fd,
            GQueue *queue,
            gsize  *n_waiting)
{
  Chunk *chunk;

  while ((chunk = g_queue_peek_head (queue)) != NULL)
    {
      union
      {
        struct cmsghdr header;
        guint8 bytes[CMSG_SPACE (MAX_FDS * sizeof (int))];
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
          close_fds (chunk->fds);
          g_clear_pointer (&chunk->fds, g_array_unref);
        }
      chunk->done += (gsize) n;
      if (n_waiting != NULL)
        *n_waiting -= (gsize) n;
      if (chunk->done == chunk->bytes->len)
        chunk_free (g_queue_pop_head (queue));
    }
  return TRUE;
}

/* --- messages --- */

/* The descriptors of the next message. (transfer full) (nullable) */
static GArray *
take_fds (LlmBusRelay *self,
          guint        n)
{
  GArray *fds;

  n = MIN (n, MIN (self->in_fds->len, MAX_FDS));
  if (n == 0)
    return NULL;
  fds = g_array_sized_new (FALSE, FALSE, sizeof (int), n);
  g_array_append_vals (fds, self->in_fds->data, n);
  g_array_remove_range (self->in_fds, 0, n);
  return fds;
}

static void
drop_fds (LlmBusRelay *self,
          guint        n)
{
  g_autoptr(GArray) fds = take_fds (self, n);

  if (fds != NULL)
    close_fds (fds);
}

static LlmBusHead
make_head (const LlmBusHeadBytes *bytes)
{
  return (LlmBusHead) {
    .type = bytes->type,
    .sender = bytes->sender,
    .serial = bytes->serial,
    .flags = bytes->flags,
    .n_bytes = bytes->n_body + (bytes->n_head > USUAL_HEAD_BYTES ? bytes->n_head : 0),
    .n_fds = bytes->n_fds,
  };
}

/* Asks the gate. */
static gboolean
admit (LlmBusRelay           *self,
       guint8                *bytes,
       const LlmBusHeadBytes *head)
{
  LlmBusHead asked = make_head (head);
  gboolean may_go_on = TRUE;

  g_mutex_lock (&self->mutex);
  if (self->gate != NULL)
    may_go_on = self->gate->admit (&asked, self->data);
  g_mutex_unlock (&self->mutex);
  bytes[LLM_BUS_HEAD_FLAGS_BYTE] = asked.flags;
  return may_go_on;
}

/* Whether GDBus takes the message; otherwise the connection would end. */
static gboolean
is_sound (LlmBusRelay           *self,
          guint8                *bytes,
          const LlmBusHeadBytes *head)
{
  g_autoptr(GDBusMessage) message = NULL;
  LlmBusHead told = make_head (head);

  message = g_dbus_message_new_from_blob (bytes, head->n_head + head->n_body,
                                          G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING, NULL);
  if (message != NULL)
    return TRUE;

  g_mutex_lock (&self->mutex);
  if (self->gate != NULL)
    self->gate->spoilt (&told, self->data);
  g_mutex_unlock (&self->mutex);
  return FALSE;
}

/* Takes one message, or a part of one to be skipped, off @in. FALSE when there is nothing whole.
 * *@is_lost: what comes makes no sense any more. */
static gboolean
take_message (LlmBusRelay *self,
              gboolean    *is_lost)
{
  guint8 *bytes = self->in->data + self->in_done;
  gsize n_there = self->in->len - self->in_done;
  LlmBusHeadBytes head;
  guint64 n_whole;
  gboolean is_known, is_ours;

  if (self->skip > 0)
    {
      gsize n = MIN (self->skip, n_there);

      self->in_done += n;
      self->skip -= n;
      return n > 0;
    }
  if (n_there < LLM_BUS_HEAD_START)
    return FALSE;
  if (!llm_bus_head_measure (bytes, &head))
    {
      *is_lost = TRUE;
      return FALSE;
    }
  if (n_there < head.n_head)
    return FALSE;

  n_whole = head.n_head + head.n_body;
  is_known = llm_bus_head_parse (bytes, &head);
  is_ours = is_known && head.sender != NULL && head.sender[0] == ':';
  /* no bus makes fields that are not known, so they are a caller's, who may not get past the gate
   * by them */
  if (!is_known || (is_ours && !self->is_admitted && !admit (self, bytes, &head)))
    {
      drop_fds (self, head.n_fds);
      self->skip = n_whole;
      return TRUE;
    }
  self->is_admitted = TRUE;
  if (n_there < n_whole)
    return FALSE;

  self->is_admitted = FALSE;
  if (is_ours && !is_sound (self, bytes, &head))
    {
      drop_fds (self, head.n_fds);
    }
  else
    {
      add_bytes (&self->to_peer, bytes, n_whole, take_fds (self, head.n_fds));
      self->n_to_peer += n_whole;
    }
  self->in_done += n_whole;
  return TRUE;
}

/* --- the thread --- */

/* Whether what GDBus sends has come to the end of the greeting. */
static void
look_for_begin (LlmBusRelay  *self,
                const guint8 *bytes,
                gsize         length)
{
  for (gsize i = 0; i < length && !self->is_begun; i++)
    {
      if (bytes[i] == (guint8) begin_line[self->n_matched])
        self->n_matched++;
      else
        self->n_matched = bytes[i] == (guint8) begin_line[0];
      self->is_begun = self->n_matched == strlen (begin_line);
    }
}

/* As read_some(). */
static ssize_t
read_peer (LlmBusRelay *self,
           guint8      *buffer)
{
  g_autoptr(GArray) fds = g_array_new (FALSE, FALSE, sizeof (int));
  ssize_t n = read_some (self->peer, buffer, fds);

  if (n <= 0)
    return n;
  if (!self->is_begun)
    look_for_begin (self, buffer, (gsize) n);
  add_bytes (&self->to_bus, buffer, (gsize) n, fds->len > 0 ? g_steal_pointer (&fds) : NULL);
  return n;
}

/* What was looked at; an array never shrinks by itself. */
static void
drop_done (LlmBusRelay *self)
{
  if (self->in_done > 0)
    g_byte_array_remove_range (self->in, 0, (guint) self->in_done);
  self->in_done = 0;
  if (self->in->len > 0 || self->in_most <= KEPT_BYTES)
    return;
  g_byte_array_unref (self->in);
  self->in = g_byte_array_new ();
  self->in_most = 0;
}

static gboolean
read_bus (LlmBusRelay *self,
          guint8      *buffer)
{
  ssize_t n = read_some (self->bus, buffer, self->in_fds);
  gboolean is_lost = FALSE;

  if (n <= 0)
    return n < 0;
  if (!self->is_begun)
    {
      add_bytes (&self->to_peer, buffer, (gsize) n, NULL);
      self->n_to_peer += (gsize) n;
      return TRUE;
    }

  g_byte_array_append (self->in, buffer, (guint) n);
  self->in_most = MAX (self->in_most, self->in->len);
  while (take_message (self, &is_lost))
    ;
  drop_done (self);
  return !is_lost;
}

/* The last words of the service. */
static void
drain (LlmBusRelay *self,
       guint8      *buffer)
{
  gint64 until_us = g_get_monotonic_time () + DRAIN_US;

  shutdown (self->peer, SHUT_RD);
  while (read_peer (self, buffer) > 0)
    ;
  while (write_some (self->bus, &self->to_bus, NULL) && !g_queue_is_empty (&self->to_bus) &&
         g_get_monotonic_time () < until_us)
    {
      struct pollfd room = { .fd = self->bus, .events = POLLOUT };

      poll (&room, 1, DRAIN_STEP_MS);
    }
}

static gpointer
run_relay (gpointer data)
{
  LlmBusRelay *self = data;
  g_autofree guint8 *buffer = g_malloc (READ_BYTES);
  gboolean goes_on = TRUE;

  while (goes_on)
    {
      struct pollfd fds[2] = { { .fd = self->bus }, { .fd = self->peer } };

      if (self->n_to_peer < MAX_WAITING)
        fds[0].events |= POLLIN;
      if (!g_queue_is_empty (&self->to_bus))
        fds[0].events |= POLLOUT;
      else
        fds[1].events |= POLLIN;
      if (!g_queue_is_empty (&self->to_peer))
        fds[1].events |= POLLOUT;
      if (poll (fds, G_N_ELEMENTS (fds), -1) < 0)
        {
          goes_on = errno == EINTR;
          continue;
        }

      if ((fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        goes_on = read_bus (self, buffer);
      if (goes_on && (fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        goes_on = read_peer (self, buffer) != 0;
      goes_on = goes_on && write_some (self->bus, &self->to_bus, NULL) &&
                write_some (self->peer, &self->to_peer, &self->n_to_peer);
    }

  /* what came before the end is still for the other side; then that sees the end */
  drain (self, buffer);
  write_some (self->peer, &self->to_peer, &self->n_to_peer);
  shutdown (self->peer, SHUT_RDWR);
  shutdown (self->bus, SHUT_RDWR);
  relay_unref (self);
  return NULL;
}

/* --- main --- */

GDBusConnection *
llm_bus_relay_connect_socket (int      fd,
                              GError **error)
{
  LlmBusRelay *self;
  GDBusConnection *connection;
  g_autoptr(GSocket) socket = NULL;
  g_autoptr(GSocketConnection) stream = NULL;
  int pair[2];

  if (!g_unix_set_fd_nonblocking (fd, TRUE, error) ||
      socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
    {
      if (error != NULL && *error == NULL)
        g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "No pair of sockets: %s",
                     g_strerror (errno));
      g_close (fd, NULL);
      return NULL;
    }
  socket = g_socket_new_from_fd (pair[0], error);
  if (socket == NULL)
    {
      g_close (pair[0], NULL);
      g_close (pair[1], NULL);
      g_close (fd, NULL);
      return NULL;
    }

  self = g_atomic_rc_box_new0 (LlmBusRelay);
  self->bus = fd;
  self->peer = pair[1];
  self->in = g_byte_array_new ();
  self->in_fds = g_array_new (FALSE, FALSE, sizeof (int));
  g_mutex_init (&self->mutex);
  g_queue_init (&self->to_bus);
  g_queue_init (&self->to_peer);
  self->thread = g_thread_new ("llm-bus-relay", run_relay, g_atomic_rc_box_acquire (self));

  stream = g_socket_connection_factory_create_connection (socket);
  connection = g_dbus_connection_new_sync (G_IO_STREAM (stream), NULL,
                                           G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                             G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                           NULL, NULL, error);
  if (connection == NULL)
    {
      relay_unref (self);
      return NULL;
    }
  g_object_set_data_full (G_OBJECT (connection), RELAY_KEY, self, relay_unref);
  return connection;
}

GDBusConnection *
llm_bus_relay_connect (gboolean   is_system,
                       GError   **error)
{
  g_autofree char *address = g_dbus_address_get_for_bus_sync (
    is_system ? G_BUS_TYPE_SYSTEM : G_BUS_TYPE_SESSION, NULL, error);
  g_autoptr(GIOStream) stream =
    address != NULL ? g_dbus_address_get_stream_sync (address, NULL, NULL, error) : NULL;
  int fd;

  if (stream == NULL)
    return NULL;
  if (!G_IS_SOCKET_CONNECTION (stream))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                   "The bus at %s is no socket", address);
      return NULL;
    }

  fd = fcntl (g_socket_get_fd (g_socket_connection_get_socket (G_SOCKET_CONNECTION (stream))),
              F_DUPFD_CLOEXEC, 3);
  if (fd < 0)
    {
      g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "No descriptor: %s",
                   g_strerror (errno));
      return NULL;
    }
  return llm_bus_relay_connect_socket (fd, error);
}

static void
on_flushed (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_dbus_connection_flush_finish (G_DBUS_CONNECTION (source), result, NULL);
  *(gboolean *) data = TRUE;
}

static gboolean
on_late (gpointer data)
{
  *(gboolean *) data = TRUE;
  return G_SOURCE_REMOVE;
}

/* Until GDBus has sent all it has. A bus that reads nothing any more is left after a while: nothing
 * else ends GDBus's waiting for it. */
static void
flush_or_leave (LlmBusRelay     *self,
                GDBusConnection *connection)
{
  g_autoptr(GMainContext) context = g_main_context_new ();
  g_autoptr(GSource) limit = g_timeout_source_new (DRAIN_US / 1000);
  gboolean is_flushed = FALSE;
  gboolean is_late = FALSE;

  g_source_set_callback (limit, on_late, &is_late, NULL);
  g_source_attach (limit, context);
  g_main_context_push_thread_default (context);
  g_dbus_connection_flush (connection, NULL, on_flushed, &is_flushed);
  while (!is_flushed)
    {
      g_main_context_iteration (context, TRUE);
      if (is_late)
        shutdown (self->bus, SHUT_RDWR);
    }
  g_main_context_pop_thread_default (context);
  g_source_destroy (limit);
}

void
llm_bus_relay_close (GDBusConnection *connection)
{
  LlmBusRelay *self = llm_bus_relay_get (connection);

  if (!g_dbus_connection_is_closed (connection))
    {
      if (self != NULL)
        flush_or_leave (self, connection);
      else
        g_dbus_connection_flush_sync (connection, NULL, NULL);
      g_dbus_connection_close_sync (connection, NULL, NULL);
    }
  if (self == NULL || self->thread == NULL)
    return;

  /* GDBus calls a connection closed that it can't read from, and leaves its socket open: the bus
   * would keep the service's name for somebody who hears nothing */
  shutdown (self->peer, SHUT_RDWR);
  g_thread_join (g_steal_pointer (&self->thread));
}

LlmBusRelay *
llm_bus_relay_get (GDBusConnection *connection)
{
  return g_object_get_data (G_OBJECT (connection), RELAY_KEY);
}

void
llm_bus_relay_set_gate (LlmBusRelay           *self,
                        const LlmBusRelayGate *gate,
                        gpointer               data)
{
  g_mutex_lock (&self->mutex);
  self->gate = gate;
  self->data = data;
  g_mutex_unlock (&self->mutex);
}
