/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>

#define RELAY_KEY "llm-bus-relay"
/* Size of a read: of outgoing data, of skipped data, and of a message with its head. */
#define READ_BYTES (64 * 1024)
/* Buffer for messages that is kept after use. */
#define KEPT_BYTES (1024 * 1024)
/* Descriptors of one message; the kernel's limit is 253. */
#define MAX_FDS 253
/* How long a bus may take to read the rest at the end, and how often that is checked. */
#define DRAIN_US (2 * G_USEC_PER_SEC)
#define DRAIN_STEP_US 100000
#define BEGIN_LINE "BEGIN\r\n"

/* Atomically reference-counted: by the connection and the threads. */
typedef struct
{
  int bus;
  int peer;            /* the end of a pair of sockets whose other end GDBus has */
  GThread *in;         /* (nullable) (owned): main's */
  GThread *out;        /* (nullable) (owned): main's */
  gboolean is_begun;   /* atomic: messages arrive, after the greeting in lines */
  gint64 until_us;     /* atomic: waits for the bus until then; 0: for ever */
  GMutex mutex;        /* for @gate, and while it is asked */
  LlmBusGate *gate;    /* (nullable) (unowned) */
} Relay;

static void
clear_relay (gpointer data)
{
  Relay *self = data;

  g_close (self->bus, NULL);
  g_close (self->peer, NULL);
  g_clear_pointer (&self->in, g_thread_unref);
  g_clear_pointer (&self->out, g_thread_unref);
  g_mutex_clear (&self->mutex);
}

static void
relay_unref (gpointer data)
{
  g_atomic_rc_box_release_full (data, clear_relay);
}

/* --- sockets --- */

static void
close_fds (GArray *fds)
{
  for (guint i = 0; i < fds->len; i++)
    g_close (g_array_index (fds, int, i), NULL);
  g_array_set_size (fds, 0);
}

/* Waits for bytes, and adds the descriptors that come with them to @fds. 0 at the end or on
 * failure. */
