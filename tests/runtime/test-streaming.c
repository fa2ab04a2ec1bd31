/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers of weights that stream. */

#include "executor-rig.h"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "support/llm-test-folder.h"
#include "weights/llm-repacked-cache.h"

#define N_PROMPTS 20

static const char *const prompts[] = {
  "Find me a comedy movie.",
  "I want a restaurant in San Jose.",
};

typedef struct
{
  LlmStreamFigures figures;
  guint n_steps;
  guint is_done;           /* atomic */
} Look;

typedef struct
{
  LlmCommand base;
  Look *found;             /* (unowned) */
} Question;

static void
look (LlmCommand *base)
{
  Look *found = ((Question *) base)->found;
  LlmRunner *runner = g_ptr_array_index (base->executor->runners, 0);

  llm_runner_keep_weights (runner);
  llm_weights_get_stream_figures (runner->instance->weights, &found->figures);
  found->n_steps = (guint) base->executor->news.board.figures.n_steps;
  g_atomic_int_set (&found->is_done, TRUE);
}

static void
look_at_stream (Rig  *rig,
                Look *found)
{
  Question *question = llm_command_new_of (Question, rig->executor, look, NULL);

  *found = (Look) { 0 };
  question->found = found;
  llm_command_send (&question->base);
  while (!g_atomic_int_get (&found->is_done))
    g_usleep (1000);
}

/* Answers and prompts of several calls, while weights stream, stay, and stream again: the texts
 * that each has alone. */
static void
test_streaming (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *cache_folder = g_build_filename (folder, "cache", NULL);
  LlmRepackedCache *cache = llm_repacked_cache_new (cache_folder, FALSE, NULL, 0);
  const guint lengths[] = { 40, 25, 10, 33 };
  Outcome alone[4], together[4];
  guint64 weights;
  Look before, after;
  Rig rig;

  rig_init (&rig, 0);
  rig_load_from (&rig, 0, cache);
  llm_repacked_wait_for_all ();
  weights = llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS);
  for (guint i = 0; i < 4; i++)
    {
      rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0.8, 7 + i), prompts[i % 2], lengths[i], 0,
                  &alone[i]);
      rig_wait_for (&rig, &alone[i].is_done);
    }
  for (guint round = 0; round < 3; round++)
    {
      gboolean streams = round != 1;

      llm_executor_keep_weights (rig.executor, streams ? round * weights / 4 : G_MAXUINT64);
      look_at_stream (&rig, &before);
      for (guint i = 0; i < 4; i++)
        {
          rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0.8, 7 + i), prompts[i % 2], lengths[i], 0,
                  &together[i]);
          /* the others come while this one is answered */
          while (g_str_equal (rig.order->str, "") && i == 0)
            llm_mailbox_dispatch (rig.box, -1);
        }
      for (guint i = 0; i < 4; i++)
        rig_wait_for (&rig, &together[i].is_done);
      look_at_stream (&rig, &after);
      for (guint i = 0; i < 4; i++)
        {
          g_assert_cmpstr (together[i].text, ==, alone[i].text);
          outcome_clear (&together[i]);
        }
      g_test_message ("%u steps, %ju bytes read, of %ju of weights", after.n_steps - before.n_steps,
                      after.figures.read_bytes - before.figures.read_bytes, weights);
      g_assert_cmpuint (after.figures.read_bytes > before.figures.read_bytes, ==, streams);
      g_assert_cmpuint (after.figures.n_mapped, ==, before.figures.n_mapped);
      g_assert_cmpuint (llm_ledger_get (rig.ledger, LLM_HOLDER_WEIGHTS), ==,
                        weights + after.figures.ring_bytes);
      g_assert_cmpuint (after.figures.ring_bytes > 0, ==, streams);
    }
  for (guint i = 0; i < 4; i++)
    outcome_clear (&alone[i]);
  rig_unload (&rig, 0);
  rig_clear (&rig);
  llm_repacked_cache_free (cache);
  llm_test_folder_remove (folder);
}

/* While one answer is given, prompts come one after the other: their rows go through the passes of
 * the answer's tokens, and weights are read about as often as there are tokens. */
static void
test_shared_passes (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *cache_folder = g_build_filename (folder, "cache", NULL);
  LlmRepackedCache *cache = llm_repacked_cache_new (cache_folder, FALSE, NULL, 0);
  Outcome answer, others[N_PROMPTS];
  guint64 read = 0, alone = 0;
  Look before, after;
  Rig rig;

  rig_init (&rig, 0);
  rig_load_from (&rig, 0, cache);
  llm_repacked_wait_for_all ();
  llm_executor_keep_weights (rig.executor, 0);
  for (guint turn = 0; turn < 2; turn++)
    {
      look_at_stream (&rig, &before);
      g_string_truncate (rig.order, 0);
      rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0, 1), prompts[0], 3 * N_PROMPTS + 5, 0,
                  &answer);
      for (guint i = 0; turn == 1 && i < N_PROMPTS; i++)
        {
          while (!answer.is_done && rig.order->len < 3 * i + 1)
            llm_mailbox_dispatch (rig.box, -1);
          rig_submit (&rig, 0, rig_new_plain (&rig, 0, 0, 1), prompts[1], 1, 0, &others[i]);
          rig_wait_for (&rig, &others[i].is_done);
          outcome_clear (&others[i]);
        }
      rig_wait_for (&rig, &answer.is_done);
      outcome_clear (&answer);
      look_at_stream (&rig, &after);
      read = after.figures.read_bytes - before.figures.read_bytes;
      if (turn == 0)
        alone = read;
      g_test_message ("%u steps, %ju bytes read", after.n_steps - before.n_steps, read);
    }
  g_assert_cmpuint (read, <, alone + alone / 6);
  rig_unload (&rig, 0);
  rig_clear (&rig);
  llm_repacked_cache_free (cache);
  llm_test_folder_remove (folder);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/streaming/texts", test_streaming);
  g_test_add_func ("/streaming/shared-passes", test_shared_passes);
  return g_test_run ();
}
