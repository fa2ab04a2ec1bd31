/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a step does to its rows beside products and attention: embedding, norms,
 * rotation, gates, sums. Each row is worked on alone, on all workers; what is
 * read of it once is used for all that can be done with it then.
 */

#include "forward/llm-forward-private.h"

#include <math.h>
#include <string.h>

/* Of LLM_GATE_CAPPED_SILU */
#define GATE_CAP 7.0f
#define STEEPNESS 1.702f

typedef struct
{
  LlmStep *self;
  const float *const *vectors;
  /* of norms */
  const guint *rows;   /* (nullable): where the input of each is */
  float *out;
  /* of gates */
  guint n_ff;
  gboolean is_cut;
} Work;

/* Work on rows of about @n_values simple operations each. */
static void
run_rows (LlmStep            *self,
          guint               n_rows,
          guint               n_values,
          LlmWorkFunc         func,
          const float *const *vectors)
{
  Work work = { .self = self, .vectors = vectors };

  llm_worker_pool_run (self->pool, n_rows, llm_step_get_grain (n_values), func, &work);
}

static void
embed_rows (guint    first,
            guint    end,
            guint    worker,
            gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  const LlmWeightView *view = &self->hold->views[0];
  gsize n_embd = self->hparams->n_embd;
  float scale = self->hparams->scales.embedding;

  for (guint r = first; r < end; r++)
    {
      gsize token = (gsize) llm_step_get_row (self, r)->token;
      float *x = self->scratch.x + r * n_embd;

      self->kernels->vector->unpack (view->type,
                                     (const guint8 *) view->data + token * view->row_bytes, x,
                                     n_embd);
      for (gsize i = 0; scale != 1 && i < n_embd; i++)
        x[i] *= scale;
    }
}

void
llm_forward_embed (LlmStep            *self,
                   const float *const *embedding)
{
  run_rows (self, self->batch->n_rows, self->hparams->n_embd, embed_rows, embedding);
}

/* Sums of sixteen values apart each, so that they are the same whatever instructions make them. */
static float
find_mean (const float *x,
           gsize        n)
{
  float sums[16] = { 0 }, mean = 0;
  gsize i = 0;

  for (; i + 16 <= n; i += 16)
    for (guint lane = 0; lane < 16; lane++)
      sums[lane] += x[i + lane];
  for (guint lane = 0; i < n; i++, lane++)
    sums[lane] += x[i];
  for (guint lane = 0; lane < 16; lane++)
    mean += sums[lane];
  return mean / (float) n;
}

static void
subtract_mean (const float *x,
               gsize        n,
               float       *out)
{
  float mean = find_mean (x, n);

  for (gsize i = 0; i < n; i++)
    out[i] = x[i] - mean;
}

static void
normalize_rows (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  gsize n_embd = self->hparams->n_embd;

  for (guint r = first; r < end; r++)
    {
      const float *x = self->scratch.x + (work->rows != NULL ? work->rows[r] : r) * n_embd;

      if (self->hparams->norms.is_centered)
        {
          subtract_mean (x, n_embd, work->out + r * n_embd);
          x = work->out + r * n_embd;
        }
      if (work->vectors[0] != NULL)
        self->kernels->vector->rms_norm (x, work->vectors[0], self->hparams->norms.eps,
                                         work->out + r * n_embd, n_embd);
      else
        memcpy (work->out + r * n_embd, x, n_embd * sizeof *x);
    }
}

static void
normalize (LlmStep            *self,
           guint               n_rows,
           const guint        *rows,
           float              *out,
           const float *const *weight)
{
  Work work = { self, weight, rows, out };

  llm_worker_pool_run (self->pool, n_rows, llm_step_get_grain (2 * self->hparams->n_embd),
                       normalize_rows, &work);
}

void
llm_forward_normalize (LlmStep            *self,
                       const float *const *weight)
{
  normalize (self, self->batch->n_rows, NULL, self->scratch.normed, weight);
}

void
llm_forward_normalize_wanted (LlmStep            *self,
                              const float *const *weight)
{
  normalize (self, self->rows.n_logits, self->rows.wanting, self->scratch.hidden, weight);
}

static void
add_residual_rows (guint    first,
                   guint    end,
                   guint    worker,
                   gpointer data)
{
  const Work *work = data;
  const LlkVectorOps *vector = work->self->kernels->vector;
  const float *bias = work->vectors[0], *norm = work->vectors[1];
  const LlmHparams *hparams = work->self->hparams;
  gboolean is_direct = llm_forward_adds_directly (hparams, norm != NULL);
  gsize n = hparams->n_embd;

  for (guint r = first; r < end; r++)
    {
      float *x = work->self->scratch.x + r * n;
      float *normed = work->self->scratch.normed + r * n;

      if (bias != NULL)
        vector->add (is_direct ? x : normed, bias, n);
      if (norm != NULL)
        vector->rms_norm (normed, norm, hparams->norms.eps, normed, n);
      for (gsize i = 0; hparams->scales.residual != 1 && i < n; i++)
        normed[i] *= hparams->scales.residual;
      if (!is_direct)
        vector->add (x, normed, n);
    }
}

