/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A driver that runs stages in any order that their dependencies allow, acquires weights early, and
 * goes on with others while some wait: the same bits. And what is declared is needed: without it, they
 * are others. */

#include <string.h>

#include "fake-device.h"
#include "forward-rig.h"
#include "forward/llm-step.h"
#include "split-weights.h"
#include "support/llm-test-gguf.h"

#define N_ROWS 9
#define N_SEEDS 40

static ExecRig *
new_dense (const ExecRigConfig *config)
{
  const LlmTestModel shape = { .n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, config);
}

static ExecRig *
open_file (const char          *name,
           const ExecRigConfig *config)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures", name,
                                            NULL);

  return exec_rig_open (path, config);
}

/* --- the driver --- */

typedef struct
{
  LlmStep *step;
  LlmPlanNode *nodes;    /* (owned): those of the plan, or with less declared */
  guint n_nodes;
  gboolean *is_done;     /* (owned) */
  GRand *random;         /* (owned) */
  guint n_early;         /* acquired before all that they need had ended */
  guint n_moved;         /* ended before one that stands before them */
} Driver;

static gboolean
is_ready (const Driver *self,
          guint         index)
{
  for (guint i = 0; i < index; i++)
    if (!self->is_done[i] && llm_plan_node_needs (&self->nodes[index], &self->nodes[i]))
      return FALSE;
  return !self->is_done[index];
}

/* Any of those that may run, or the first. */
static guint
choose (Driver *self)
{
  g_autoptr (GArray) ready = g_array_new (FALSE, FALSE, sizeof (guint));

  for (guint i = 0; i < self->n_nodes; i++)
    if (is_ready (self, i))
      g_array_append_val (ready, i);
  g_assert_cmpuint (ready->len, >, 0);
  return g_array_index (ready, guint,
                        self->random != NULL
                          ? (guint) g_rand_int_range (self->random, 0, (gint) ready->len) : 0);
}

/* Weights of one that may not run yet. Those that run need a place for theirs. */
static void
acquire_early (Driver *self)
{
  guint index = (guint) g_rand_int_range (self->random, 0, (gint) self->n_nodes);
  guint n_held = 0;
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < LLM_STEP_MAX_HOLDS; i++)
    n_held += self->step->holds[i].node != NULL;
  if (self->is_done[index] || n_held + 2 > LLM_STEP_MAX_HOLDS)
    return;
  g_assert_cmpint (llm_step_acquire (self->step, &self->nodes[index], &error), !=, LLM_FAILED);
  g_assert_no_error (error);
  self->n_early += !is_ready (self, index);
}

static void
run_all (Driver *self)
{
  g_autoptr (GError) error = NULL;

  for (guint n_done = 0; n_done < self->n_nodes;)
    {
      guint index = choose (self), first = 0;
      LlmStatus status;

      if (self->random != NULL && g_rand_boolean (self->random))
        acquire_early (self);
      status = llm_step_run (self->step, &self->nodes[index], &error);
      g_assert_no_error (error);
      g_assert_cmpint (status, !=, LLM_FAILED);
      if (status == LLM_PENDING)
        continue;
      while (self->is_done[first])
        first++;
      self->n_moved += first < index;
      self->is_done[index] = TRUE;
      n_done++;
    }
  g_assert_true (llm_step_end (self->step, &error));
}

/* A step of two sequences that begins with unused scratch memory, in an order by @seed, or
 * with 0 in the plan's. (transfer full): the last rows' logits. @stage (nullable): what it reads and
 * writes of @buffers is not declared. @counts: (nullable). */
static float *
run (ExecRig    *rig,
     guint       seed,
     const char *stage,
     guint64     buffers,
     Driver     *counts)
{
  const LlmSubModels *table = rig->weights->sub_models;
  g_autoptr (LlmKvSeq) a = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (LlmKvSeq) b = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmKvSeq *sequences[] = { a, b };
  g_autoptr (LlmStep) step = llm_step_new (rig->plan, rig->pool, rig->ledger);
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, 2 * n_vocab);
  LlmRow rows[2 * N_ROWS];
  LlmBatch batch = { rows, 2 * N_ROWS, sequences, 2 };
  Driver driver = { .step = step };
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < 2; i++)
    g_assert_true (llm_kv_seq_append (sequences[i], N_ROWS, NULL));
  for (guint i = 0; i < 2 * N_ROWS; i++)
    {
      rows[i] = exec_rig_row ((gint32) (i * 101 % n_vocab), i % 2, i / 2);
      rows[i].wants_logits = i / 2 + 1 == N_ROWS;
      rows[i].sub_model = table->percent[i % table->n_levels];
    }
  g_assert_true (llm_step_begin (step, &batch, &error));
  g_assert_no_error (error);

  driver.n_nodes = llm_step_get_n_nodes (step);
  driver.nodes = g_memdup2 (rig->plan->nodes, driver.n_nodes * sizeof *driver.nodes);
  driver.is_done = g_new0 (gboolean, driver.n_nodes);
  driver.random = seed > 0 ? g_rand_new_with_seed (seed) : NULL;
  for (guint i = 0; stage != NULL && i < driver.n_nodes; i++)
    if (g_str_equal (driver.nodes[i].stage->name, stage))
      {
        g_assert_cmpuint ((driver.nodes[i].reads | driver.nodes[i].writes) & buffers, !=, 0);
        driver.nodes[i].reads &= ~buffers;
        driver.nodes[i].writes &= ~buffers;
      }
  run_all (&driver);
  for (guint i = 0; i < 2; i++)
    memcpy (logits + i * n_vocab, llm_step_get_logits (step, 2 * N_ROWS - 2 + i),
            n_vocab * sizeof (float));
  if (counts != NULL)
    {
      counts->n_early += driver.n_early;
      counts->n_moved += driver.n_moved;
    }
  g_clear_pointer (&driver.random, g_rand_free);
  g_free (driver.is_done);
  g_free (driver.nodes);
  return logits;
}

