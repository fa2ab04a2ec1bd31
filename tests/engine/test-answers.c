/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers: their text, results, and readers that stop, with the shipped model. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "decoding/llm-repeats.h"

static void
test_same_text (Fixture      *fixture,
                gconstpointer data)
{
  const char sampled[] = "{'seed': <uint64 7>, 'temperature': <1.0>, 'max-tokens': <uint32 24>}";
  const char other[] = "{'seed': <uint64 8>, 'temperature': <1.5>, 'max-tokens': <uint32 24>}";
  g_autofree char *first = complete (fixture, "Find me a comedy movie.", sampled);
  g_autofree char *again = complete (fixture, "Find me a comedy movie.", sampled);
  g_autofree char *different = complete (fixture, "Find me a comedy movie.", other);
  g_autofree char *threads = NULL;

  g_assert_cmpstr (first, ==, again);
  g_assert_cmpstr (first, !=, different);
  g_assert_true (g_utf8_validate (different, -1, NULL));

  /* One thread or three: the same. */
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 3);
  threads = complete (fixture, "Find me a comedy movie.", sampled);
  g_assert_cmpstr (first, ==, threads);
}

/* A text does not depend on what else runs. */
static void
test_beside_others (Fixture      *fixture,
                    gconstpointer data)
{
  const char *const prompts[] = {
    "Find me a comedy movie.", "I want a restaurant in San Jose.", "What is the weather?",
    "Book a train to Fresno for tomorrow, two people, please.", "Hello!",
  };
  char *alone[G_N_ELEMENTS (prompts)];
  Answer *answers[G_N_ELEMENTS (prompts) * 2];

  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    alone[i] = complete (fixture, prompts[i], GREEDY);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    answers[i] = begin_complete (fixture, prompts[i % G_N_ELEMENTS (prompts)], GREEDY);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      g_assert_cmpstr (answers[i]->text, ==, alone[i % G_N_ELEMENTS (prompts)]);
      answer_free (answers[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (prompts); i++)
    g_free (alone[i]);
}

static void
test_results (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(Answer) answer =
    begin_complete (fixture, "Find me a comedy movie.",
                    "{'temperature': <0.0>, 'max-tokens': <uint32 3>, 'colour': <1>}");
  g_auto(GStrv) ignored = NULL;
  double ttft = 0;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "length");
  g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, 3);
  g_assert_cmpuint (result_uint (answer, "prompt-tokens"), >, 8);
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), ==, 0);
  g_assert_true (g_variant_lookup (answer->results, "ttft-ms", "d", &ttft));
  g_assert_cmpfloat (ttft, >, 0);
  g_assert_true (g_variant_lookup (answer->results, "ignored", "^as", &ignored));
  g_assert_cmpstr (ignored[0], ==, "colour");
}

static void
test_stop_string (Fixture      *fixture,
                  gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *whole = complete (fixture, "Find me a comedy movie.", GREEDY);
  g_autoptr(Answer) answer = NULL;
  g_autofree char *options = NULL;
  g_autofree char *stop = g_strndup (whole + strlen (whole) / 2, 4);
  g_autofree char *next = NULL;

  options = g_strdup_printf ("{'temperature': <0.0>, 'stop': <['%s']>}", stop);
  answer = begin_ask (fixture, context, "Find me a comedy movie.", options);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "stop");
  g_assert_null (strstr (answer->text, stop));
  g_assert_cmpuint (strlen (answer->text), ==, strstr (whole, stop) - whole);
  /* The conversation goes on behind what was shown. */
  next = ask (fixture, context, "And now?", GREEDY);
  g_assert_cmpuint (count_messages (context), ==, 4);
}

