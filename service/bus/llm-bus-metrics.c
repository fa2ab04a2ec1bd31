/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-metrics.h"

#include <errno.h>
#include <gio/gunixsocketaddress.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus/objects/llm-bus-manager.h"
#include "bus/objects/llm-bus-memory.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-metrics.h"

/* Those who collect figures come one after the other; more wait in the kernel's queue. */
#define MAX_CLIENTS 8
#define BACKLOG     16

#define MAX_REQUEST 4096

/* From its first byte to the last of the answer; a client that is slower gets nothing. */
#define CLIENT_LIMIT_S 5

/* Until accepting is tried again after it failed: there may be no file descriptor left. */
#define RETRY_S 1

#define SOCKET_MODE 0660
#define FOLDER_MODE 0755

typedef struct
{
  LlmBusMetrics *metrics;      /* (unowned): it ends its clients first */
  GSocketConnection *connection;
  GCancellable *cancellable;
  guint limit;                 /* source */
  char request[MAX_REQUEST];
  gsize n_request;
  char *answer;                /* (nullable) */
} Client;

struct _LlmBusMetrics
{
  LlmBus *bus;                 /* (owned) */
  char *path;
  GSocket *socket;
  GSource *waiting;            /* (owned) (nullable): for the next client; NULL when all are busy */
  guint retry;                 /* source */
  GPtrArray *clients;          /* (element-type Client) (unowned): each frees itself at its end */
  gboolean is_closed;
};

static void wait_for_client (LlmBusMetrics *self);

static void
metrics_free (LlmBusMetrics *self)
{
  g_ptr_array_unref (self->clients);
  g_clear_object (&self->socket);
  llm_bus_unref (self->bus);
  g_free (self->path);
  g_free (self);
}

/* --- a client --- */

static void
client_end (Client *client)
{
  LlmBusMetrics *metrics = client->metrics;

  g_clear_handle_id (&client->limit, g_source_remove);
  g_ptr_array_remove_fast (metrics->clients, client);
  /* a socket closes at once */
  g_io_stream_close (G_IO_STREAM (client->connection), NULL, NULL);
  g_object_unref (client->connection);
  g_object_unref (client->cancellable);
  g_free (client->answer);
  g_free (client);

  if (!metrics->is_closed)
    wait_for_client (metrics);
  else if (metrics->clients->len == 0)
    metrics_free (metrics);
}

static gboolean
on_limit (gpointer data)
{
  Client *client = data;

  client->limit = 0;
  g_cancellable_cancel (client->cancellable);
  return G_SOURCE_REMOVE;
}

static void
on_written (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_output_stream_write_all_finish (G_OUTPUT_STREAM (source), result, NULL, NULL);
  client_end (data);
}

/* @status: "200 OK"; @body: (transfer full). The body of an answer to HEAD is not sent. */
static void
answer (Client     *client,
        const char *status,
        const char *type,
        char       *body,
        gboolean    is_head)
{
  g_autofree char *owned = body;
  GOutputStream *stream = g_io_stream_get_output_stream (G_IO_STREAM (client->connection));

  client->answer = g_strdup_printf ("HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                                    "Cache-Control: no-store\r\nConnection: close\r\n\r\n%s",
                                    status, type, strlen (owned), is_head ? "" : owned);
  g_output_stream_write_all_async (stream, client->answer, strlen (client->answer),
                                   G_PRIORITY_DEFAULT_IDLE, client->cancellable, on_written,
                                   client);
}

static void
refuse (Client     *client,
        const char *status)
{
  answer (client, status, "text/plain; charset=utf-8", g_strconcat (status, "\n", NULL), FALSE);
}

static char *
make_text (LlmBus *bus)
{
  g_autoptr(GVariant) service =
    g_variant_ref_sink (llm_bus_manager_interface.list_properties (bus, NULL));
  g_autoptr(GVariant) memory =
    g_variant_ref_sink (llm_bus_memory_interface.list_properties (bus, NULL));
  g_autoptr(GVariant) statistics = llm_bus_manager_get_statistics (bus);

  return llmsvc_metrics_format (service, memory, statistics);
}

