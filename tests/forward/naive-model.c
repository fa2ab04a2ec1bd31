/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "naive-model.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "support/llm-test-gguf.h"

#define FLOAT_TOLERANCE 1e-4
/* As kernels/llk-attention.h has it. */
#define TILE_BITS 17

struct _NaiveModel
{
  LlmGguf *gguf;                /* (unowned) */
  const LlmHparams *hparams;    /* (unowned) */
};

NaiveModel *
naive_model_new (LlmGguf          *gguf,
                 const LlmHparams *hparams)
{
  NaiveModel *self = g_new0 (NaiveModel, 1);

  self->gguf = gguf;
  self->hparams = hparams;
  return self;
}

void
naive_model_free (NaiveModel *self)
{
  g_free (self);
}

gboolean
naive_sees_causal (guint    row,
                   guint    other,
                   gpointer data)
{
  return other <= row;
}

/* (transfer full) (nullable): the values of a tensor as floats. */
G_GNUC_PRINTF (2, 3)
static float *
get_tensor (NaiveModel *self,
            const char *format,
            ...)
{
  g_autofree char *name = NULL;
  const LlmGgufTensor *tensor;
  float *values;
  gsize n;
  va_list args;

  va_start (args, format);
  name = g_strdup_vprintf (format, args);
  va_end (args);

  tensor = llm_gguf_find_tensor (self->gguf, name);
  if (tensor == NULL)
    return NULL;

  n = tensor->dims[0] * tensor->dims[1] * tensor->dims[2];
  values = g_new (float, n);
  llm_test_dequantize (tensor->type,
                       llm_file_map_get_data (self->gguf->map) + tensor->offset, n,
                       values);
  return values;
}

/* y[o] = sum of w[o, i] × x[i] over the inputs that take part. */
static void
multiply (const float  *w,
          const double *x,
          guint         n_in,
          guint         n_active_in,
          guint         n_out,
          double       *y)
{
  for (guint o = 0; o < n_out; o++)
    {
      double sum = 0;

      for (guint i = 0; i < n_active_in; i++)
        sum += w[(gsize) o * n_in + i] * x[i];
      y[o] = sum;
    }
}

static void
center (const LlmHparams *h,
        const double     *x,
        double           *y)
{
  double mean = 0;

  for (guint i = 0; h->norms.is_centered && i < h->n_embd; i++)
    mean += x[i] / h->n_embd;
  for (guint i = 0; i < h->n_embd; i++)
    y[i] = x[i] - mean;
}

/* @weight: (nullable): values are copied without one */
static void
normalize (const double *x,
           const float  *weight,
           double        eps,
           guint         n,
           double       *y)
{
  double squares = 0;

  for (guint i = 0; i < n; i++)
    squares += x[i] * x[i];
  for (guint i = 0; i < n; i++)
    y[i] = weight != NULL ? x[i] / sqrt (squares / n + eps) * weight[i] : x[i];
}

/* Without weights. */
static void
normalize_alone (double *x,
                 double  eps,
                 guint   n)
{
  double squares = 0;

  for (guint i = 0; i < n; i++)
    squares += x[i] * x[i];
  for (guint i = 0; i < n; i++)
    x[i] /= sqrt (squares / n + eps);
}

/* How many pairs turn at least @n_turns times in the model's first training. */
static double
count_pairs (const LlmRope    *rope,
             double            n_turns)
{
  return rope->dim / 2.0 * log (rope->n_ctx / (2 * G_PI * n_turns)) / log ((double) rope->base);
}

/* The angle of pair @i at position 1. */
static double
get_speed (const LlmRope *rope,
           const float   *factors,
           guint          i)
{
  double speed = 1 / pow ((double) rope->base, 2.0 * i / rope->dim);
  double slow, first, last;

  if (factors != NULL)
    speed /= (double) factors[i];
  slow = speed / (double) rope->scale;
  if (rope->scaling != LLM_ROPE_SCALING_YARN)
    return slow;

  first = floor (count_pairs (rope, (double) rope->beta_fast));
  last = ceil (count_pairs (rope, (double) rope->beta_slow));
  first = first < 0 ? 0 : first;
  last = last > rope->dim - 1 ? rope->dim - 1 : last;
  if (i <= first)
    return speed;
  if (i >= last)
    return slow;
  return speed + (slow - speed) * (i - first) / (last - first);
}

static void
rotate (NaiveModel    *self,
        const LlmRope *rope,
        const float   *factors,
        guint          position,
        double        *head)
{
  const LlmHparams *h = self->hparams;

  for (guint i = 0; i < rope->dim / 2; i++)
    {
      guint first = h->rope_kind == LLM_ROPE_NORM ? 2 * i : i;
      guint second = h->rope_kind == LLM_ROPE_NORM ? 2 * i + 1 : i + rope->dim / 2;
      double angle = position * get_speed (rope, factors, i);
      double a = head[first] * (double) rope->magnitude;
      double b = head[second] * (double) rope->magnitude;

      head[first] = a * cos (angle) - b * sin (angle);
      head[second] = a * sin (angle) + b * cos (angle);
    }
}

/* Adds a vector, where there is one. */
static void
add (const float *bias,
     guint        n,
     double      *y)
{
  for (guint i = 0; bias != NULL && i < n; i++)
    y[i] += (double) bias[i];
}

static double
cap (double value,
     float  limit)
{
  return limit > 0 ? (double) limit * tanh (value / (double) limit) : value;
}

/* The tensor @name of a layer; else rows of @fused, which holds more, from @first on. */
static float *
get_part (NaiveModel *self,
          guint       layer,
          const char *name,
          const char *fused,
          gsize       first,
          gsize       n)
{
  g_autofree float *all = get_tensor (self, "blk.%u.%s", layer, fused);
  float *values;

  if (all == NULL)
    return get_tensor (self, "blk.%u.%s", layer, name);

  values = g_new (float, n);
  memcpy (values, all + first, n * sizeof *values);
  return values;
}

