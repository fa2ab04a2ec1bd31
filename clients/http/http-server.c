/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc-http"

#include "http-server.h"

#include <errno.h>
#include <gio/gunixsocketaddress.h>
#include <libsoup/soup.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http-call.h"
#include "http-caller.h"
#include "http-error.h"
#include "http-models.h"

/* Per user on the Unix socket, and for all of TCP together: one user can't use up the limit of another. */
#define MAX_CONNECTIONS 2048
#define MAX_USER_CONNECTIONS 256
#define MAX_BODY_BYTES (4 << 20)
/* Of bodies that are arriving, of one user or over TCP. */
#define MAX_ARRIVING_BYTES (32 << 20)
/* For the head and the body of a request to arrive. */
#define MAX_ARRIVAL_S 30
/* Between two requests, and for a client to take what it was sent. */
#define MAX_REST_S 120
/* Who calls without a key. */
#define ANONYMOUS "org.llm.Http"
#define BEARER "Bearer "
#define CONTEXT_HEADER "X-LLM-Context"
#define CONNECTION_KEY "llmsvc-socket"
/* Of users of other name spaces, all of them. */
#define OVERFLOW_UID 65534

struct _HttpServer
{
  SoupServer *soup;
  int quiet[2];            /* a pair of sockets on which nothing comes */
  GSocketService *service;
  HttpCallers *callers;
  HttpKeys *keys;          /* (unowned) */
  GHashTable *connections; /* (element-type GSocket Connection) (owned) */
  gint64 idle_us;          /* since when there is none */
};

typedef struct
{
  HttpServer *server;  /* (unowned) */
  GSocket *socket;     /* (owned) */
  gboolean is_unix;
  guint32 uid;         /* with is_unix */
  guint arrival;       /* ends it; 0: no request is arriving */
  gsize n_bytes;       /* of the request's body, so far */
} Connection;

/* --- connections --- */

static void
connection_free (gpointer data)
{
  Connection *self = data;

  g_clear_handle_id (&self->arrival, g_source_remove);
  g_object_unref (self->socket);
  g_free (self);
}

static gboolean
on_late (gpointer data)
{
  Connection *self = data;

  self->arrival = 0;
  g_socket_shutdown (self->socket, TRUE, TRUE, NULL);
  return G_SOURCE_REMOVE;
}

static void
await_request (Connection *self)
{
  g_clear_handle_id (&self->arrival, g_source_remove);
  self->n_bytes = 0;
  self->arrival = g_timeout_add_seconds (MAX_ARRIVAL_S, on_late, self);
}

/* Of those that share their limits. @n_bytes: (optional) (out): of bodies that are arriving there. */
static guint
count_alike (HttpServer *self,
             gboolean    is_unix,
             guint32     uid,
             gsize      *n_bytes)
{
  GHashTableIter iter;
  Connection *connection;
  guint n = 0;

  if (n_bytes != NULL)
    *n_bytes = 0;
  g_hash_table_iter_init (&iter, self->connections);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &connection))
    {
      if (connection->is_unix != is_unix || (is_unix && connection->uid != uid))
        continue;
      n++;
      if (n_bytes != NULL)
        *n_bytes += connection->n_bytes;
    }
  return n;
}

static void
on_gone (gpointer  data,
         GObject  *stream)
{
  Connection *connection = data;
  HttpServer *self = connection->server;

  g_hash_table_remove (self->connections, connection->socket);
  if (g_hash_table_size (self->connections) == 0)
    self->idle_us = g_get_monotonic_time ();
}

