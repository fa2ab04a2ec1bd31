/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose turn it is, with a real model: results and statistics say what came of it, texts do not
 * depend on it, no work is lost, and a call for which too many wait is refused. */

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "engine-rig.h"
#include "support/llm-test-folder.h"

#define SHORT "{'temperature': <0.0>, 'max-tokens': <uint32 8>"
#define INTERACTIVE SHORT ", 'slo': <'interactive'>}"
#define RESPONSIVE SHORT ", 'slo': <'responsive'>}"
#define BACKGROUND SHORT ", 'slo': <'background'>}"
#define N_CALLS 30

static char *
make_prompt (guint n_words)
{
  static const char *const words[] = { "tea", "is", "warm", "and", "the", "cup",
                                       "is", "old", "so" };
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n_words; i++)
    g_string_append_printf (text, "%s ", words[i * 7 % G_N_ELEMENTS (words)]);
  return g_string_free (text, FALSE);
}

static void
set_up_with (Fixture     *fixture,
             LlmSettings *settings)
{
  settings->quotas.max_calls = 1000;
  fixture->engine = start_engine_with (settings);
}

static void
set_up_folder (Fixture      *fixture,
               gconstpointer data)
{
  fixture->state = llm_test_folder_new ();
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
set_up_default (Fixture      *fixture,
                gconstpointer data)
{
  set_up_folder (fixture, data);
  set_up_with (fixture, new_settings (fixture->state, 2));
}

/* Some steps of both kinds, so that what they cost is known. */
static void
warm_up (Fixture *fixture)
{
  for (guint i = 0; i < 4; i++)
    {
      g_free (complete (fixture, "A pot of", BACKGROUND));
      g_free (complete (fixture, "A cup of", INTERACTIVE));
    }
}

static double
result_double (const Answer *answer,
               const char   *key)
{
  double value = -1;

  g_assert_true (g_variant_lookup (answer->results, key, "d", &value));
  return value;
}

static void
test_results (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(Answer) answer = NULL;
  g_autoptr(Answer) own = NULL;

  warm_up (fixture);
  answer = begin_complete (fixture, "A pot of tea", INTERACTIVE);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (result_string (answer, "slo"), ==, "interactive");
  g_assert_cmpfloat (result_double (answer, "ttft-target-ms"), ==, 1000);
  g_assert_cmpfloat (result_double (answer, "tpot-target-ms"), ==, 100);
  g_assert_cmpfloat (result_double (answer, "ttft-forecast-ms"), >, 0);
  g_assert_cmpfloat (result_double (answer, "queue-ms"), >, 0);
  g_assert_cmpfloat (result_double (answer, "queue-ms"), <=, result_double (answer, "ttft-ms"));

  /* Who names a time has its class, and is held to it. */
  own = begin_complete (fixture, "A pot of tea", SHORT ", 'ttft-ms': <uint32 1>}");
  WAIT_FOR (own->is_finished);
  g_assert_no_error (own->error);
  g_assert_cmpstr (result_string (own, "slo"), ==, "interactive");
  g_assert_cmpfloat (result_double (own, "ttft-target-ms"), ==, 1);
  g_assert_cmpint (get_statistic (fixture->engine, "slo-interactive-calls"), ==, 6);
  g_assert_cmpint (get_statistic (fixture->engine, "slo-interactive-met") +
                     get_statistic (fixture->engine, "slo-interactive-missed"), ==, 6);
  g_assert_cmpint (get_statistic (fixture->engine, "slo-background-met"), ==, 4);
  g_assert_cmpint (get_statistic (fixture->engine, "slo-responsive-calls"), ==, 0);
  g_assert_cmpint (get_statistic (fixture->engine, "ttft-forecasts"), >, 0);
  g_assert_cmpint (get_statistic (fixture->engine, "queued-calls"), ==, 0);
}

static Answer *
ask_with_share (Fixture    *fixture,
                const char *prompt,
                const char *options)
{
  Answer *answer = begin_complete (fixture, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return answer;
}

/* Targets are fractions of what the model is believed to take. That is learned all the time: only
 * between two equal calls that had the same targets it was the same. */
static void
test_shares (Fixture      *fixture,
             gconstpointer data)
{
  static const char *const targets[] = { "ttft-target-ms", "tpot-target-ms" };
  static const char all[] = SHORT ", 'ttft-share': <1.0>, 'tpot-share': <1.0>}";
  g_autofree char *prompt = make_prompt (200);
  gboolean is_steady = FALSE;

  warm_up (fixture);
  while (!is_steady)
    {
      g_autoptr(Answer) before = ask_with_share (fixture, prompt, all);
      g_autoptr(Answer) half =
        ask_with_share (fixture, prompt, SHORT ", 'ttft-share': <0.5>, 'tpot-share': <0.5>}");
      g_autoptr(Answer) after = ask_with_share (fixture, prompt, all);

      g_assert_cmpfloat (result_double (after, "tpot-target-ms"), >, 0);
      g_assert_cmpfloat (result_double (after, "tpot-target-ms"), <,
                         result_double (after, "ttft-target-ms"));
      is_steady = TRUE;
      for (guint i = 0; i < G_N_ELEMENTS (targets); i++)
        is_steady = is_steady
                    && fabs (result_double (after, targets[i]) / result_double (before, targets[i])
                             - 1) < 0.1;
      for (guint i = 0; i < G_N_ELEMENTS (targets) && is_steady; i++)
        g_assert_cmpfloat (result_double (half, targets[i]), <,
                           0.8 * result_double (after, targets[i]));
    }
}

/* Long calls of all classes at the same time, and others in between: each token of a prompt is read
 * once. */
static void
test_no_work_is_lost (Fixture      *fixture,
                      gconstpointer data)
{
  g_autofree char *prompt = make_prompt (600);
  Answer *answers[N_CALLS];
  guint n_prompt = 0, n_output = 0;

  for (guint i = 0; i < N_CALLS; i++)
    answers[i] = begin_complete (fixture, i % 3 == 0 ? prompt : "Tea", i % 3 == 0 ? BACKGROUND
                                            : i % 3 == 1 ? RESPONSIVE : INTERACTIVE);
  for (guint i = 0; i < N_CALLS; i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      n_prompt += result_uint (answers[i], "prompt-tokens");
      n_output += result_uint (answers[i], "output-tokens");
      answer_free (answers[i]);
    }
  g_assert_cmpint (get_statistic (fixture->engine, "prefill-tokens"), ==, n_prompt);
  g_assert_cmpint (get_statistic (fixture->engine, "generated-tokens"), ==, n_output);
  g_assert_cmpint (get_statistic (fixture->engine, "rows"), ==, n_prompt + n_output - N_CALLS);
}

/* --- texts --- */

static char *
write_texts (Fixture *fixture,
             gboolean at_once)
{
  static const char *const options[] = { INTERACTIVE, RESPONSIVE, BACKGROUND };
  GString *texts = g_string_new (NULL);
  Answer *answers[12];

  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      g_autofree char *prompt = make_prompt (3 + 40 * i);

      answers[i] = begin_complete (fixture, prompt, options[i % G_N_ELEMENTS (options)]);
      if (!at_once)
        WAIT_FOR (answers[i]->is_finished);
    }
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      g_string_append_printf (texts, "%u: %s\n", i, answers[i]->text);
      answer_free (answers[i]);
    }
  return g_string_free (texts, FALSE);
}

