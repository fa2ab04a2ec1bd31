/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmsvc-http: the service for programs that speak OpenAI's HTTP, from sockets that systemd has. */

#define G_LOG_DOMAIN "llmsvc-http"

#include "config.h"

#include <gio/gio.h>
#include <glib-unix.h>
#include <gio/gunixsocketaddress.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "http-server.h"

#define DEFAULT_KEYS "/etc/llmsvc/http-keys"
#define DEFAULT_IDLE_S 300
/* Connections that wait to be taken. */
#define BACKLOG 512

static gboolean opt_session, opt_version;
static char *opt_keys, *opt_socket;
static int opt_port, opt_idle_s = DEFAULT_IDLE_S;

static const GOptionEntry entries[] = {
  { "session", 0, 0, G_OPTION_ARG_NONE, &opt_session, "Ask the service on the session bus", NULL },
  { "keys", 0, 0, G_OPTION_ARG_FILENAME, &opt_keys,
    "Keys of applications (" DEFAULT_KEYS ")", "FILE" },
  { "socket", 0, 0, G_OPTION_ARG_FILENAME, &opt_socket,
    "Listen on this Unix socket, too, for this user", "PATH" },
  { "port", 0, 0, G_OPTION_ARG_INT, &opt_port, "Listen on this port of 127.0.0.1, too", "PORT" },
  { "idle", 0, 0, G_OPTION_ARG_INT, &opt_idle_s,
    "End after so long without a connection, if systemd started it (300); 0: never", "SECONDS" },
  { "version", 0, 0, G_OPTION_ARG_NONE, &opt_version, "Print the version", NULL },
  G_OPTION_ENTRY_NULL
};

static gboolean
on_signal (gpointer data)
{
  g_main_loop_quit (data);
  return G_SOURCE_CONTINUE;
}

typedef struct
{
  HttpServer *server;
  GMainLoop *loop;
} Idle;

static gboolean
on_idle_timer (gpointer data)
{
  const Idle *idle = data;
  gint64 since_us = http_server_get_idle_us (idle->server);

  if (since_us > 0 && g_get_monotonic_time () - since_us > opt_idle_s * G_USEC_PER_SEC)
    g_main_loop_quit (idle->loop);
  return G_SOURCE_CONTINUE;
}

static gboolean
listen_on (HttpServer      *server,
           GSocketAddress  *address,
           GError         **error)
{
  g_autoptr(GSocket) socket =
    g_socket_new (g_socket_address_get_family (address), G_SOCKET_TYPE_STREAM, 0, error);
  int fd;

  if (socket == NULL)
    return FALSE;
  g_socket_set_listen_backlog (socket, BACKLOG);
  if (!g_socket_bind (socket, address, TRUE, error) || !g_socket_listen (socket, error))
    return FALSE;
  fd = dup (g_socket_get_fd (socket));
  return http_server_listen (server, fd, error);
}

static gboolean
listen_all (HttpServer  *server,
            int          n_given,
            GError     **error)
{
  for (int i = 0; i < n_given; i++)
    if (!http_server_listen (server, SD_LISTEN_FDS_START + i, error))
      return FALSE;
  if (opt_socket != NULL)
    {
      g_autoptr(GSocketAddress) address = g_unix_socket_address_new (opt_socket);
      mode_t mask = umask (0177);
      gboolean listens = listen_on (server, address, error);

      umask (mask);
      if (!listens)
        return FALSE;
    }
  if (opt_port != 0)
    {
      g_autoptr(GSocketAddress) address = g_inet_socket_address_new_from_string ("127.0.0.1", (guint) opt_port);

      if (!listen_on (server, address, error))
        return FALSE;
    }
  return TRUE;
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GError) error = NULL;
  g_autoptr(HttpKeys) keys = NULL;
  g_autoptr(HttpServer) server = NULL;
  int n_given = sd_listen_fds (TRUE);
  Idle idle;

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_summary (context, "Answers OpenAI's HTTP on local sockets with the system's language model.");
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("llmsvc-http: %s\n", error->message);
      return 2;
    }
  if (opt_version)
    {
      g_print ("llmsvc-http " LLM_VERSION "\n");
      return 0;
    }
  if (argc > 1 || opt_port < 0 || opt_port > 65535 || opt_idle_s < 0
      || (n_given <= 0 && opt_socket == NULL && opt_port == 0))
    {
      g_printerr ("llmsvc-http: %s; see --help\n",
                  argc > 1 ? "there are arguments that it does not take"
                  : opt_port < 0 || opt_port > 65535 || opt_idle_s < 0 ? "a number is out of range"
                  : "no socket to listen on: start llmsvc-http.socket, or give --socket or --port");
      return 2;
    }
  keys = http_keys_new (opt_keys != NULL ? opt_keys : DEFAULT_KEYS);
  server = http_server_new (opt_session ? G_BUS_TYPE_SESSION : G_BUS_TYPE_SYSTEM, keys);
  if (!listen_all (server, n_given, &error))
    {
      g_printerr ("llmsvc-http: %s\n", error->message);
      return 1;
    }
  g_unix_signal_add (SIGTERM, on_signal, loop);
  g_unix_signal_add (SIGINT, on_signal, loop);
  idle = (Idle) { server, loop };
  if (n_given > 0 && opt_idle_s > 0)
    g_timeout_add_seconds ((guint) MAX (opt_idle_s / 4, 1), on_idle_timer, &idle);
  sd_notify (FALSE, "READY=1");
  g_main_loop_run (loop);
  if (opt_socket != NULL)
    unlink (opt_socket);
  return 0;
}
