/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What an application gets for each thing that a rule can say. */

#include "decoding/mock-rig.h"

static const char *example;

/* --- texts --- */

/* A script's answer goes through all of the service: the same options cut it. */
static void
test_text (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"prompt\": \"hello\"}, \"text\": \" Grüße, Welt. Ende.\"},"
    " {\"when\": {\"prompt\": \"nothing\"}, \"text\": \"\", \"finish-reason\": \"length\"},"
    " {\"text\": \"You said: {prompt}\"}]");
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GVariant) cut = NULL;
  g_autofree char *text = NULL;
  g_autofree char *reason = NULL;
  g_autofree char *model = NULL;
  g_autofree char *cut_text = NULL;
  g_autofree char *cut_reason = NULL;

  mock_assert_answer (rig, "what?", "{}", "You said: what?");
  mock_assert_answer (rig, "nothing", "{}", "");
  mock_assert_answer (rig, "hello", "{'stop': <['Welt']>}", " Grüße, ");
  mock_assert_answer (rig, "hello", "{'raw': <true>}", " Grüße, Welt. Ende.");

  /* one token a byte, and one for the end: ü and ß have two bytes */
  text = mock_complete (rig, "hello", "{}", &results);
  g_assert_cmpstr (text, ==, " Grüße, Welt. Ende.");
  reason = bus_lookup_s (results, "finish-reason");
  g_assert_cmpstr (reason, ==, "stop");
  model = bus_lookup_s (results, "model");
  g_assert_cmpstr (model, ==, "mock");
  g_assert_cmpuint (bus_lookup_u (results, "output-tokens"), ==, 22);
  /* “user” and “hello” with 3 around them, and 12 that open the answer */
  g_assert_cmpuint (bus_lookup_u (results, "prompt-tokens"), ==, 4 + 5 + 3 + 12);

  cut_text = mock_complete (rig, "hello", "{'max-tokens': <uint32 5>}", &cut);
  g_assert_cmpstr (cut_text, ==, " Grü");
  cut_reason = bus_lookup_s (cut, "finish-reason");
  g_assert_cmpstr (cut_reason, ==, "length");
  g_assert_cmpuint (bus_lookup_u (cut, "output-tokens"), ==, 5);
}

static void
check_reason (MockRig    *rig,
              const char *prompt,
              const char *reason,
              guint       n_tokens)
{
  g_autoptr(GVariant) results = NULL;
  g_autofree char *text = mock_complete (rig, prompt, "{}", &results);
  g_autofree char *found = bus_lookup_s (results, "finish-reason");

  g_assert_cmpstr (text, ==, "some text");
  g_assert_cmpstr (found, ==, reason);
  g_assert_cmpuint (bus_lookup_u (results, "output-tokens"), ==, n_tokens);
}

static void
test_finish_reasons (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"prompt\": \"a\"}, \"text\": \"some text\", \"finish-reason\": \"stop\"},"
    " {\"when\": {\"prompt\": \"b\"}, \"text\": \"some text\", \"finish-reason\": \"length\"},"
    " {\"when\": {\"prompt\": \"c\"}, \"text\": \"some text\","
    "  \"finish-reason\": \"context-full\"}]");

  check_reason (rig, "a", "stop", 10);
  check_reason (rig, "b", "length", 9);
  check_reason (rig, "c", "context-full", 9);
}

