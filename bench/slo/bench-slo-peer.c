/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-peer.h"

#include <json-glib/json-glib.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "bench-http.h"
#include "bench-random.h"

#define READY_SECONDS 120
#define RETRY_MS 50
#define EVENT "data: "

/* Tokens of prompts: words in the middle of any vocabulary, no bytes or markup. */
#define LEAST_TOKEN 300
#define MOST_TOKEN 1000

typedef struct
{
  BenchSloServer server;
  GPid pid;                    /* 0: it has ended */
  guint16 port;
  guint64 seed;
  GCancellable *cancellable;   /* of all calls under way */
} Peer;

typedef struct
{
  BenchSloCall *call;          /* (unowned) */
  gboolean is_whole;           /* its last event has come */
} Job;

/* --- calls --- */

static void
take_last_event (BenchSloCall *call,
                 const char   *text)
{
  g_autoptr(JsonNode) root = json_from_string (text, NULL);
  JsonObject *object;

  if (root == NULL || !JSON_NODE_HOLDS_OBJECT (root))
    return;
  object = json_node_get_object (root);
  call->n_output = (guint) MAX (0, json_object_get_int_member_with_default (object,
                                                                            "tokens_predicted", 0));
  call->n_prompt = (guint) MAX (0, json_object_get_int_member_with_default (object,
                                                                            "tokens_evaluated", 0));
}

/* Events are told apart without parsing each: that would cost the processors that are
 * measured. */
static void
on_line (const char *line,
         gpointer    data)
{
  Job *job = data;

  if (!g_str_has_prefix (line, EVENT))
    return;
  if (strstr (line, "\"stop\":false") != NULL || strstr (line, "\"stop\": false") != NULL)
    bench_slo_call_note (job->call);
  else
    {
      take_last_event (job->call, line + strlen (EVENT));
      job->is_whole = TRUE;
    }
}

static void
on_end (guint         status,
        const GError *error,
        gpointer      data)
{
  Job *job = data;
  g_autofree char *message = NULL;

  if (error != NULL)
    message = g_strdup (error->message);
  else if (status != 200 || !job->is_whole)
    message = g_strdup_printf ("HTTP status %u%s", status, status == 200 ? ", no last event" : "");

  if (message == NULL)
    bench_slo_call_end (job->call, BENCH_SLO_DONE, NULL);
  else
    bench_slo_call_end (job->call, status == 503 || status == 429 ? BENCH_SLO_REFUSED
                                                                  : BENCH_SLO_FAILED, message);
}

static char *
make_body (Peer         *self,
           BenchSloCall *call)
{
  BenchRandom random = bench_random_derive (self->seed, call->arrival.number);
  GString *body = g_string_new ("{\"prompt\":[");

  for (guint i = 0; i < call->n_prompt; i++)
    g_string_append_printf (body, "%s%u", i > 0 ? "," : "",
                            bench_random_range (&random, LEAST_TOKEN, MOST_TOKEN));
  g_string_append_printf (body, "],\"n_predict\":%u,\"ignore_eos\":true,\"temperature\":0,"
                                "\"stream\":true,\"cache_prompt\":false}", call->arrival.n_output);
  return g_string_free (body, FALSE);
}

static void
begin (BenchSloServer *server,
       BenchSloCall   *call,
       const char     *text)
{
  Peer *self = (Peer *) server;
  g_autofree char *body = make_body (self, call);
  Job *job = g_new0 (Job, 1);

  job->call = call;
  bench_http_request (self->port, "/completion", body, self->cancellable, on_line, on_end, job,
                      g_free);
}

static void
leave (BenchSloServer *server)
{
  Peer *self = (Peer *) server;

  g_cancellable_cancel (self->cancellable);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_object_unref (self->cancellable);
  self->cancellable = g_cancellable_new ();
}

/* --- the program --- */

static void
peer_free (BenchSloServer *server)
{
  Peer *self = (Peer *) server;

  if (self->pid > 0)
    {
      kill (self->pid, SIGTERM);
      waitpid (self->pid, NULL, 0);
      g_spawn_close_pid (self->pid);
    }
  g_object_unref (self->cancellable);
  g_free (self);
}

