/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Embeddings by layer: beside the residual stream, each layer has some values of
 * each token that are its own, of a table and of the token's embedding. What the
 * layer gives out opens or closes them, and they are added to it.
 */

#include "forward/llm-forward-private.h"

#include <math.h>

typedef struct
{
  LlmStep *self;
  const float *const *vectors;
} Work;

static void
run_rows (LlmStep            *self,
          guint               n_values,
          LlmWorkFunc         func,
          const float *const *vectors)
{
  Work work = { self, vectors };

  llm_worker_pool_run (self->pool, self->batch->n_rows, llm_step_get_grain (n_values), func, &work);
}

static void
embed_rows (guint    first,
            guint    end,
            guint    worker,
            gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  const LlmHparams *h = self->hparams;
  const LlmWeightView *table = &self->hold->views[0];
  const float *norm = work->vectors[1];
  gsize n = (gsize) h->n_layers * h->n_layer_embd;
  float projection_scale = (float) (1 / sqrt (h->n_embd));
  float table_scale = sqrtf ((float) h->n_layer_embd);
  g_autofree float *known = g_new (float, n);

  for (guint r = first; r < end; r++)
    {
      float *inputs = self->scratch.layer_inputs + r * n;
      gsize token = (gsize) llm_step_get_row (self, r)->token;

      self->kernels->vector->unpack (table->type,
                                     (const guint8 *) table->data + token * table->row_bytes, known,
                                     n);
      for (gsize i = 0; i < n; i++)
        inputs[i] *= projection_scale;
      for (gsize at = 0; at < n; at += h->n_layer_embd)
        self->kernels->vector->rms_norm (inputs + at, norm, h->norms.eps, inputs + at,
                                         h->n_layer_embd);
      for (gsize i = 0; i < n; i++)
        inputs[i] = (inputs[i] + known[i] * table_scale) * (float) G_SQRT2 / 2;
    }
}

void
llm_forward_embed_layers (LlmStep            *self,
                          const float *const *vectors)
{
  run_rows (self, 4 * self->hparams->n_layers * self->hparams->n_layer_embd, embed_rows, vectors);
}

static void
gate_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  const LlmHparams *h = self->hparams;
  gsize n = h->n_layer_embd;

  for (guint r = first; r < end; r++)
    self->kernels->vector->gelu_mul (
      self->scratch.layer_gate + r * n,
      self->scratch.layer_inputs + ((gsize) r * h->n_layers + self->layer) * n, n);
}

void
llm_forward_gate_layer_input (LlmStep            *self,
                              const float *const *vectors)
{
  run_rows (self, 4 * self->hparams->n_layer_embd, gate_rows, vectors);
}

static void
end_rows (guint    first,
          guint    end,
          guint    worker,
          gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  const LlkVectorOps *vector = self->kernels->vector;
  const float *norm = work->vectors[0], *scale = work->vectors[1];
  gsize n = self->hparams->n_embd, n_streams = self->hparams->n_streams;

  for (guint r = first; r < end; r++)
    {
      float *streams = self->scratch.streams + r * n_streams * n;
      float *x = self->scratch.x + r * n;
      float *normed = self->scratch.normed + r * n;

      if (norm != NULL)
        {
          vector->rms_norm (normed, norm, self->hparams->norms.eps, normed, n);
          if (n_streams == 1)
            vector->add (x, normed, n);
          for (gsize i = 1; i < n_streams; i++)
            vector->add (streams + i * n, normed, n);
        }
      for (gsize i = 0; scale != NULL && i < n; i++)
        x[i] *= *scale;
    }
}

void
llm_forward_end_layer (LlmStep            *self,
                       const float *const *vectors)
{
  run_rows (self, 4 * self->hparams->n_embd, end_rows, vectors);
}
