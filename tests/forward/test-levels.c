/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sub-models: rows of several levels in one step, against a model that has only their heads and
 * channels; what they cost; what density counts of them. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "fake-device.h"
#include "forward-rig.h"
#include "naive-model.h"
#include "split-weights.h"
#include "support/llm-test-gguf.h"

#define N_TOKENS 30

/* Nine levels of four groups of heads: some add none. */
static ExecRig *
new_rig (LlkType      type,
         guint        n_threads,
         guint        n_levels,
         LlmBackend  *device,
         SplitCounts *counts)
{
  const ExecRigConfig config = { .n_threads = n_threads, .device = device };
  const SplitConfig split = { n_levels, FALSE, FALSE };
  const LlmTestModel shape = {
    .type = type, .n_layers = 3, .n_embd = 128, .n_heads = 8, .n_kv_heads = 4, .n_ff = 288,
    .seed = 7,
  };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  ExecRig *rig = exec_rig_new (model, &config);

  exec_rig_set_weights (rig, split_weights_new (rig->weights, &rig->hparams, &split, counts),
                        &config);
  return rig;
}

static gint32
get_token (guint i)
{
  return (gint32) (i * 101 % 384);
}

/* (transfer full): logits of a sequence of one level alone, a row at a time. @seq: (nullable). */
static float *
run_alone (ExecRig  *rig,
           LlmKvSeq *given,
           guint     level)
{
  g_autoptr (LlmKvSeq) own = given == NULL ? llm_kv_seq_new (rig->store, NULL, NULL) : NULL;
  LlmKvSeq *seq = given != NULL ? given : own;
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, N_TOKENS * n_vocab);

  for (guint i = 0; i < N_TOKENS; i++)
    {
      LlmRow row = exec_rig_row (get_token (i), 0, i);

      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      row.sub_model = rig->weights->sub_models->percent[level];
      exec_rig_step (rig, &row, 1, &seq, 1);
      memcpy (logits + i * n_vocab, llm_forward_get_logits (rig->forward, 0),
              n_vocab * sizeof (float));
    }
  return logits;
}

/* (transfer full): logits in double of a model that has no other heads and channels.
 * @received: (nullable). @tolerance: (out) (nullable): of what the rig finds. */
static double *
run_naive (ExecRig *rig,
           guint    level,
           double  *received,
           double  *tolerance)
{
  g_autoptr (NaiveModel) naive = naive_model_new (rig->gguf, &rig->hparams);
  double *logits = g_new (double, (gsize) N_TOKENS * rig->hparams.n_vocab);
  gint32 tokens[N_TOKENS];
  guint positions[N_TOKENS];
  const NaiveRun run = {
    tokens, positions, N_TOKENS, naive_sees_causal, NULL, rig->weights->sub_models, level,
  };

  for (guint i = 0; i < N_TOKENS; i++)
    {
      tokens[i] = get_token (i);
      positions[i] = i;
    }
  naive_model_run (naive, &run, logits, received);
  if (tolerance != NULL)
    *tolerance = naive_model_get_tolerance (naive, &run, rig->plan->config.kernels, logits);
  return logits;
}

/* On the exact path; each level is another model. */
static void
test_naive (void)
{
  static const LlkType types[] = { LLK_F32, LLK_Q8_0 };

  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      SplitCounts counts = { 0 };
      g_autoptr (ExecRig) rig = new_rig (types[t], 2, 9, NULL, &counts);
      gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
      g_autofree float *before = NULL;

      for (guint level = 0; level < 9; level++)
        {
          g_autofree float *found = run_alone (rig, NULL, level);
          double tolerance;
          g_autofree double *expected = run_naive (rig, level, NULL, &tolerance);
          guint n_other = 0;

          for (gsize i = 0; i < n; i++)
            {
              g_assert_cmpfloat_with_epsilon (found[i], expected[i], tolerance);
              n_other += before != NULL && fabsf (found[i] - before[i]) > 0.01f;
            }
          if (before != NULL)
            g_assert_cmpuint (n_other, >, n / 4);
          g_free (before);
          before = g_steal_pointer (&found);
        }
    }
}