/* How text is cut is how it arrives; what is empty is not seen. */
static void
test_pieces (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"prompt\": \"one\"}, \"text\": \"all at once, ünd wide\"},"
    " {\"pieces\": [\"a\", \"\", \"bc \", \"{prompt}\", \"🌍\", \"\"],"
    "  \"piece-delay-ms\": 1}]");
  g_autofree char *context = bus_create (rig->app, bus_options ("{}"));
  g_autofree char *pieces = NULL;
  g_autofree char *one = NULL;
  g_autofree char *stopped = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  g_free (bus_generate (rig->app, context, "xyz", bus_options ("{}"), &fd, &error));
  g_assert_no_error (error);
  pieces = mock_read_stream (fd);
  g_assert_cmpstr (pieces, ==, "a|bc |xyz|🌍|done stop");

  g_free (bus_generate (rig->app, context, "one", bus_options ("{}"), &fd, &error));
  g_assert_no_error (error);
  one = mock_read_stream (fd);
  g_assert_cmpstr (one, ==, "all at once, ünd wide|done stop");

  /* a part of a stop string is held back, as ever */
  g_free (bus_generate (rig->app, context, "xyz", bus_options ("{'stop': <['cx', ' xyz']>}"), &fd,
                        &error));
  g_assert_no_error (error);
  stopped = mock_read_stream (fd);
  g_assert_cmpstr (stopped, ==, "a|bc|done stop");
  g_assert_cmpuint (bus_count_messages (rig->app, context, NULL), ==, 6);
}

/* --- errors --- */

static void
test_errors (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"prompt\": \"refuse\"},"
    "  \"error\": {\"name\": \"Overloaded\", \"message\": \"Too “much”\"}},"
    " {\"when\": {\"prompt\": \"late\"}, \"pieces\": [\"first \", \"second \"],"
    "  \"error\": {\"name\": \"NoMemory\", \"message\": \"All gone\"}},"
    " {\"when\": {\"prompt\": \"empty\"}, \"text\": \"\", \"delay-ms\": 1,"
    "  \"error\": {\"name\": \"DeadlineExceeded\", \"message\": \"Too late\"}},"
    " {\"when\": {\"prompt\": \"broken\"}, \"text\": \"a\","
    "  \"error\": {\"name\": \"InvalidModel\", \"message\": \"Broken\"}},"
    " {\"when\": {\"prompt\": \"hi\"}, \"text\": \"ho\"}]");
  g_autofree char *context = bus_create (rig->app, bus_options ("{}"));
  g_autofree char *late = NULL;
  g_autofree char *empty = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  mock_assert_failure (rig, "refuse", "{}", "Overloaded", "Too “much”");
  mock_assert_failure (rig, "late", "{}", "NoMemory", "All gone");
  mock_assert_failure (rig, "late", "{'temperature': <'hot'>}", "InvalidOption", "temperature");
  mock_assert_failure (rig, "something", "{}", "Failed", "No rule");

  /* refused before there is a stream, and failed in it */
  g_assert_null (bus_generate (rig->app, context, "refuse", bus_options ("{}"), &fd, &error));
  bus_assert_error (error, "Overloaded");
  g_clear_error (&error);
  g_free (bus_generate (rig->app, context, "late", bus_options ("{}"), &fd, &error));
  g_assert_no_error (error);
  late = mock_read_stream (fd);
  g_assert_cmpstr (late, ==, "first |second |error NoMemory");
  g_free (bus_generate (rig->app, context, "empty", bus_options ("{}"), &fd, &error));
  empty = mock_read_stream (fd);
  g_assert_cmpstr (empty, ==, "error DeadlineExceeded");
  g_assert_cmpuint (bus_count_messages (rig->app, context, NULL), ==, 0);

  /* an answer that is cut before its end has no error, and the next call goes well */
  mock_assert_answer (rig, "late", "{'max-tokens': <uint32 5>}", "first");
  mock_assert_failure (rig, "broken", "{}", "InvalidModel", "Broken");
  mock_assert_answer (rig, "hi", "{}", "ho");
}

#define COLOUR "{'schema': <'{\"enum\": [\"red\", \"blue\"]}'>%s}"

