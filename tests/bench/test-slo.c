/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmsvc-bench slo: the calls that it makes, how it reads another program's answers, and that a
 * short run of the real daemon ends with figures that fit together. */

#include <math.h>
#include <string.h>

#include <glib/gstdio.h>
#include <json-glib/json-glib.h>

#include "../../bench/bench-http.h"
#include "../../bench/slo/bench-slo-trace.h"
#include "bench/bench-rig.h"
#include "support/llm-test-folder.h"

/* --- calls --- */

static void
test_trace (void)
{
  g_autoptr(GArray) trace = bench_slo_trace_new (1, 10, 1000, 1);
  guint n[LLM_N_SLO_CLASSES] = { 0 };
  double last_s = 0, gaps = 0, squares = 0;

  /* Poisson: as many as asked for, and gaps whose deviation is their mean */
  g_assert_cmpuint (trace->len, >, 9500);
  g_assert_cmpuint (trace->len, <, 10500);
  for (guint i = 0; i < trace->len; i++)
    {
      const BenchSloArrival *arrival = &g_array_index (trace, BenchSloArrival, i);
      const BenchSloLaw *law = bench_slo_law_get (arrival->slo_class);
      double gap = arrival->at_s - last_s;

      g_assert_cmpuint (arrival->number, ==, i);
      g_assert_cmpfloat (gap, >, 0);
      g_assert_cmpfloat (arrival->at_s, <, 1000);
      g_assert_cmpuint (arrival->n_words, >=, law->least_words);
      g_assert_cmpuint (arrival->n_words, <=, law->most_words);
      g_assert_cmpuint (arrival->n_output, >=, law->least_output);
      g_assert_cmpuint (arrival->n_output, <=, law->most_output);
      g_assert_cmpuint (arrival->app / 2, ==, (guint) arrival->slo_class);
      gaps += gap;
      squares += gap * gap;
      last_s = arrival->at_s;
      n[arrival->slo_class]++;
    }
  gaps /= trace->len;
  g_assert_cmpfloat (fabs (sqrt (squares / trace->len - gaps * gaps) - gaps), <, 0.05 * gaps);
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    g_assert_cmpuint (ABS ((int) n[i] - (int) (trace->len * bench_slo_law_get (i)->share / 100)),
                      <=, 10);
}

/* The same calls sooner, not others. */
static void
test_trace_loads (void)
{
  g_autoptr(GArray) slow = bench_slo_trace_new (7, 2, 50, 1);
  g_autoptr(GArray) fast = bench_slo_trace_new (7, 4, 50, 1);
  g_autoptr(GArray) batch = bench_slo_trace_new_batch (7, slow->len, 1);
  g_autoptr(GArray) other = bench_slo_trace_new (8, 2, 50, 1);

  g_assert_cmpuint (slow->len, >, 50);
  g_assert_cmpuint (fast->len, >, slow->len);
  for (guint i = 0; i < slow->len; i++)
    {
      const BenchSloArrival *a = &g_array_index (slow, BenchSloArrival, i);
      const BenchSloArrival *b = &g_array_index (fast, BenchSloArrival, i);
      const BenchSloArrival *c = &g_array_index (batch, BenchSloArrival, i);
      g_autofree char *text = bench_slo_trace_make_text (7, a);
      g_autofree char *again = bench_slo_trace_make_text (7, b);

      g_assert_cmpint (a->slo_class, ==, b->slo_class);
      g_assert_cmpint (a->slo_class, ==, c->slo_class);
      g_assert_cmpuint (a->app, ==, b->app);
      g_assert_cmpuint (a->n_output, ==, c->n_output);
      g_assert_cmpfloat (fabs (a->at_s - 2 * b->at_s), <, 1e-6);
      g_assert_cmpfloat (c->at_s, ==, 0);
      g_assert_cmpstr (text, ==, again);
      g_assert_cmpuint (strlen (text), ==, 3 * a->n_words - 1);
    }
  g_assert_true (other->len != slow->len ||
                 memcmp (other->data, slow->data, slow->len * sizeof (BenchSloArrival)) != 0);
}

/* --- answers in chunks --- */

