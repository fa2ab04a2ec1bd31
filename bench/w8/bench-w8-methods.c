/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8/bench-w8.h"

#include <math.h>

#include "backends/llm-w8-form.h"
#include "kernels/llk.h"

/* As in the paper of LLM.int8(): a channel with a larger value somewhere stays in floats. */
#define FLOAT_CHANNEL 6

static const LlmOperator operators[LLM_W8_N_KINDS][3] = {
  [LLM_W8_ATTENTION_INPUT] = { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE },
  [LLM_W8_ATTENTION_OUTPUT] = { LLM_OP_ATTENTION_OUT, LLM_N_OPS, LLM_N_OPS },
  [LLM_W8_FFN_INPUT] = { LLM_OP_FFN_GATE, LLM_OP_FFN_UP, LLM_N_OPS },
  [LLM_W8_FFN_OUTPUT] = { LLM_OP_FFN_DOWN, LLM_N_OPS, LLM_N_OPS },
};

/* Of each input, the largest magnitude of the site's weights. */
static gboolean
find_weight_maxima (const LlmW8Lab *lab,
                    guint           layer,
                    LlmW8Kind       kind,
                    float          *maxima,
                    GError        **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (operators[kind]) && operators[kind][i] != LLM_N_OPS; i++)
    {
      g_autofree float *row = NULL;
      LlmWeightView view = { 0 };

      /* mapped weights are there at once */
      if (llm_weights_acquire (lab->weights, operators[kind][i], layer, 0, NULL, &view, error)
          != LLM_READY)
        return FALSE;
      row = g_new (float, view.in_count);
      for (guint o = 0; o < view.out_count; o++)
        {
          llm_w8_read_output (lab->kernels, &view, o, row);
          for (guint j = 0; j < view.in_count; j++)
            maxima[j] = MAX (maxima[j], fabsf (row[j]));
        }
      llm_weights_release (lab->weights, &view);
    }
  return TRUE;
}

/* Inputs divided by sqrt (largest activation / largest weight): both become as large as each
 * other. The scale is what the smoothed inputs reach. */
static gboolean
smooth_site (const LlmW8Lab         *lab,
             const LlmW8Findings *calibration,
             guint                   at,
             BenchW8Table            *table,
             GError                **error)
{
  guint kind = at % LLM_W8_N_KINDS, n = llm_w8_kind_get_size (kind, lab->hparams);
  g_autofree float *weights = g_new0 (float, n);
  float *factors = table->factors[at] = g_new (float, n);
  float largest = 0;

  if (!find_weight_maxima (lab, at / LLM_W8_N_KINDS, kind, weights, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      float maximum = calibration->maxima[at][i];

      factors[i] = maximum > 0 && weights[i] > 0 ? sqrtf (maximum / weights[i]) : 1;
      largest = MAX (largest, maximum / factors[i]);
    }
  table->sites[at].scale = largest / LLK_W8_LIMIT;
  table->methods[at].factors = factors;
  return TRUE;
}

static void
keep_floats (const LlmW8Lab         *lab,
             const LlmW8Findings *calibration,
             guint                   at,
             BenchW8Table            *table)
{
  guint n = llm_w8_kind_get_size (at % LLM_W8_N_KINDS, lab->hparams);

  guint16 *hot_of = table->hot[at] = g_new0 (guint16, n);
  guint16 n_hot = 0;

  for (guint i = 0; i < n; i++)
    if (calibration->maxima[at][i] > FLOAT_CHANNEL)
      hot_of[i] = ++n_hot;
  table->sites[at].hot_of = hot_of;
  table->methods[at].is_dynamic = TRUE;
}

BenchW8Table *
bench_w8_table_new (const LlmW8Lab         *lab,
                   const LlmW8Findings *calibration,
                   BenchW8Method            method,
                   GError                **error)
{
  g_autoptr(BenchW8Table) self = g_new0 (BenchW8Table, 1);
  guint n = self->n_sites = calibration->n_sites;

  self->sites = g_memdup2 (calibration->sites, n * sizeof *self->sites);
  self->methods = g_new0 (LlmW8Method, n);
  self->factors = g_new0 (float *, n);
  self->hot = g_new0 (guint16 *, n);
  for (guint at = 0; at < n; at++)
    {
      if (calibration->maxima[at] == NULL || calibration->largest[at] <= 0)
        continue;
      if (method != BENCH_W8_PRUNED)
        self->sites[at] = (LlmW8Site) {
          calibration->scales[TRUE][at], method == BENCH_W8_SHADOW,
          calibration->hot[at],
        };
      if (method == BENCH_W8_NAIVE || method == BENCH_W8_SMOOTH)
        self->sites[at].hot_of = NULL;
      if (method == BENCH_W8_NAIVE)
        self->sites[at].scale = calibration->largest[at] / LLK_W8_LIMIT;
      else if (method == BENCH_W8_ROWS)
        keep_floats (lab, calibration, at, self);
      else if (method == BENCH_W8_SMOOTH && !smooth_site (lab, calibration, at, self, error))
        return NULL;
    }
  return g_steal_pointer (&self);
}

void
bench_w8_table_free (BenchW8Table *self)
{
  if (self == NULL)
    return;

  for (guint at = 0; at < self->n_sites; at++)
    {
      g_free (self->factors[at]);
      g_free (self->hot[at]);
    }
  g_free (self->factors);
  g_free (self->hot);
  g_free (self->methods);
  g_free (self->sites);
  g_free (self);
}
