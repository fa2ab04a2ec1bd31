/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward-rig.h"

#include <math.h>

#include <string.h>

static void
make_forward (ExecRig             *self,
              const ExecRigConfig *config)
{
  const LlkOps *kernels = config->kernels != NULL ? llk_ops_find (config->kernels)
                                                  : llk_ops_best ();
  LlmPlanConfig plan = { 0 };

  g_assert_nonnull (kernels);
  plan.kernels = kernels;
  plan.device = config->device;
  plan.is_split = config->is_split;
  plan.adapters = config->adapters;
  plan.n_adapters = config->n_adapters;
  plan.thresholds = config->thresholds;
  plan.keeps_smallest = config->keeps_smallest;
  g_clear_pointer (&self->forward, llm_forward_free);
  g_clear_pointer (&self->plan, llm_plan_unref);
  self->plan = llm_plan_new (&self->hparams, self->weights, &plan);
  self->forward = llm_forward_new (self->plan, self->pool, self->ledger);
}

static ExecRig *
make_rig (LlmGguf             *gguf,
          const ExecRigConfig *config)
{
  g_autoptr (GError) error = NULL;
  ExecRig *self = g_new0 (ExecRig, 1);
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout;
  gboolean is_read;

  self->gguf = gguf;
  is_read = llm_hparams_read (gguf, &self->hparams, &error);
  g_assert_no_error (error);
  g_assert_true (is_read);
  self->ledger = llm_ledger_new ();
  self->weights = llm_weights_new_mapped (gguf, &self->hparams, NULL, self->ledger, &error);
  g_assert_no_error (error);
  self->pool = llm_worker_pool_new (MAX (config->n_threads, 1));

  layout = llm_forward_get_layout (&self->hparams, config->format,
                                   config->chunk_slots > 0 ? config->chunk_slots : 16, layers);
  self->store = llm_kv_store_new (&layout, NULL, self->ledger, &error);
  g_assert_no_error (error);

  make_forward (self, config);
  return self;
}

ExecRig *
exec_rig_open (const char          *path,
               const ExecRigConfig *config)
{
  g_autoptr (GError) error = NULL;
  LlmGguf *gguf = llm_gguf_open (path, &error);

  g_assert_no_error (error);
  return make_rig (gguf, config);
}

ExecRig *
exec_rig_new (GBytes              *model,
              const ExecRigConfig *config)
{
  g_autoptr (GError) error = NULL;
  LlmGguf *gguf = llm_gguf_new_for_bytes (model, "test", &error);

  g_assert_no_error (error);
  return make_rig (gguf, config);
}

void
exec_rig_set_weights (ExecRig             *self,
                      LlmWeights          *weights,
                      const ExecRigConfig *config)
{
  g_clear_pointer (&self->forward, llm_forward_free);
  self->weights = weights;
  make_forward (self, config);
}

void
exec_rig_free (ExecRig *self)
{
  const LlmBackend *device = self->plan->config.device;
  guint64 device_bytes =
      device != NULL && device->ledger == self->ledger ? device->counted_bytes : 0;

  llm_forward_free (self->forward);
  llm_plan_unref (self->plan);
  llm_kv_store_free (self->store);
  llm_worker_pool_free (self->pool);
  llm_weights_free (self->weights);
  g_assert_cmpuint (llm_ledger_get_total (self->ledger), ==, device_bytes);
  llm_ledger_unref (self->ledger);
  llm_gguf_unref (self->gguf);
  g_free (self);
}

void
exec_rig_step (ExecRig         *self,
               const LlmRow    *rows,
               guint            n_rows,
               LlmKvSeq *const *sequences,
               guint            n_sequences)
{
  g_autoptr (GError) error = NULL;
  LlmBatch batch = { rows, n_rows, sequences, n_sequences };
  gboolean has_begun = llm_forward_begin (self->forward, &batch, &error);
  LlmStatus status = LLM_PENDING;

  g_assert_no_error (error);
  g_assert_true (has_begun);
  while (status == LLM_PENDING)
    status = llm_forward_resume (self->forward, &error);
  g_assert_no_error (error);
  g_assert_cmpint (status, ==, LLM_READY);
}

double
exec_rig_get_distance (const float *found,
                       const float *expected,
                       gsize        n)
{
  double errors = 0, size = 0;

  for (gsize i = 0; i < n; i++)
    {
      errors += pow ((double) found[i] - (double) expected[i], 2);
      size += pow ((double) expected[i], 2);
    }
  return sqrt (errors / size);
}

LlmRow
exec_rig_row (gint32 token,
              guint  sequence,
              guint  slot)
{
  return (LlmRow) {
    .token = token,
    .position = slot,
    .sequence = sequence,
    .slot = slot,
    .visibility = { .kind = LLM_VISIBLE_CAUSAL },
    .sub_model = 100,
    .wants_logits = TRUE,
    .is_counted = TRUE,
  };
}

void
exec_rig_prompt (ExecRig      *self,
                 LlmKvSeq     *seq,
                 const gint32 *tokens,
                 guint         n_tokens,
                 guint         step,
                 float        *logits)
{
  g_autofree LlmRow *rows = g_new0 (LlmRow, step);
  g_autoptr (GError) error = NULL;

  for (guint first = 0; first < n_tokens; first += step)
    {
      guint n_rows = MIN (step, n_tokens - first);
      guint slot = seq->length;
      gboolean has_room = llm_kv_seq_append (seq, n_rows, &error);

      g_assert_no_error (error);
      g_assert_true (has_room);
      for (guint i = 0; i < n_rows; i++)
        {
          rows[i] = exec_rig_row (tokens[first + i], 0, slot + i);
          rows[i].wants_logits = logits != NULL;
        }
      exec_rig_step (self, rows, n_rows, &seq, 1);
      for (guint i = 0; logits != NULL && i < n_rows; i++)
        memcpy (logits + (gsize) (first + i) * self->hparams.n_vocab,
                llm_forward_get_logits (self->forward, i),
                self->hparams.n_vocab * sizeof (float));
    }
}