static gboolean
on_incoming (GSocketService    *service,
             GSocketConnection *stream,
             GObject           *source,
             HttpServer        *self)
{
  GSocket *socket = g_socket_connection_get_socket (stream);
  g_autoptr(GSocketAddress) local = g_socket_get_local_address (socket, NULL);
  g_autoptr(GSocketAddress) remote = g_socket_get_remote_address (socket, NULL);
  g_autoptr(GError) error = NULL;
  Connection *connection;
  guint32 uid = 0;
  gboolean is_unix = g_socket_get_family (socket) == G_SOCKET_FAMILY_UNIX;

  if (is_unix)
    {
      g_autoptr(GCredentials) credentials = g_socket_get_credentials (socket, &error);

      uid = credentials != NULL ? g_credentials_get_unix_user (credentials, &error) : OVERFLOW_UID;
      if (error != NULL || uid == OVERFLOW_UID)
        {
          g_message ("A connection is not taken, as it is not known which user it is of: %s",
                     error != NULL ? error->message : "the kernel has no number for them here");
          return TRUE;
        }
    }
  else if (remote == NULL || !G_IS_INET_SOCKET_ADDRESS (remote)
           || !g_inet_address_get_is_loopback (
             g_inet_socket_address_get_address (G_INET_SOCKET_ADDRESS (remote))))
    return TRUE;
  if (g_hash_table_size (self->connections) >= MAX_CONNECTIONS
      || count_alike (self, is_unix, uid, NULL) >= MAX_USER_CONNECTIONS)
    {
      g_message ("A connection is not taken: there are too many");
      return TRUE;
    }
  g_socket_set_timeout (socket, MAX_REST_S);
  /* what a message has of its connection is this object, which no other has */
  g_set_object (&remote, NULL);
  remote = is_unix ? g_unix_socket_address_new ("")
                   : g_inet_socket_address_new_from_string ("127.0.0.1", 1);
  connection = g_new0 (Connection, 1);
  connection->server = self;
  connection->socket = g_object_ref (socket);
  connection->is_unix = is_unix;
  connection->uid = uid;
  g_object_set_data_full (G_OBJECT (remote), CONNECTION_KEY, g_object_ref (socket), g_object_unref);
  g_hash_table_insert (self->connections, socket, connection);
  self->idle_us = 0;
  g_object_weak_ref (G_OBJECT (stream), on_gone, connection);
  if (!soup_server_accept_iostream (self->soup, G_IO_STREAM (stream), local, remote, &error))
    g_warning ("A connection can't be served: %s", error->message);
  return TRUE;
}

/* --- requests --- */

static Connection *
find_connection (HttpServer        *self,
                 SoupServerMessage *message)
{
  GSocketAddress *remote = soup_server_message_get_remote_address (message);
  GSocket *socket = remote != NULL ? g_object_get_data (G_OBJECT (remote), CONNECTION_KEY) : NULL;

  return socket != NULL ? g_hash_table_lookup (self->connections, socket) : NULL;
}

/* A browser that was led to another name for this address says that name: its page may not ask. */
static gboolean
is_host_ours (SoupServerMessage *message)
{
  static const char *const names[] = { "localhost", "127.0.0.1", "[::1]", "llmsvc" };
  const char *host =
    soup_message_headers_get_one (soup_server_message_get_request_headers (message), "Host");
  const char *colon = host != NULL ? strrchr (host, ':') : NULL;
  gsize length;

  if (host == NULL)
    return TRUE;
  length = colon != NULL && strchr (colon, ']') == NULL ? (gsize) (colon - host) : strlen (host);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (strlen (names[i]) == length && g_ascii_strncasecmp (names[i], host, length) == 0)
      return TRUE;
  return FALSE;
}

/* Whose request it is. */
static gboolean
identify (HttpServer         *self,
          SoupServerMessage  *message,
          guint32            *uid,
          char              **app,
          GError            **error)
{
  const Connection *connection = find_connection (self, message);
  const char *authorization =
    soup_message_headers_get_one (soup_server_message_get_request_headers (message), "Authorization");
  g_autofree char *name = NULL;
  guint32 owner = 0;

  if (connection == NULL)
    return http_fail (error, SOUP_STATUS_INTERNAL_SERVER_ERROR, NULL, NULL, "The connection has gone");
  if (authorization != NULL && g_ascii_strncasecmp (authorization, BEARER, strlen (BEARER)) == 0)
    {
      g_autofree char *key = g_strstrip (g_strdup (authorization + strlen (BEARER)));

      name = http_keys_find (self->keys, key, &owner);
    }
  if (connection->is_unix)
    {
      /* programs send any key, as their SDKs ask for one */
      *uid = connection->uid;
      *app = name != NULL && owner == connection->uid ? g_steal_pointer (&name) : g_strdup (ANONYMOUS);
      return TRUE;
    }
  if (name == NULL)
    return http_fail (error, SOUP_STATUS_UNAUTHORIZED, NULL, "invalid_api_key",
                      authorization == NULL
                        ? "Over TCP a key is needed: “llmctl http key add NAME” makes one"
                        : "This key is unknown: “llmctl http key list” has those that are known");
  *uid = owner;
  *app = g_steal_pointer (&name);
  return TRUE;
}

static gboolean
check_head (SoupServerMessage  *message,
            GError            **error)
{
  SoupMessageHeaders *headers = soup_server_message_get_request_headers (message);

  if (!is_host_ours (message))
    return http_fail (error, SOUP_STATUS_FORBIDDEN, NULL, "invalid_host",
                      "This endpoint is localhost, and the request says another host");
  if (soup_message_headers_get_one (headers, "Origin") != NULL)
    return http_fail (error, SOUP_STATUS_FORBIDDEN, NULL, "invalid_origin",
                      "Pages in a browser can't use this endpoint");
  return TRUE;
}