static guint
count_heads (NaiveModel     *self,
             const NaiveRun *run,
             guint           layer)
{
  const LlmLayer *l = &self->hparams->layers[layer];
  guint n_groups = run->sub_models != NULL
                     ? llm_sub_models_get_groups (run->sub_models, layer, run->level)
                     : l->n_kv_heads;

  return n_groups * (l->n_heads / l->n_kv_heads);
}

static gboolean
is_seen (const NaiveRun *run,
         guint           window,
         guint           row,
         guint           other)
{
  return run->sees (row, other, run->data) && (window == 0 || other + window > row);
}

static double
round_to_bits (double value,
               guint  bits)
{
  int exponent;
  double fraction = frexp (value, &exponent);

  return bits == 0 ? value : ldexp (rint (ldexp (fraction, (int) bits)), exponent - (int) bits);
}

/* One head of one row over all rows it sees. */
static void
attend (NaiveModel     *self,
        const NaiveRun *run,
        guint           layer,
        guint           row,
        guint           head,
        const float    *sinks,
        const double   *q,
        const double   *k,
        const double   *v,
        double         *out,
        double         *received)
{
  const LlmHparams *h = self->hparams;
  const LlmLayer *l = &h->layers[layer];
  guint n_kv = l->n_kv_heads * l->head_dim;
  guint kv_head = head / (l->n_heads / l->n_kv_heads);
  g_autofree double *shares = g_new0 (double, run->n_rows);
  guint window = l->window;
  guint bits = run->attention_bits;
  double max = -INFINITY, sum = 0;

  for (guint s = 0; s < run->n_rows; s++)
    if (!is_seen (run, window, row, s))
      shares[s] = -INFINITY;
    else
      {
        for (guint i = 0; i < l->head_dim; i++)
          shares[s] += round_to_bits (q[i], bits)
                       * round_to_bits (k[(gsize) s * n_kv + kv_head * l->head_dim + i], bits);
        shares[s] = cap (shares[s] * (double) h->scales.attention, h->scales.attention_softcap);
        max = MAX (max, shares[s]);
      }
  if (sinks != NULL)
    {
      max = MAX (max, (double) sinks[head]);
      sum = exp ((double) sinks[head] - max);
    }
  for (guint s = 0; s < run->n_rows; s++)
    {
      shares[s] = exp (shares[s] - max);
      sum += shares[s];
    }
  memset (out, 0, l->head_dim * sizeof *out);
  for (guint s = 0; s < run->n_rows; s++)
    {
      for (guint i = 0; i < l->head_dim; i++)
        out[i] += round_to_bits (shares[s], bits) / sum
                  * round_to_bits (v[(gsize) s * n_kv + kv_head * l->head_dim + i], bits);
      if (received != NULL)
        received[s] += shares[s] / sum / count_heads (self, run, layer) / h->n_layers;
      if (run->given != NULL)
        run->given[(gsize) row * run->n_rows + s] += shares[s] / sum
                                                     / count_heads (self, run, layer) / h->n_layers;
    }
}

/* A norm of each head, a rotation, where there are any. */
static void
prepare_heads (NaiveModel    *self,
               guint          layer,
               const float   *norm,
               const float   *factors,
               guint          position,
               guint          n_heads,
               double        *heads)
{
  const LlmHparams *h = self->hparams;
  const LlmLayer *l = &h->layers[layer];
  gint rope = l->rope;

  if (h->norms.is_wide)
    normalize (heads, norm, (double) h->norms.eps, n_heads * l->head_dim, heads);
  for (guint i = 0; i < n_heads; i++, heads += l->head_dim)
    {
      if (!h->norms.is_wide)
        normalize (heads, norm, (double) h->norms.eps, l->head_dim, heads);
      if (rope != LLM_NO_ROPE)
        rotate (self, &h->ropes[rope], h->ropes[rope].factors >= 0 ? factors : NULL, position,
                heads);
    }
}

/* Adds what a half of a layer gives to the residual stream, with a norm between
 * where the model has one. */
static void
add_residual (NaiveModel  *self,
              const float *bias,
              const float *norm,
              double      *product,
              double      *x)
{
  const LlmHparams *h = self->hparams;

  add (bias, h->n_embd, product);
  normalize (product, norm, (double) h->norms.eps, h->n_embd, product);
  for (guint i = 0; i < h->n_embd; i++)
    x[i] += product[i] * (double) h->scales.residual;
}

static float *
get_factors (NaiveModel *self)
{
  const LlmHparams *h = self->hparams;
  float *factors = get_tensor (self, "rope_freqs.weight");

  if (factors != NULL)
    return factors;
  return get_tensor (self, "rope_factors_%s.weight",
                     h->n_ctx > h->ropes[0].n_ctx ? "long" : "short");
}

static void
leave_out (const NaiveRun *run,
           guint           layer,
           guint           row,
           LlmInput        input,
           double         *values,
           guint           n)
{
  guint place;

  if (run->thresholds == NULL || run->sparsities[row] == 0)
    return;
  place = llm_thresholds_find (run->thresholds, run->sparsities[row]);
  for (guint i = 0; run->inputs != NULL && i < n; i++)
    if (layer == run->inputs_layer && input == run->inputs_kind)
      g_array_append_vals (run->inputs, &(double) { fabs (values[i]) }, 1);
  for (guint i = 0; i < n; i++)
    if (fabs (values[i]) < (double) llm_thresholds_get (run->thresholds, place, layer, input))
      values[i] = 0;
}

