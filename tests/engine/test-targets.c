/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that name how soon they want their answer get the best sub-model that is in time (E1, E7). */

#include "elastic-rig.h"

#include <math.h>
#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "model/llm-companion.h"

#define PROMPT "I want to find an Italian restaurant in San Jose."

static const guint percent[ELASTIC_N_LEVELS] = { 40, 70, 100 };

/* Calls of the background, for which nothing else waits, teach nothing of what steps cost: what is
 * expected of the levels is what the companion says. */
#define QUIET "'temperature': <0.0>, 'max-tokens': <uint32 8>, 'slo': <'background'>"

/* (transfer full) */
static LlmCompanion *
read_companion (const Elastic *self)
{
  g_autofree char *path = g_build_filename (self->models, ELASTIC_MODEL, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (path, &error);
  LlmCompanion *companion;

  g_assert_no_error (error);
  companion = llm_companion_open (model, &error);
  g_assert_no_error (error);
  return companion;
}

/* (transfer full): @options are those of a dictionary, without its braces. */
static Answer *
complete_with (Elastic    *self,
               const char *options)
{
  g_autofree char *dict = g_strdup_printf ("{%s}", options);
  Answer *answer = begin_complete (&self->fixture, PROMPT, dict);

  WAIT_FOR (answer->is_finished || answer->error != NULL);
  return answer;
}

static void
check_level (Elastic    *self,
             guint       wanted,
             const char *options)
{
  g_autoptr(Answer) answer = complete_with (self, options);

  g_assert_no_error (answer->error);
  g_test_message ("%s", options);
  g_assert_cmpuint (result_uint (answer, "sub-model"), ==, wanted);
}

static void
check_part (Elastic    *self,
            guint       wanted,
            const char *key,
            double      part)
{
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_autofree char *options =
    g_strdup_printf (QUIET ", '%s': <%s>", key, g_ascii_dtostr (number, sizeof number, part));

  check_level (self, wanted, options);
}

static void
test_parts (Elastic       *self,
            gconstpointer  data)
{
  g_autoptr(LlmCompanion) companion = read_companion (self);
  const LlmSubModelCost *costs = companion->costs;
  double read[ELASTIC_N_LEVELS], written[ELASTIC_N_LEVELS];

  for (guint level = 0; level < ELASTIC_N_LEVELS; level++)
    {
      read[level] = (double) costs[level].operations / (double) costs[ELASTIC_N_LEVELS - 1].operations;
      written[level] = (double) costs[level].bytes / (double) costs[ELASTIC_N_LEVELS - 1].bytes;
    }
  for (guint level = 0; level + 1 < ELASTIC_N_LEVELS; level++)
    {
      check_part (self, percent[level], "ttft-share", (read[level] + read[level + 1]) / 2);
      check_part (self, percent[level], "tpot-share", (written[level] + written[level + 1]) / 2);
      check_part (self, percent[level], "call-share",
                  (MAX (read[level], written[level]) + MIN (read[level + 1], written[level + 1])) / 2);
      /* no allowance */
      check_part (self, percent[level], "ttft-share", read[level + 1] * 0.999);
      check_part (self, percent[level], "tpot-share", written[level + 1] * 0.999);
    }
  check_part (self, 100, "ttft-share", 1);
  check_part (self, 100, "tpot-share", 1);
  check_part (self, 100, "call-share", 1);
  /* the nearest that there is */
  check_part (self, 40, "ttft-share", 0.01);
  check_part (self, 40, "call-share", 0.01);
}

/* No call gets less unasked, and none less than it allows. */
static void
test_least (Elastic       *self,
            gconstpointer  data)
{
#define TIGHT ", 'ttft-share': <0.01>, 'tpot-share': <0.01>"
#define TOOLS "[{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]"
#define SHORT "'temperature': <0.0>, 'max-tokens': <uint32 8>"
  check_level (self, 100, QUIET);
  check_level (self, 100, QUIET ", 'least-sub-model': <uint32 20>");
  check_level (self, 40, QUIET TIGHT);
  check_level (self, 40, QUIET TIGHT ", 'least-sub-model': <uint32 20>");
  check_level (self, 70, QUIET TIGHT ", 'least-sub-model': <uint32 41>");
  check_level (self, 100, QUIET TIGHT ", 'least-sub-model': <uint32 71>");
  check_level (self, 100, QUIET TIGHT ", 'regex': <'[ab]+'>");
  check_level (self, 100, QUIET TIGHT ", 'response-format': <'json'>");
  check_level (self, 40, QUIET TIGHT ", 'regex': <'[ab]+'>, 'least-sub-model': <uint32 40>");
  check_level (self, 70, SHORT TIGHT);
  check_level (self, 40, SHORT TIGHT ", 'least-sub-model': <uint32 40>");
  check_level (self, 40, SHORT TIGHT ", 'slo': <'interactive'>");
  check_level (self, 100, SHORT TIGHT ", 'slo': <'interactive'>, 'tools': <'" TOOLS "'>");
  check_level (self, 40, SHORT TIGHT ", 'slo': <'interactive'>, 'least-sub-model': <uint32 40>");
  /* as good as it was measured */
  check_level (self, 40, QUIET TIGHT ", 'least-quality': <uint32 96>");
  check_level (self, 70, QUIET TIGHT ", 'least-quality': <uint32 97>");
  check_level (self, 70, QUIET TIGHT ", 'least-quality': <uint32 99>, 'least-sub-model': <uint32 20>");
  check_level (self, 70, QUIET TIGHT ", 'least-quality': <uint32 20>, 'least-sub-model': <uint32 41>");
  check_level (self, 100, QUIET TIGHT ", 'least-quality': <uint32 100>");
  check_level (self, 40, QUIET TIGHT ", 'regex': <'[ab]+'>, 'least-quality': <uint32 90>");
  check_level (self, 100, QUIET ", 'least-quality': <uint32 0>");
  /* a named sub-model is not replaced */
  check_level (self, 70, QUIET TIGHT ", 'sub-model': <uint32 70>");
  check_level (self, 70, QUIET TIGHT ", 'sub-model': <uint32 70>, 'least-sub-model': <uint32 40>");
}

/* Milliseconds count once it is known what steps cost. The prompt takes more than one of them, and
 * less than a minute. */
static void
test_milliseconds (Elastic       *self,
                   gconstpointer  data)
{
  g_autofree char *prompt = g_strnfill (1200, 'c');
  static const struct
  {
    const char *options;
    guint wanted;
  } cases[] = {
    { QUIET ", 'ttft-ms': <uint32 60000>, 'tpot-ms': <uint32 60000>", 100 },
    { QUIET ", 'ttft-ms': <uint32 1>", 40 },
    { QUIET ", 'ttft-ms': <uint32 1>, 'least-sub-model': <uint32 70>", 70 },
    { QUIET ", 'ttft-ms': <uint32 1>, 'ttft-share': <1.0>", 100 },
  };

  for (gsize i = 3; i < strlen (prompt); i += 4)
    prompt[i] = ' ';
  for (guint i = 0; i < 4; i++)
    check_level (self, 100, SHORT);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *dict = g_strdup_printf ("{%s}", cases[i].options);
      g_autoptr(Answer) answer = begin_complete (&self->fixture, prompt, dict);
      double whole_ms = 0, target_ms = 0;

      WAIT_FOR (answer->is_finished || answer->error != NULL);
      g_assert_no_error (answer->error);
      g_assert_cmpuint (result_uint (answer, "sub-model"), ==, cases[i].wanted);
      if (strstr (cases[i].options, "share") == NULL)
        continue;
      /* what a part is of is told, and there is no allowance */
      g_assert_true (g_variant_lookup (answer->results, "whole-ttft-ms", "d", &whole_ms));
      g_assert_true (g_variant_lookup (answer->results, "ttft-target-ms", "d", &target_ms));
      g_assert_cmpfloat (whole_ms, >, 1);
      g_assert_cmpfloat (target_ms, ==, whole_ms);
    }
}

