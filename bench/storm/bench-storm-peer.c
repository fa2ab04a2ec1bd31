/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Another program's server under a storm: one with the command line and the HTTP interface of
 * llama-server, a slot for each app. */

#include "storm/bench-storm-server.h"

#include <string.h>

#include <json-glib/json-glib.h>

#define START_STEP_US 100000
#define START_STEPS 1800
#define EVENT "data: "

typedef struct
{
  BenchStormServer parent;

  guint16 port;
} Peer;

/* --- HTTP --- */

static GSocketConnection *
connect_to (Peer    *self,
            GError **error)
{
  g_autoptr(GSocketClient) client = g_socket_client_new ();
  g_autoptr(GInetAddress) loopback = g_inet_address_new_loopback (G_SOCKET_FAMILY_IPV4);
  g_autoptr(GSocketAddress) address = g_inet_socket_address_new (loopback, self->port);

  return g_socket_client_connect (client, G_SOCKET_CONNECTABLE (address), NULL, error);
}

/* The stream behind the head of the reply, which must be of success. Its lines end in "\n". */
static GDataInputStream *
send_request (GSocketConnection  *connection,
              const char         *method,
              const char         *path,
              const char         *body,
              GError            **error)
{
  g_autofree char *request =
    g_strdup_printf ("%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, strlen (body), body);
  g_autoptr(GDataInputStream) stream = NULL;
  g_autofree char *status = NULL;

  if (!g_output_stream_write_all (g_io_stream_get_output_stream (G_IO_STREAM (connection)),
                                  request, strlen (request), NULL, NULL, error))
    return NULL;
  stream = g_data_input_stream_new (g_io_stream_get_input_stream (G_IO_STREAM (connection)));
  g_data_input_stream_set_newline_type (stream, G_DATA_STREAM_NEWLINE_TYPE_LF);
  status = g_data_input_stream_read_line (stream, NULL, NULL, error);
  if (status != NULL && strstr (status, " 200 ") != NULL)
    return g_steal_pointer (&stream);
  if (error != NULL && *error == NULL)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s %s: %s", method, path,
                 status != NULL ? status : "no reply");
  return NULL;
}

/* --- asking --- */

static void
add_ids (JsonBuilder          *builder,
         const BenchStormText *text)
{
  for (guint i = 0; i < text->ids->len; i++)
    json_builder_add_int_value (builder, g_array_index (text->ids, gint32, i));
}

/* The context so far is sent each time and found again in the slot. Which tokens the answers had
 * is not told, so a text of their length stands for each. */
static char *
make_body (const BenchStormPlan *plan,
           guint                 app,
           guint                 turn)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonNode) root = NULL;
  guint place = bench_storm_plan_get_place (plan, turn);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "prompt");
  json_builder_begin_array (builder);
  for (guint i = 0; i <= place; i++)
    {
      add_ids (builder, bench_storm_plan_get_text (plan, app, i));
      if (i < place)
        add_ids (builder, plan->filler);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "n_predict");
  json_builder_add_int_value (builder, plan->n_answer);
  json_builder_set_member_name (builder, "id_slot");
  json_builder_add_int_value (builder, app);
  json_builder_set_member_name (builder, "temperature");
  json_builder_add_double_value (builder, 0);
  json_builder_set_member_name (builder, "ignore_eos");
  json_builder_add_boolean_value (builder, TRUE);
  json_builder_set_member_name (builder, "cache_prompt");
  json_builder_add_boolean_value (builder, TRUE);
  json_builder_set_member_name (builder, "stream");
  json_builder_add_boolean_value (builder, TRUE);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  return json_to_string (root, FALSE);
}

/* TRUE when the answer is whole. */
static gboolean
take_event (const char *text,
            GString    *answer,
            guint64    *tokens,
            guint      *n_events)
{
  g_autoptr(JsonNode) root = json_from_string (text, NULL);
  JsonObject *event = root != NULL && JSON_NODE_HOLDS_OBJECT (root) ? json_node_get_object (root)
                                                                    : NULL;
  gint64 n_tokens;

  if (event == NULL)
    return FALSE;
  if (!json_object_get_boolean_member_with_default (event, "stop", FALSE))
    {
      g_string_append (answer, json_object_get_string_member_with_default (event, "content", ""));
      __atomic_add_fetch (tokens, 1, __ATOMIC_RELAXED);
      (*n_events)++;
      return FALSE;
    }
  n_tokens = json_object_get_int_member_with_default (event, "tokens_predicted", 0);
  if (n_tokens > *n_events)
    __atomic_add_fetch (tokens, (guint64) n_tokens - *n_events, __ATOMIC_RELAXED);
  return TRUE;
}