static void
run_attention (NaiveModel     *self,
               const NaiveRun *run,
               guint           layer,
               double         *x,
               double        **keys,
               double        **values,
               double         *received)
{
  const LlmHparams *h = self->hparams;
  const LlmLayer *l = &h->layers[layer];
  guint n_query = l->n_heads * l->head_dim;
  guint n_kv = l->n_kv_heads * l->head_dim;
  guint n_heads = count_heads (self, run, layer);
  gsize query_size = (gsize) n_query * h->n_embd, kv_size = (gsize) n_kv * h->n_embd;
  const char *fused = "attn_qkv.weight", *fused_bias = "attn_qkv.bias";
  g_autofree float *norm = get_tensor (self, "blk.%u.attn_norm.weight", layer);
  g_autofree float *wq = get_part (self, layer, "attn_q.weight", fused, 0, query_size);
  g_autofree float *wk = get_part (self, layer, "attn_k.weight", fused, query_size, kv_size);
  g_autofree float *wv = get_part (self, layer, "attn_v.weight", fused, query_size + kv_size,
                                   kv_size);
  g_autofree float *bq = get_part (self, layer, "attn_q.bias", fused_bias, 0, n_query);
  g_autofree float *bk = get_part (self, layer, "attn_k.bias", fused_bias, n_query, n_kv);
  g_autofree float *bv = get_part (self, layer, "attn_v.bias", fused_bias, n_query + n_kv, n_kv);
  g_autofree float *nq = get_tensor (self, "blk.%u.attn_q_norm.weight", layer);
  g_autofree float *nk = get_tensor (self, "blk.%u.attn_k_norm.weight", layer);
  g_autofree float *wo = get_tensor (self, "blk.%u.attn_output.weight", layer);
  g_autofree float *bo = get_tensor (self, "blk.%u.attn_output.bias", layer);
  g_autofree float *post = h->norms.is_ffn_renamed
                             ? NULL : get_tensor (self, "blk.%u.post_attention_norm.weight", layer);
  g_autofree float *sinks = llm_operator_is_used (h, LLM_OP_ATTENTION_SINKS)
                              ? get_tensor (self, "blk.%u.attn_sinks.weight", layer) : NULL;
  g_autofree float *factors = get_factors (self);
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *q = g_new (double, (gsize) run->n_rows * n_query);
  double *k = keys[layer] = g_new (double, (gsize) run->n_rows * n_kv);
  double *v = values[layer] = g_new (double, (gsize) run->n_rows * n_kv);
  g_autofree double *out = g_new (double, n_query);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row_q = q + (gsize) r * n_query, *row_k = k + (gsize) r * n_kv;
      double *row_v = v + (gsize) r * n_kv;
      double far = floor ((double) run->positions[r] / h->scales.temperature_length);

      center (h, x + (gsize) r * h->n_embd, normed);
      normalize (normed, norm, (double) h->norms.eps, h->n_embd, normed);
      leave_out (run, layer, r, LLM_INPUT_ATTENTION, normed, h->n_embd);
      multiply (wq, normed, h->n_embd, h->n_embd, n_query, row_q);
      if (l->kv_layer == layer)
        {
          multiply (wk, normed, h->n_embd, h->n_embd, n_kv, row_k);
          multiply (wv != NULL ? wv : wk, normed, h->n_embd, h->n_embd, n_kv, row_v);
        }
      else
        {
          memcpy (row_k, keys[l->kv_layer] + (gsize) r * n_kv, n_kv * sizeof *k);
          memcpy (row_v, values[l->kv_layer] + (gsize) r * n_kv, n_kv * sizeof *v);
        }
      add (bq, n_query, row_q);
      if (l->kv_layer == layer)
        {
          add (bk, n_kv, row_k);
          add (bv, n_kv, row_v);
          prepare_heads (self, layer, nk, factors, run->positions[r], l->n_kv_heads, row_k);
          for (guint head = 0; h->norms.has_values && head < l->n_kv_heads; head++)
            normalize_alone (row_v + head * l->head_dim, (double) h->norms.eps, l->head_dim);
        }
      prepare_heads (self, layer, nq, factors, run->positions[r], l->n_heads, row_q);
      for (guint i = 0; i < n_query; i++)
        row_q[i] *= 1 + (double) h->scales.temperature * log (1 + far);
    }
  for (guint r = 0; r < run->n_rows; r++)
    {
      for (guint head = 0; head < n_heads; head++)
        attend (self, run, layer, r, head, sinks, q + (gsize) r * n_query + head * l->head_dim, k, v,
                out + head * l->head_dim, received);
      leave_out (run, layer, r, LLM_INPUT_ATTENTION_OUT, out, n_heads * l->head_dim);
      multiply (wo, out, n_query, n_heads * l->head_dim, h->n_embd, normed);
      add_residual (self, bo, post, normed, x + (gsize) r * h->n_embd);
    }
}

/* Keys and values of all heads are made of the latent vectors, where the service leaves them as they
 * are. @from: [n_rows × n_heads × n], @out: the row's. */
static void
attend_latent (NaiveModel     *self,
               const NaiveRun *run,
               guint           layer,
               guint           row,
               guint           head,
               const double   *q,
               const double   *k,
               const double   *v,
               double         *out,
               double         *received)
{
  const LlmHparams *h = self->hparams;
  guint n_heads = h->layers[layer].n_heads, bits = run->attention_bits;
  g_autofree double *shares = g_new0 (double, run->n_rows);
  double max = -INFINITY, sum = 0;

  for (guint s = 0; s < run->n_rows; s++)
    {
      for (guint i = 0; i < h->latent.query_dim; i++)
        shares[s] += round_to_bits (q[i], bits)
                     * round_to_bits (k[((gsize) s * n_heads + head) * h->latent.query_dim + i],
                                      bits);
      shares[s] = is_seen (run, 0, row, s) ? shares[s] * (double) h->scales.attention : -INFINITY;
      max = MAX (max, shares[s]);
    }
  for (guint s = 0; s < run->n_rows; s++)
    {
      shares[s] = exp (shares[s] - max);
      sum += shares[s];
    }
  memset (out, 0, h->latent.value_dim * sizeof *out);
  for (guint s = 0; s < run->n_rows; s++)
    {
      for (guint i = 0; i < h->latent.value_dim; i++)
        out[i] += round_to_bits (shares[s], bits) / sum
                  * round_to_bits (v[((gsize) s * n_heads + head) * h->latent.value_dim + i], bits);
      if (received != NULL)
        received[s] += shares[s] / sum / n_heads / h->n_layers;
      if (run->given != NULL)
        run->given[(gsize) row * run->n_rows + s] += shares[s] / sum / n_heads / h->n_layers;
    }
}