static void
answer_request (Client *client)
{
  g_autofree char *line = g_strndup (client->request, strcspn (client->request, "\r\n"));
  g_auto(GStrv) words = g_strsplit (line, " ", 4);
  gboolean is_head;
  gsize n_path;

  if (g_strv_length (words) != 3 || !g_str_has_prefix (words[2], "HTTP/"))
    {
      refuse (client, "400 Bad Request");
      return;
    }
  is_head = g_str_equal (words[0], "HEAD");
  if (!is_head && !g_str_equal (words[0], "GET"))
    {
      refuse (client, "405 Method Not Allowed");
      return;
    }
  n_path = strcspn (words[1], "?");
  words[1][n_path] = '\0';
  if (!g_str_equal (words[1], "/metrics") && !g_str_equal (words[1], "/"))
    {
      refuse (client, "404 Not Found");
      return;
    }

  answer (client, "200 OK", LLMSVC_METRICS_CONTENT_TYPE, make_text (client->metrics->bus), is_head);
}

static void read_on (Client *client);

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  Client *client = data;
  gssize n = g_input_stream_read_finish (G_INPUT_STREAM (source), result, NULL);

  if (n <= 0 || client->metrics->is_closed)
    {
      client_end (client);
      return;
    }

  client->n_request += (gsize) n;
  client->request[client->n_request] = '\0';
  if (memchr (client->request, '\0', client->n_request) != NULL)
    refuse (client, "400 Bad Request");
  else if (strstr (client->request, "\r\n\r\n") != NULL || strstr (client->request, "\n\n") != NULL)
    answer_request (client);
  else if (client->n_request + 1 == MAX_REQUEST)
    refuse (client, "431 Request Header Fields Too Large");
  else
    read_on (client);
}

static void
read_on (Client *client)
{
  g_input_stream_read_async (g_io_stream_get_input_stream (G_IO_STREAM (client->connection)),
                             client->request + client->n_request,
                             MAX_REQUEST - 1 - client->n_request, G_PRIORITY_DEFAULT_IDLE,
                             client->cancellable, on_read, client);
}

/* @socket: (transfer full) */
static void
client_begin (LlmBusMetrics *self,
              GSocket       *socket)
{
  Client *client = g_new0 (Client, 1);

  client->metrics = self;
  client->connection = g_socket_connection_factory_create_connection (socket);
  client->cancellable = g_cancellable_new ();
  client->limit = g_timeout_add_seconds (CLIENT_LIMIT_S, on_limit, client);
  g_ptr_array_add (self->clients, client);
  g_object_unref (socket);
  read_on (client);
}

/* --- accepting --- */

static void
stop_waiting (LlmBusMetrics *self)
{
  if (self->waiting != NULL)
    g_source_destroy (self->waiting);
  g_clear_pointer (&self->waiting, g_source_unref);
}

