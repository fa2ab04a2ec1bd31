/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Drafts that go on while their tree waits for weights that stream (C7). */

#include "draft-rig.h"

#include "policies/bench-growths.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-source.h"
#include "weights/llm-repacked-cache.h"

typedef struct
{
  LlmCommand base;
  LlmTestSource *source;    /* (unowned) */
} LateStream;

static void
stream_late (LlmCommand *base)
{
  LlmRunner *runner = g_ptr_array_index (base->executor->runners, 0);
  LlmWeights *weights = runner->instance->weights;
  LlmTestSource *source = ((LateStream *) base)->source;
  const LlmStreamConfig config = { .bytes = weights->bytes / 8, .poisons = TRUE };

  g_assert_true (llm_weights_stream (weights, &source->source, &config));
}

/* A decoder that notes what its steps would cost. */
typedef struct
{
  LlmDecoder parent;
  LlmDecoder *plain;         /* (owned) */
  double *read_us;
} Spy;

static void
spy_begin (LlmDecoder   *decoder,
           const gint32 *prompt,
           guint         n_prompt)
{
  LlmDecoder *plain = ((Spy *) decoder)->plain;

  plain->class->begin (plain, prompt, n_prompt);
}

static void
spy_draft (LlmDecoder          *decoder,
           const LlmDraftCosts *costs)
{
  *((Spy *) decoder)->read_us = costs->read_us;
}

static void
spy_propose (LlmDecoder   *decoder,
             LlmDraftTree *tree)
{
  LlmDecoder *plain = ((Spy *) decoder)->plain;

  plain->class->propose (plain, tree);
}

static gint32
spy_consume (LlmDecoder   *decoder,
             const float  *logits,
             GError      **error)
{
  LlmDecoder *plain = ((Spy *) decoder)->plain;

  return plain->class->consume (plain, logits, error);
}

static void
spy_free (LlmDecoder *decoder)
{
  llm_decoder_free (((Spy *) decoder)->plain);
  g_free (decoder);
}

/* @read_us: as the answer's last step had it, when that ended. */
static void
spy (Rig    *rig,
     double *read_us)
{
  static const LlmDecoderClass class = {
    .begin = spy_begin, .draft = spy_draft, .propose = spy_propose, .consume = spy_consume,
    .free = spy_free,
  };
  Spy *self = g_new0 (Spy, 1);
  Outcome found;

  self->parent = (LlmDecoder) { .class = &class, .n_rows = 1 };
  self->plain = rig_new_plain (rig, 0, 0, 0);
  self->read_us = read_us;
  *read_us = -1;
  rig_submit (rig, 0, &self->parent, "Red, green, blue. Red, green, blue. Red,", 20, 0, &found);
  rig_wait_for (rig, &found.is_done);
  outcome_clear (&found);
}

static void
submit (Rig                   *rig,
        LlmDraftModel         *draft,
        guint                  prompt,
        guint                  sampler,
        const LlmGrowthConfig *shape,
        Outcome               *outcome)
{
  draft_rig_submit (rig, prompt, sampler, llm_draft_model_new_source (draft), shape, 0, outcome);
}

/* Weights stream from a disk that answers late and in random order, into buffers that are poisoned
 * after their use. While a tree waits for them its draft goes on behind it, and what is right of
 * that is in the next tree; the texts are those of plain decoding, with that and without, alone and
 * together. */