/* --- any order --- */

static void
assert_any_order (ExecRig *rig,
                  ExecRig *plain)
{
  g_autofree float *expected = run (plain, 0, NULL, 0, NULL);
  gsize bytes = 2 * rig->hparams.n_vocab * sizeof (float);
  Driver counts = { 0 };

  for (guint seed = 1; seed <= N_SEEDS; seed++)
    {
      g_autofree float *found = run (rig, seed, NULL, 0, &counts);

      g_assert_cmpmem (found, bytes, expected, bytes);
    }
  g_assert_cmpuint (counts.n_early, >, N_SEEDS);
  g_assert_cmpuint (counts.n_moved, >, N_SEEDS);
}

static const char *const files[] = {
  "llama-experts.gguf", "gemma2.gguf", "phi3-long.gguf", "qwen3.gguf", "smollm3.gguf",
};

static void
test_plain (void)
{
  for (guint split = 0; split < 2; split++)
    {
      const ExecRigConfig config = { .n_threads = 2, .is_split = split > 0 };
      const ExecRigConfig whole = { .n_threads = 2 };
      g_autoptr (ExecRig) rig = new_dense (&config);
      g_autoptr (ExecRig) plain = new_dense (&whole);

      assert_any_order (rig, plain);
      for (guint i = 0; i < G_N_ELEMENTS (files); i++)
        {
          g_autoptr (ExecRig) file = open_file (files[i], &config);
          g_autoptr (ExecRig) plain_file = open_file (files[i], &whole);

          assert_any_order (file, plain_file);
        }
    }
}

/* Weights come late, in segments; so do results of a device, in the wrong order. */
static void
test_late (void)
{
  const SplitConfig split = { 2, TRUE, FALSE };
  const SplitConfig at_once = { 2, FALSE, FALSE };
  const FakeConfig late = { .n_polls = 3, .is_reversed = TRUE };
  const ExecRigConfig whole = { .n_threads = 2 };
  ExecRigConfig config = { .n_threads = 2, .is_split = TRUE };
  SplitCounts split_counts = { 0 }, plain_counts = { 0 };
  FakeCounts counts = { 0 };
  g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &late, &counts);
  g_autoptr (ExecRig) rig = new_dense (&whole);
  g_autoptr (ExecRig) plain = new_dense (&whole);

  config.device = device;
  exec_rig_set_weights (rig, split_weights_new (rig->weights, &rig->hparams, &split, &split_counts),
                        &config);
  exec_rig_set_weights (plain, split_weights_new (plain->weights, &plain->hparams, &at_once,
                                                  &plain_counts), &whole);
  assert_any_order (rig, plain);
  g_assert_cmpuint (split_counts.n_pending, >, 0);
  g_assert_cmpuint (split_counts.n_held, ==, 0);
  g_assert_cmpuint (counts.n_done, ==, counts.n_submitted);
  g_assert_cmpuint (counts.n_overtaken, >, 0);
}

/* --- what is declared is needed --- */

typedef struct
{
  const char *stage;
  guint64 buffers;
} Dependency;

static const Dependency dependencies[] = {
  { "heads", LLM_BUFFER (cosine) | LLM_BUFFER (sine) },
  { "heads", LLM_BUFFER (q) },
  { "attention", LLM_BUFFER_KV },
  { "attention-output", LLM_BUFFER (attended) },
  { "attention-norm", LLM_BUFFER (x) },
  { "ffn-gate", LLM_BUFFER (up) },
  { "ffn-output", LLM_BUFFER (gate) },
  { "output-norm", LLM_BUFFER (x) },
  { "logits", LLM_BUFFER (hidden) },
};

static void
test_needed (void)
{
  const ExecRigConfig config = { .n_threads = 1, .is_split = TRUE };
  g_autoptr (ExecRig) rig = new_dense (&config);
  g_autofree float *expected = run (rig, 0, NULL, 0, NULL);
  gsize bytes = 2 * rig->hparams.n_vocab * sizeof (float);

  for (guint i = 0; i < G_N_ELEMENTS (dependencies); i++)
    {
      guint n_other = 0;

      for (guint seed = 1; seed <= N_SEEDS; seed++)
        {
          g_autofree float *found = run (rig, seed, dependencies[i].stage, dependencies[i].buffers,
                                         NULL);

          n_other += memcmp (found, expected, bytes) != 0;
        }
      g_test_message ("%s: %u of %u", dependencies[i].stage, n_other, N_SEEDS);
      g_assert_cmpuint (n_other, >, 0);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/order/plain", test_plain);
  g_test_add_func ("/order/late", test_late);
  g_test_add_func ("/order/needed", test_needed);

  return g_test_run ();
}
