/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-feedback.h"

#include <math.h>

#define BLOCK LLK_KV_FEEDBACK
/* Outputs that are looked at: so many say how a head's dimensions go together. */
#define MAX_OUTPUTS 256
/* Of the mean square of a dimension's weights, added to each: layers behind see the error in other
 * ways, too. */
#define DAMPING 0.03f
/* A matrix that asks for more is nearly singular, and better not followed. */
#define MAX_SHARE 4.0f

/* The products of the weights of each two dimensions of a block, [BLOCK × BLOCK]; those of all
 * heads that read the same values together. */
static void
add_products (const float *weights,
              guint        n,
              float       *products)
{
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < BLOCK && j < n; j++)
      products[i * BLOCK + j] += weights[i] * weights[j];
}

static void
add_row (const LlmLayer *layer,
         const float    *row,
         float          *products)
{
  guint dim = layer->head_dim;
  guint group = layer->n_heads / layer->n_kv_heads;

  for (guint head = 0; head < layer->n_heads; head++)
    for (guint first = 0; first < dim; first += BLOCK)
      add_products (row + (gsize) head * dim + first, MIN (BLOCK, dim - first),
                    products + ((gsize) (head / group) * dim + first) * BLOCK);
}

/* The error is e' C e, with C the damped products; it is also the sum over d of D[d] × (e[d] + the
 * sum over i < d of U[i][d] × e[i])², where C = U D U', U being 1 on its diagonal and 0 below. So
 * dimension d is to be off by the sum the other way. @block: the first @n rows of C become U'. */
static void
factor_block (float *block,
              guint  n)
{
  double c[BLOCK][BLOCK] = { 0 }, pivots[BLOCK] = { 0 }, mean = 0;

  for (guint i = 0; i < n; i++)
    mean += (double) block[i * BLOCK + i] / n;
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < n; j++)
      c[i][j] = (double) block[i * BLOCK + j] + (i == j ? DAMPING * mean : 0);
  memset (block, 0, n * BLOCK * sizeof (float));
  if (!(mean > 0) || !isfinite (mean))
    return;

  for (guint d = n; d-- > 0;)
    {
      pivots[d] = c[d][d];
      for (guint i = 0; i < d; i++)
        {
          double share = pivots[d] > 0 ? c[i][d] / pivots[d] : 0;

          for (guint j = 0; j <= i; j++)
            c[j][i] -= share * c[j][d];
          block[d * BLOCK + i] = (float) CLAMP (share, -MAX_SHARE, MAX_SHARE);
        }
    }
}

/* [n_kv_heads × head_dim × BLOCK] of a layer. */
static void
measure_layer (LlmGguf             *gguf,
               const LlmLayer      *layer,
               const LlkOps        *kernels,
               const LlmTensorPart *part,
               float               *feedback)
{
  const guint8 *rows = llm_file_map_get_data (gguf->map) + part->offset;
  g_autofree float *row = g_new (float, part->n_in);
  guint dim = layer->head_dim;

  for (guint out = 0; out < MIN (part->n_out, MAX_OUTPUTS); out++)
    {
      kernels->vector->unpack (part->type, rows + out * part->row_bytes, row, part->n_in);
      add_row (layer, row, feedback);
    }
  for (guint head = 0; head < layer->n_kv_heads; head++)
    for (guint first = 0; first < dim; first += BLOCK)
      factor_block (feedback + ((gsize) head * dim + first) * BLOCK, MIN (BLOCK, dim - first));
}

float *
llm_feedback_new (LlmGguf          *gguf,
                  const LlmHparams *hparams,
                  const LlkOps     *kernels)
{
  g_autofree float *feedback =
    g_new0 (float, (gsize) hparams->n_kv_layers * hparams->kv_width * BLOCK);
  gsize at = 0;

  for (guint i = 0; i < hparams->n_kv_layers; i++)
    {
      const LlmLayer *layer = &hparams->layers[i];
      LlmTensorPart part;

      if (!llm_operator_find (gguf, hparams, LLM_OP_ATTENTION_OUT, i, &part, NULL)
          || part.tensor == NULL || part.n_in != layer->n_heads * layer->head_dim)
        return NULL;
      measure_layer (gguf, layer, kernels, &part, feedback + at);
      at += (gsize) layer->n_kv_heads * layer->head_dim * BLOCK;
    }
  return g_steal_pointer (&feedback);
}
