/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "naive-model.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "support/llm-test-gguf.h"

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

  n = tensor->dims[0] * tensor->dims[1];
  values = g_new (float, n);
  llm_test_dequantize (tensor->type,
                       llm_file_map_get_data (llm_gguf_get_map (self->gguf)) + tensor->offset, n,
                       values);
  return values;
}

/* y[o] (+)= sum of w[o, i] × x[i] over the inputs that take part. */
static void
multiply (const float  *w,
          const double *x,
          guint         n_in,
          guint         n_active_in,
          guint         n_out,
          gboolean      is_added,
          double       *y)
{
  for (guint o = 0; o < n_out; o++)
    {
      double sum = 0;

      for (guint i = 0; i < n_active_in; i++)
        sum += w[(gsize) o * n_in + i] * x[i];
      y[o] = is_added ? y[o] + sum : sum;
    }
}

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
    y[i] = x[i] / sqrt (squares / n + eps) * weight[i];
}

static void
rotate (NaiveModel  *self,
        const float *factors,
        guint        position,
        double      *head)
{
  const LlmHparams *h = self->hparams;

  for (guint i = 0; i < h->rope_dim / 2; i++)
    {
      guint first = h->rope_kind == LLM_ROPE_NORM ? 2 * i : i;
      guint second = h->rope_kind == LLM_ROPE_NORM ? 2 * i + 1 : i + h->rope_dim / 2;
      double angle = position * pow (h->rope_base, -2.0 * i / h->rope_dim)
                     / (factors != NULL ? factors[i] : 1) / h->rope_scale;
      double a = head[first];
      double b = head[second];

      head[first] = a * cos (angle) - b * sin (angle);
      head[second] = a * sin (angle) + b * cos (angle);
    }
}

/* One head of one row over all rows it sees. */
static void
attend (NaiveModel     *self,
        const NaiveRun *run,
        guint           row,
        guint           head,
        const double   *q,
        const double   *k,
        const double   *v,
        double         *out,
        double         *mass)
{
  const LlmHparams *h = self->hparams;
  guint n_kv = h->n_kv_heads * h->head_dim;
  guint kv_head = head / (h->n_heads / h->n_kv_heads);
  g_autofree double *shares = g_new0 (double, run->n_rows);
  double max = -INFINITY, sum = 0;

  for (guint s = 0; s < run->n_rows; s++)
    if (run->sees (row, s, run->data))
      {
        for (guint i = 0; i < h->head_dim; i++)
          shares[s] += q[i] * k[(gsize) s * n_kv + kv_head * h->head_dim + i];
        shares[s] /= sqrt (h->head_dim);
        max = MAX (max, shares[s]);
      }
  for (guint s = 0; s < run->n_rows; s++)
    {
      shares[s] = run->sees (row, s, run->data) ? exp (shares[s] - max) : 0;
      sum += shares[s];
    }
  memset (out, 0, h->head_dim * sizeof *out);
  for (guint s = 0; s < run->n_rows; s++)
    {
      for (guint i = 0; i < h->head_dim; i++)
        out[i] += shares[s] / sum * v[(gsize) s * n_kv + kv_head * h->head_dim + i];
      if (mass != NULL)
        mass[s] += shares[s] / sum / h->n_heads / h->n_layers;
    }
}