static void
add_line (const char *line,
          gpointer    data)
{
  g_ptr_array_add (data, g_strdup (line));
}

static gboolean
take (BenchHttpBody *body,
      const char    *bytes,
      GPtrArray     *lines)
{
  return bench_http_body_push (body, bytes, strlen (bytes), add_line, lines);
}

/* Whole, and byte by byte. */
static void
test_chunks (void)
{
  static const char bytes[] = "6\r\ndata: \r\n10;x=y\r\n{\"a\":1}\r\n\ndata: \r\n3\r\nend\r\n"
                              "1\r\n\n\r\n0\r\n\r\n";

  for (gsize step = 1; step < sizeof bytes; step += 3)
    {
      g_autoptr(BenchHttpBody) body = bench_http_body_new ();
      g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);

      for (gsize i = 0; i < sizeof bytes - 1; i += step)
        {
          g_autofree char *part = g_strndup (bytes + i, step);

          g_assert_true (take (body, part, lines));
        }
      g_assert_true (bench_http_body_ends (body));
      g_assert_cmpuint (lines->len, ==, 3);
      g_assert_cmpstr (lines->pdata[0], ==, "data: {\"a\":1}");
      g_assert_cmpstr (lines->pdata[1], ==, "");
      g_assert_cmpstr (lines->pdata[2], ==, "data: end");
    }
}

static void
test_damaged_chunks (void)
{
  static const char *const damaged[] = {
    "hello\r\n", "\r\n", "-1\r\nx", "ffffffff\r\n", "3\r\nabcd\r\n", "3 \nabcXX",
  };

  for (guint i = 0; i < G_N_ELEMENTS (damaged); i++)
    {
      g_autoptr(BenchHttpBody) body = bench_http_body_new ();
      g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func (g_free);

      g_assert_false (take (body, damaged[i], lines));
    }
}

/* --- a run --- */

/* Answers as llama-server does, at once, without computing anything. */
static const char server[] =
  "#!/usr/bin/env python3\n"
  "import http.server, json, socketserver, sys\n"
  "class Handler(http.server.BaseHTTPRequestHandler):\n"
  "    protocol_version = 'HTTP/1.1'\n"
  "    def log_message(self, *args): pass\n"
  "    def do_GET(self):\n"
  "        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers()\n"
  "        self.wfile.write(b'{}')\n"
  "    def chunk(self, data):\n"
  "        data = b'data: ' + json.dumps(data).encode() + b'\\n\\n'\n"
  "        self.wfile.write(b'%x\\r\\n' % len(data) + data + b'\\r\\n')\n"
  "    def do_POST(self):\n"
  "        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))\n"
  "        self.send_response(200); self.send_header('Transfer-Encoding', 'chunked')\n"
  "        self.end_headers()\n"
  "        for i in range(body['n_predict']): self.chunk({'content': 'x', 'stop': False})\n"
  "        self.chunk({'content': '', 'stop': True, 'tokens_predicted': body['n_predict'],\n"
  "                    'tokens_evaluated': len(body['prompt'])})\n"
  "        self.wfile.write(b'0\\r\\n\\r\\n')\n"
  "class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):\n"
  "    daemon_threads = True\n"
  "    request_queue_size = 64\n"
  "arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))\n"
  "Server(('127.0.0.1', int(arguments['--port'])), Handler).serve_forever()\n";

static void
check_class (JsonObject *result,
             const char *name)
{
  JsonObject *classes = json_object_get_object_member (result, "classes");
  JsonObject *object = json_object_get_object_member (classes, name);
  gint64 n = json_object_get_int_member (object, "calls");

  g_assert_cmpint (n, ==, json_object_get_int_member (object, "met") +
                            json_object_get_int_member (object, "missed"));
  g_assert_cmpint (json_object_get_int_member (object, "failed"), ==, 0);
  g_assert_cmpint (json_object_get_int_member (object, "missed"), >=,
                   json_object_get_int_member (object, "refused"));
  g_assert_cmpfloat (json_object_get_double_member (object, "sub-model-percent"), ==, 100);
  g_assert_cmpint (json_object_get_int_member (json_object_get_object_member (object, "ttft-ms"),
                                               "n"), ==,
                   n - json_object_get_int_member (object, "refused"));
}