/* A script says what a model could say, or nothing. */
static void
test_formats (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"prompt\": \"good\"}, \"text\": \"\\\"red\\\"\"},"
    " {\"when\": {\"prompt\": \"bad\"}, \"text\": \"\\\"ref\\\"\"},"
    " {\"when\": {\"prompt\": \"short\"}, \"text\": \"\\\"bl\"},"
    " {\"when\": {\"prompt\": \"cut\"}, \"text\": \"\\\"bl\", \"finish-reason\": \"length\"}]");
  g_autofree char *plain = g_strdup_printf (COLOUR, "");
  g_autofree char *small = g_strdup_printf (COLOUR, ", 'max-tokens': <uint32 2>");

  mock_assert_answer (rig, "good", plain, "\"red\"");
  mock_assert_answer (rig, "cut", plain, "\"bl");
  mock_assert_failure (rig, "bad", plain, "Failed", "from byte 3 on");
  mock_assert_failure (rig, "short", plain, "Failed", "from byte 3 on");
  mock_assert_failure (rig, "good", small, "InvalidOption", "max-tokens");
  mock_assert_failure (rig, "good", "{'schema': <'{'>}", "InvalidOption", "schema");
  mock_assert_answer (rig, "bad", "{}", "\"ref\"");
}

/* --- time --- */

typedef struct
{
  MockRig *rig;
  const char *generation;
} Watched;

static gboolean
is_reading (gpointer data)
{
  Watched *watched = data;
  g_autoptr(GVariant) state =
    bus_get (watched->rig->app, watched->generation, ".Generation", "State");

  return g_str_equal (g_variant_get_string (state, NULL), "prefill");
}

/* Nobody waits for somebody else's delay, and who cancels does not wait either. */
static void
test_delay (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"prompt\": \"slow\"}, \"pieces\": [\"first \", \"second\"],"
    "  \"piece-delay-ms\": 3600000},"
    " {\"when\": {\"prompt\": \"later\"}, \"text\": \"now\", \"delay-ms\": 150},"
    " {\"when\": {\"prompt\": \"very late\"}, \"text\": \"end\", \"delay-ms\": 3600000},"
    " {\"text\": \"quick\"}]");
  g_autoptr(GDBusConnection) other = llm_test_daemon_connect (rig->daemon);
  g_autofree char *context = bus_create (rig->app, bus_options ("{}"));
  g_autofree char *waiting_context = bus_create (rig->app, bus_options ("{}"));
  g_autofree char *waiting = NULL;
  g_autofree char *generation = NULL;
  g_autofree char *first = NULL;
  g_autofree char *stream = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GVariant) cancelled = NULL;
  g_autoptr(GVariant) state = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autofree char *waiting_stream = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  double ttft_ms;
  int waiting_fd;
  int fd;

  generation = bus_generate (rig->app, context, "slow", bus_options ("{'on-cancel': <'keep'>}"),
                             &fd, &error);
  g_assert_no_error (error);
  first = mock_read_piece (fd);
  g_assert_cmpstr (first, ==, "first ");
  state = bus_get (rig->app, generation, ".Generation", "State");
  g_assert_cmpstr (g_variant_get_string (state, NULL), ==, "decode");

  waiting = bus_generate (rig->app, waiting_context, "very late", bus_options ("{}"), &waiting_fd,
                          &error);
  g_assert_no_error (error);
  bus_wait_until (is_reading, &(Watched) { rig, waiting });

  {
    g_autoptr(MockCall) quick = mock_call_begin (other, "anything");

    bus_wait_until (mock_call_is_done, quick);
    g_assert_cmpstr (quick->text, ==, "quick");
  }
  text = mock_complete (rig, "later", "{}", &results);
  g_assert_cmpstr (text, ==, "now");
  g_assert_true (g_variant_lookup (results, "ttft-ms", "d", &ttft_ms));
  g_assert_cmpfloat (ttft_ms, >=, 150);

  g_variant_unref (bus_call_ok (rig->app, waiting, ".Generation", "Cancel",
                                g_variant_new ("(@a{sv})", bus_options ("{}"))));
  waiting_stream = mock_read_stream (waiting_fd);
  g_assert_cmpstr (waiting_stream, ==, "error Cancelled");
  cancelled = bus_call_ok (rig->app, generation, ".Generation", "Cancel",
                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  stream = mock_read_stream (fd);
  g_assert_cmpstr (stream, ==, "done cancelled");
  g_assert_cmpuint (bus_count_messages (rig->app, context, &last), ==, 2);
  g_assert_cmpstr (last, ==, "first ");
}

