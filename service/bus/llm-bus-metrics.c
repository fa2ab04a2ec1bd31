/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-metrics.h"

#include <errno.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "bus/objects/llm-bus-objects.h"
#include "common/llmsvc-metrics.h"

/* Clients are served one after the other; more wait in the kernel's queue. */
#define MAX_CLIENTS 8
#define BACKLOG     16

#define MAX_REQUEST 4096

/* Time for the whole request; a slower client gets no answer. */
#define CLIENT_LIMIT_S 5

/* Delay until the next accept after a failure: the process may have run out of file descriptors. */
#define RETRY_S 1

#define SOCKET_MODE 0660
#define FOLDER_MODE 0755

struct _LlmBusMetrics
{
  LlmBus *bus;                 /* (owned) */
  char *path;
  int fd;
  guint waiting;               /* source: for the next client, or until it is tried again; 0 when
                                * all are busy */
  GPtrArray *clients;          /* (element-type Client) (owned) */
};

typedef struct
{
  LlmBusMetrics *metrics;      /* (unowned): it ends its clients first */
  int fd;
  guint watch;                 /* source */
  guint limit;                 /* source */
  char request[MAX_REQUEST];
  gsize n_request;
} Client;

static void wait_for_client (LlmBusMetrics *self);

/* --- a client --- */

static void
client_free (gpointer data)
{
  Client *client = data;

  g_source_remove (client->watch);
  g_source_remove (client->limit);
  g_close (client->fd, NULL);
  g_free (client);
}

static gboolean
client_end (gpointer data)
{
  LlmBusMetrics *metrics = ((Client *) data)->metrics;

  g_ptr_array_remove_fast (metrics->clients, data);
  wait_for_client (metrics);
  return G_SOURCE_CONTINUE;
}

/* (transfer full) */
static char *
format_figures (LlmBus *bus)
{
  g_autoptr(GVariant) service =
    g_variant_ref_sink (llm_bus_manager_interface.list_properties (bus, NULL));
  g_autoptr(GVariant) memory =
    g_variant_ref_sink (llm_bus_memory_interface.list_properties (bus, NULL));
  g_autoptr(GVariant) statistics = llm_bus_manager_get_statistics (bus);

  return llmsvc_metrics_format (service, memory, statistics);
}

/* @refusal: (nullable): "404 Not Found". The answer is the first data on its socket, and far less
 * than a socket holds, so one write takes it. A HEAD request gets no figures. */
static void
answer (Client     *client,
        const char *refusal,
        gboolean    is_head)
{
  g_autofree char *body = refusal != NULL ? g_strconcat (refusal, "\n", NULL)
                                          : format_figures (client->metrics->bus);
  g_autofree char *text =
    g_strdup_printf ("HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                     "Cache-Control: no-store\r\nConnection: close\r\n\r\n%s",
                     refusal != NULL ? refusal : "200 OK",
                     refusal != NULL ? "text/plain; charset=utf-8" : LLMSVC_METRICS_CONTENT_TYPE,
                     strlen (body), is_head && refusal == NULL ? "" : body);

  if (send (client->fd, text, strlen (text), MSG_NOSIGNAL) < 0)
    g_debug ("A client of the metrics has left: %s", g_strerror (errno));
}

static void
answer_request (Client *client)
{
  g_autofree char *line = g_strndup (client->request, strcspn (client->request, "\r\n"));
  g_auto(GStrv) words = g_strsplit (line, " ", 4);
  const char *refusal = NULL;
  gboolean is_head = g_strcmp0 (words[0], "HEAD") == 0;

  if (g_strv_length (words) != 3 || !g_str_has_prefix (words[2], "HTTP/"))
    refusal = "400 Bad Request";
  else if (!is_head && !g_str_equal (words[0], "GET"))
    refusal = "405 Method Not Allowed";
  else
    {
      words[1][strcspn (words[1], "?")] = '\0';
      if (!g_str_equal (words[1], "/metrics") && !g_str_equal (words[1], "/"))
        refusal = "404 Not Found";
    }
  answer (client, refusal, is_head);
}

static gboolean
on_readable (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  Client *client = data;
  ssize_t n = recv (fd, client->request + client->n_request,
                    MAX_REQUEST - 1 - client->n_request, 0);

  if (n < 0 && (errno == EAGAIN || errno == EINTR))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    return client_end (client);

  client->n_request += (gsize) n;
  client->request[client->n_request] = '\0';
  if (memchr (client->request, '\0', client->n_request) != NULL)
    answer (client, "400 Bad Request", FALSE);
  else if (strstr (client->request, "\r\n\r\n") != NULL || strstr (client->request, "\n\n") != NULL)
    answer_request (client);
  else if (client->n_request + 1 == MAX_REQUEST)
    answer (client, "431 Request Header Fields Too Large", FALSE);
  else
    return G_SOURCE_CONTINUE;
  return client_end (client);
}

/* --- accepting --- */