/* What all heads have of one row: [n_heads × query_dim] twice, [n_heads × value_dim]. */
static void
make_latent_heads (NaiveModel   *self,
                   guint         layer,
                   guint         position,
                   const double *normed,
                   double       *q,
                   double       *k,
                   double       *v)
{
  const LlmHparams *h = self->hparams;
  guint n_heads = h->layers[layer].n_heads, nope = h->latent.query_dim - h->rope_dim;
  g_autofree float *qa = get_tensor (self, "blk.%u.attn_q_a.weight", layer);
  g_autofree float *qa_norm = get_tensor (self, "blk.%u.attn_q_a_norm.weight", layer);
  g_autofree float *qb = get_tensor (self, qa != NULL ? "blk.%u.attn_q_b.weight"
                                                      : "blk.%u.attn_q.weight", layer);
  g_autofree float *kva = get_tensor (self, "blk.%u.attn_kv_a_mqa.weight", layer);
  g_autofree float *kva_norm = llm_operator_is_used (h, LLM_OP_KEY_LOW_NORM)
                                 ? get_tensor (self, "blk.%u.attn_kv_a_norm.weight", layer) : NULL;
  g_autofree float *kb = get_tensor (self, "blk.%u.attn_k_b.weight", layer);
  g_autofree float *vb = get_tensor (self, "blk.%u.attn_v_b.weight", layer);
  g_autofree double *low = g_new (double, MAX (h->latent.query_rank, 1));
  g_autofree double *latent = g_new (double, h->latent.kv_rank + h->rope_dim);

  if (qa != NULL)
    {
      multiply (qa, normed, h->n_embd, h->n_embd, h->latent.query_rank, low);
      normalize (low, qa_norm, (double) h->norms.eps, h->latent.query_rank, low);
      multiply (qb, low, h->latent.query_rank, h->latent.query_rank, n_heads * h->latent.query_dim,
                q);
    }
  else
    multiply (qb, normed, h->n_embd, h->n_embd, n_heads * h->latent.query_dim, q);
  multiply (kva, normed, h->n_embd, h->n_embd, h->latent.kv_rank + h->rope_dim, latent);
  normalize (latent, kva_norm, (double) h->norms.eps, h->latent.kv_rank, latent);
  rotate (self, &h->ropes[0], NULL, position, latent + h->latent.kv_rank);
  for (guint head = 0; head < n_heads; head++)
    {
      const float *head_kb = kb + (gsize) head * nope * h->latent.kv_rank;
      double *head_k = k + head * h->latent.query_dim;

      rotate (self, &h->ropes[0], NULL, position, q + head * h->latent.query_dim + nope);
      for (guint i = 0; i < nope; i++)
        {
          head_k[i] = 0;
          for (guint j = 0; j < h->latent.kv_rank; j++)
            head_k[i] += head_kb[(gsize) j * nope + i] * latent[j];
        }
      memcpy (head_k + nope, latent + h->latent.kv_rank, h->rope_dim * sizeof *head_k);
      multiply (vb + (gsize) head * h->latent.kv_rank * h->latent.value_dim, latent,
                h->latent.kv_rank, h->latent.kv_rank,
                h->latent.value_dim, v + head * h->latent.value_dim);
    }
}

static void
run_latent_attention (NaiveModel     *self,
                      const NaiveRun *run,
                      guint           layer,
                      double         *x,
                      double         *received)
{
  const LlmHparams *h = self->hparams;
  guint n_heads = h->layers[layer].n_heads;
  guint n_query = n_heads * h->latent.query_dim, n_value = n_heads * h->latent.value_dim;
  g_autofree float *norm = get_tensor (self, "blk.%u.attn_norm.weight", layer);
  g_autofree float *wo = get_tensor (self, "blk.%u.attn_output.weight", layer);
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *q = g_new (double, (gsize) run->n_rows * n_query);
  g_autofree double *k = g_new (double, (gsize) run->n_rows * n_query);
  g_autofree double *v = g_new (double, (gsize) run->n_rows * n_value);
  g_autofree double *out = g_new (double, n_value);

  for (guint r = 0; r < run->n_rows; r++)
    {
      normalize (x + (gsize) r * h->n_embd, norm, (double) h->norms.eps, h->n_embd, normed);
      make_latent_heads (self, layer, run->positions[r], normed, q + (gsize) r * n_query,
                         k + (gsize) r * n_query, v + (gsize) r * n_value);
    }
  for (guint r = 0; r < run->n_rows; r++)
    {
      for (guint head = 0; head < n_heads; head++)
        attend_latent (self, run, layer, r, head,
                       q + (gsize) r * n_query + head * h->latent.query_dim, k, v,
                       out + head * h->latent.value_dim, received);
      multiply (wo, out, n_value, n_value, h->n_embd, normed);
      add_residual (self, NULL, NULL, normed, x + (gsize) r * h->n_embd);
    }
}

