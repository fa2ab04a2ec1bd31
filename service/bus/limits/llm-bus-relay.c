/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-relay.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bus/limits/llm-bus-bytes.h"
#include "bus/limits/llm-bus-sieve.h"

#define RELAY_KEY "llm-bus-relay"
/* What GDBus has not taken yet: more is not read from the bus. */
#define MAX_WAITING (4 * 1024 * 1024)
/* How long a bus may take to read what is left at the end. */
#define DRAIN_US (2 * G_USEC_PER_SEC)
#define DRAIN_STEP_MS 100
static const char begin_line[] = "BEGIN\r\n";

/* Atomically reference-counted: by the connection and the thread. */
struct _LlmBusRelay
{
  int bus;                /* nonblocking */
  int peer;               /* the end of a pair of sockets whose other end GDBus has */
  GThread *thread;        /* (nullable) (owned): main's */
  LlmBusSieve *sieve;     /* (owned): what comes from the bus */

  /* the thread's */
  LlmBusBytes to_bus;
  LlmBusBytes to_peer;
  gboolean is_begun;      /* messages come, after the greeting in lines */
  guint n_matched;        /* of begin_line, so far, in what went out */
};

static void
clear_relay (gpointer data)
{
  LlmBusRelay *self = data;

  g_close (self->bus, NULL);
  g_close (self->peer, NULL);
  llm_bus_bytes_clear (&self->to_bus);
  llm_bus_bytes_clear (&self->to_peer);
  llm_bus_sieve_free (self->sieve);
  g_clear_pointer (&self->thread, g_thread_unref);
}

static void
relay_unref (gpointer data)
{
  g_atomic_rc_box_release_full (data, clear_relay);
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

/* As llm_bus_bytes_read(). */
static ssize_t
read_peer (LlmBusRelay *self,
           guint8      *buffer)
{
  g_autoptr(GArray) fds = g_array_new (FALSE, FALSE, sizeof (int));
  ssize_t n = llm_bus_bytes_read (self->peer, buffer, fds);

  if (n <= 0)
    return n;
  if (!self->is_begun)
    look_for_begin (self, buffer, (gsize) n);
  llm_bus_bytes_add (&self->to_bus, buffer, (gsize) n,
                     fds->len > 0 ? g_steal_pointer (&fds) : NULL);
  return n;
}

static gboolean
read_bus (LlmBusRelay *self,
          guint8      *buffer)
{
  ssize_t n = llm_bus_bytes_read (self->bus, buffer, llm_bus_sieve_get_fds (self->sieve));

  if (n <= 0)
    return n < 0;
  if (self->is_begun)
    return llm_bus_sieve_take (self->sieve, buffer, (gsize) n, &self->to_peer);
  llm_bus_bytes_add (&self->to_peer, buffer, (gsize) n, NULL);
  return TRUE;
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
  while (llm_bus_bytes_write (&self->to_bus, self->bus) && self->to_bus.n > 0 &&
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
  g_autofree guint8 *buffer = g_malloc (LLM_BUS_BYTES_READ);
  gboolean goes_on = TRUE;

  while (goes_on)
    {
      struct pollfd fds[2] = { { .fd = self->bus }, { .fd = self->peer } };

      if (self->to_peer.n < MAX_WAITING)
        fds[0].events |= POLLIN;
      if (self->to_bus.n > 0)
        fds[0].events |= POLLOUT;
      else
        fds[1].events |= POLLIN;
      if (self->to_peer.n > 0)
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
      goes_on = goes_on && llm_bus_bytes_write (&self->to_bus, self->bus) &&
                llm_bus_bytes_write (&self->to_peer, self->peer);
    }

  /* what came before the end is still for the other side; then that sees the end */
  drain (self, buffer);
  llm_bus_bytes_write (&self->to_peer, self->peer);
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
  self->sieve = llm_bus_sieve_new ();
  llm_bus_bytes_init (&self->to_bus);
  llm_bus_bytes_init (&self->to_peer);
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

/* Until GDBus has sent all it has, or a while has passed: of a bus that reads nothing any more, and
 * because GDBus waits for ever for messages that a filter took away while they were queued. What
 * is called back later finds nobody who iterates the context. */
static void
flush_or_leave (LlmBusRelay     *self,   /* (nullable) */
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
  while (!is_flushed && !is_late)
    g_main_context_iteration (context, TRUE);
  /* a write under way would hold up the closing */
  if (is_late && self != NULL)
    shutdown (self->bus, SHUT_RDWR);
  g_main_context_pop_thread_default (context);
  g_source_destroy (limit);
}

void
llm_bus_relay_close (GDBusConnection *connection)
{
  LlmBusRelay *self = llm_bus_relay_get (connection);

  if (!g_dbus_connection_is_closed (connection))
    {
      flush_or_leave (self, connection);
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
  llm_bus_sieve_set_gate (self->sieve, gate, data);
}