static gsize
receive (int     fd,
         guint8 *bytes,
         gsize   length,
         GArray *fds)
{
  union
  {
    struct cmsghdr header;
    guint8 bytes[CMSG_SPACE (MAX_FDS * sizeof (int)) + CMSG_SPACE (sizeof (struct ucred))];
  } control;
  struct iovec vector = { bytes, length };
  struct msghdr message = {
    .msg_iov = &vector, .msg_iovlen = 1,
    .msg_control = &control, .msg_controllen = sizeof control,
  };
  ssize_t n;

  do
    n = recvmsg (fd, &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (n <= 0)
    return 0;

  for (struct cmsghdr *c = CMSG_FIRSTHDR (&message); c != NULL; c = CMSG_NXTHDR (&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
      g_array_append_vals (fds, CMSG_DATA (c),
                           (guint) ((c->cmsg_len - CMSG_LEN (0)) / sizeof (int)));
  return (gsize) n;
}

static gboolean
receive_all (int     fd,
             guint8 *bytes,
             gsize   length,
             GArray *fds)
{
  while (length > 0)
    {
      gsize n = receive (fd, bytes, length, fds);

      if (n == 0)
        return FALSE;
      bytes += n;
      length -= n;
    }
  return TRUE;
}

static gboolean
is_late (Relay *self)
{
  gint64 until_us = __atomic_load_n (&self->until_us, __ATOMIC_RELAXED);

  return until_us > 0 && g_get_monotonic_time () > until_us;
}

/* Sends all, with @fds, which are then closed. FALSE when the other side is gone, or it took too
 * long. */
static gboolean
send_all (Relay        *self,
          int           fd,
          const guint8 *bytes,
          gsize         length,
          GArray       *fds)
{
  while (length > 0)
    {
      union
      {
        struct cmsghdr header;
        guint8 bytes[CMSG_SPACE (MAX_FDS * sizeof (int))];
      } control = { 0 };
      gsize n_fd_bytes = MIN (fds->len, MAX_FDS) * sizeof (int);
      struct iovec vector = { (guint8 *) bytes, length };
      struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
      ssize_t n;

      if (n_fd_bytes > 0)
        {
          message.msg_control = &control;
          message.msg_controllen = CMSG_SPACE (n_fd_bytes);
          control.header = (struct cmsghdr) { CMSG_LEN (n_fd_bytes), SOL_SOCKET, SCM_RIGHTS };
          memcpy (CMSG_DATA (&control.header), fds->data, n_fd_bytes);
        }
      n = sendmsg (fd, &message, MSG_NOSIGNAL);
      if (n < 0 && (errno == EINTR || (errno == EAGAIN && !is_late (self))))
        continue;
      if (n < 0)
        return FALSE;
      close_fds (fds);
      bytes += n;
      length -= (gsize) n;
    }
  return TRUE;
}

/* --- what goes out --- */

static gpointer
run_out (gpointer data)
{
  Relay *self = data;
  g_autofree guint8 *bytes = g_malloc (READ_BYTES);
  g_autoptr(GArray) fds = g_array_new (FALSE, FALSE, sizeof (int));
  gboolean is_open = TRUE;
  gsize n;

  while (is_open && (n = receive (self->peer, bytes, READ_BYTES, fds)) > 0)
    {
      /* GDBus writes the line at once */
      if (memmem (bytes, n, BEGIN_LINE, strlen (BEGIN_LINE)) != NULL)
        __atomic_store_n (&self->is_begun, TRUE, __ATOMIC_SEQ_CST);
      is_open = send_all (self, self->bus, bytes, n, fds);
    }

  close_fds (fds);
  shutdown (self->bus, SHUT_RDWR);
  shutdown (self->peer, SHUT_RDWR);
  relay_unref (self);
  return NULL;
}

/* --- what comes in --- */

/* The greeting is in lines, which end before the first message comes. *@first: the first byte of
 * that. */
static gboolean
pass_greeting (Relay  *self,
               guint8 *first,
               GArray *fds)
{
  while (receive (self->bus, first, 1, fds) > 0)
    {
      if (__atomic_load_n (&self->is_begun, __ATOMIC_SEQ_CST))
        return TRUE;
      if (!send_all (self, self->peer, first, 1, fds))
        return FALSE;
    }
  return FALSE;
}

/* Whether GDBus can parse the message; otherwise it would end the connection. */
static gboolean
is_sound (GByteArray *message)
{
  g_autoptr(GDBusMessage) parsed = g_dbus_message_new_from_blob (
    message->data, message->len, G_DBUS_CAPABILITY_FLAGS_UNIX_FD_PASSING, NULL);

  return parsed != NULL;
}

/* Asks the gate about a message, or tells it that GDBus can't read it. */
static gboolean
ask_gate (Relay      *self,
          LlmBusHead *head,
          gboolean    is_spoilt)
{
  gboolean is_admitted = TRUE;

  g_mutex_lock (&self->mutex);
  if (self->gate != NULL && is_spoilt)
    llm_bus_gate_take_spoilt (self->gate, head);
  else if (self->gate != NULL)
    is_admitted = llm_bus_gate_admit (self->gate, head);
  g_mutex_unlock (&self->mutex);
  return is_admitted;
}

static gboolean
skip (Relay      *self,
      GByteArray *buffer,
      guint64     n,
      GArray     *fds)
{
  gboolean is_open = TRUE;

  /* not smaller: run_in() sees by its length what is to be freed */
  g_byte_array_set_size (buffer, MAX (buffer->len, READ_BYTES));
  for (gsize step; is_open && n > 0; n -= step)
    {
      step = MIN (n, READ_BYTES);
      is_open = receive_all (self->bus, buffer->data, step, fds);
    }
  close_fds (fds);
  return is_open;
}

/* Passes one message on, or drops it; its first @n_there bytes are in @message. FALSE when no more
 * can come. */
static gboolean
take_message (Relay      *self,
              GByteArray *message,
              guint       n_there,
              GArray     *fds)
{
  LlmBusHead head;
  guint64 n_whole;
  gsize n_read, sender;
  gboolean is_known, is_callers;

  if (!receive_all (self->bus, message->data + n_there, LLM_BUS_HEAD_START - n_there, fds) ||
      !llm_bus_head_measure (message->data, &head))
    return FALSE;

  n_whole = head.n_head + head.n_body;
  n_read = n_whole <= READ_BYTES ? n_whole : head.n_head;
  g_byte_array_set_size (message, (guint) n_read);
  if (!receive_all (self->bus, message->data + LLM_BUS_HEAD_START, n_read - LLM_BUS_HEAD_START,
                    fds))
    return FALSE;
  is_known = llm_bus_head_parse (message->data, &head);
  is_callers = is_known && head.sender != NULL && head.sender[0] == ':';
  /* a bus makes no unknown fields, so they are a caller's, who must not get past the gate with
   * them */
  if (!is_known || (is_callers && !ask_gate (self, &head, FALSE)))
    return skip (self, message, n_whole - n_read, fds);

  message->data[LLM_BUS_HEAD_FLAGS_BYTE] = head.flags;
  sender = head.sender != NULL ? (gsize) (head.sender - (const char *) message->data) : 0;
  g_byte_array_set_size (message, (guint) n_whole);
  if (!receive_all (self->bus, message->data + n_read, n_whole - n_read, fds))
    return FALSE;
  if (is_callers && !is_sound (message))
    {
      head.sender = (const char *) message->data + sender;
      ask_gate (self, &head, TRUE);
      close_fds (fds);
      return TRUE;
    }
  if (head.n_fds == 0)
    close_fds (fds);
  return send_all (self, self->peer, message->data, n_whole, fds);
}

static gpointer
run_in (gpointer data)
{
  Relay *self = data;
  g_autoptr(GByteArray) message = g_byte_array_new ();
  g_autoptr(GArray) fds = g_array_new (FALSE, FALSE, sizeof (int));
  gboolean is_open;

  g_byte_array_set_size (message, LLM_BUS_HEAD_START);
  is_open = pass_greeting (self, message->data, fds) && take_message (self, message, 1, fds);
  while (is_open)
    {
      /* an array never shrinks by itself */
      if (message->len > KEPT_BYTES)
        {
          g_byte_array_unref (message);
          message = g_byte_array_new ();
        }
      g_byte_array_set_size (message, LLM_BUS_HEAD_START);
      is_open = take_message (self, message, 0, fds);
    }

  close_fds (fds);
  /* the other side still reads what came before the end, and sends what waits there */
  shutdown (self->peer, SHUT_RDWR);
  relay_unref (self);
  return NULL;
}

/* --- main --- */

GDBusConnection *
llm_bus_relay_connect_socket (int      fd,
                              GError **error)
{
  const struct timeval step = { .tv_usec = DRAIN_STEP_US };
  GDBusConnection *connection;
  g_autoptr(GSocket) socket = NULL;
  g_autoptr(GSocketConnection) stream = NULL;
  int pair[2] = { -1, -1 };
  Relay *self;

  if (!g_unix_set_fd_nonblocking (fd, FALSE, NULL) ||
      setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &step, sizeof step) != 0 ||
      socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    g_set_error (error, G_IO_ERROR, g_io_error_from_errno (errno), "No pair of sockets: %s",
                 g_strerror (errno));
  else
    socket = g_socket_new_from_fd (pair[0], error);
  if (socket == NULL)
    {
      for (guint i = 0; i < G_N_ELEMENTS (pair) && pair[i] >= 0; i++)
        g_close (pair[i], NULL);
      g_close (fd, NULL);
      return NULL;
    }

  self = g_atomic_rc_box_new0 (Relay);
  self->bus = fd;
  self->peer = pair[1];
  g_mutex_init (&self->mutex);
  self->in = g_thread_new ("llm-bus-in", run_in, g_atomic_rc_box_acquire (self));
  self->out = g_thread_new ("llm-bus-out", run_out, g_atomic_rc_box_acquire (self));

  stream = g_socket_connection_factory_create_connection (socket);
  connection = g_dbus_connection_new_sync (G_IO_STREAM (stream), NULL,
                                           G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                             G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                           NULL, NULL, error);
  if (connection == NULL)
    {
      shutdown (self->bus, SHUT_RDWR);
      shutdown (self->peer, SHUT_RDWR);
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

void
llm_bus_relay_set_gate (GDBusConnection *connection,
                        LlmBusGate      *gate)
{
  Relay *self = g_object_get_data (G_OBJECT (connection), RELAY_KEY);

  if (self == NULL)
    return;
  g_mutex_lock (&self->mutex);
  self->gate = gate;
  g_mutex_unlock (&self->mutex);
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

/* Waits until GDBus has sent all it has, but not for ever: the bus may have stopped reading, and
 * GDBus never ends a flush while it waits for messages that a filter removed from its queue. A
 * later callback does nothing, because its context is not iterated any more. */
static void
flush_or_leave (Relay           *self,   /* (nullable) */
                GDBusConnection *connection)
{
  g_autoptr(GMainContext) context = g_main_context_new ();
  g_autoptr(GSource) limit = g_timeout_source_new (DRAIN_US / 1000);
  gboolean is_flushed = FALSE;
  gboolean is_over = FALSE;

  g_source_set_callback (limit, on_late, &is_over, NULL);
  g_source_attach (limit, context);
  g_main_context_push_thread_default (context);
  g_dbus_connection_flush (connection, NULL, on_flushed, &is_flushed);
  while (!is_flushed && !is_over)
    g_main_context_iteration (context, TRUE);
  /* a write under way would hold up the closing */
  if (!is_flushed && self != NULL)
    shutdown (self->bus, SHUT_RDWR);
  g_main_context_pop_thread_default (context);
  g_source_destroy (limit);
}

void
llm_bus_relay_close (GDBusConnection *connection)
{
  Relay *self = g_object_get_data (G_OBJECT (connection), RELAY_KEY);

  if (!g_dbus_connection_is_closed (connection))
    {
      flush_or_leave (self, connection);
      g_dbus_connection_close_sync (connection, NULL, NULL);
    }
  if (self == NULL || self->out == NULL)
    return;

  /* GDBus calls a connection closed that it can't read from, and leaves its socket open: the bus
   * would keep the service's name for a connection that reads nothing */
  __atomic_store_n (&self->until_us, g_get_monotonic_time () + DRAIN_US, __ATOMIC_RELAXED);
  shutdown (self->peer, SHUT_RDWR);
  g_thread_join (g_steal_pointer (&self->out));
  g_thread_join (g_steal_pointer (&self->in));
}