/* GELU is by the tanh form, the one that models with it were trained with. */
static double
apply_gate (const LlmHparams *h,
            double            x,
            double            up)
{
  switch (h->gate)
    {
    case LLM_GATE_GELU:
      return x / 2 * (1 + tanh (sqrt (2 / G_PI) * (x + 0.044715 * pow (x, 3)))) * up;
    case LLM_GATE_CAPPED_SILU:
      x = MIN (x, 7);
      return x / (1 + exp (-1.702 * x)) * (CLAMP (up, -7, 7) + 1);
    case LLM_GATE_SILU:
    default:
      return x / (1 + exp (-x)) * up;
    }
}

static void
cut_gate (double *gate,
          guint   n,
          double  cutoff)
{
  double mean = 0, squares = 0;

  if (isinf (cutoff))
    return;
  for (guint i = 0; i < n; i++)
    mean += gate[i] / n;
  for (guint i = 0; i < n; i++)
    squares += pow (gate[i] - mean, 2);
  for (guint i = 0; i < n; i++)
    gate[i] = MAX (gate[i] - mean - cutoff * sqrt (squares / (n - 1)), 0);
}

/* @from: the residual stream that the network reads. */
static void
run_ffn (NaiveModel     *self,
         const NaiveRun *run,
         guint           layer,
         const double   *from,
         double         *x)
{
  const LlmHparams *h = self->hparams;
  guint n_ff = h->layers[layer].n_ff;
  guint n_active = run->sub_models != NULL
                     ? llm_sub_models_get_channels (run->sub_models, layer, run->level) : n_ff;
  gsize size = (gsize) n_ff * h->n_embd;
  const char *fused = h->has_fused_gate ? "ffn_up.weight" : "none";
  gboolean is_shared = llm_operator_is_in_layer (h, LLM_OP_EXPERT_ROUTER, layer);
  g_autofree float *norm = get_tensor (self, h->has_parallel_ffn ? "blk.%u.attn_norm.weight"
                                                                 : "blk.%u.ffn_norm.weight", layer);
  g_autofree float *wgate =
    get_part (self, layer, is_shared ? "ffn_gate_shexp.weight" : "ffn_gate.weight", fused, 0, size);
  g_autofree float *wup =
    get_part (self, layer, is_shared ? "ffn_up_shexp.weight" : "ffn_up.weight", fused, size, size);
  g_autofree float *bgate = get_tensor (self, "blk.%u.ffn_gate.bias", layer);
  g_autofree float *bup = get_tensor (self, "blk.%u.ffn_up.bias", layer);
  g_autofree float *wdown = get_tensor (self, is_shared ? "blk.%u.ffn_down_shexp.weight"
                                                         : "blk.%u.ffn_down.weight", layer);
  g_autofree float *bdown = get_tensor (self, "blk.%u.ffn_down.bias", layer);
  g_autofree float *post = get_tensor (self, "blk.%u.post_ffw_norm.weight", layer);
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *gate = g_new (double, n_ff);
  g_autofree double *up = g_new (double, n_ff);

  for (guint r = 0; r < run->n_rows; r++)
    {
      center (h, from + (gsize) r * h->n_embd, normed);
      normalize (normed, norm, (double) h->norms.eps, h->n_embd, normed);
      leave_out (run, layer, r, LLM_INPUT_FFN, normed, h->n_embd);
      multiply (wgate, normed, h->n_embd, h->n_embd, n_ff, gate);
      multiply (wup, normed, h->n_embd, h->n_embd, n_ff, up);
      add (bgate, n_ff, gate);
      add (bup, n_ff, up);
      cut_gate (gate, n_ff, (double) h->layers[layer].gate_cutoff);
      for (guint i = 0; i < n_ff; i++)
        gate[i] = apply_gate (h, gate[i], up[i]);
      leave_out (run, layer, r, LLM_INPUT_FFN_DOWN, gate, n_active);
      multiply (wdown, gate, n_ff, n_active, h->n_embd, normed);
      add_residual (self, bdown, post, normed, x + (gsize) r * h->n_embd);
    }
}

/* (transfer full) (nullable) */
static float *
get_expert_bias (NaiveModel  *self,
                 guint        layer,
                 const char  *part,
                 LlmOperator  op)
{
  return llm_operator_is_used (self->hparams, op)
           ? get_tensor (self, "blk.%u.ffn_%s_exps.bias", layer, part) : NULL;
}

/* One network of a mixture, for one row. */
static void
run_expert (NaiveModel   *self,
            guint         layer,
            guint         expert,
            const double *normed,
            double        share,
            double       *x)
{
  const LlmHparams *h = self->hparams;
  guint n_ff = h->layers[layer].n_expert_ff;
  gsize at = (gsize) expert * n_ff * h->n_embd;
  g_autofree float *wgate = get_tensor (self, "blk.%u.ffn_gate_exps.weight", layer);
  g_autofree float *wup = get_tensor (self, "blk.%u.ffn_up_exps.weight", layer);
  g_autofree float *wdown = get_tensor (self, "blk.%u.ffn_down_exps.weight", layer);
  g_autofree float *bgate = get_expert_bias (self, layer, "gate", LLM_OP_EXPERT_GATE_BIAS);
  g_autofree float *bup = get_expert_bias (self, layer, "up", LLM_OP_EXPERT_UP_BIAS);
  g_autofree float *bdown = get_expert_bias (self, layer, "down", LLM_OP_EXPERT_DOWN_BIAS);
  g_autofree double *gate = g_new (double, n_ff);
  g_autofree double *up = g_new (double, n_ff);
  g_autofree double *given = g_new (double, h->n_embd);

  multiply (wgate + at, normed, h->n_embd, h->n_embd, n_ff, gate);
  multiply (wup + at, normed, h->n_embd, h->n_embd, n_ff, up);
  add (bgate != NULL ? bgate + (gsize) expert * n_ff : NULL, n_ff, gate);
  add (bup != NULL ? bup + (gsize) expert * n_ff : NULL, n_ff, up);
  for (guint i = 0; i < n_ff; i++)
    gate[i] = apply_gate (h, gate[i], up[i]);
  multiply (wdown + at, gate, n_ff, n_ff, h->n_embd, given);
  add (bdown != NULL ? bdown + (gsize) expert * h->n_embd : NULL, h->n_embd, given);
  for (guint i = 0; i < h->n_embd; i++)
    x[i] += share * given[i];
}