static void
test_streaming (void)
{
  const LlmGrowthConfig modes[] = {
    LLM_GROWTH_CONFIG_BEST, BENCH_GROWTH_PAPER, { .by_cost = TRUE, .due = 1 },
  };
  LlmGrowthConfig chain = BENCH_GROWTH_CHAIN (1);
  const guint n_modes = G_N_ELEMENTS (modes);
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *cache_folder = g_build_filename (folder, "cache", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models",
                                            "llmsvc-demo-draft-1M-F16.gguf", NULL);
  LlmRepackedCache *cache = llm_repacked_cache_new (cache_folder, FALSE, NULL, 0);
  LlmTestSource *source = llm_test_source_new ();
  Outcome plain[DRAFT_RIG_SAMPLERS][DRAFT_RIG_PROMPTS], found[DRAFT_RIG_PROMPTS];
  guint n_kept[G_N_ELEMENTS (modes)] = { 0 }, n_disturbed = 0;
  LlmDraftModel *draft;
  LateStream *late;
  double read_us;
  Rig rig;

  source->n_late = 7;
  llm_clock_set_for_test (g_get_monotonic_time ());
  rig_init (&rig, 0);
  rig_load_from (&rig, 0, cache);
  llm_repacked_wait_for_all ();
  draft = draft_rig_open (&rig, path, 2);
  draft_rig_set_costs (&rig, TRUE, TRUE);
  for (guint s = 0; s < DRAFT_RIG_SAMPLERS; s += 2)
    for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
      {
        draft_rig_submit (&rig, p, s, NULL, NULL, 0, &plain[s][p]);
        rig_wait_for (&rig, &plain[s][p].is_done);
      }
  spy (&rig, &read_us);
  g_assert_cmpfloat (read_us, ==, 0);

  late = llm_command_new_of (LateStream, rig.executor, stream_late, NULL);
  late->source = source;
  llm_command_send (&late->base);
  llm_executor_keep_weights (rig.executor, 0);
  for (guint s = 0; s < DRAFT_RIG_SAMPLERS; s += 2)
    for (guint m = 0; m < n_modes; m++)
      {
        submit (&rig, draft, 3, s, &modes[m], &found[3]);
        rig_wait_for (&rig, &found[3].is_done);
        outcome_assert_same (&found[3], &plain[s][3]);
        n_kept[m] += found[3].n_kept;
        g_test_message ("sampler %u, mode %u: %u of %u guesses, %u ahead, %u steps", s, m,
                        found[3].n_accepted, found[3].n_drafted, found[3].n_kept,
                        found[3].n_passes);
        outcome_clear (&found[3]);
        for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
          submit (&rig, draft, p, s, &modes[m], &found[p]);
        for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
          {
            rig_wait_for (&rig, &found[p].is_done);
            outcome_assert_same (&found[p], &plain[s][p]);
            n_kept[m] += found[p].n_kept;
            outcome_clear (&found[p]);
          }
      }
  /* preempted while their trees wait for weights, with guesses made behind those */
  submit (&rig, draft, 0, 2, &modes[0], &found[0]);
  draft_rig_disturb (&rig, &n_disturbed);
  rig_wait_for (&rig, &found[0].is_done);
  outcome_assert_same (&found[0], &plain[2][0]);
  outcome_clear (&found[0]);
  g_test_message ("%u times preempted", n_disturbed);
  g_assert_cmpuint (n_disturbed, >, 3);
  for (guint m = 0; m < n_modes; m++)
    if (modes[m].goes_ahead)
      g_assert_cmpuint (n_kept[m], >, DRAFT_RIG_TOKENS);
    else
      g_assert_cmpuint (n_kept[m], ==, 0);
  g_assert_cmpuint (source->n_answered, >, 0);

  /* draft steps that are longer than a step may be held up are taken in pieces */
  draft_rig_set_costs (&rig, TRUE, TRUE);
  llm_clock_set_step_for_test (300);
  chain.goes_ahead = TRUE;
  n_kept[0] = 0;
  for (guint i = 0; i < 2 * DRAFT_RIG_PROMPTS; i++)
    {
      guint p = i % DRAFT_RIG_PROMPTS;

      submit (&rig, draft, p, 2, &chain, &found[p]);
      n_disturbed = 0;
      if (i >= DRAFT_RIG_PROMPTS)
        draft_rig_disturb (&rig, &n_disturbed);
      rig_wait_for (&rig, &found[p].is_done);
      outcome_assert_same (&found[p], &plain[2][p]);
      n_kept[0] += found[p].n_kept;
      g_test_message ("in pieces: %u ahead, %u times preempted", found[p].n_kept, n_disturbed);
      outcome_clear (&found[p]);
    }
  g_assert_cmpuint (n_kept[0], >, 0);
  llm_clock_set_step_for_test (0);

  /* and what reading takes is known from then on */
  llm_clock_set_step_for_test (10);
  spy (&rig, &read_us);
  g_assert_cmpfloat (read_us, >, 10);
  llm_clock_set_step_for_test (0);

  for (guint s = 0; s < DRAFT_RIG_SAMPLERS; s += 2)
    for (guint p = 0; p < DRAFT_RIG_PROMPTS; p++)
      outcome_clear (&plain[s][p]);
  llm_draft_model_unref (draft);
  rig_unload (&rig, 0);
  draft_rig_clear (&rig);
  llm_test_source_free (source);
  llm_repacked_cache_free (cache);
  llm_test_folder_remove (folder);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/draft-streaming/same-text", test_streaming);
  return g_test_run ();
}