void
llm_forward_add_residual (LlmStep            *self,
                          const float *const *vectors)
{
  run_rows (self, self->batch->n_rows, 4 * self->hparams->n_embd, add_residual_rows, vectors);
}

void
llm_forward_rotate (LlmStep *self,
                    guint    row,
                    guint    n,
                    guint    stride,
                    float   *values)
{
  const LlmHparams *h = self->hparams;
  gint rope = llm_step_get_layer (self)->rope;
  gsize at = ((gsize) MAX (rope, 0) * self->batch->n_rows + row) * (h->rope_dim / 2);
  const float *cosine = self->scratch.cosine + at;
  const float *sine = self->scratch.sine + at;

  for (guint i = 0; rope != LLM_NO_ROPE && i < n; i++, values += stride)
    if (h->rope_kind == LLM_ROPE_NORM)
      llk_rope_norm (values, cosine, sine, h->ropes[rope].dim);
    else
      llk_rope_neox (values, cosine, sine, h->ropes[rope].dim);
}

/* The heads of one row, of queries or of keys. */
static void
prepare_heads (LlmStep     *self,
               guint        row,
               guint        n_heads,
               const float *bias,
               const float *norm,
               float       *values)
{
  const LlkVectorOps *vector = self->kernels->vector;
  const LlmHparams *h = self->hparams;
  const LlmLayer *layer = &h->layers[self->layer];

  if (bias != NULL)
    vector->add (values, bias, (gsize) n_heads * layer->head_dim);
  if (norm != NULL && h->norms.is_wide)
    {
      vector->rms_norm (values, norm, h->norms.eps, values, (gsize) n_heads * layer->head_dim);
      norm = NULL;
    }
  for (gsize i = 0; norm != NULL && i < n_heads; i++)
    vector->rms_norm (values + i * layer->head_dim, norm, h->norms.eps,
                      values + i * layer->head_dim, layer->head_dim);
  llm_forward_rotate (self, row, n_heads, layer->head_dim, values);
}

/* What makes the queries of far positions larger. */
static void
scale_queries (const LlmHparams *h,
               guint             position,
               gsize             n,
               float            *q)
{
  double factor = 1 + (double) h->scales.temperature
    * log1p (position / h->scales.temperature_length);

  for (gsize i = 0; factor != 1 && i < n; i++)
    q[i] *= (float) factor;
}

static void
prepare_rows (guint    first,
              guint    end,
              guint    worker,
              gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  const float *const *v = work->vectors;
  const LlmHparams *h = self->hparams;
  const LlmLayer *layer = llm_step_get_layer (self);
  gsize n_query = (gsize) layer->n_heads * layer->head_dim;
  gsize n_kv = (gsize) layer->n_kv_heads * layer->head_dim;

  for (guint r = first; r < end; r++)
    {
      float *q = self->scratch.q + r * n_query;
      guint n_heads = self->rows.n_groups[r] * (layer->n_heads / layer->n_kv_heads);

      prepare_heads (self, r, n_heads, v[0], v[3], q);
      if (h->scales.temperature != 0)
        scale_queries (h, llm_step_get_row (self, r)->position, (gsize) n_heads * layer->head_dim, q);
      if (layer->kv_layer != self->layer)
        continue;
      if (!llm_operator_is_in_layer (h, LLM_OP_VALUE, self->layer))
        memcpy (self->scratch.v + r * n_kv, self->scratch.k + r * n_kv, n_kv * sizeof (float));
      prepare_heads (self, r, layer->n_kv_heads, v[1], v[4], self->scratch.k + r * n_kv);
      if (v[2] != NULL)
        self->kernels->vector->add (self->scratch.v + r * n_kv, v[2], n_kv);
      for (guint head = 0; h->norms.has_values && head < layer->n_kv_heads; head++)
        {
          float *values = self->scratch.v + r * n_kv + head * layer->head_dim;

          self->kernels->vector->rms_norm (values, self->plan->ones, h->norms.eps, values,
                                           layer->head_dim);
        }
    }
}

void
llm_forward_prepare_heads (LlmStep            *self,
                           const float *const *vectors)
{
  const LlmLayer *layer = llm_step_get_layer (self);

  run_rows (self, self->batch->n_rows, 2 * (layer->n_heads + layer->n_kv_heads) * layer->head_dim,
            prepare_rows, vectors);
}

/* LLM_GATE_CAPPED_SILU as silu_mul() can have it: silu of STEEPNESS × the capped gate, times the
 * capped up + 1, over STEEPNESS. A NaN stays one. */
static void
cap_gate (float *gate,
          float *up,
          gsize  n)
{
  for (gsize i = 0; i < n; i++)
    {
      gate[i] = STEEPNESS * (gate[i] > GATE_CAP ? GATE_CAP : gate[i]);
      up[i] = ((up[i] > GATE_CAP ? GATE_CAP : up[i] < -GATE_CAP ? -GATE_CAP : up[i]) + 1)
              / STEEPNESS;
    }
}

/* Of the gate only what is far above the mean: the others count as 0. Sums as subtract_mean() has
 * them. */