static void
test_texts (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *alone = NULL;
  g_autofree char *together = NULL;
  g_autofree char *in_order = NULL;
  LlmSettings *settings = new_settings (fixture->state, 2);

  set_up_with (fixture, new_settings (fixture->state, 2));
  alone = write_texts (fixture, FALSE);
  together = write_texts (fixture, TRUE);
  stop_engine (&fixture->engine);

  g_free (settings->scheduler);
  settings->scheduler = g_strdup ("fifo");
  set_up_with (fixture, settings);
  in_order = write_texts (fixture, TRUE);
  g_assert_cmpstr (together, ==, alone);
  g_assert_cmpstr (in_order, ==, alone);
}

/* --- too many --- */

static guint
count_refused (Fixture    *fixture,
               const char *options)
{
  g_autofree char *prompt = make_prompt (700);
  Answer *answers[N_CALLS];
  guint n_refused = 0;

  for (guint i = 0; i < N_CALLS; i++)
    answers[i] = begin_complete (fixture, prompt, options);
  for (guint i = 0; i < N_CALLS; i++)
    {
      Answer *answer = answers[i];

      WAIT_FOR (answer->is_finished);
      if (answer->error != NULL)
        {
          const char *tail = strrchr (answer->error->message, '[');
          guint64 retry_ms;
          char *end;

          /* as an error of the call: no answer was begun */
          g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED);
          g_assert_null (answer->generation);
          g_assert_nonnull (tail);
          g_assert_true (g_str_has_prefix (tail, "[retry-after-ms="));
          retry_ms = g_ascii_strtoull (tail + strlen ("[retry-after-ms="), &end, 10);
          g_assert_cmpstr (end, ==, "]");
          g_assert_cmpint (retry_ms, >=, 100);
          g_assert_cmpint (retry_ms, <=, 60000);
          n_refused++;
          answer->is_finished = TRUE;
        }
      answer_free (answer);
    }
  return n_refused;
}