static void
test_run (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *model = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                             "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autofree char *program = g_build_filename (folder, "server", NULL);
  g_autofree char *peer = g_strdup_printf ("peer: %s", program);
  g_autofree char *svg = g_build_filename (folder, "slo-interactive.svg", NULL);
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object;
  JsonArray *results;

  g_file_set_contents (program, server, -1, &error);
  g_assert_no_error (error);
  g_assert_cmpint (g_chmod (program, 0700), ==, 0);
  {
    g_auto(BenchRigRun) run = bench_rig_run ("slo", "--quick", "--daemon", g_getenv ("LLM_DAEMON"),
                                             "--model", model, "--peer", peer, "--loads", "0.5",
                                             "--seconds", "1", "--calls", "10", "--folder", folder,
                                             "--plots", folder, "--json", NULL);

    if (run.status != 0)
      g_test_message ("%s", run.err);
    g_assert_cmpint (run.status, ==, 0);
    root = json_from_string (run.out, &error);
    g_assert_no_error (error);
  }

  object = json_node_get_object (root);
  g_assert_cmpfloat (json_object_get_double_member (object, "capacity-calls-per-second"), >, 0);
  g_assert_cmpuint (json_array_get_length (json_object_get_array_member (object, "saturated")), ==,
                    3);
  results = json_object_get_array_member (object, "results");
  g_assert_cmpuint (json_array_get_length (results), ==, 3);
  for (guint i = 0; i < 3; i++)
    {
      JsonObject *result = json_array_get_object_element (results, i);
      static const char *const policies[] = { "deadline", "fifo", "peer" };

      g_assert_cmpstr (json_object_get_string_member (result, "policy"), ==, policies[i]);
      g_assert_false (json_object_has_member (result, "first-failure"));
      g_assert_cmpint (json_object_get_int_member (result, "short-answers"), ==, 0);
      check_class (result, "interactive");
      check_class (result, "responsive");
      check_class (result, "background");
    }

  /* all policies had the same calls, and prompts of the same length for those that were answered */
  results = json_object_get_array_member (object, "saturated");
  for (guint i = 1; i < 3; i++)
    {
      JsonObject *first = json_array_get_object_element (results, 0);
      JsonObject *other = json_array_get_object_element (results, i);
      double n = json_object_get_double_member (first, "seconds") *
                 json_object_get_double_member (first, "tokens-per-second");

      g_assert_cmpfloat (fabs (json_object_get_double_member (other, "seconds") *
                                 json_object_get_double_member (other, "tokens-per-second") - n),
                         <, 0.5);
    }
  g_file_get_contents (svg, &text, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (strstr (text, "deadline"));
  g_assert_nonnull (strstr (text, "peer"));
  llm_test_folder_remove (folder);
}

/* --- what users keep beside one who floods --- */

static void
check_side (JsonObject *user,
            const char *name,
            gboolean    floods)
{
  JsonObject *side = json_object_get_object_member (user, name);
  double n_prompt = json_object_get_double_member (side, "prompt-tokens");

  if (json_object_get_int_member (side, "calls") == 0)
    return;
  /* 500 words of the flood and 32 to 64 of others, an eighth of them */
  g_assert_cmpfloat (n_prompt, >=, floods ? 62 : 4);
  g_assert_cmpfloat (n_prompt, <=, floods ? 62 * 3 + 8 : 8 * 3 + 8);
  g_assert_cmpfloat (json_object_get_double_member (side, "ttft-ms"), >, 0);
  g_assert_cmpfloat (json_object_get_double_member (side, "tokens-per-second"), >, 0);
}

/* How quickly anything comes is no part of it. */
static void
test_fair (void)
{
  g_autofree char *model = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                             "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_auto(BenchRigRun) run = bench_rig_run ("slo", "--fair", "--quick", "--users", "2,3",
                                           "--class", "responsive", "--seconds", "0.5", "--model",
                                           model, "--json", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(JsonNode) root = NULL;
  JsonObject *object;
  JsonArray *cases;

  if (run.status != 0)
    g_test_message ("%s", run.err);
  g_assert_cmpint (run.status, ==, 0);
  root = json_from_string (run.out, &error);
  g_assert_no_error (error);
  object = json_node_get_object (root);
  g_assert_cmpstr (json_object_get_string_member (object, "class"), ==, "responsive");
  g_assert_cmpfloat (json_object_get_double_member (object, "goal"), ==, 0.8);
  cases = json_object_get_array_member (object, "cases");
  g_assert_cmpuint (json_array_get_length (cases), ==, 2);
  for (guint i = 0; i < 2; i++)
    {
      JsonObject *result = json_array_get_object_element (cases, i);
      JsonArray *users = json_object_get_array_member (result, "users");

      g_assert_cmpint (json_object_get_int_member (result, "n"), ==, 2 + i);
      g_assert_cmpuint (json_array_get_length (users), ==, 2 + i);
      g_assert_cmpfloat (json_object_get_double_member (result, "ordinary-tokens-per-second"), >,
                         0);
      g_assert_cmpfloat (json_object_get_double_member (result, "flooded-tokens-per-second"), >, 0);
      for (guint k = 0; k < 2 + i; k++)
        {
          JsonObject *user = json_array_get_object_element (users, k);
          gboolean floods = k + 1 == 2 + i;

          g_assert_cmpint (json_object_get_boolean_member (user, "floods"), ==, floods);
          g_assert_cmpint (json_object_has_member (user, "kept-rate"), ==, !floods);
          check_side (user, "ordinary", FALSE);
          check_side (user, "flooded", floods);
        }
    }
}

static void
test_fair_options (void)
{
  static const char *const wrong[][2] = {
    { "--users", "1" }, { "--users", "2,2" }, { "--users", "17" }, { "--users", "x" },
    { "--class", "urgent" }, { "--rounds", "0" }, { "--seconds", "-1" }, { "--daemon", "d" },
    { "--loads", "1" },
  };
  g_auto(BenchRigRun) alone = bench_rig_run ("slo", "--fair", NULL);
  g_auto(BenchRigRun) other = bench_rig_run ("slo", "--daemon", "d", "--model", "m", "--users",
                                             "2", NULL);

  g_assert_cmpint (alone.status, ==, 2);
  g_assert_cmpint (other.status, ==, 2);
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto(BenchRigRun) run = bench_rig_run ("slo", "--fair", "--model", "m", wrong[i][0],
                                               wrong[i][1], NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_true (g_str_has_prefix (run.err, "llmsvc-bench: "));
    }
}

static void
test_options (void)
{
  static const char *const wrong[][2] = {
    { "--policy", "luck" }, { "--loads", "0.5,0.3" }, { "--loads", "x" }, { "--loads", "" },
    { "--rounds", "0" }, { "--slots", "0" }, { "--seconds", "-1" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto(BenchRigRun) run = bench_rig_run ("slo", "--daemon", "d", "--model", "m", wrong[i][0],
                                               wrong[i][1], NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_true (g_str_has_prefix (run.err, "llmsvc-bench: "));
    }
}

/* What does not start is said, and ends it. */
static void
test_no_daemon (void)
{
  g_autofree char *model = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                             "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_auto(BenchRigRun) run = bench_rig_run ("slo", "--daemon", "/bin/false", "--model", model, NULL);

  g_assert_cmpint (run.status, ==, 1);
  g_assert_nonnull (strstr (run.err, "The service did not start"));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/slo/trace", test_trace);
  g_test_add_func ("/slo/trace-loads", test_trace_loads);
  g_test_add_func ("/slo/chunks", test_chunks);
  g_test_add_func ("/slo/damaged-chunks", test_damaged_chunks);
  g_test_add_func ("/slo/options", test_options);
  g_test_add_func ("/slo/no-daemon", test_no_daemon);
  g_test_add_func ("/slo/run", test_run);
  g_test_add_func ("/slo/fair-options", test_fair_options);
  g_test_add_func ("/slo/fair", test_fair);
  return g_test_run ();
}