static gboolean
on_retry (gpointer data)
{
  LlmBusMetrics *self = data;

  self->retry = 0;
  wait_for_client (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_client (GSocket      *socket,
           GIOCondition  condition,
           gpointer      data)
{
  LlmBusMetrics *self = data;
  g_autoptr(GError) error = NULL;
  GSocket *accepted = g_socket_accept (socket, NULL, &error);

  if (accepted != NULL)
    {
      client_begin (self, accepted);
    }
  else if (!g_error_matches (error, G_IO_ERROR, G_IO_ERROR_WOULD_BLOCK))
    {
      g_message ("A client of the metrics could not be taken: %s", error->message);
      stop_waiting (self);
      self->retry = g_timeout_add_seconds (RETRY_S, on_retry, self);
      return G_SOURCE_REMOVE;
    }
  if (self->clients->len < MAX_CLIENTS)
    return G_SOURCE_CONTINUE;

  stop_waiting (self);
  return G_SOURCE_REMOVE;
}

static void
wait_for_client (LlmBusMetrics *self)
{
  if (self->waiting != NULL || self->retry != 0)
    return;

  self->waiting = g_socket_create_source (self->socket, G_IO_IN, NULL);
  g_source_set_callback (self->waiting, G_SOURCE_FUNC (on_client), self, NULL);
  g_source_set_priority (self->waiting, G_PRIORITY_DEFAULT_IDLE);
  g_source_attach (self->waiting, g_main_context_get_thread_default ());
}

/* --- the socket --- */

/* Whether a process that has ended left the socket at @path; then it is removed. */
static gboolean
remove_left_over (const char     *path,
                  GSocketAddress *address)
{
  g_autoptr(GSocket) probe = NULL;
  g_autoptr(GError) error = NULL;
  GStatBuf status;

  if (g_lstat (path, &status) != 0 || !S_ISSOCK (status.st_mode))
    return FALSE;
  probe = g_socket_new (G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT,
                        NULL);
  if (probe == NULL)
    return FALSE;
  /* one that is answered, or whose queue is full, belongs to somebody */
  g_socket_set_blocking (probe, FALSE);
  if (g_socket_connect (probe, address, NULL, &error) ||
      !g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CONNECTION_REFUSED))
    return FALSE;

  return g_unlink (path) == 0;
}

static gboolean
listen_at (GSocket     *socket,
           const char  *path,
           GError     **error)
{
  g_autoptr(GSocketAddress) address = g_unix_socket_address_new (path);
  g_autofree char *folder = g_path_get_dirname (path);
  g_autoptr(GError) local = NULL;
  gboolean is_bound;

  if (g_mkdir (folder, FOLDER_MODE) == 0)
    /* the umask is for what is private */
    (void) g_chmod (folder, FOLDER_MODE);
  is_bound = g_socket_bind (socket, address, FALSE, &local);
  if (!is_bound && g_error_matches (local, G_IO_ERROR, G_IO_ERROR_ADDRESS_IN_USE) &&
      remove_left_over (path, address))
    {
      g_clear_error (&local);
      is_bound = g_socket_bind (socket, address, FALSE, &local);
    }
  if (is_bound)
    g_socket_set_listen_backlog (socket, BACKLOG);
  if (is_bound && g_chmod (path, SOCKET_MODE) == 0 && g_socket_listen (socket, &local))
    return TRUE;

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
               "The socket for metrics can't be made at %s: %s", path,
               local != NULL ? local->message : g_strerror (errno));
  if (is_bound)
    g_unlink (path);
  return FALSE;
}

LlmBusMetrics *
llm_bus_metrics_open (LlmBus      *bus,
                      const char  *path,
                      GError     **error)
{
  g_autoptr(GSocket) socket = NULL;
  LlmBusMetrics *self;

  if (strlen (path) >= sizeof ((struct sockaddr_un *) NULL)->sun_path)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                   "The socket for metrics can't be made at %s: a socket's path may have %zu bytes",
                   path, sizeof ((struct sockaddr_un *) NULL)->sun_path - 1);
      return NULL;
    }
  socket = g_socket_new (G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_STREAM, G_SOCKET_PROTOCOL_DEFAULT,
                         error);
  if (socket == NULL)
    return NULL;
  g_socket_set_blocking (socket, FALSE);
  if (!listen_at (socket, path, error))
    return NULL;

  self = g_new0 (LlmBusMetrics, 1);
  self->bus = llm_bus_ref (bus);
  self->path = g_strdup (path);
  self->socket = g_steal_pointer (&socket);
  self->clients = g_ptr_array_new ();
  wait_for_client (self);
  return self;
}

void
llm_bus_metrics_close (LlmBusMetrics *self)
{
  if (self == NULL)
    return;

  self->is_closed = TRUE;
  stop_waiting (self);
  g_clear_handle_id (&self->retry, g_source_remove);
  g_unlink (self->path);
  g_socket_close (self->socket, NULL);
  if (self->clients->len == 0)
    {
      metrics_free (self);
      return;
    }
  /* each comes to its end in the main loop; the last one frees the rest */
  for (guint i = 0; i < self->clients->len; i++)
    g_cancellable_cancel (((Client *) g_ptr_array_index (self->clients, i))->cancellable);
}

char *
llm_bus_metrics_dup_path (gboolean is_system)
{
  const char *folders = g_getenv ("RUNTIME_DIRECTORY");
  g_autofree char *folder = NULL;

  if (folders != NULL && *folders == '/')
    folder = g_strndup (folders, strcspn (folders, ":"));
  else if (is_system)
    folder = g_strdup ("/run/llmsvc");
  else
    folder = g_build_filename (g_get_user_runtime_dir (), "llmsvc", NULL);

  return g_build_filename (folder, "metrics.socket", NULL);
}
