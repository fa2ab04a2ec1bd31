/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers with guesses, of a real model in the executor: the text is that of plain decoding at
 * every temperature, with penalties and stop strings, when they are cancelled, preempted, lose
 * chunks in the middle of a step and run beside others; and where guesses don't pay there are none
 * (C5).
 */

#include "draft-rig.h"

#include <string.h>

#include "decoding/draft/llm-lookup-source.h"

static void
submit (Rig                   *rig,
        guint                  prompt,
        guint                  sampler,
        const LlmGrowthConfig *shape,
        guint64                session,
        Outcome               *outcome)
{
  draft_rig_submit (rig, prompt, sampler, shape != NULL ? llm_lookup_source_new () : NULL, shape,
                    session, outcome);
}

/* @shape: (nullable): NULL for plain decoding. */
static void
answer (Rig                   *rig,
        guint                  prompt,
        guint                  sampler,
        const LlmGrowthConfig *shape,
        guint64                session,
        Outcome               *outcome)
{
  submit (rig, prompt, sampler, shape, session, outcome);
  rig_wait_for (rig, &outcome->is_done);
}

/* And what the session holds afterwards goes on as it would. */
static void
test_same_text (void)
{
  guint n_accepted[DRAFT_RIG_SHAPES] = { 0 };
  guint64 session = 0;
  Rig rig;

  draft_rig_init (&rig, TRUE, TRUE);
  for (guint s = 0; s < DRAFT_RIG_SAMPLERS; s++)
    for (guint p = 0; p < 2; p++)
      {
        Outcome plain, more, found;

        answer (&rig, p, s, NULL, ++session, &plain);
        answer (&rig, 3, s, NULL, session, &more);
        g_assert_cmpuint (plain.n_drafted, ==, 0);
        for (guint i = 0; i < DRAFT_RIG_SHAPES; i++)
          {
            answer (&rig, p, s, &draft_rig_shapes[i], ++session, &found);
            outcome_assert_same (&found, &plain);
            g_assert_cmpuint (1 + found.n_passes + found.n_accepted, ==, DRAFT_RIG_TOKENS);
            n_accepted[i] += found.n_accepted;
            g_test_message ("sampler %u, prompt %u, shape %u: %u of %u guesses, %u steps", s, p, i,
                            found.n_accepted, found.n_drafted, found.n_passes);
            outcome_clear (&found);
            answer (&rig, 3, s, &draft_rig_shapes[i], session, &found);
            outcome_assert_same (&found, &more);
            outcome_clear (&found);
          }
        outcome_clear (&plain);
        outcome_clear (&more);
      }
  for (guint i = 0; i < DRAFT_RIG_SHAPES; i++)
    g_assert_cmpuint (n_accepted[i], >, DRAFT_RIG_TOKENS);
  draft_rig_clear (&rig);
}

/* The end may be among guesses that were right. */
static void
test_stop (void)
{
  const char *const stops[] = { "e", "re", "\"", ". " };
  guint n_accepted = 0, n_stopped = 0;
  Rig rig;

  draft_rig_init (&rig, TRUE, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (stops); i++)
    for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
      {
        Outcome plain, found;

        rig.stop = stops[i];
        answer (&rig, p, p % 2 == 0 ? 0 : 2, NULL, 0, &plain);
        answer (&rig, p, p % 2 == 0 ? 0 : 2, &draft_rig_shapes[i % 2 == 0 ? 0 : 3], 0, &found);
        outcome_assert_same (&found, &plain);
        n_stopped += found.finish == LLM_FINISH_STOP_STRING;
        n_accepted += found.n_accepted;
        outcome_clear (&plain);
        outcome_clear (&found);
      }
  g_assert_cmpuint (n_stopped, >, DRAFT_RIG_PROMPTS);
  g_assert_cmpuint (n_accepted, >, 0);
  draft_rig_clear (&rig);
}

/* --- what happens meanwhile --- */

static void
cancel (LlmRequest *request)
{
  /* the executor's thread writes the text meanwhile */
  if (__atomic_load_n (&request->result.text->len, __ATOMIC_RELAXED) > 100)
    __atomic_store_n (&request->progress.stop_request, LLM_FINISH_CANCELLED, __ATOMIC_RELEASE);
}

