/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-http.h"

#include <string.h>

#define READ_BYTES 8192
/* Of a head, and of a line. */
#define MAX_BYTES (1024 * 1024)
#define HEAD_END "\r\n\r\n"

/* --- a body in chunks --- */

typedef enum
{
  PART_SIZE,
  PART_DATA,
  PART_DATA_END,   /* the line end behind the data */
  PART_DONE,
} Part;

struct _BenchHttpBody
{
  Part part;
  GString *size;    /* the line with the size of the chunk, so far */
  gsize left;       /* of the chunk */
  GString *line;    /* so far */
};

BenchHttpBody *
bench_http_body_new (void)
{
  BenchHttpBody *self = g_new0 (BenchHttpBody, 1);

  self->size = g_string_new (NULL);
  self->line = g_string_new (NULL);
  return self;
}

void
bench_http_body_free (BenchHttpBody *self)
{
  if (self == NULL)
    return;
  g_string_free (self->size, TRUE);
  g_string_free (self->line, TRUE);
  g_free (self);
}

gboolean
bench_http_body_ends (BenchHttpBody *self)
{
  return self->part == PART_DONE;
}

static gboolean
take_data (BenchHttpBody *self,
           const char    *bytes,
           gsize          length,
           BenchHttpLine  line,
           gpointer       data)
{
  while (length > 0)
    {
      const char *newline = memchr (bytes, '\n', length);
      gsize n = newline != NULL ? (gsize) (newline - bytes) : length;

      if (self->line->len + n > MAX_BYTES)
        return FALSE;
      g_string_append_len (self->line, bytes, (gssize) n);
      if (newline == NULL)
        return TRUE;
      if (self->line->len > 0 && self->line->str[self->line->len - 1] == '\r')
        g_string_truncate (self->line, self->line->len - 1);
      line (self->line->str, data);
      g_string_truncate (self->line, 0);
      bytes += n + 1;
      length -= n + 1;
    }
  return TRUE;
}

/* The size may be followed by extensions, which mean nothing here. */
static gboolean
take_size (BenchHttpBody *self)
{
  char *end;
  guint64 size = g_ascii_strtoull (self->size->str, &end, 16);

  if (end == self->size->str || (*end != '\r' && *end != ';' && *end != ' ') || size > MAX_BYTES)
    return FALSE;
  self->left = (gsize) size;
  self->part = size > 0 ? PART_DATA : PART_DONE;
  g_string_truncate (self->size, 0);
  return TRUE;
}

gboolean
bench_http_body_push (BenchHttpBody *self,
                      const char    *bytes,
                      gsize          length,
                      BenchHttpLine  line,
                      gpointer       data)
{
  while (length > 0 && self->part != PART_DONE)
    {
      gsize n = 1;

      if (self->part == PART_DATA)
        {
          n = MIN (length, self->left);
          if (!take_data (self, bytes, n, line, data))
            return FALSE;
          self->left -= n;
          if (self->left == 0)
            self->part = PART_DATA_END;
        }
      else if (*bytes != '\n')
        {
          if (self->part == PART_SIZE)
            g_string_append_c (self->size, *bytes);
          if (self->size->len > MAX_BYTES || (self->part == PART_DATA_END && *bytes != '\r'))
            return FALSE;
        }
      else if (self->part == PART_DATA_END)
        self->part = PART_SIZE;
      else if (!take_size (self))
        return FALSE;
      bytes += n;
      length -= n;
    }
  return TRUE;
}

/* --- a request --- */

typedef struct
{
  char *request;
  GCancellable *cancellable;
  BenchHttpLine line;
  BenchHttpEnd end;
  gpointer data;
  GDestroyNotify free_data;        /* (nullable) */

  GSocketClient *client;
  GSocketConnection *connection;   /* (nullable) */
  GString *head;                   /* so far */
  guint status;                    /* 0 before the head has come */
  BenchHttpBody *body;
  char buffer[READ_BYTES];
} Request;

static void
request_free (Request *request)
{
  g_free (request->request);
  g_object_unref (request->cancellable);
  g_object_unref (request->client);
  g_clear_object (&request->connection);
  g_string_free (request->head, TRUE);
  bench_http_body_free (request->body);
  if (request->free_data != NULL)
    request->free_data (request->data);
  g_free (request);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Request, request_free)

static void
finish (Request      *request,
        const GError *error)
{
  if (!g_cancellable_is_cancelled (request->cancellable))
    request->end (request->status, error, request->data);
}

static void
fail (Request    *request,
      const char *message)
{
  g_autoptr(GError) error = g_error_new_literal (G_IO_ERROR, G_IO_ERROR_INVALID_DATA, message);

  finish (request, error);
}

