/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sparse rows (A1): what is below the threshold does not enter the product. It is decided by the
 * row's own values and by nothing else, whether or not the weights that it would be multiplied with
 * are in memory, so a text does not depend on what is cached or on the rows beside it.
 */

#include "forward/llm-forward-private.h"

#include <math.h>
#include <stdlib.h>

typedef struct
{
  LlmStep *self;
  float *values;
  guint n_in;
  LlmInput input;
} Work;

static int
compare (const void *a,
         const void *b)
{
  float left = *(const float *) a, right = *(const float *) b;

  return (left > right) - (left < right);
}

/* As many as are not below @threshold stay, the smallest instead of the largest. */
static void
keep_smallest (float *values,
               guint  n,
               float  threshold)
{
  g_autofree float *sizes = g_new (float, n);
  guint n_kept = 0;

  for (guint i = 0; i < n; i++)
    {
      sizes[i] = fabsf (values[i]);
      n_kept += sizes[i] >= threshold;
    }
  qsort (sizes, n, sizeof *sizes, compare);
  for (guint i = 0; n_kept < n && i < n; i++)
    if (fabsf (values[i]) >= sizes[n_kept])
      values[i] = 0;
}

static void
zero_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  const LlmThresholds *thresholds = self->plan->config.thresholds;

  for (guint r = first; r < end; r++)
    {
      guint sparsity = llm_step_get_row (self, r)->sparsity;
      float *values = work->values + (gsize) r * work->n_in;
      float threshold;

      if (sparsity == 0)
        continue;
      threshold = llm_thresholds_get (thresholds, llm_thresholds_find (thresholds, sparsity),
                                      self->layer, work->input);
      if (self->plan->config.keeps_smallest)
        keep_smallest (values, work->n_in, threshold);
      else
        for (guint i = 0; i < work->n_in; i++)
          values[i] = fabsf (values[i]) < threshold ? 0 : values[i];
    }
}

void
llm_forward_zero_inactive (LlmStep  *self,
                           LlmInput  input)
{
  const LlmHparams *h = self->hparams;
  const LlmLayer *layer = llm_step_get_layer (self);
  const LlmScratch *s = &self->scratch;
  const struct
  {
    float *values;
    guint n_in;
  } inputs[] = {
    [LLM_INPUT_ATTENTION] = { s->normed, h->n_embd },
    [LLM_INPUT_ATTENTION_OUT] = { s->attended, layer->n_heads * layer->head_dim },
    [LLM_INPUT_FFN] = { s->normed, h->n_embd },
    [LLM_INPUT_FFN_DOWN] = { s->gate, layer->n_ff },
  };
  Work work;

  if (input == LLM_INPUT_NONE || !self->rows.has_sparse_rows)
    return;
  work = (Work) { self, inputs[input].values, inputs[input].n_in, input };
  llm_worker_pool_run (self->pool, self->batch->n_rows, llm_step_get_grain (work.n_in), zero_rows,
                       &work);
}