/* What each expert counts, and what it is chosen by, which is that and a bias. */
static void
score_experts (const LlmHparams *h,
               const float      *bias,
               double           *p,
               double           *chosen_by)
{
  double all = 0;

  if (!h->experts.has_choice_bias)
    add (bias, h->experts.n, p);
  for (guint i = 0; i < h->experts.n; i++)
    {
      p[i] = h->experts.score == LLM_EXPERT_SIGMOID ? 1 / (1 + exp (-p[i])) : exp (p[i]);
      all += p[i];
    }
  for (guint i = 0; i < h->experts.n; i++)
    {
      p[i] /= h->experts.score == LLM_EXPERT_SIGMOID ? 1 : all;
      chosen_by[i] = p[i] + (h->experts.has_choice_bias && bias != NULL ? (double) bias[i] : 0);
    }
}

/* The best of all. */
static void
run_experts (NaiveModel     *self,
             const NaiveRun *run,
             guint           layer,
             const double   *from,
             double         *x)
{
  const LlmHparams *h = self->hparams;
  g_autofree float *norm = get_tensor (self, h->norms.is_ffn_renamed
                                               ? "blk.%u.post_attention_norm.weight"
                                               : "blk.%u.ffn_norm.weight", layer);
  g_autofree float *router = get_tensor (self, "blk.%u.ffn_gate_inp.weight", layer);
  g_autofree float *bias = llm_operator_is_used (h, LLM_OP_EXPERT_ROUTER_BIAS)
                             ? get_tensor (self, h->experts.has_choice_bias
                                           ? "blk.%u.exp_probs_b.bias"
                                                                    : "blk.%u.ffn_gate_inp.bias",
                                           layer) : NULL;
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *p = g_new (double, h->experts.n);
  g_autofree double *chosen_by = g_new (double, h->experts.n);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double all = 0;

      normalize (from + (gsize) r * h->n_embd, norm, (double) h->norms.eps, h->n_embd, normed);
      multiply (router, normed, h->n_embd, h->n_embd, h->experts.n, p);
      score_experts (h, bias, p, chosen_by);
      for (guint n = h->experts.n; n > h->experts.n_used; n--)
        {
          guint least = 0;

          for (guint i = 0; i < h->experts.n; i++)
            if (chosen_by[i] < chosen_by[least])
              least = i;
          chosen_by[least] = INFINITY;
          p[least] = 0;
        }
      for (guint i = 0; i < h->experts.n; i++)
        all += p[i];
      for (guint i = 0; i < h->experts.n; i++)
        if (p[i] > 0)
          run_expert (self, layer, i, normed,
                      p[i] / (h->experts.has_sum ? all : 1) * (double) h->experts.scale,
                      x + (gsize) r * h->n_embd);
    }
}

/* What each layer knows of each row's token: [n_rows × n_layers × n_layer_embd]. */
static double *
make_layer_inputs (NaiveModel     *self,
                   const NaiveRun *run,
                   const double   *x)
{
  const LlmHparams *h = self->hparams;
  guint n = h->n_layers * h->n_layer_embd;
  g_autofree float *table = get_tensor (self, "per_layer_token_embd.weight");
  g_autofree float *projection = get_tensor (self, "per_layer_model_proj.weight");
  g_autofree float *norm = get_tensor (self, "per_layer_proj_norm.weight");
  double *inputs = g_new (double, (gsize) run->n_rows * n);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row = inputs + (gsize) r * n;

      multiply (projection, x + (gsize) r * h->n_embd, h->n_embd, h->n_embd, n, row);
      for (guint i = 0; i < n; i++)
        row[i] /= sqrt (h->n_embd);
      for (guint at = 0; at < n; at += h->n_layer_embd)
        normalize (row + at, norm, (double) h->norms.eps, h->n_layer_embd, row + at);
      for (guint i = 0; i < n; i++)
        row[i] = (row[i] + sqrt (h->n_layer_embd) * table[(gsize) run->tokens[r] * n + i]) / sqrt (2);
    }
  return inputs;
}

/* What the layer's embedding gives to the row: @from is what it reads, @given [n_embd]. */
static void
run_layer_input (NaiveModel     *self,
                 guint           layer,
                 guint           row,
                 const double   *inputs,
                 const double   *from,
                 double         *given)
{
  const LlmHparams *h = self->hparams;
  guint n = h->n_layer_embd;
  g_autofree float *gate = get_tensor (self, "blk.%u.inp_gate.weight", layer);
  g_autofree float *out = get_tensor (self, "blk.%u.proj.weight", layer);
  g_autofree float *post = get_tensor (self, "blk.%u.post_norm.weight", layer);
  g_autofree double *gated = g_new (double, n);

  multiply (gate, from, h->n_embd, h->n_embd, n, gated);
  for (guint i = 0; i < n; i++)
    gated[i] = apply_gate (h, gated[i], inputs[((gsize) row * h->n_layers + layer) * n + i]);
  multiply (out, gated, n, n, h->n_embd, given);
  normalize (given, post, (double) h->norms.eps, h->n_embd, given);
}

