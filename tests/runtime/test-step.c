/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Steps that take turns between two stages, or are left in the middle, come to the
 * same bits as steps that run through. */

#include <string.h>

#include "runtime/llm-queue-step.h"
#include "model/llm-model.h"
#include "weights/llm-repacked-cache.h"

#define N_PROMPT 40
#define N_OTHER 7

typedef struct
{
  LlmModel *model;
  const LlmHparams *hparams;
  LlmWeights *weights;
  LlmWorkerPool *pool;
  LlmKvStore *store;
  LlmForward *forwards[2];
  LlmQueueStep steps[2];
} Rig;

static void
rig_init (Rig *self)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  LlmKvLayout layout = { .kind = LLM_KV_FULL, .format = LLK_KV_F16, .chunk_slots = 16 };
  const LlmPlanConfig config = { .kernels = llk_ops_best () };
  g_autoptr(LlmPlan) plan = NULL;

  self->model = llm_model_open (path, &error);
  g_assert_no_error (error);
  self->hparams = llm_model_get_hparams (self->model);
  self->weights = llm_weights_new_repacked (llm_model_get_gguf (self->model), self->hparams, NULL,
                                            NULL, 2, NULL, &error);
  g_assert_no_error (error);
  layout.n_layers = self->hparams->n_layers;
  layout.n_kv_heads = self->hparams->n_kv_heads;
  layout.head_dim = self->hparams->head_dim;
  self->store = llm_kv_store_new (&layout, NULL, NULL, &error);
  g_assert_no_error (error);
  self->pool = llm_worker_pool_new (2);
  plan = llm_plan_new (self->hparams, self->weights, &config);
  for (guint i = 0; i < G_N_ELEMENTS (self->steps); i++)
    {
      self->forwards[i] = llm_forward_new (plan, self->pool, NULL);
      llm_queue_step_init (&self->steps[i], self->forwards[i], LLM_BATCH_MAX_ROWS);
    }
}

static void
rig_clear (Rig *self)
{
  for (guint i = 0; i < G_N_ELEMENTS (self->steps); i++)
    {
      llm_queue_step_clear (&self->steps[i]);
      llm_forward_free (self->forwards[i]);
    }
  llm_kv_store_free (self->store);
  llm_worker_pool_free (self->pool);
  llm_weights_free (self->weights);
  llm_model_unref (self->model);
}

/* Begins a step of @n rows behind what @seq holds; the last wants logits. */
static void
begin (LlmQueueStep *step,
       LlmKvSeq     *seq,
       guint         n)
{
  guint first = seq->length;
  g_autoptr(GError) error = NULL;

  llm_queue_step_reset (step);
  g_assert_true (llm_kv_seq_append (seq, n, &error));
  for (guint i = 0; i < n; i++)
    {
      LlmRow row = {
        .token = (gint32) (10 + (first + i) * 7 % 1000),
        .position = first + i,
        .slot = first + i,
        .sub_model = 100,
        .wants_logits = i + 1 == n,
      };

      g_array_append_val (step->rows, row);
    }
  g_ptr_array_add (step->sequences, seq);
  g_assert_true (llm_queue_step_begin (step, &error));
}

/* One stage, as its time has passed already. */
static LlmStatus
run_stage (LlmQueueStep *step)
{
  g_autoptr(GError) error = NULL;
  LlmStatus status = llm_queue_step_run (step, 0, &error);

  g_assert_no_error (error);
  return status;
}

static float *
take_logits (Rig          *rig,
             LlmQueueStep *step)
{
  gsize bytes = rig->hparams->n_vocab * sizeof (float);

  g_assert_false (step->is_active);
  return g_memdup2 (llm_forward_get_logits (step->forward, step->rows->len - 1), bytes);
}

static float *
run_alone (Rig      *rig,
           LlmKvSeq *seq,
           guint     n)
{
  LlmQueueStep *step = &rig->steps[0];

  begin (step, seq, n);
  while (run_stage (step) == LLM_PENDING)
    continue;
  return take_logits (rig, step);
}

static void
assert_same (Rig         *rig,
             const float *found,
             const float *expected)
{
  gsize bytes = rig->hparams->n_vocab * sizeof (float);

  g_assert_cmpmem (found, bytes, expected, bytes);
}

static void
test_turns (void)
{
  Rig rig = { 0 };
  LlmKvSeq *seqs[4];
  g_autofree float *expected_prompt = NULL;
  g_autofree float *expected_other = NULL;
  g_autofree float *prompt = NULL;
  g_autofree float *other = NULL;
  LlmStatus a = LLM_PENDING, b = LLM_PENDING;
  guint n_stages = 0;

  rig_init (&rig);
  for (guint i = 0; i < G_N_ELEMENTS (seqs); i++)
    seqs[i] = llm_kv_seq_new (rig.store, NULL, NULL);
  expected_prompt = run_alone (&rig, seqs[0], N_PROMPT);
  expected_other = run_alone (&rig, seqs[1], N_OTHER);

  begin (&rig.steps[0], seqs[2], N_PROMPT);
  begin (&rig.steps[1], seqs[3], N_OTHER);
  for (; a == LLM_PENDING || b == LLM_PENDING; n_stages++)
    {
      if (a == LLM_PENDING)
        a = run_stage (&rig.steps[0]);
      if (b == LLM_PENDING && n_stages > 5)
        b = run_stage (&rig.steps[1]);
    }
  g_assert_cmpuint (n_stages, >, rig.hparams->n_layers * 5);
  prompt = take_logits (&rig, &rig.steps[0]);
  other = take_logits (&rig, &rig.steps[1]);
  assert_same (&rig, prompt, expected_prompt);
  assert_same (&rig, other, expected_other);

  for (guint i = 0; i < G_N_ELEMENTS (seqs); i++)
    llm_kv_seq_free (seqs[i]);
  rig_clear (&rig);
}

static void
test_abandoned (void)
{
  Rig rig = { 0 };
  LlmKvSeq *expected_seq, *seq;
  g_autofree float *expected = NULL;
  g_autofree float *found = NULL;

  rig_init (&rig);
  expected_seq = llm_kv_seq_new (rig.store, NULL, NULL);
  seq = llm_kv_seq_new (rig.store, NULL, NULL);
  expected = run_alone (&rig, expected_seq, N_PROMPT);

  for (guint n_stages = 1; n_stages < 40; n_stages += 9)
    {
      begin (&rig.steps[0], seq, N_PROMPT);
      for (guint i = 0; i < n_stages; i++)
        g_assert_cmpint (run_stage (&rig.steps[0]), ==, LLM_PENDING);
      llm_queue_step_abandon (&rig.steps[0]);
      g_assert_false (rig.steps[0].is_active);
      llm_kv_seq_truncate (seq, 0);
    }
  found = run_alone (&rig, seq, N_PROMPT);
  assert_same (&rig, found, expected);

  llm_kv_seq_free (seq);
  llm_kv_seq_free (expected_seq);
  rig_clear (&rig);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/step/turns", test_turns);
  g_test_add_func ("/step/abandoned", test_abandoned);
  return g_test_run ();
}