/* FALSE when it was not parked before its end. */
static gboolean
try_parked (Fixture    *fixture,
            const char *expected)
{
  g_autoptr(LlmCallOptions) options = parse_options (GREEDY, LLMSVC_CALL_COMPLETE);
  gboolean was_parked;
  g_autoptr(TestSink) sink = test_sink_new ();
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(LlmGeneration) generation = NULL;
  gsize length;

  sink->is_full = TRUE;
  llm_engine_complete_async (fixture->engine, fixture->caller, "Find me a comedy movie.", options,
                             &sink->parent, on_result, &result);
  WAIT_FOR (result != NULL);
  generation = g_task_propagate_pointer (G_TASK (result), NULL);
  WAIT_FOR (llm_generation_get_state (generation) >= LLM_GENERATION_STALLED);

  /* Others go on, this one stands still. */
  g_free (complete (fixture, "I want a restaurant in San Jose.", GREEDY));
  was_parked = !sink->is_finished;
  length = sink->text->len;
  g_free (complete (fixture, "Hello!", GREEDY));
  g_assert_cmpuint (sink->text->len, ==, length);
  g_assert_cmpint (llm_generation_get_state (generation), ==,
                   was_parked ? LLM_GENERATION_STALLED : LLM_GENERATION_DONE);
  g_assert_cmpint (sink->is_finished, ==, !was_parked);

  sink->is_full = FALSE;
  llm_sink_drained (&sink->parent);
  WAIT_FOR (sink->is_finished);
  g_assert_cmpstr (sink->text->str, ==, expected);
  return was_parked;
}

static void
test_parked (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *expected = complete (fixture, "Find me a comedy movie.", GREEDY);
  gboolean was_parked = FALSE;

  for (guint i = 0; i < MAX_ATTEMPTS && !was_parked; i++)
    was_parked = try_parked (fixture, expected);
  g_assert_true (was_parked);
}

/* One token again and again ends an answer that asked for it, and no other. */
static void
test_repeats (Fixture       *fixture,
              gconstpointer  data)
{
  for (guint ends = 0; ends < 2; ends++)
    {
      g_autofree char *options = g_strdup_printf (
        "{'temperature': <0.0>, 'max-tokens': <uint32 100>, 'logit-bias': <{uint32 400: 100.0}>, "
        "'end-repeats': <%s>}", ends ? "true" : "false");
      g_autoptr(Answer) answer = begin_complete (fixture, "Hello", options);

      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      g_assert_cmpstr (result_string (answer, "finish-reason"), ==, ends ? "repeats" : "length");
      g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, ends ? 48 : 100);
    }
}

/* What goes round, and what only says things more than once. */
static void
test_rounds (void)
{
  static const struct
  {
    guint run, n_before, ends_at;  /* 0: never, of 700 */
  } cases[] = {
    { 1, 0, 48 }, { 2, 5, 5 + 48 }, { 6, 3, 3 + 48 }, { 7, 0, 56 }, { 30, 9, 9 + 240 },
    { 60, 0, 300 }, { 120, 4, 4 + 360 }, { 150, 0, 450 }, { 151, 0, 0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      LlmRepeats repeats = { { 0 } };
      gint32 tokens[700];
      guint ended = 0;

      for (guint n = 0; n < 700 && ended == 0; n++)
        {
          tokens[n] = n < cases[i].n_before ? 5000 + (gint32) n
                                            : (gint32) ((n - cases[i].n_before) % cases[i].run);
          if (llm_repeats_push (&repeats, tokens, n + 1))
            ended = n + 1;
        }
      g_assert_cmpuint (ended, ==, cases[i].ends_at);
    }
}

#define ADD(path, func) g_test_add (path, Fixture, NULL, set_up, func, tear_down)

static guint
count_tokens (Fixture    *fixture,
              const char *messages,
              const char *options,
              GError    **error)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_COUNT_TOKENS);
  g_autoptr(GAsyncResult) result = NULL;
  guint tokens = 0;

  llm_engine_count_tokens_async (fixture->engine, fixture->caller, g_variant_new_parsed (messages),
                                 parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  return take_count (result, &tokens, error) ? tokens : 0;
}