static void
add_layer_inputs (NaiveModel     *self,
                  const NaiveRun *run,
                  guint           layer,
                  const double   *inputs,
                  double         *x)
{
  const LlmHparams *h = self->hparams;
  g_autofree double *given = g_new (double, h->n_embd);

  for (guint r = 0; inputs != NULL && r < run->n_rows; r++)
    {
      double *row = x + (gsize) r * h->n_embd;

      run_layer_input (self, layer, r, inputs, row, given);
      for (guint i = 0; i < h->n_embd; i++)
        row[i] += given[i];
    }
}

/* --- several residual streams: [n_rows × n_streams × n_embd] --- */

static double
get_length (const double *x,
            guint         n)
{
  double squares = 0;

  for (guint i = 0; i < n; i++)
    squares += x[i] * x[i];
  return sqrt (squares);
}

static double *
begin_streams (NaiveModel     *self,
               const NaiveRun *run,
               const double   *x)
{
  const LlmHparams *h = self->hparams;
  guint n = h->n_embd;
  g_autofree float *projection = get_tensor (self, "altup_proj.weight");
  double *streams = g_new (double, (gsize) run->n_rows * h->n_streams * n);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row = streams + (gsize) r * h->n_streams * n;

      memcpy (row, x + (gsize) r * n, n * sizeof *row);
      multiply (projection, row, n, n, (h->n_streams - 1) * n, row + n);
      for (guint k = 1; k < h->n_streams; k++)
        {
          double factor = get_length (row, n) / get_length (row + k * n, n);

          for (guint i = 0; i < n; i++)
            row[k * n + i] *= factor;
        }
    }
  return streams;
}

static void
find_modes (NaiveModel   *self,
            guint         layer,
            const double *x,
            double       *modes)
{
  const LlmHparams *h = self->hparams;
  g_autofree float *norm = get_tensor (self, "blk.%u.altup_router_norm.weight", layer);
  g_autofree float *router = get_tensor (self, "blk.%u.altup_router.weight", layer);
  g_autofree double *normed = g_new (double, h->n_embd);

  normalize (x, norm, (double) h->norms.eps, h->n_embd, normed);
  multiply (router, normed, h->n_embd, h->n_embd, h->n_streams, modes);
  for (guint k = 0; k < h->n_streams; k++)
    modes[k] = tanh (modes[k] / h->n_embd);
}

/* @x: the first stream of each row then. */
static void
predict_streams (NaiveModel     *self,
                 const NaiveRun *run,
                 guint           layer,
                 double         *streams,
                 double         *x)
{
  const LlmHparams *h = self->hparams;
  guint n = h->n_embd, n_streams = h->n_streams;
  g_autofree float *predict = get_tensor (self, "blk.%u.altup_predict_coef.weight", layer);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row = streams + (gsize) r * n_streams * n;
      g_autofree double *before = g_memdup2 (row, (gsize) n_streams * n * sizeof *row);
      double modes[LLM_MAX_STREAMS], mixing[LLM_MAX_STREAMS * LLM_MAX_STREAMS];

      find_modes (self, layer, row, modes);
      multiply (predict, modes, n_streams, n_streams, n_streams * n_streams, mixing);
      for (guint to = 0; to < n_streams; to++)
        for (guint from = 0; from < n_streams; from++)
          for (guint i = 0; i < n; i++)
            row[to * n + i] += mixing[to * n_streams + from] * before[from * n + i];
      memcpy (x + (gsize) r * n, row, n * sizeof *row);
    }
}

static void
correct_streams (NaiveModel     *self,
                 const NaiveRun *run,
                 guint           layer,
                 const double   *inputs,
                 const double   *x,
                 double         *streams)
{
  const LlmHparams *h = self->hparams;
  guint n = h->n_embd, n_streams = h->n_streams;
  g_autofree float *correct = get_tensor (self, "blk.%u.altup_correct_coef.weight", layer);
  g_autofree float *scale = get_tensor (self, "blk.%u.altup_correct_scale.weight", layer);
  g_autofree double *from = g_new (double, n);
  g_autofree double *given = g_new (double, n);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row = streams + (gsize) r * n_streams * n;
      g_autofree double *before = g_memdup2 (row, n * sizeof *row);
      double modes[LLM_MAX_STREAMS], mixing[LLM_MAX_STREAMS];

      find_modes (self, layer, x + (gsize) r * n, modes);
      multiply (correct, modes, n_streams, n_streams, n_streams, mixing);
      for (guint to = 0; to < n_streams; to++)
        for (guint i = 0; i < n; i++)
          row[to * n + i] += (x[(gsize) r * n + i] - before[i]) * (1 + mixing[to]);
      for (guint i = 0; i < n; i++)
        from[i] = row[i] * scale[i];
      run_layer_input (self, layer, r, inputs, from, given);
      for (guint to = 1; to < n_streams; to++)
        for (guint i = 0; i < n; i++)
          row[to * n + i] += given[i];
    }
}

static void
join_streams (NaiveModel     *self,
              const NaiveRun *run,
              const double   *streams,
              double         *x)
{
  const LlmHparams *h = self->hparams;
  guint n = h->n_embd;
  g_autofree float *unprojection = get_tensor (self, "altup_unembd_proj.weight");
  g_autofree double *other = g_new (double, n);

  for (guint r = 0; r < run->n_rows; r++)
    {
      const double *row = streams + (gsize) r * h->n_streams * n;

      for (guint i = 0; i < n; i++)
        x[(gsize) r * n + i] = row[i] / h->n_streams;
      for (guint k = 1; k < h->n_streams; k++)
        {
          multiply (unprojection + (gsize) (k - 1) * n * n, row + k * n, n, n, n, other);
          for (guint i = 0; i < n; i++)
            x[(gsize) r * n + i] += other[i] * get_length (row, n) / get_length (other, n)
                                    / h->n_streams;
        }
    }
}

