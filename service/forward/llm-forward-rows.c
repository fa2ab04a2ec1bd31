/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a step does to its rows beside products and attention: embedding, norms,
 * rotation, gates, sums. Each row is worked on alone, on all workers; what is
 * read of it once is used for all that can be done with it then.
 */

#define G_LOG_DOMAIN "llm-exec"

#include "forward/llm-forward-private.h"

#include <math.h>

/* Work on rows of about @n_values simple operations each. */
static void
run_rows (LlmForward  *self,
          guint        n_rows,
          guint        n_values,
          LlmWorkFunc  func,
          gpointer     data)
{
  llm_worker_pool_run (self->pool, n_rows, llm_forward_get_grain (n_values), func, data);
}

typedef struct
{
  LlmForward *self;
  const LlmWeightView *view;
} EmbedWork;

static void
embed_rows (guint    first,
            guint    end,
            guint    worker,
            gpointer data)
{
  const EmbedWork *work = data;
  LlmForward *self = work->self;
  const LlmWeightView *view = work->view;
  gsize n_embd = self->hparams->n_embd;
  float scale = self->hparams->embedding_scale;

  for (guint r = first; r < end; r++)
    {
      gsize token = (gsize) llm_forward_get_row (self, r)->token;
      float *x = self->scratch.x + r * n_embd;

      self->kernels->vector->unpack (view->type,
                                     (const guint8 *) view->data + token * view->row_bytes, x,
                                     n_embd);
      for (gsize i = 0; scale != 1 && i < n_embd; i++)
        x[i] *= scale;
    }
}

void
llm_forward_embed (LlmForward          *self,
                   const LlmWeightView *embedding)
{
  EmbedWork work = { self, embedding };

  run_rows (self, self->batch->n_rows, self->hparams->n_embd, embed_rows, &work);
}

typedef struct
{
  LlmForward *self;
  const float *bias;     /* (nullable) */
  const float *weight;   /* (nullable) of a norm */
} VectorWork;

static void
normalize_rows (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const VectorWork *work = data;
  LlmForward *self = work->self;
  gsize n_embd = self->hparams->n_embd;

  for (guint r = first; r < end; r++)
    self->kernels->vector->rms_norm (self->scratch.x + r * n_embd, work->weight,
                                     self->hparams->rms_eps, self->scratch.normed + r * n_embd,
                                     n_embd);
}

void
llm_forward_normalize (LlmForward  *self,
                       const float *weight)
{
  VectorWork work = { self, NULL, weight };

  run_rows (self, self->batch->n_rows, 2 * self->hparams->n_embd, normalize_rows, &work);
}

static void
normalize_wanting (guint    first,
                   guint    end,
                   guint    worker,
                   gpointer data)
{
  const VectorWork *work = data;
  LlmForward *self = work->self;
  gsize n_embd = self->hparams->n_embd;

  for (guint i = first; i < end; i++)
    self->kernels->vector->rms_norm (self->scratch.x + self->wanting[i] * n_embd, work->weight,
                                     self->hparams->rms_eps, self->scratch.hidden + i * n_embd,
                                     n_embd);
}

void
llm_forward_normalize_wanted (LlmForward  *self,
                              const float *weight)
{
  VectorWork work = { self, NULL, weight };

  run_rows (self, self->n_logits, 2 * self->hparams->n_embd, normalize_wanting, &work);
}

static void
add_residual_rows (guint    first,
                   guint    end,
                   guint    worker,
                   gpointer data)
{
  const VectorWork *work = data;
  const LlkVectorOps *vector = work->self->kernels->vector;
  const LlmHparams *hparams = work->self->hparams;
  gsize n = hparams->n_embd;

  for (guint r = first; r < end; r++)
    {
      float *x = work->self->scratch.x + r * n;
      float *normed = work->self->scratch.normed + r * n;

      if (work->bias != NULL)
        vector->add (work->weight != NULL ? normed : x, work->bias, n);
      if (work->weight != NULL)
        {
          vector->rms_norm (normed, work->weight, hparams->rms_eps, normed, n);
          vector->add (x, normed, n);
        }
    }
}

void
llm_forward_add_residual (LlmForward  *self,
                          const float *bias,
                          const float *norm)
{
  VectorWork work = { self, bias, norm };

  run_rows (self, self->batch->n_rows, 4 * self->hparams->n_embd, add_residual_rows, &work);
}

typedef struct
{
  LlmForward *self;
  const LlmHeadVectors *vectors;
  gint rope;
} HeadWork;