static void
test_cancel (void)
{
  Outcome plain, found, after;
  Rig rig;

  draft_rig_init (&rig, TRUE, TRUE);
  answer (&rig, 0, 0, NULL, 1, &plain);
  rig.on_text = cancel;
  answer (&rig, 0, 0, &draft_rig_shapes[0], 2, &found);
  rig.on_text = NULL;
  g_assert_true (g_str_has_prefix (plain.text, found.text));
  g_assert_cmpuint (strlen (found.text), >, 100);
  /* the session has nothing of what was guessed */
  answer (&rig, 0, 0, &draft_rig_shapes[0], 2, &after);
  outcome_assert_same (&after, &plain);
  outcome_clear (&plain);
  outcome_clear (&found);
  outcome_clear (&after);
  draft_rig_clear (&rig);
}

/* Four contexts, plainly one after the other, then together; undisturbed, and not. */
static void
test_together (void)
{
  for (guint s = 0; s < DRAFT_RIG_SAMPLERS; s += 2)
    for (guint is_disturbed = 0; is_disturbed < 2; is_disturbed++)
      {
        Outcome plain[DRAFT_RIG_PROMPTS], found[DRAFT_RIG_PROMPTS];
        guint n_accepted = 0, n_disturbed = 0;
        Rig rig;

        draft_rig_init (&rig, TRUE, TRUE);
        /* stages take their time, so that a step has many turns */
        llm_clock_set_step_for_test (is_disturbed ? 1000 : 0);
        for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
          answer (&rig, p, s, NULL, 1 + p, &plain[p]);
        for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
          submit (&rig, p, s, &draft_rig_shapes[p % 2 == 0 ? 0 : 3], 11 + p, &found[p]);
        if (is_disturbed)
          draft_rig_disturb (&rig, &n_disturbed);
        for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
          {
            rig_wait_for (&rig, &found[p].is_done);
            outcome_assert_same (&found[p], &plain[p]);
            n_accepted += found[p].n_accepted;
          }
        llm_clock_set_step_for_test (0);
        for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
          {
            outcome_clear (&plain[p]);
            outcome_clear (&found[p]);
          }
        draft_rig_clear (&rig);
        g_test_message ("sampler %u: %u guesses accepted, %u disturbances", s, n_accepted,
                        n_disturbed);
        g_assert_cmpuint (n_accepted, >, 0);
        if (is_disturbed)
          g_assert_cmpuint (n_disturbed, >, 5);
      }
}

/* --- whether it pays --- */

static void
test_pays (void)
{
  Outcome found;
  Rig rig;

  draft_rig_init (&rig, TRUE, TRUE);
  answer (&rig, 0, 0, &draft_rig_shapes[0], 0, &found);
  g_assert_cmpuint (found.n_accepted, >, DRAFT_RIG_TOKENS / 3);
  outcome_clear (&found);
  draft_rig_clear (&rig);

  /* as much for each row: not one guess */
  draft_rig_init (&rig, FALSE, TRUE);
  answer (&rig, 0, 0, &draft_rig_shapes[0], 0, &found);
  g_assert_cmpuint (found.n_drafted, ==, 0);
  g_assert_cmpuint (found.n_passes, ==, DRAFT_RIG_TOKENS - 1);
  outcome_clear (&found);
  draft_rig_clear (&rig);

  /* what rows cost is not known: with a clock at rest it stays so */
  draft_rig_init (&rig, TRUE, FALSE);
  answer (&rig, 0, 0, &draft_rig_shapes[0], 0, &found);
  g_assert_cmpuint (found.n_drafted, ==, 0);
  outcome_clear (&found);
  draft_rig_clear (&rig);

  /* with one that goes on, by twice as many rows each time */
  draft_rig_init (&rig, TRUE, FALSE);
  llm_clock_set_step_for_test (1000);
  answer (&rig, 0, 0, &draft_rig_shapes[0], 0, &found);
  g_assert_cmpuint (found.n_accepted, >, DRAFT_RIG_TOKENS / 6);
  outcome_clear (&found);
  llm_clock_set_step_for_test (0);
  draft_rig_clear (&rig);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/drafts/same-text", test_same_text);
  g_test_add_func ("/drafts/stop", test_stop);
  g_test_add_func ("/drafts/cancel", test_cancel);
  g_test_add_func ("/drafts/together", test_together);
  g_test_add_func ("/drafts/pays", test_pays);
  return g_test_run ();
}