static gboolean
on_retry (gpointer data)
{
  LlmBusMetrics *self = data;

  self->waiting = 0;
  wait_for_client (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_client (int          listener,
           GIOCondition condition,
           gpointer     data)
{
  LlmBusMetrics *self = data;
  int fd = accept4 (listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  Client *client;

  if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
    return G_SOURCE_CONTINUE;
  if (fd < 0)
    {
      g_message ("A client of the metrics could not be taken: %s", g_strerror (errno));
      self->waiting = g_timeout_add_seconds (RETRY_S, on_retry, self);
      return G_SOURCE_REMOVE;
    }

  client = g_new0 (Client, 1);
  client->metrics = self;
  client->fd = fd;
  client->watch = g_unix_fd_add_full (G_PRIORITY_DEFAULT_IDLE, fd, G_IO_IN | G_IO_HUP | G_IO_ERR,
                                      on_readable, client, NULL);
  client->limit = g_timeout_add_seconds (CLIENT_LIMIT_S, client_end, client);
  g_ptr_array_add (self->clients, client);
  if (self->clients->len < MAX_CLIENTS)
    return G_SOURCE_CONTINUE;

  self->waiting = 0;
  return G_SOURCE_REMOVE;
}

static void
wait_for_client (LlmBusMetrics *self)
{
  if (self->waiting == 0)
    self->waiting = g_unix_fd_add_full (G_PRIORITY_DEFAULT_IDLE, self->fd, G_IO_IN, on_client, self,
                                        NULL);
}

/* --- the socket --- */

/* Removes the socket that a process which has ended left at the address. A socket that answers, or
 * whose queue is full, belongs to a running process. */
static void
remove_left_over (const struct sockaddr_un *address)
{
  GStatBuf status;
  int probe = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  if (probe >= 0 && g_lstat (address->sun_path, &status) == 0 && S_ISSOCK (status.st_mode) &&
      connect (probe, (const struct sockaddr *) address, sizeof *address) != 0 &&
      errno == ECONNREFUSED)
    g_unlink (address->sun_path);
  if (probe >= 0)
    g_close (probe, NULL);
}

/* -1 with errno set. */
static int
listen_at (const struct sockaddr_un *address)
{
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  gboolean is_bound;
  int code;

  if (fd < 0)
    return -1;
  remove_left_over (address);
  is_bound = bind (fd, (const struct sockaddr *) address, sizeof *address) == 0;
  if (is_bound && g_chmod (address->sun_path, SOCKET_MODE) == 0 && listen (fd, BACKLOG) == 0)
    return fd;

  code = errno;
  g_close (fd, NULL);
  if (is_bound)
    g_unlink (address->sun_path);
  errno = code;
  return -1;
}

/* (transfer full) */
static char *
find_path (const char *setting,
           gboolean    is_system)
{
  const char *folders = g_getenv ("RUNTIME_DIRECTORY");
  g_autofree char *folder = NULL;

  if (!g_str_equal (setting, "on"))
    return g_strdup (setting);
  if (folders != NULL && *folders == '/')
    folder = g_strndup (folders, strcspn (folders, ":"));
  else
    folder = is_system ? g_strdup ("/run/llmsvc")
                       : g_build_filename (g_get_user_runtime_dir (), "llmsvc", NULL);

  return g_build_filename (folder, "metrics.socket", NULL);
}

LlmBusMetrics *
llm_bus_metrics_open (LlmBus      *bus,
                      const char  *setting,
                      GError     **error)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  g_autofree char *path = find_path (setting, bus->is_system);
  g_autofree char *folder = g_path_get_dirname (path);
  LlmBusMetrics *self;
  int fd;

  if (g_strlcpy (address.sun_path, path, sizeof address.sun_path) >= sizeof address.sun_path)
    return llm_fail_null (
      error, LLMSVC_ERROR_STORAGE,
      "The socket for metrics can't be made at %s: a socket's path may have %zu bytes",
      path, sizeof address.sun_path - 1);
  if (g_mkdir (folder, FOLDER_MODE) == 0)
    /* the umask is meant for private files */
    (void) g_chmod (folder, FOLDER_MODE);
  fd = listen_at (&address);
  if (fd < 0)
    return llm_fail_null (error, LLMSVC_ERROR_STORAGE,
                          "The socket for metrics can't be made at %s: %s", path,
                          g_strerror (errno));

  self = g_new0 (LlmBusMetrics, 1);
  self->bus = llm_bus_ref (bus);
  self->path = g_steal_pointer (&path);
  self->fd = fd;
  self->clients = g_ptr_array_new_with_free_func (client_free);
  wait_for_client (self);
  return self;
}

void
llm_bus_metrics_close (LlmBusMetrics *self)
{
  if (self == NULL)
    return;

  g_clear_handle_id (&self->waiting, g_source_remove);
  g_ptr_array_unref (self->clients);
  g_unlink (self->path);
  g_close (self->fd, NULL);
  llm_bus_unref (self->bus);
  g_free (self->path);
  g_free (self);
}
