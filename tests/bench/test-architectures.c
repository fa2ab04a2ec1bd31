/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of every architecture, of random weights, in the executor: answers are the same with guesses
 * and without, when chunks come back from storage, and while weights stream. */

#include <string.h>

#include "bench/bench-rig.h"
#include "decoding/draft/llm-lookup-source.h"
#include "runtime/draft-rig.h"
#include "support/llm-test-folder.h"

#define N_ANSWERS 4
#define N_TOKENS 40

static const char *const prompts[] = {
  "the cat and the dog and the cat and the dog and the cat and the",
  "all of this was said before, and all of this was said before that",
};

typedef struct
{
  char *folder;
  char *path;
  LlmRepackedCache *cache;
  Rig rig;
  Outcome alone[N_ANSWERS];
} Fixture;

static void
set_up (Fixture       *self,
        gconstpointer  shape)
{
  g_autofree char *cache = NULL, *chunks = NULL;

  self->folder = llm_test_folder_new ();
  self->path = g_build_filename (self->folder, "model.gguf", NULL);
  cache = g_build_filename (self->folder, "cache", NULL);
  chunks = g_build_filename (self->folder, "chunks", NULL);
  bench_rig_make_gguf (self->path, shape, "Q4_K_M", "0");
  self->cache = llm_repacked_cache_new (cache, FALSE, NULL, 0);
  llm_clock_set_for_test (g_get_monotonic_time ());
  rig_init_with (&self->rig, self->path, 2, chunks);
  rig_load_from (&self->rig, 0, self->cache);
  llm_repacked_wait_for_all ();
  /* answers repeat themselves, and guesses pay */
  self->rig.penalty = 1;
  draft_rig_set_costs (&self->rig, TRUE, TRUE);
}

static void
tear_down (Fixture       *self,
           gconstpointer  shape)
{
  for (guint i = 0; i < N_ANSWERS; i++)
    outcome_clear (&self->alone[i]);
  rig_unload (&self->rig, 0);
  rig_clear (&self->rig);
  llm_clock_set_for_test (-1);
  llm_repacked_cache_free (self->cache);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self->path);
}

static void
submit (Fixture        *self,
        guint           answer,
        LlmDraftSource *source,
        Outcome        *outcome)
{
  LlmDecoder *decoder = rig_new_plain (&self->rig, 0, answer % 2 * 0.8, 3 + answer);

  if (source != NULL)
    decoder = llm_decoder_new_drafting (decoder, source, &draft_rig_shapes[answer], NULL);
  rig_submit (&self->rig, 0, decoder, prompts[answer / 2], N_TOKENS, 0, outcome);
}

/* All at once, with guesses or not. Returns how many guesses there were. */
static guint
check_answers (Fixture  *self,
               gboolean  has_guesses)
{
  Outcome outcomes[N_ANSWERS];
  guint n_drafted = 0;

  for (guint i = 0; i < N_ANSWERS; i++)
    submit (self, i, has_guesses ? llm_lookup_source_new () : NULL, &outcomes[i]);
  for (guint i = 0; i < N_ANSWERS; i++)
    {
      rig_wait_for (&self->rig, &outcomes[i].is_done);
      outcome_assert_same (&outcomes[i], &self->alone[i]);
      n_drafted += outcomes[i].n_drafted;
      outcome_clear (&outcomes[i]);
    }
  return n_drafted;
}

/* A text, and then more of it, in a session whose chunks are on storage alone when it goes on. */
static void
check_session (Fixture *self)
{
  g_autofree char *longer = g_strconcat (prompts[0], " bird, ", prompts[1], NULL);
  LlmExecutorFigures before, after;
  Outcome alone, first, again;

  rig_submit (&self->rig, 0, rig_new_plain (&self->rig, 0, 0, 0), longer, N_TOKENS, 0, &alone);
  rig_wait_for (&self->rig, &alone.is_done);
  self->rig.context = "a";
  rig_submit (&self->rig, 0, rig_new_plain (&self->rig, 0, 0, 0), longer, 1, 7, &first);
  rig_wait_for (&self->rig, &first.is_done);
  llm_executor_get_figures (self->rig.executor, &before);
  rig_evict (&self->rig);
  rig_submit (&self->rig, 0, rig_new_plain (&self->rig, 0, 0, 0), longer, N_TOKENS, 7, &again);
  rig_wait_for (&self->rig, &again.is_done);
  llm_executor_get_figures (self->rig.executor, &after);
  outcome_assert_same (&again, &alone);
  g_assert_cmpuint (after.kv.n_evicted, >, before.kv.n_evicted);
  g_assert_cmpuint (after.kv.n_restored + after.kv.n_recomputed, >,
                    before.kv.n_restored + before.kv.n_recomputed);
  g_test_message ("%ju chunks read, %ju computed again", after.kv.n_restored, after.kv.n_recomputed);
  self->rig.context = NULL;
  outcome_clear (&alone);
  outcome_clear (&first);
  outcome_clear (&again);
}

static void
test_answers (Fixture       *self,
              gconstpointer  shape)
{
  guint64 weights = llm_ledger_get (self->rig.ledger, LLM_HOLDER_WEIGHTS);

  for (guint i = 0; i < N_ANSWERS; i++)
    {
      submit (self, i, NULL, &self->alone[i]);
      rig_wait_for (&self->rig, &self->alone[i].is_done);
    }
  check_answers (self, FALSE);
  g_assert_cmpuint (check_answers (self, TRUE), >, 0);
  check_session (self);
  llm_executor_keep_weights (self->rig.executor, weights / 2);
  check_answers (self, TRUE);
  llm_executor_keep_weights (self->rig.executor, 0);
  check_answers (self, FALSE);
  llm_executor_keep_weights (self->rig.executor, G_MAXUINT64);
}

int
main (int argc, char **argv)
{
  static const char *const shapes[] = {
    "tiny-llama", "tiny-moe", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3moe", "tiny-granite",
    "tiny-exaone4", "tiny-glm4", "tiny-minicpm", "tiny-olmo2", "tiny-qwen2vl", "tiny-qwen3vl",
    "tiny-cohere2", "tiny-gpt-oss", "tiny-gemma3n", "tiny-gemma4", "tiny-deepseek2",
  };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      g_autofree char *name = g_strdup_printf ("/architectures/%s", shapes[i]);

      g_test_add (name, Fixture, shapes[i], set_up, test_answers, tear_down);
    }
  return g_test_run ();
}