static void
test_overloaded (Fixture      *fixture,
                 gconstpointer data)
{
  guint n_refused;

  warm_up (fixture);
  g_assert_cmpuint (count_refused (fixture, BACKGROUND), ==, 0);
  g_assert_cmpint (get_statistic (fixture->engine, "refused"), ==, 0);
  n_refused = count_refused (fixture, SHORT ", 'ttft-ms': <uint32 1>}");
  g_assert_cmpuint (n_refused, >, 0);
  g_assert_cmpuint (n_refused, <, N_CALLS);
  g_assert_cmpint (get_statistic (fixture->engine, "refused"), ==, n_refused);
  g_assert_cmpint (get_statistic (fixture->engine, "slo-interactive-refused"), ==, n_refused);
  g_assert_cmpint (get_statistic (fixture->engine, "slo-interactive-calls"), ==, N_CALLS + 4);

  /* A call that is alone is let in, whatever it asks for. */
  g_free (complete (fixture, "A pot of tea", SHORT ", 'ttft-ms': <uint32 1>}"));
}

static void
test_never_refused (Fixture      *fixture,
                    gconstpointer data)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  settings->overload_factor = 0;
  set_up_with (fixture, settings);
  warm_up (fixture);
  g_assert_cmpuint (count_refused (fixture, SHORT ", 'ttft-ms': <uint32 1>}"), ==, 0);
}

/* --- over restarts --- */

static LlmSettings *
new_cached_settings (Fixture *fixture)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  settings->cache_folder = g_build_filename (fixture->state, "cache", NULL);
  return settings;
}

/* (transfer full) (nullable): the file that says what steps cost. */
static char *
find_costs (Fixture *fixture)
{
  g_autofree char *folder = g_build_filename (fixture->state, "cache", NULL);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_prefix (name, "costs-") && g_str_has_suffix (name, ".ini"))
      return g_build_filename (folder, name, NULL);
  return NULL;
}

/* Whether the first call after a start has a forecast. */
static gboolean
knows_costs (Fixture *fixture)
{
  g_autoptr(Answer) answer = NULL;
  gboolean is_known;

  set_up_with (fixture, new_cached_settings (fixture));
  answer = begin_complete (fixture, "A pot of tea", INTERACTIVE);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  is_known = g_variant_lookup (answer->results, "ttft-forecast-ms", "d", NULL);
  stop_engine (&fixture->engine);
  return is_known;
}

static void
test_costs_are_kept (Fixture      *fixture,
                     gconstpointer data)
{
  static const char *const damages[] = { "", "[for]\n", "\xff\xff\xff", "us=nan;nan\n" };
  g_autofree char *path = NULL;
  g_autofree char *text = NULL;

  g_assert_false (knows_costs (fixture));
  set_up_with (fixture, new_cached_settings (fixture));
  for (guint i = 0; i < 5; i++)
    warm_up (fixture);
  stop_engine (&fixture->engine);
  path = find_costs (fixture);
  g_assert_nonnull (path);
  g_assert_true (knows_costs (fixture));

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (damages); i++)
    {
      g_autofree char *damaged = g_strconcat (damages[i][0] == 'u' ? text : "", damages[i], NULL);

      if (damages[i][0] == 'u')
        memcpy (strstr (damaged, "us="), "us=x", 4);
      g_assert_true (g_file_set_contents (path, damaged, -1, NULL));
      g_assert_false (knows_costs (fixture));
    }
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  g_assert_true (knows_costs (fixture));
}

#define ADD(name, set_up, test) g_test_add (name, Fixture, NULL, set_up, test, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/sched/results", set_up_default, test_results);
  ADD ("/sched/shares", set_up_default, test_shares);
  ADD ("/sched/no-work-is-lost", set_up_default, test_no_work_is_lost);
  ADD ("/sched/texts", set_up_folder, test_texts);
  ADD ("/sched/overloaded", set_up_default, test_overloaded);
  ADD ("/sched/never-refused", set_up_folder, test_never_refused);
  ADD ("/sched/costs-are-kept", set_up_folder, test_costs_are_kept);
  return g_test_run ();
}