static void
run_attention (NaiveModel     *self,
               const NaiveRun *run,
               guint           layer,
               double         *x,
               double         *mass)
{
  const LlmHparams *h = self->hparams;
  guint n_query = h->n_heads * h->head_dim;
  guint n_kv = h->n_kv_heads * h->head_dim;
  guint n_active = (run->n_heads > 0 ? run->n_heads : h->n_heads) * h->head_dim;
  g_autofree float *norm = get_tensor (self, "blk.%u.attn_norm.weight", layer);
  g_autofree float *wq = get_tensor (self, "blk.%u.attn_q.weight", layer);
  g_autofree float *wk = get_tensor (self, "blk.%u.attn_k.weight", layer);
  g_autofree float *wv = get_tensor (self, "blk.%u.attn_v.weight", layer);
  g_autofree float *wo = get_tensor (self, "blk.%u.attn_output.weight", layer);
  g_autofree float *factors = get_tensor (self, "rope_freqs.weight");
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *q = g_new (double, (gsize) run->n_rows * n_query);
  g_autofree double *k = g_new (double, (gsize) run->n_rows * n_kv);
  g_autofree double *v = g_new (double, (gsize) run->n_rows * n_kv);
  g_autofree double *out = g_new (double, n_query);

  for (guint r = 0; r < run->n_rows; r++)
    {
      normalize (x + (gsize) r * h->n_embd, norm, (double) h->rms_eps, h->n_embd, normed);
      multiply (wq, normed, h->n_embd, h->n_embd, n_query, FALSE, q + (gsize) r * n_query);
      multiply (wk, normed, h->n_embd, h->n_embd, n_kv, FALSE, k + (gsize) r * n_kv);
      multiply (wv, normed, h->n_embd, h->n_embd, n_kv, FALSE, v + (gsize) r * n_kv);
      for (guint head = 0; head < h->n_heads; head++)
        rotate (self, factors, run->positions[r],
                q + (gsize) r * n_query + head * h->head_dim);
      for (guint head = 0; head < h->n_kv_heads; head++)
        rotate (self, factors, run->positions[r], k + (gsize) r * n_kv + head * h->head_dim);
    }
  for (guint r = 0; r < run->n_rows; r++)
    {
      for (guint head = 0; head < h->n_heads; head++)
        attend (self, run, r, head, q + (gsize) r * n_query + head * h->head_dim, k, v,
                out + head * h->head_dim, mass);
      multiply (wo, out, n_query, n_active, h->n_embd, TRUE, x + (gsize) r * h->n_embd);
    }
}

static void
run_ffn (NaiveModel     *self,
         const NaiveRun *run,
         guint           layer,
         double         *x)
{
  const LlmHparams *h = self->hparams;
  guint n_active = run->n_ff > 0 ? run->n_ff : h->n_ff;
  g_autofree float *norm = get_tensor (self, "blk.%u.ffn_norm.weight", layer);
  g_autofree float *wgate = get_tensor (self, "blk.%u.ffn_gate.weight", layer);
  g_autofree float *wup = get_tensor (self, "blk.%u.ffn_up.weight", layer);
  g_autofree float *wdown = get_tensor (self, "blk.%u.ffn_down.weight", layer);
  g_autofree double *normed = g_new (double, h->n_embd);
  g_autofree double *gate = g_new (double, h->n_ff);
  g_autofree double *up = g_new (double, h->n_ff);

  for (guint r = 0; r < run->n_rows; r++)
    {
      normalize (x + (gsize) r * h->n_embd, norm, (double) h->rms_eps, h->n_embd, normed);
      multiply (wgate, normed, h->n_embd, h->n_embd, h->n_ff, FALSE, gate);
      multiply (wup, normed, h->n_embd, h->n_embd, h->n_ff, FALSE, up);
      for (guint i = 0; i < h->n_ff; i++)
        gate[i] = gate[i] / (1 + exp (-gate[i])) * up[i];
      multiply (wdown, gate, h->n_ff, n_active, h->n_embd, TRUE, x + (gsize) r * h->n_embd);
    }
}

void
naive_model_run (NaiveModel     *self,
                 const NaiveRun *run,
                 double         *logits,
                 double         *mass)
{
  const LlmHparams *h = self->hparams;
  g_autofree float *embedding = get_tensor (self, "token_embd.weight");
  g_autofree float *output = get_tensor (self, "output.weight");
  g_autofree float *norm = get_tensor (self, "output_norm.weight");
  g_autofree double *x = g_new (double, (gsize) run->n_rows * h->n_embd);
  g_autofree double *normed = g_new (double, h->n_embd);

  if (mass != NULL)
    memset (mass, 0, run->n_rows * sizeof *mass);
  for (guint r = 0; r < run->n_rows; r++)
    for (guint i = 0; i < h->n_embd; i++)
      x[(gsize) r * h->n_embd + i] = embedding[(gsize) run->tokens[r] * h->n_embd + i];

  for (guint layer = 0; layer < h->n_layers; layer++)
    {
      run_attention (self, run, layer, x, mass);
      run_ffn (self, run, layer, x);
    }

  for (guint r = 0; r < run->n_rows; r++)
    {
      normalize (x + (gsize) r * h->n_embd, norm, (double) h->rms_eps, h->n_embd, normed);
      multiply (output != NULL ? output : embedding, normed, h->n_embd, h->n_embd, h->n_vocab,
                FALSE, logits + (gsize) r * h->n_vocab);
    }
}