static gboolean
ask (BenchStormServer  *server,
     guint              app,
     guint              turn,
     GString           *answer,
     guint64           *tokens,
     GError           **error)
{
  Peer *self = (Peer *) server;
  g_autofree char *body = make_body (server->plan, app, turn);
  g_autoptr(GSocketConnection) connection = connect_to (self, error);
  g_autoptr(GDataInputStream) stream = NULL;
  g_autoptr(GError) bad = NULL;
  gboolean is_done = FALSE;
  guint n_events = 0;
  char *line;

  if (connection == NULL)
    return FALSE;
  stream = send_request (connection, "POST", "/completion", body, error);
  if (stream == NULL)
    return FALSE;
  while (!is_done && (line = g_data_input_stream_read_line (stream, NULL, NULL, &bad)) != NULL)
    {
      if (g_str_has_prefix (line, EVENT))
        is_done = take_event (line + strlen (EVENT), answer, tokens, &n_events);
      g_free (line);
    }
  if (!is_done)
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_PARTIAL_INPUT, "the stream ended early%s%s",
                 bad != NULL ? ": " : "", bad != NULL ? bad->message : "");
  return is_done;
}

/* --- the process --- */

static void
free_peer (BenchStormServer *server)
{
  bench_storm_server_end (server);
  g_free (server);
}

static const BenchStormServerFuncs peer_funcs = { .ask = ask, .free = free_peer };

/* A port that nobody has now. */
static guint16
find_port (void)
{
  g_autoptr(GSocketListener) listener = g_socket_listener_new ();
  g_autoptr(GError) error = NULL;
  guint16 port = g_socket_listener_add_any_inet_port (listener, NULL, &error);

  if (port == 0)
    g_error ("%s", error->message);
  g_socket_listener_close (listener);
  return port;
}

static gboolean
wait_for_health (Peer    *self,
                 GError **error)
{
  for (guint i = 0; i < START_STEPS && bench_storm_server_is_alive (&self->parent); i++)
    {
      g_autoptr(GSocketConnection) connection = connect_to (self, NULL);

      if (connection != NULL)
        {
          g_autoptr(GDataInputStream) stream = send_request (connection, "GET", "/health", "",
                                                             NULL);

          if (stream != NULL)
            return TRUE;
        }
      g_usleep (START_STEP_US);
    }
  g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED, "the server did not start");
  return FALSE;
}

BenchStormServer *
bench_storm_server_new_peer (const BenchStormServerConfig *config,
                             const BenchStormPlan         *plan,
                             BenchStormGroup              *group,
                             GError                      **error)
{
  Peer *self = g_new0 (Peer, 1);
  g_autoptr(BenchStormServer) server = &self->parent;
  g_autoptr(GStrvBuilder) words = g_strv_builder_new ();
  g_auto(GStrv) program = NULL;
  g_auto(GStrv) argv = NULL;
  g_autofree char *port = NULL;
  g_autofree char *slots = g_strdup_printf ("%u", BENCH_STORM_APPS);
  g_autofree char *n_ctx = g_strdup_printf ("%u", BENCH_STORM_APPS * plan->n_ctx);
  g_autofree char *log = g_build_filename (config->folder, BENCH_STORM_LOG, NULL);

  self->parent.funcs = &peer_funcs;
  self->parent.plan = plan;
  self->port = find_port ();
  if (!g_shell_parse_argv (config->program, NULL, &program, error))
    return NULL;
  port = g_strdup_printf ("%u", self->port);
  g_strv_builder_addv (words, (const char **) program);
  g_strv_builder_add_many (words, "-m", config->model, "--host", "127.0.0.1", "--port", port,
                           "-np", slots, "-c", n_ctx, NULL);
  if (config->threads != NULL)
    g_strv_builder_add_many (words, "-t", config->threads, NULL);
  argv = g_strv_builder_end (words);
  if (!bench_storm_server_spawn (server, argv, NULL, log, group, error) ||
      !wait_for_health (self, error))
    return NULL;
  return g_steal_pointer (&server);
}