static gboolean
are_two (gpointer rig)
{
  return mock_get_statistic (rig, "calls") == 2;
}

static gboolean
is_one (gpointer rig)
{
  return mock_get_statistic (rig, "calls") == 1;
}

/* A wait in front of the first word ends with the caller's deadline, with the
 * caller, and with the service. */
static void
test_delay_ends (void)
{
  MockRig *rig = mock_rig_new_full (
    "[{\"when\": {\"prompt\": \"slow\"}, \"text\": \"late\", \"delay-ms\": 3600000},"
    " {\"text\": \"quick\"}]", "[quota]\ncalls=2\n", LLM_TEST_DAEMON_NONE);
  GDBusConnection *leaver = llm_test_daemon_connect (rig->daemon);
  g_autoptr(MockCall) first = mock_call_begin (rig->app, "slow");
  g_autoptr(MockCall) second = mock_call_begin (leaver, "slow");

  bus_wait_until (are_two, rig);
  mock_assert_failure (rig, "x", "{}", "QuotaExceeded", "2");
  g_dbus_connection_close_sync (leaver, NULL, NULL);
  bus_wait_until (mock_call_is_done, second);
  bus_wait_until (is_one, rig);
  mock_assert_answer (rig, "x", "{}", "quick");
  mock_assert_failure (rig, "slow", "{'deadline-ms': <uint32 20>}", "DeadlineExceeded", "20");
  g_assert_false (first->is_done);

  llm_test_daemon_restart (rig->daemon);
  bus_wait_until (mock_call_is_done, first);
  bus_assert_error (first->error, "Cancelled");
  g_object_unref (leaver);
  mock_rig_free (rig);
}

/* --- conversations --- */

static void
test_turns (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"turn\": 1, \"system-contains\": \"pirate\"}, \"text\": \"Arr.\"},"
    " {\"when\": {\"turn\": 1}, \"text\": \"First.\"},"
    " {\"when\": {\"turn\": 2}, \"text\": \"Second.\"},"
    " {\"when\": {\"prompt\": \"again\"}, \"times\": 1, \"text\": \"Third.\"},"
    " {\"text\": \"Later.\"}]");
  g_autofree char *context =
    bus_create (rig->app, bus_options ("{'system': <'You are a pirate.'>}"));
  g_autofree char *last = NULL;
  const char *expected[] = { "Arr.", "Second.", "Third.", "Later." };

  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    {
      g_autofree char *text = bus_ask (rig->app, context, "again", bus_options ("{}"), NULL);

      g_assert_cmpstr (text, ==, expected[i]);
    }
  g_assert_cmpuint (bus_count_messages (rig->app, context, &last), ==, 9);
  g_assert_cmpstr (last, ==, "Later.");

  /* what is rolled back was never said */
  g_variant_unref (bus_call_ok (rig->app, context, ".Context", "Rollback",
                                g_variant_new ("(u@a{sv})", 3, bus_options ("{}"))));
  g_free (last);
  last = bus_ask (rig->app, context, "again", bus_options ("{}"), NULL);
  g_assert_cmpstr (last, ==, "Second.");

  mock_assert_answer (rig, "x", "{}", "First.");
  mock_assert_answer (rig, "x", "{'system': <'a pirate'>}", "Arr.");
  mock_assert_answer (
    rig, "x", "{'messages': <[('user', 'a', @a{sv} {}), ('assistant', 'b', {})]>}", "Second.");
}