/* The heads of one row, of queries or of keys. */
static void
prepare_heads (const HeadWork *work,
               guint           row,
               guint           n_heads,
               const float    *bias,
               const float    *norm,
               float          *values)
{
  const LlkVectorOps *vector = work->self->kernels->vector;
  const LlmHparams *h = work->self->hparams;
  gsize at = ((gsize) MAX (work->rope, 0) * work->self->batch->n_rows + row) * (h->rope_dim / 2);
  const float *cosine = work->self->scratch.cosine + at;
  const float *sine = work->self->scratch.sine + at;

  if (bias != NULL)
    vector->add (values, bias, (gsize) n_heads * h->head_dim);
  for (guint i = 0; i < n_heads; i++, values += h->head_dim)
    {
      if (norm != NULL)
        vector->rms_norm (values, norm, h->rms_eps, values, h->head_dim);
      if (work->rope == LLM_NO_ROPE)
        continue;
      if (h->rope_kind == LLM_ROPE_NORM)
        llk_rope_norm (values, cosine, sine, h->rope_dim);
      else
        llk_rope_neox (values, cosine, sine, h->rope_dim);
    }
}

/* What makes the queries of far positions larger. */
static void
scale_queries (const LlmHparams *h,
               guint             position,
               float            *q)
{
  double factor = 1 + (double) h->temperature_scale * log1p (position / h->temperature_length);

  for (guint i = 0; factor != 1 && i < h->n_heads * h->head_dim; i++)
    q[i] *= (float) factor;
}

static void
prepare_rows (guint    first,
              guint    end,
              guint    worker,
              gpointer data)
{
  const HeadWork *work = data;
  LlmForward *self = work->self;
  const LlmHeadVectors *vectors = work->vectors;
  const LlmHparams *h = self->hparams;
  gsize n_query = (gsize) h->n_heads * h->head_dim;
  gsize n_kv = (gsize) h->n_kv_heads * h->head_dim;

  for (guint r = first; r < end; r++)
    {
      float *q = self->scratch.q + r * n_query;

      prepare_heads (work, r, h->n_heads, vectors->query_bias, vectors->query_norm, q);
      prepare_heads (work, r, h->n_kv_heads, vectors->key_bias, vectors->key_norm,
                     self->scratch.k + r * n_kv);
      if (vectors->value_bias != NULL)
        self->kernels->vector->add (self->scratch.v + r * n_kv, vectors->value_bias, n_kv);
      if (h->temperature_scale != 0)
        scale_queries (h, llm_forward_get_row (self, r)->position, q);
    }
}

void
llm_forward_prepare_heads (LlmForward           *self,
                           const LlmHeadVectors *vectors)
{
  const LlmHparams *h = self->hparams;
  HeadWork work = { self, vectors, h->layers[self->layer].rope };

  run_rows (self, self->batch->n_rows, 2 * (h->n_heads + h->n_kv_heads) * h->head_dim,
            prepare_rows, &work);
}

typedef struct
{
  LlmForward *self;
  const float *gate_bias, *up_bias;   /* (nullable) */
} GateWork;

static void
gate_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  const GateWork *work = data;
  LlmForward *self = work->self;
  const LlkVectorOps *vector = self->kernels->vector;
  gsize n_ff = self->hparams->n_ff;

  for (guint r = first; r < end; r++)
    {
      float *gate = self->scratch.gate + r * n_ff;
      float *up = self->scratch.up + r * n_ff;

      if (work->gate_bias != NULL)
        vector->add (gate, work->gate_bias, n_ff);
      if (work->up_bias != NULL)
        vector->add (up, work->up_bias, n_ff);
      if (self->hparams->gate == LLM_GATE_GELU)
        vector->gelu_mul (gate, up, n_ff);
      else
        vector->silu_mul (gate, up, n_ff);
    }
}

void
llm_forward_gate (LlmForward  *self,
                  guint        n_rows,
                  const float *gate_bias,
                  const float *up_bias)
{
  GateWork work = { self, gate_bias, up_bias };

  run_rows (self, n_rows, 4 * self->hparams->n_ff, gate_rows, &work);
}

/* Items are rows of logits cut into this many values, as there is often one row only. */
#define LOGITS_PER_ITEM 4096

static void
finish_logits (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  const VectorWork *work = data;
  const LlmHparams *h = work->self->hparams;
  guint n_items = (h->n_vocab + LOGITS_PER_ITEM - 1) / LOGITS_PER_ITEM;

  for (guint item = first; item < end; item++)
    {
      guint begin = item % n_items * LOGITS_PER_ITEM;
      guint n = MIN (LOGITS_PER_ITEM, h->n_vocab - begin);
      float *logits = work->self->scratch.logits + (gsize) (item / n_items) * h->n_vocab + begin;

      if (work->bias != NULL)
        work->self->kernels->vector->add (logits, work->bias + begin, n);
      for (guint i = 0; h->logit_softcap > 0 && i < n; i++)
        logits[i] = h->logit_softcap * tanhf (logits[i] / h->logit_softcap);
    }
}

void
llm_forward_finish_logits (LlmForward  *self,
                           const float *bias)
{
  VectorWork work = { self, bias, NULL };
  guint n_items = (self->hparams->n_vocab + LOGITS_PER_ITEM - 1) / LOGITS_PER_ITEM;

  run_rows (self, self->n_logits * n_items, 4 * LOGITS_PER_ITEM, finish_logits, &work);
}