/* Takes the bytes of the head; *used of them. FALSE when it is none. */
static gboolean
take_head (Request    *request,
           const char *bytes,
           gsize       length,
           gsize      *used)
{
  gsize before = request->head->len;
  const char *end;

  g_string_append_len (request->head, bytes, (gssize) length);
  end = strstr (request->head->str, HEAD_END);
  *used = length;
  if (end == NULL)
    return request->head->len < MAX_BYTES;
  *used = (gsize) (end - request->head->str) + strlen (HEAD_END) - before;
  if (!g_str_has_prefix (request->head->str, "HTTP/1.") || request->head->len < 12)
    return FALSE;
  request->status = (guint) g_ascii_strtoull (request->head->str + 9, NULL, 10);
  return request->status >= 100;
}

/* FALSE when the answer is over. */
static gboolean
take_bytes (Request    *request,
            const char *bytes,
            gsize       length)
{
  if (request->status == 0)
    {
      gsize used;

      if (!take_head (request, bytes, length, &used))
        {
          fail (request, "The answer is not of HTTP/1");
          return FALSE;
        }
      bytes += used;
      length -= used;
    }
  if (request->status == 0)
    return TRUE;
  /* only what streams is of interest beyond its status */
  if (request->status != 200 || strstr (request->head->str, "chunked") == NULL)
    {
      finish (request, NULL);
      return FALSE;
    }
  if (!bench_http_body_push (request->body, bytes, length, request->line, request->data))
    {
      fail (request, "The answer's chunks are damaged");
      return FALSE;
    }
  if (!bench_http_body_ends (request->body))
    return TRUE;
  finish (request, NULL);
  return FALSE;
}

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(Request) request = data;
  g_autoptr(GError) error = NULL;
  gssize n = g_input_stream_read_finish (G_INPUT_STREAM (source), result, &error);

  if (g_cancellable_is_cancelled (request->cancellable))
    return;
  if (n < 0)
    finish (request, error);
  else if (n == 0)
    fail (request, "The connection closed before the end");
  else if (take_bytes (request, request->buffer, (gsize) n))
    {
      g_input_stream_read_async (G_INPUT_STREAM (source), request->buffer, sizeof request->buffer,
                                 G_PRIORITY_DEFAULT, request->cancellable, on_read, request);
      g_steal_pointer (&request);
    }
}

static void
on_written (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(Request) request = data;
  g_autoptr(GError) error = NULL;
  GInputStream *input = g_io_stream_get_input_stream (G_IO_STREAM (request->connection));

  if (!g_output_stream_write_all_finish (G_OUTPUT_STREAM (source), result, NULL, &error))
    {
      finish (request, error);
      return;
    }
  g_input_stream_read_async (input, request->buffer, sizeof request->buffer, G_PRIORITY_DEFAULT,
                             request->cancellable, on_read, request);
  g_steal_pointer (&request);
}

static void
on_connected (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(Request) request = data;
  g_autoptr(GError) error = NULL;
  GOutputStream *output;

  request->connection = g_socket_client_connect_finish (G_SOCKET_CLIENT (source), result, &error);
  if (request->connection == NULL)
    {
      finish (request, error);
      return;
    }
  output = g_io_stream_get_output_stream (G_IO_STREAM (request->connection));
  g_output_stream_write_all_async (output, request->request, strlen (request->request),
                                   G_PRIORITY_DEFAULT, request->cancellable, on_written, request);
  g_steal_pointer (&request);
}

void
bench_http_request (guint16        port,
                    const char    *path,
                    const char    *body,
                    GCancellable  *cancellable,
                    BenchHttpLine  line,
                    BenchHttpEnd   end,
                    gpointer       data,
                    GDestroyNotify free_data)
{
  g_autoptr(GInetAddress) address = g_inet_address_new_loopback (G_SOCKET_FAMILY_IPV4);
  g_autoptr(GSocketAddress) target = g_inet_socket_address_new (address, port);
  Request *request = g_new0 (Request, 1);

  request->cancellable = g_object_ref (cancellable);
  request->line = line;
  request->end = end;
  request->data = data;
  request->free_data = free_data;
  request->head = g_string_new (NULL);
  request->body = bench_http_body_new ();
  request->client = g_socket_client_new ();
  /* a proxy of the environment is not meant for this */
  g_socket_client_set_enable_proxy (request->client, FALSE);
  if (body == NULL)
    request->request = g_strdup_printf ("GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                        "Connection: close\r\n\r\n", path);
  else
    request->request = g_strdup_printf ("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                        "Content-Type: application/json\r\n"
                                        "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                                        path, strlen (body), body);
  g_socket_client_connect_async (request->client, G_SOCKET_CONNECTABLE (target), cancellable,
                                 on_connected, request);
}