typedef struct
{
  HttpServer *server;          /* (unowned) */
  SoupServerMessage *message;  /* (owned) */
  const HttpDialect *dialect;  /* (nullable): NULL for what has no body */
  HttpRequest *request;        /* (nullable) (owned): likewise */
  char *path;                  /* (owned) */
} Pending;

static void
on_caller (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  Pending *pending = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(HttpCaller) caller = http_callers_get_finish (pending->server->callers, result, &error);
  SoupMessageHeaders *headers = soup_server_message_get_request_headers (pending->message);
  Connection *connection = find_connection (pending->server, pending->message);
  gboolean is_answered = FALSE;

  if (connection == NULL)
    ; /* it has gone */
  else if (caller != NULL && pending->request != NULL
           && http_models_check (caller->client, pending->request->model, &error))
    http_call_start (pending->message, connection->socket, caller, pending->dialect,
                     g_steal_pointer (&pending->request),
                     soup_message_headers_get_one (headers, CONTEXT_HEADER));
  else
    {
      if (error != NULL)
        http_reply_error (pending->message, error);
      else
        http_models_reply (pending->message, caller->client, pending->path);
      is_answered = TRUE;
    }
  if (is_answered)
    soup_server_message_unpause (pending->message);
  g_clear_pointer (&pending->request, http_request_free);
  g_object_unref (pending->message);
  g_free (pending->path);
  g_free (pending);
}

static gboolean
check_method (SoupServerMessage  *message,
              const char         *method,
              GError            **error)
{
  return g_str_equal (soup_server_message_get_method (message), method)
         || http_fail (error, SOUP_STATUS_METHOD_NOT_ALLOWED, NULL, "method_not_allowed",
                       "%s takes %s requests", soup_server_message_get_method (message), method);
}

static const HttpDialect *
find_dialect (const char *path)
{
  static const HttpDialect *const all[] = { &http_chat, &http_completions, &http_responses };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (g_str_equal (path, all[i]->path))
      return all[i];
  return NULL;
}

/* Reads what is asked for. @dialect: of it, or NULL */
static gboolean
read_request (SoupServerMessage  *message,
              const char         *path,
              const HttpDialect  *dialect,
              HttpRequest       **request,
              GError            **error)
{
  if (dialect != NULL)
    {
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(JsonNode) root = NULL;

      if (!check_method (message, "POST", error))
        return FALSE;
      bytes = soup_message_body_flatten (soup_server_message_get_request_body (message));
      root = http_request_parse (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), error);
      *request = root != NULL ? dialect->read (json_node_get_object (root), error) : NULL;
      return *request != NULL;
    }
  if (g_str_equal (path, "/v1/models") || g_str_has_prefix (path, "/v1/models/")
      || g_str_equal (path, "/health"))
    return check_method (message, "GET", error);
  if (g_str_equal (path, "/v1/embeddings") || g_str_has_prefix (path, "/v1/images")
      || g_str_has_prefix (path, "/v1/audio"))
    return http_fail (error, SOUP_STATUS_NOT_FOUND, NULL, "unsupported",
                      "This endpoint answers with text alone: no embeddings, images or audio");
  return http_fail (error, SOUP_STATUS_NOT_FOUND, NULL, "not_found",
                    "Unknown path %s; try %s, %s, %s or /v1/models", path, http_chat.path,
                    http_responses.path, http_completions.path);
}

static void
on_request (SoupServer        *soup,
            SoupServerMessage *message,
            const char        *path,
            GHashTable        *query,
            gpointer           data)
{
  HttpServer *self = data;
  g_autoptr(GError) error = NULL;
  g_autofree char *app = NULL;
  const HttpDialect *dialect = find_dialect (path);
  HttpRequest *request = NULL;
  Pending *pending;
  guint32 uid = 0;

  if (!identify (self, message, &uid, &app, &error) || !read_request (message, path, dialect, &request, &error))
    {
      http_reply_error (message, error);
      return;
    }
  pending = g_new0 (Pending, 1);
  pending->server = self;
  pending->message = g_object_ref (message);
  pending->dialect = dialect;
  pending->request = request;
  pending->path = g_strdup (path);
  soup_server_message_pause (message);
  http_callers_get_async (self->callers, uid, app, NULL, on_caller, pending);
}

/* --- while a request arrives --- */