/* Counts and limits are exact: 62 tokens of question leave room for two. */
static void
test_small_context (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "{\"version\": 1, \"context-length\": 64, \"rules\": [{\"text\": \"abcdefghij\"}]}");
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GVariant) counted = NULL;
  g_autofree char *prompt = g_strnfill (62 - 19, 'x');
  g_autofree char *long_prompt = g_strnfill (64 - 19, 'x');
  g_autofree char *text = mock_complete (rig, prompt, "{}", &results);
  g_autofree char *reason = bus_lookup_s (results, "finish-reason");
  guint32 n;

  g_assert_cmpuint (bus_lookup_u (results, "prompt-tokens"), ==, 62);
  g_assert_cmpstr (reason, ==, "context-full");
  g_assert_cmpstr (text, ==, "abc");
  mock_assert_failure (rig, long_prompt, "{}", "ContextFull", "64");

  counted = bus_call_ok (rig->app, NULL, "", "CountTokens",
                         g_variant_new ("(@a(ssa{sv})@a{sv})", bus_one_message ("user", "hello"),
                                        bus_options ("{}")));
  g_variant_get (counted, "(u)", &n);
  g_assert_cmpuint (n, ==, 4 + 5 + 3);
}

/* --- twice the same --- */

/* (transfer full): the answers and results of a conversation, without its times */
static char *
run_conversation (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "[{\"when\": {\"pattern\": \"[0-9]\"}, \"pieces\": [\"n\", \"umber\"], \"piece-delay-ms\": 1},"
    " {\"text\": \"{prompt}?\"}]");
  const char *prompts[] = { "one", "2", "three", "4 and 5" };
  g_autofree char *context = bus_create (rig->app, bus_options ("{}"));
  GString *all = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    {
      g_autoptr(GVariant) results = NULL;
      g_autofree char *text =
        bus_ask (rig->app, context, prompts[i], bus_options ("{'temperature': <2.0>}"), &results);
      g_autofree char *reason = bus_lookup_s (results, "finish-reason");

      g_string_append_printf (all, "%s/%s/%u/%u/%u\n", text, reason,
                              bus_lookup_u (results, "prompt-tokens"),
                              bus_lookup_u (results, "cached-tokens"),
                              bus_lookup_u (results, "output-tokens"));
    }
  return g_string_free (all, FALSE);
}

static void
test_deterministic (void)
{
  g_autofree char *first = run_conversation ();
  g_autofree char *second = run_conversation ();

  g_assert_cmpstr (first, ==, second);
  g_assert_cmpstr (first, ==, "one?/stop/22/0/5\n"
                              "number/stop/48/26/7\n"
                              "three?/stop/80/54/7\n"
                              "number/stop/114/86/7\n");
}

/* The installed example does what docs/mock.md tells of it. */
static void
test_example (void)
{
  g_autofree char *script = NULL;
  MockRig *rig;

  g_assert_true (g_file_get_contents (example, &script, NULL, NULL));
  rig = mock_rig_new (script);
  mock_assert_answer (rig, "What is the capital of France?", "{}",
                      "The capital of France is Paris.");
  mock_assert_failure (rig, "Are you busy?", "{}", "Overloaded", "try again later");
  mock_assert_answer (rig, "Are you busy?", "{}", "You said: Are you busy?");
  mock_assert_failure (rig, "Please break", "{}", "NoMemory", "memory");
  mock_assert_answer (rig, "Well, hello there", "{}", "Hello! What can I do for you?");
  mock_assert_answer (rig, "Is it so?", "{'system': <'Answer in JSON.'>}",
                      "{\"answer\": \"yes\", \"confidence\": 0.9}");
  mock_assert_answer (rig, "Something else", "{}", "You said: Something else");
  mock_rig_free (rig);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_assert_cmpint (argc, ==, 2);
  example = argv[1];

  g_test_add_func ("/mock/answers/text", test_text);
  g_test_add_func ("/mock/answers/finish-reasons", test_finish_reasons);
  g_test_add_func ("/mock/answers/pieces", test_pieces);
  g_test_add_func ("/mock/answers/errors", test_errors);
  g_test_add_func ("/mock/answers/formats", test_formats);
  g_test_add_func ("/mock/answers/delay", test_delay);
  g_test_add_func ("/mock/answers/delay-ends", test_delay_ends);
  g_test_add_func ("/mock/answers/turns", test_turns);
  g_test_add_func ("/mock/answers/small-context", test_small_context);
  g_test_add_func ("/mock/answers/deterministic", test_deterministic);
  g_test_add_func ("/mock/answers/example", test_example);
  return g_test_run ();
}