static void
cut_gate (float *gate,
          gsize  n,
          float  cutoff)
{
  float squares[16] = { 0 }, sum = 0, mean, limit;
  gsize i = 0;

  mean = find_mean (gate, n);
  for (; i + 16 <= n; i += 16)
    for (guint lane = 0; lane < 16; lane++)
      squares[lane] += (gate[i + lane] - mean) * (gate[i + lane] - mean);
  for (guint lane = 0; i < n; i++, lane++)
    squares[lane] += (gate[i] - mean) * (gate[i] - mean);
  for (guint lane = 0; lane < 16; lane++)
    sum += squares[lane];
  limit = mean + cutoff * sqrtf (sum / (float) MAX (n - 1, 1));
  for (i = 0; i < n; i++)
    gate[i] = gate[i] > limit ? gate[i] - limit : 0;
}

static void
gate_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  const LlkVectorOps *vector = self->kernels->vector;
  const float *gate_bias = work->vectors[0], *up_bias = work->vectors[1];
  const LlmLayer *layer = llm_step_get_layer (self);
  gsize n_ff = work->n_ff;

  for (guint r = first; r < end; r++)
    {
      float *gate = self->scratch.gate + r * n_ff;
      float *up = self->scratch.up + r * n_ff;
      gsize n = work->is_cut ? llm_step_get_n_channels (self, r) : n_ff;

      if (gate_bias != NULL)
        vector->add (gate, gate_bias, n);
      if (up_bias != NULL)
        vector->add (up, up_bias, n);
      if (layer->gate_cutoff > -INFINITY)
        cut_gate (gate, n, layer->gate_cutoff);
      if (self->hparams->gate == LLM_GATE_CAPPED_SILU)
        cap_gate (gate, up, n);
      if (self->hparams->gate == LLM_GATE_GELU)
        vector->gelu_mul (gate, up, n);
      else
        vector->silu_mul (gate, up, n);
    }
}

/* Where nothing beside the two products and the gate reads or changes what is between. */
gboolean
llm_forward_keeps_gate (LlmStep *self)
{
  const LlmHparams *h = self->hparams;
  const LlmLayer *layer = llm_step_get_layer (self);
  LlmBackend *device = llm_step_get_device (self);
  const LlmOpShape shape = {
    .kind = LLM_BACKEND_GATED, .n_in = h->n_embd, .n_out = layer->n_ff,
    .n_rows = self->batch->n_rows, .op = LLM_OP_FFN_GATE, .layer = self->layer,
  };

  return device != NULL && !device->is_lost && !device->has_cpu_bits && !self->plan->config.is_split
         && self->adapter_runs->len == 0 && !self->rows.has_sparse_rows
         && llm_operator_is_in_layer (h, LLM_OP_FFN_GATE, self->layer)
         && llm_operator_is_in_layer (h, LLM_OP_FFN_UP, self->layer)
         && !llm_operator_is_in_layer (h, LLM_OP_FFN_GATE_BIAS, self->layer)
         && !llm_operator_is_in_layer (h, LLM_OP_FFN_UP_BIAS, self->layer)
         && h->gate != LLM_GATE_CAPPED_SILU && layer->gate_cutoff == -INFINITY
         && device->class->can_run (device, &shape);
}

void
llm_forward_gate (LlmStep            *self,
                  guint               n_rows,
                  guint               n_ff,
                  gboolean            is_cut,
                  const float *const *vectors)
{
  Work work = { .self = self, .vectors = vectors, .n_ff = n_ff, .is_cut = is_cut };

  llm_worker_pool_run (self->pool, n_rows, llm_step_get_grain (4 * n_ff), gate_rows, &work);
}

/* Items are rows of logits cut into this many values, as there is often one row only. */
#define LOGITS_PER_ITEM 4096

static void
finish_logits (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  const Work *work = data;
  const LlmHparams *h = work->self->hparams;
  const float *bias = work->vectors[0];
  guint n_items = (h->n_vocab + LOGITS_PER_ITEM - 1) / LOGITS_PER_ITEM;

  for (guint item = first; item < end; item++)
    {
      guint begin = item % n_items * LOGITS_PER_ITEM;
      guint n = MIN (LOGITS_PER_ITEM, h->n_vocab - begin);
      float *logits = work->self->scratch.logits + (gsize) (item / n_items) * h->n_vocab + begin;

      if (bias != NULL)
        work->self->kernels->vector->add (logits, bias + begin, n);
      for (guint i = 0; h->scales.logits != 1 && i < n; i++)
        logits[i] *= h->scales.logits;
      for (guint i = 0; h->scales.logit_softcap > 0 && i < n; i++)
        logits[i] = h->scales.logit_softcap * tanhf (logits[i] / h->scales.logit_softcap);
    }
}

void
llm_forward_finish_logits (LlmStep            *self,
                           const float *const *bias)
{
  guint n_items = (self->hparams->n_vocab + LOGITS_PER_ITEM - 1) / LOGITS_PER_ITEM;

  run_rows (self, self->rows.n_logits * n_items, 4 * LOGITS_PER_ITEM, finish_logits, bias);
}