/* A part is of the whole prompt, also where most of it is there already. */
static void
test_whole_prompt (Elastic       *self,
                   gconstpointer  data)
{
  g_autofree char *prompt = g_strnfill (1200, 'c');
  g_autoptr(LlmContext) context = create (&self->fixture, "{}");
  double whole_ms[2] = { 0 };

  for (gsize i = 3; i < strlen (prompt); i += 4)
    prompt[i] = ' ';
  for (guint i = 0; i < 4; i++)
    check_level (self, 100, SHORT);
  for (guint turn = 0; turn < 2; turn++)
    {
      g_autoptr(Answer) answer = begin_ask (&self->fixture, context, turn == 0 ? prompt : "And?",
                                            "{" QUIET ", 'ttft-share': <1.0>}");

      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      g_assert_true (g_variant_lookup (answer->results, "whole-ttft-ms", "d", &whole_ms[turn]));
    }
  g_assert_cmpfloat (whole_ms[1], >, 0.3 * whole_ms[0]);
}

/* A call that waits so long before its first row that what was chosen would be late is computed by
 * less of the model (E7). The clock is stopped, and nothing is learned meanwhile. */
static void
test_replaced (Elastic       *self,
               gconstpointer  data)
{
  g_autoptr(LlmCompanion) companion = read_companion (self);
  double ratio = (double) companion->costs[1].operations
                 / (double) companion->costs[ELASTIC_N_LEVELS - 1].operations;
  g_autofree char *prompt = g_strnfill (1200, 'c');
  g_autofree char *options = NULL;
  g_autoptr(Answer) probe = NULL;
  double whole_ms = 0;
  guint target_ms;

  for (gsize i = 3; i < strlen (prompt); i += 4)
    prompt[i] = ' ';
  for (guint i = 0; i < 4; i++)
    check_level (self, 100, SHORT);
  probe = begin_complete (&self->fixture, prompt, "{" QUIET ", 'ttft-share': <1.0>}");
  WAIT_FOR (probe->is_finished);
  g_assert_true (g_variant_lookup (probe->results, "whole-ttft-ms", "d", &whole_ms));
  target_ms = (guint) ceil (4 * whole_ms);
  options = g_strdup_printf ("{" QUIET ", 'ttft-ms': <uint32 %u>}", target_ms);

  for (guint waits = 0; waits < 2; waits++)
    {
      gint64 now_us = g_get_monotonic_time ();
      double left_ms = (ratio + 1) / 2 * whole_ms;
      g_autoptr(Answer) answer = NULL;

      llm_clock_set_for_test (now_us);
      llm_engine_set_power (self->fixture.engine, TRUE, FALSE);
      answer = begin_complete (&self->fixture, prompt, options);
      WAIT_FOR (answer->generation != NULL || answer->error != NULL);
      g_assert_no_error (answer->error);
      if (waits)
        llm_clock_set_for_test (now_us + (gint64) ((target_ms - left_ms) * 1000));
      llm_engine_set_power (self->fixture.engine, FALSE, FALSE);
      WAIT_FOR (answer->is_finished);
      llm_clock_set_for_test (-1);
      g_assert_cmpuint (result_uint (answer, "sub-model"), ==, waits ? 70 : 100);
    }
}