/* libsoup would read the whole body before it replies. */
static void
refuse_body (Connection *connection)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *json = NULL;
  g_autofree char *reply = NULL;

  http_fail (&error, SOUP_STATUS_REQUEST_ENTITY_TOO_LARGE, NULL, "too_large",
             "The body of a request has at most %d bytes", MAX_BODY_BYTES);
  json = http_error_to_json (error);
  reply = g_strdup_printf ("HTTP/1.1 413 Payload Too Large\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen (json), json);
  g_socket_send (connection->socket, reply, strlen (reply), NULL, NULL);
  g_socket_shutdown (connection->socket, TRUE, TRUE, NULL);
}

static void
on_got_headers (SoupServerMessage *message,
                HttpServer        *self)
{
  g_autoptr(GError) error = NULL;
  Connection *connection = find_connection (self, message);
  SoupMessageHeaders *headers = soup_server_message_get_request_headers (message);

  if (connection == NULL)
    return;
  await_request (connection);
  if (soup_message_headers_get_content_length (headers) > MAX_BODY_BYTES)
    refuse_body (connection);
  else if (!check_head (message, &error))
    http_reply_error (message, error);
}

static void
on_got_chunk (SoupServerMessage *message,
              GBytes            *chunk,
              HttpServer        *self)
{
  Connection *connection = find_connection (self, message);
  gsize n_arriving;

  if (connection == NULL)
    return;
  connection->n_bytes += g_bytes_get_size (chunk);
  count_alike (self, connection->is_unix, connection->uid, &n_arriving);
  if (connection->n_bytes > MAX_BODY_BYTES || n_arriving > MAX_ARRIVING_BYTES)
    refuse_body (connection);
}

static void
on_got_body (SoupServerMessage *message,
             HttpServer        *self)
{
  Connection *connection = find_connection (self, message);

  if (connection == NULL)
    return;
  g_clear_handle_id (&connection->arrival, g_source_remove);
  connection->n_bytes = 0;
}

static void
on_started (SoupServer        *soup,
            SoupServerMessage *message,
            HttpServer        *self)
{
  Connection *connection = find_connection (self, message);

  if (connection != NULL)
    await_request (connection);
  g_signal_connect (message, "got-headers", G_CALLBACK (on_got_headers), self);
  g_signal_connect (message, "got-chunk", G_CALLBACK (on_got_chunk), self);
  g_signal_connect (message, "got-body", G_CALLBACK (on_got_body), self);
}

/* libsoup goes on with a connection behind its first request only while it listens somewhere by itself;
 * here connections are taken before they come to it. */
static void
listen_quietly (HttpServer *self)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GSocket) socket = NULL;

  self->quiet[0] = self->quiet[1] = -1;
  if (socketpair (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, self->quiet) == 0)
    socket = g_socket_new_from_fd (self->quiet[0], &error);
  if (socket == NULL || !soup_server_listen_socket (self->soup, socket, 0, &error))
    g_warning ("Each request needs a connection of its own: %s",
               error != NULL ? error->message : g_strerror (errno));
}

HttpServer *
http_server_new (GBusType  bus_type,
                 HttpKeys *keys)
{
  HttpServer *self = g_new0 (HttpServer, 1);

  self->soup = soup_server_new ("server-header", "llmsvc-http", NULL);
  listen_quietly (self);
  self->callers = http_callers_new (bus_type);
  self->keys = keys;
  self->connections = g_hash_table_new_full (NULL, NULL, NULL, connection_free);
  self->idle_us = g_get_monotonic_time ();
  self->service = g_socket_service_new ();
  g_signal_connect (self->service, "incoming", G_CALLBACK (on_incoming), self);
  g_signal_connect (self->soup, "request-started", G_CALLBACK (on_started), self);
  soup_server_add_handler (self->soup, NULL, on_request, self, NULL);
  return self;
}

void
http_server_free (HttpServer *self)
{
  g_socket_service_stop (self->service);
  g_signal_handlers_disconnect_by_data (self->service, self);
  soup_server_disconnect (self->soup);
  g_object_unref (self->service);
  g_object_unref (self->soup);
  http_callers_free (self->callers);
  g_hash_table_unref (self->connections);
  if (self->quiet[1] >= 0)
    close (self->quiet[1]);
  g_free (self);
}

gboolean
http_server_listen (HttpServer  *self,
                    int          fd,
                    GError     **error)
{
  g_autoptr(GSocket) socket = g_socket_new_from_fd (fd, error);

  if (socket == NULL)
    return FALSE;
  return g_socket_listener_add_socket (G_SOCKET_LISTENER (self->service), socket, NULL, error);
}

gint64
http_server_get_idle_us (const HttpServer *self)
{
  return self->idle_us;
}