/* Rows of all levels in one step, in any order: the bits that each has alone. */
static void
test_mixed (void)
{
  static const LlkType types[] = { LLK_F32, LLK_BF16, LLK_Q8_0, LLK_Q4_0 };

  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      SplitCounts counts = { 0 };
      g_autoptr (ExecRig) rig = new_rig (types[t], 1 + t % 3, 9, NULL, &counts);
      const LlmSubModels *table = rig->weights->sub_models;
      gsize n_vocab = rig->hparams.n_vocab;
      float *expected[9];
      LlmKvSeq *sequences[9];

      for (guint level = 0; level < 9; level++)
        {
          expected[level] = run_alone (rig, NULL, level);
          sequences[level] = llm_kv_seq_new (rig->store, NULL, NULL);
        }
      for (guint first = 0; first < N_TOKENS; first += 5)
        {
          LlmRow rows[45];

          for (guint s = 0; s < 9; s++)
            g_assert_true (llm_kv_seq_append (sequences[s], 5, NULL));
          for (guint i = 0; i < 45; i++)
            {
              guint level = i * 2 % 9;

              rows[i] = exec_rig_row (get_token (first + i / 9), level, first + i / 9);
              rows[i].sub_model = table->percent[level];
            }
          exec_rig_step (rig, rows, 45, sequences, 9);
          for (guint i = 0; i < 45; i++)
            g_assert_cmpmem (llm_forward_get_logits (rig->forward, i), n_vocab * sizeof (float),
                             expected[i * 2 % 9] + (first + i / 9) * n_vocab,
                             n_vocab * sizeof (float));
        }
      for (guint level = 0; level < 9; level++)
        {
          llm_kv_seq_free (sequences[level]);
          g_free (expected[level]);
        }
      g_assert_cmpuint (counts.n_held, ==, 0);
    }
}

/* Levels change from row to row of one sequence: K and V are good for all. */
static void
test_changing (void)
{
  SplitCounts counts = { 0 };
  g_autoptr (ExecRig) rig = new_rig (LLK_Q8_0, 2, 9, NULL, &counts);
  const LlmSubModels *table = rig->weights->sub_models;
  g_autoptr (LlmKvSeq) together = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (LlmKvSeq) single = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize bytes = rig->hparams.n_vocab * sizeof (float);
  LlmRow rows[N_TOKENS];
  g_autofree char *expected = g_malloc (N_TOKENS * bytes);

  llm_forward_set_density (rig->forward, TRUE);
  g_assert_true (llm_kv_seq_append (together, N_TOKENS, NULL));
  for (guint i = 0; i < N_TOKENS; i++)
    {
      rows[i] = exec_rig_row (get_token (i), 0, i);
      rows[i].sub_model = table->percent[i * 5 % 9];
      g_assert_true (llm_kv_seq_append (single, 1, NULL));
      exec_rig_step (rig, &rows[i], 1, &single, 1);
      memcpy (expected + i * bytes, llm_forward_get_logits (rig->forward, 0), bytes);
    }
  exec_rig_step (rig, rows, N_TOKENS, &together, 1);
  for (guint i = 0; i < N_TOKENS; i++)
    g_assert_cmpmem (llm_forward_get_logits (rig->forward, i), bytes, expected + i * bytes, bytes);
  for (guint i = 0; i < together->holds->len; i++)
    g_assert_cmpfloat_with_epsilon (llm_kv_seq_get_density (together, i),
                                    llm_kv_seq_get_density (single, i), 1e-5);
}

/* What a step of one row hands to a backend: no other heads and channels than the level's. */
static void
test_work (void)
{
  const FakeConfig config = { .n_polls = 1 };
  FakeCounts work = { 0 };
  SplitCounts counts = { 0 };
  g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &config, &work);
  g_autoptr (ExecRig) rig = new_rig (LLK_Q8_0, 1, 9, device, &counts);
  const LlmHparams *h = &rig->hparams;
  const LlmSubModels *table = rig->weights->sub_models;
  guint64 n_before = 0;

  for (guint level = 0; level < 9; level++)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      LlmRow row = exec_rig_row (1, 0, 0);
      guint64 n_products = (guint64) h->n_embd * h->n_vocab, n_queries = 0;

      work = (FakeCounts) { 0 };
      row.sub_model = table->percent[level];
      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      exec_rig_step (rig, &row, 1, &seq, 1);
      for (guint layer = 0; layer < h->n_layers; layer++)
        {
          guint n_heads = llm_sub_models_get_groups (table, layer, level)
                          * (h->n_heads / h->n_kv_heads);

          n_queries += n_heads;
          n_products += (guint64) h->n_embd
                        * (2 * n_heads * h->head_dim + 2 * h->n_kv_heads * h->head_dim
                           + 3 * llm_sub_models_get_channels (table, layer, level));
        }
      g_assert_cmpuint (work.n_products, ==, n_products);
      g_assert_cmpuint (work.n_queries, ==, n_queries);
      g_assert_cmpuint (n_products, >, n_before);
      n_before = n_products;
    }
}