/* What is counted is what it costs: in a context that begins so, appended, and in a prompt. */
static void
test_count (Fixture      *fixture,
            gconstpointer data)
{
  static const char messages[] =
    "[('user', 'Hello!', @a{sv} {}), ('assistant', 'Hi, how are you?', {}), ('user', 'Fine.', {})]";
  static const char question[] = "[('user', 'Once upon a time', @a{sv} {})]";
  g_autofree char *history = g_strdup_printf ("{'messages': <%s>}", messages);
  g_autofree char *both = g_strdup_printf ("{'system': <'Be kind.'>, 'messages': <%s>}", messages);
  g_autofree char *earlier =
    g_strdup_printf ("{'system': <'Be kind.'>, 'messages': <%s>, 'max-tokens': <uint32 1>}",
                     messages);
  g_autoptr(LlmContext) alone = create (fixture, history);
  g_autoptr(LlmContext) with_system = create (fixture, both);
  g_autoptr(LlmContext) empty = create (fixture, "{}");
  g_autoptr(LlmCallOptions) none = parse_options ("{}", LLMSVC_CALL_APPEND);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(Answer) raw = NULL;
  g_autoptr(Answer) plain = NULL;
  g_autoptr(Answer) last = NULL;
  g_autoptr(GError) error = NULL;
  guint n_appended;
  guint n_opening;

  g_assert_cmpuint (count_tokens (fixture, messages, "{}", &error), ==,
                    llm_context_get_tokens (alone));
  g_assert_no_error (error);
  llm_context_append_async (empty, fixture->caller, g_variant_new_parsed (messages), none,
                            on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (take_count (result, &n_appended, &error));
  g_assert_cmpuint (count_tokens (fixture, messages, "{}", &error), ==, n_appended);

  g_assert_cmpuint (count_tokens (fixture, messages, "{'system': <'Be kind.'>}", &error), ==,
                    llm_context_get_tokens (with_system));
  g_assert_cmpuint (count_tokens (fixture, "@a(ssa{sv}) []", "{}", &error), ==, 0);
  g_assert_no_error (error);

  raw = begin_complete (fixture, "Once upon a time", "{'raw': <true>, 'max-tokens': <uint32 1>}");
  plain = begin_complete (fixture, "Once upon a time", "{'max-tokens': <uint32 1>}");
  last = begin_complete (fixture, "Once upon a time", earlier);
  WAIT_FOR (raw->is_finished && plain->is_finished && last->is_finished);
  g_assert_cmpuint (count_tokens (fixture, question, "{'raw': <true>}", &error), ==,
                    result_uint (raw, "prompt-tokens"));
  /* A prompt has what opens the answer besides, whatever it is. */
  n_opening = result_uint (plain, "prompt-tokens") - count_tokens (fixture, question, "{}", &error);
  g_assert_cmpuint (n_opening, <, 8);
  g_assert_cmpuint (count_tokens (fixture,
                                  "[('user', 'Hello!', @a{sv} {}), "
                                  "('assistant', 'Hi, how are you?', {}), ('user', 'Fine.', {}), "
                                  "('user', 'Once upon a time', {})]",
                                  "{'system': <'Be kind.'>}", &error), ==,
                    result_uint (last, "prompt-tokens") - n_opening);
  g_assert_no_error (error);

  g_assert_cmpuint (count_tokens (fixture, question,
                                  "{'raw': <true>, 'system': <'Be kind.'>}", &error), ==, 0);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/engine/same-text", test_same_text);
  ADD ("/engine/beside-others", test_beside_others);
  ADD ("/engine/results", test_results);
  ADD ("/engine/stop-string", test_stop_string);
  ADD ("/engine/repeats", test_repeats);
  g_test_add_func ("/engine/rounds", test_rounds);
  ADD ("/engine/parked", test_parked);
  ADD ("/engine/count", test_count);
  return g_test_run ();
}