static void
test_contradiction (Elastic       *self,
                    gconstpointer  data)
{
  static const struct
  {
    const char *options, *part;
  } cases[] = {
    { QUIET ", 'sub-model': <uint32 40>, 'least-sub-model': <uint32 70>", "least-sub-model 70" },
    { QUIET ", 'sub-model': <uint32 40>, 'least-quality': <uint32 70>", "leave sub-model out" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(Answer) answer = complete_with (self, cases[i].options);

      g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
      g_assert_nonnull (strstr (answer->error->message, cases[i].part));
    }
}

/* Without sub-models a target is a target and nothing fails. */
static void
test_parts_without (Elastic       *self,
                    gconstpointer  data)
{
  check_level (self, 100, QUIET TIGHT ", 'call-share': <0.5>, 'least-sub-model': <uint32 20>");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(name, data, func) \
  g_test_add ("/targets/" name, Elastic, data, set_up_elastic, func, tear_down_elastic)
  ADD ("parts", NULL, test_parts);
  ADD ("least", NULL, test_least);
  ADD ("milliseconds", NULL, test_milliseconds);
  ADD ("whole-prompt", NULL, test_whole_prompt);
  ADD ("replaced", NULL, test_replaced);
  ADD ("contradiction", NULL, test_contradiction);
  ADD ("parts-without", "none", test_parts_without);

  return g_test_run ();
}