/* A row gives out 1, over the heads that it has. */
static void
test_density (void)
{
  SplitCounts counts = { 0 };
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 2, 9, NULL, &counts);
  double first[2];

  llm_forward_set_density (rig->forward, TRUE);
  for (guint level = 0; level < 9; level += 4)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      double received[N_TOKENS], total = 0;
      g_autofree double *expected_logits = run_naive (rig, level, received, NULL);
      g_autofree float *logits = run_alone (rig, seq, level);

      for (guint chunk = 0; chunk < seq->holds->len; chunk++)
        {
          double expected = 0, n_rows = 0;
          float density = llm_kv_seq_get_density (seq, chunk);

          for (guint i = chunk * 16; i < MIN (chunk * 16 + 16, N_TOKENS); i++)
            {
              expected += received[i];
              n_rows += (N_TOKENS - i) / 16.0;
            }
          g_assert_cmpfloat_with_epsilon (density, expected / n_rows, 1e-4);
          total += density * n_rows;
          if (chunk == 0 && level % 8 == 0)
            first[level / 8] = density;
        }
      g_assert_cmpfloat_with_epsilon (total, N_TOKENS, 1e-3);
    }
  /* other heads look elsewhere */
  g_assert_cmpfloat (fabs (first[0] - first[1]), >, 1e-4);
}

/* --- what a provider may not give --- */

static LlmStatus (*inner_acquire) (LlmWeights          *self,
                                   LlmOperator          op,
                                   guint                layer,
                                   guint                segment,
                                   const LlmActivation *activation,
                                   LlmWeightView       *view,
                                   GError             **error);

typedef void (*Spoil) (LlmWeightView *view);

static Spoil spoil;

static LlmStatus
acquire_spoiled (LlmWeights          *self,
                 LlmOperator          op,
                 guint                layer,
                 guint                segment,
                 const LlmActivation *activation,
                 LlmWeightView       *view,
                 GError             **error)
{
  LlmStatus status = inner_acquire (self, op, layer, segment, activation, view, error);

  if (op == LLM_OP_FFN_DOWN && layer == 1 && segment == 1)
    spoil (view);
  return status;
}

static void
spoil_by_channel_in_panels (LlmWeightView *view)
{
  static guint32 channels[288];

  for (guint i = 0; i < view->in_count; i++)
    channels[i] = view->in_first + i;
  view->channels = channels;
  view->in_first = 0;
  view->layout = LLM_LAYOUT_PANELS;
}

static void
spoil_channel (LlmWeightView *view)
{
  spoil_by_channel_in_panels (view);
  view->layout = LLM_LAYOUT_ROWS;
  view->in_count = 1;
  ((guint32 *) view->channels)[0] = 0;
}

static void
spoil_count (LlmWeightView *view)
{
  view->in_count -= 32;
}

static void
spoil_place (LlmWeightView *view)
{
  view->in_first -= 32;
}

static void
spoil_outputs (LlmWeightView *view)
{
  view->out_count--;
}

static void
test_refused (void)
{
  static const Spoil spoils[] = {
    spoil_by_channel_in_panels, spoil_channel, spoil_count, spoil_place, spoil_outputs,
  };
  SplitCounts counts = { 0 };
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 1, 2, NULL, &counts);
  const LlmWeightProvider *provider = rig->weights->provider;
  LlmWeightProvider spoiled = *provider;
  LlmRow row = exec_rig_row (1, 0, 0);

  inner_acquire = provider->acquire;
  spoiled.acquire = acquire_spoiled;
  for (guint i = 0; i < G_N_ELEMENTS (spoils); i++)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      LlmBatch batch = { &row, 1, &seq, 1 };
      g_autoptr (GError) error = NULL;

      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      rig->weights->provider = &spoiled;
      spoil = spoils[i];
      g_assert_true (llm_forward_begin (rig->forward, &batch, &error));
      g_assert_cmpint (llm_forward_resume (rig->forward, &error), ==, LLM_FAILED);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
      g_assert_true (g_pattern_match_simple ("*ffn-down, layer 1, segment 1*", error->message));
      g_assert_cmpint (strstr (error->message, "in panels") != NULL, ==, i == 0);
      g_assert_cmpuint (counts.n_held, ==, 0);

      rig->weights->provider = provider;
      exec_rig_step (rig, &row, 1, &seq, 1);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/levels/naive", test_naive);
  g_test_add_func ("/levels/mixed", test_mixed);
  g_test_add_func ("/levels/changing", test_changing);
  g_test_add_func ("/levels/work", test_work);
  g_test_add_func ("/levels/density", test_density);
  g_test_add_func ("/levels/refused", test_refused);

  return g_test_run ();
}