/* A port that nobody has, a moment ago. */
static gboolean
find_port (guint16 *port,
           GError **error)
{
  g_autoptr(GInetAddress) address = g_inet_address_new_loopback (G_SOCKET_FAMILY_IPV4);
  g_autoptr(GSocketAddress) any = g_inet_socket_address_new (address, 0);
  g_autoptr(GSocketAddress) bound = NULL;
  g_autoptr(GSocket) socket = g_socket_new (G_SOCKET_FAMILY_IPV4, G_SOCKET_TYPE_STREAM,
                                            G_SOCKET_PROTOCOL_TCP, error);

  if (socket == NULL || !g_socket_bind (socket, any, TRUE, error))
    return FALSE;
  bound = g_socket_get_local_address (socket, error);
  if (bound == NULL)
    return FALSE;
  *port = g_inet_socket_address_get_port (G_INET_SOCKET_ADDRESS (bound));
  return TRUE;
}

/* The program must not outlive us, whatever ends us. */
static void
on_child (gpointer data)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
}

static gboolean
spawn (Peer       *self,
       const char *command,
       const char *model,
       guint       n_threads,
       guint       n_slots,
       guint       slot_tokens,
       GError    **error)
{
  g_autofree char *port = g_strdup_printf ("%u", self->port);
  g_autofree char *threads = g_strdup_printf ("%u", n_threads);
  g_autofree char *slots = g_strdup_printf ("%u", n_slots);
  g_autofree char *tokens = g_strdup_printf ("%u", n_slots * slot_tokens);
  const char *const more[] = { "-m", model, "--host", "127.0.0.1", "--port", port, "-t", threads,
                               "-np", slots, "-c", tokens, NULL };
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) words = NULL;
  g_auto(GStrv) all = NULL;

  if (!g_shell_parse_argv (command, NULL, &words, error))
    return FALSE;
  g_strv_builder_addv (builder, (const char **) words);
  g_strv_builder_addv (builder, (const char **) more);
  all = g_strv_builder_end (builder);
  return g_spawn_async (NULL, all, NULL,
                        G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD |
                          G_SPAWN_STDOUT_TO_DEV_NULL | G_SPAWN_STDERR_TO_DEV_NULL,
                        on_child, NULL, &self->pid, error);
}

typedef struct
{
  gboolean is_done;
  guint status;
} Health;

static void
on_health_line (const char *line,
                gpointer    data)
{
}

static void
on_health (guint         status,
           const GError *error,
           gpointer      data)
{
  Health *health = data;

  health->is_done = TRUE;
  health->status = status;
}

static gboolean
await_ready (Peer       *self,
             const char *command,
             GError    **error)
{
  gint64 until = g_get_monotonic_time () + READY_SECONDS * G_USEC_PER_SEC;

  while (g_get_monotonic_time () < until)
    {
      Health health = { FALSE, 0 };

      if (waitpid (self->pid, NULL, WNOHANG) == self->pid)
        {
          self->pid = 0;
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s ended before it was ready",
                       command);
          return FALSE;
        }
      bench_http_request (self->port, "/health", NULL, self->cancellable, on_health_line, on_health,
                          &health, NULL);
      while (!health.is_done)
        g_main_context_iteration (NULL, TRUE);
      if (health.status == 200)
        return TRUE;
      g_usleep (RETRY_MS * 1000);
    }
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_TIMED_OUT, "%s was not ready after %u s", command,
               READY_SECONDS);
  return FALSE;
}

BenchSloServer *
bench_slo_peer_new (const char *command,
                    const char *model,
                    guint       n_threads,
                    guint       n_slots,
                    guint       slot_tokens,
                    guint64     seed,
                    GError    **error)
{
  g_autoptr(BenchSloServer) server = NULL;
  Peer *self = g_new0 (Peer, 1);

  server = &self->server;
  self->server = (BenchSloServer) { begin, leave, NULL, peer_free };
  self->seed = seed;
  self->cancellable = g_cancellable_new ();
  if (!find_port (&self->port, error) ||
      !spawn (self, command, model, n_threads, n_slots, slot_tokens, error) ||
      !await_ready (self, command, error))
    return NULL;
  return g_steal_pointer (&server);
}