/* [n_rows × n_embd], of what attention reads. */
static double *
run_laurel (NaiveModel     *self,
            const NaiveRun *run,
            guint           layer,
            const double   *x)
{
  const LlmHparams *h = self->hparams;
  g_autofree float *norm = get_tensor (self, "blk.%u.attn_norm.weight", layer);
  g_autofree float *in = get_tensor (self, "blk.%u.laurel_l.weight", layer);
  g_autofree float *out = get_tensor (self, "blk.%u.laurel_r.weight", layer);
  g_autofree float *post = get_tensor (self, "blk.%u.laurel_post_norm.weight", layer);
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *low = g_new (double, h->laurel_rank);
  double *laurel = g_new (double, (gsize) run->n_rows * h->n_embd);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row = laurel + (gsize) r * h->n_embd;

      normalize (x + (gsize) r * h->n_embd, norm, (double) h->norms.eps, h->n_embd, normed);
      multiply (in, normed, h->n_embd, h->n_embd, h->laurel_rank, low);
      multiply (out, low, h->laurel_rank, h->laurel_rank, h->n_embd, row);
      normalize (row, post, (double) h->norms.eps, h->n_embd, row);
      for (guint i = 0; i < h->n_embd; i++)
        row[i] += normed[i];
    }
  return laurel;
}

static void
free_layers (double **layers)
{
  for (guint i = 0; i < LLM_MAX_LAYERS; i++)
    g_free (layers[i]);
  g_free (layers);
}

void
naive_model_run (NaiveModel     *self,
                 const NaiveRun *run,
                 double         *logits,
                 double         *received)
{
  const LlmHparams *h = self->hparams;
  g_autofree float *embedding = get_tensor (self, "token_embd.weight");
  g_autofree float *output = get_tensor (self, "output.weight");
  g_autofree float *bias = get_tensor (self, "output.bias");
  g_autofree float *norm = get_tensor (self, "output_norm.weight");
  g_autofree double *x = g_new (double, (gsize) run->n_rows * h->n_embd);
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *inputs = NULL, *streams = NULL;
  double **keys = g_new0 (double *, LLM_MAX_LAYERS);
  double **values = g_new0 (double *, LLM_MAX_LAYERS);

  if (received != NULL)
    memset (received, 0, run->n_rows * sizeof *received);
  for (guint r = 0; r < run->n_rows; r++)
    for (guint i = 0; i < h->n_embd; i++)
      x[(gsize) r * h->n_embd + i] = (double) embedding[(gsize) run->tokens[r] * h->n_embd + i]
                                     * (double) h->scales.embedding;

  if (h->n_layer_embd > 0)
    inputs = make_layer_inputs (self, run, x);
  if (h->n_streams > 1)
    streams = begin_streams (self, run, x);
  for (guint layer = 0; layer < h->n_layers; layer++)
    {
      g_autofree float *scale = get_tensor (self, "blk.%u.layer_output_scale.weight", layer);
      g_autofree double *before = g_memdup2 (x, (gsize) run->n_rows * h->n_embd * sizeof *x);
      g_autofree double *laurel = NULL;

      if (streams != NULL)
        predict_streams (self, run, layer, streams, x);
      if (h->laurel_rank > 0)
        laurel = run_laurel (self, run, layer, x);
      if (h->latent.kv_rank > 0)
        run_latent_attention (self, run, layer, x, received);
      else
        run_attention (self, run, layer, x, keys, values, received);
      for (guint i = 0; laurel != NULL && i < run->n_rows * h->n_embd; i++)
        x[i] = (x[i] + laurel[i]) / sqrt (2);
      if (!h->has_parallel_ffn)
        memcpy (before, x, (gsize) run->n_rows * h->n_embd * sizeof *x);
      if (llm_operator_is_in_layer (h, LLM_OP_FFN_DOWN, layer))
        run_ffn (self, run, layer, before, x);
      if (llm_operator_is_in_layer (h, LLM_OP_EXPERT_ROUTER, layer))
        run_experts (self, run, layer, before, x);
      if (streams != NULL)
        correct_streams (self, run, layer, inputs, x, streams);
      else
        add_layer_inputs (self, run, layer, inputs, x);
      for (guint i = 0; scale != NULL && i < run->n_rows * h->n_embd; i++)
        x[i] *= (double) *scale;
    }
  if (streams != NULL)
    join_streams (self, run, streams, x);
  free_layers (keys);
  free_layers (values);

  for (guint r = 0; r < run->n_rows; r++)
    {
      double *row_logits = logits + (gsize) r * h->n_vocab;

      center (h, x + (gsize) r * h->n_embd, normed);
      normalize (normed, norm, (double) h->norms.eps, h->n_embd, normed);
      multiply (output != NULL ? output : embedding, normed, h->n_embd, h->n_embd, h->n_vocab,
                row_logits);
      add (bias, h->n_vocab, row_logits);
      for (guint i = 0; i < h->n_vocab; i++)
        row_logits[i] = cap (row_logits[i] * (double) h->scales.logits, h->scales.logit_softcap);
    }
}

double
naive_model_get_tolerance (NaiveModel     *self,
                           const NaiveRun *run,
                           const LlkOps   *kernels,
                           const double   *expected)
{
  gsize n = (gsize) run->n_rows * self->hparams->n_vocab;
  g_autofree double *logits = NULL;
  NaiveRun rounded = *run;
  double most = 0;

  if (!g_str_has_prefix (kernels->name, "amx"))
    return FLOAT_TOLERANCE;
  logits = g_new (double, n);
  rounded.attention_bits = TILE_BITS;
  rounded.given = NULL;
  naive_model_run (self, &rounded, logits, NULL);
  for (gsize i = 0; i < n; i++)
    most = MAX (most, fabs (logits[i] - expected[i]));
  return FLOAT_TOLERANCE + 8 * most;
}
