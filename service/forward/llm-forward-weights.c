/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-fail.h"
#include "forward/llm-forward-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

/* A provider's mistake must not become a read beyond its memory. */
static gboolean
check_view (LlmForward          *self,
            LlmOperator          op,
            gboolean             is_whole,
            const LlmWeightView *view,
            GError             **error)
{
  guint n_in, n_out;
  gboolean is_right;

  llm_operator_get_shape (self->hparams, op, &n_in, &n_out);
  if (view->channels != NULL)
    {
      is_right = view->in_count <= n_in && view->in_first == 0;
      for (guint i = 0; is_right && i < view->in_count; i++)
        is_right = view->channels[i] < n_in;
    }
  else
    is_right = view->in_count <= n_in && view->in_first <= n_in - view->in_count;
  is_right = is_right && view->out_count <= n_out && view->out_first <= n_out - view->out_count
             && (view->data != NULL || view->out_count == 0 || view->in_count == 0);
  /* What is not cut into segments must be all there. */
  if (is_whole || self->weights->n_segments == 1)
    is_right = is_right && view->out_count == n_out;
  if (is_whole)
    is_right = is_right && view->in_count == n_in && view->channels == NULL;

  if (!is_right)
    llm_fail (error, LLMSVC_ERROR_FAILED,
              "The weights of operator %s, layer %u, were given for %u inputs and %u outputs from "
              "%u and %u on; it has %u and %u", llm_operator_get_name (op), self->layer,
              view->in_count, view->out_count, view->in_first, view->out_first, n_in, n_out);
  return is_right;
}

LlmStatus
llm_forward_acquire (LlmForward           *self,
                     const LlmOperator    *ops,
                     guint                 n_ops,
                     gboolean              is_whole,
                     const LlmActivation  *activation,
                     GError              **error)
{
  guint n_segments = is_whole ? 1 : self->n_used_segments;

  g_assert (n_ops <= LLM_STAGE_MAX_OPS);
  while (self->n_held < n_ops * n_segments)
    {
      LlmOperator op = ops[self->n_held / n_segments];
      LlmWeightView *view = &self->held[self->n_held];
      LlmStatus status;

      memset (view, 0, sizeof *view);
      status = llm_weights_acquire (self->weights, op, self->layer, self->n_held % n_segments,
                                    activation, view, error);
      if (status != LLM_READY)
        return status;

      self->n_held++;
      if (!check_view (self, op, is_whole, view, error))
        return LLM_FAILED;
    }

  return LLM_READY;
}

void
llm_forward_release (LlmForward *self)
{
  for (guint i = 0; i < self->n_held; i++)
    llm_weights_release (self->weights, &self->held[i]);
  self->n_held = 0;
}

static LlmMatmul
make_matmul (LlmForward *self)
{
  return (LlmMatmul) {
    .kernels = self->kernels,
    .pool = self->pool,
    .scratch = self->scratch.workers,
    .scratch_bytes = self->worker_bytes,
    .prepared = self->scratch.prepared,
    .row_bytes = self->row_bytes,
  };
}

/* Segments go one after the other, as they may add to the same outputs; a
 * row's sums are in the order of segments. */
void
llm_forward_multiply (LlmForward        *self,
                      const LlmOperator *ops,
                      guint              n_ops,
                      const float       *x,
                      float *const      *y,
                      gboolean           is_added)
{
  LlmMatmul matmul = make_matmul (self);
  LlmRows rows = { .values = x };
  gboolean is_cut = self->weights->n_segments > 1;
  guint n_segments = self->n_held / n_ops;

  memcpy (rows.first, self->first_row, sizeof rows.first);
  for (guint segment = 0; segment < n_segments; segment++)
    {
      LlmProduct products[LLM_STAGE_MAX_OPS];

      for (guint i = 0; i < n_ops; i++)
        {
          guint n_in, n_out;

          llm_operator_get_shape (self->hparams, ops[i], &n_in, &n_out);
          rows.stride = n_in;
          if (segment == 0 && is_cut && !is_added)
            memset (y[i], 0, (gsize) self->batch->n_rows * n_out * sizeof (float));
          products[i] = (LlmProduct) {
            .view = &self->held[i * n_segments + segment],
            .y = y[i],
            .y_stride = n_out,
            .is_added = is_cut || is_added,
          };
          memcpy (products[i].n_rows, self->segment_rows + segment * LLK_N_ROW_KINDS,
                  sizeof products[i].n_rows);
        }
      llm_matmul_run (&matmul, &rows, products, n_ops);
    }
}

void
llm_forward_multiply_rows (LlmForward       *self,
                           const LlmRows    *rows,
                           const LlmProduct *products,
                           guint             n_products)
{
  LlmMatmul matmul = make_matmul (self);

  llm_matmul_run (&matmul, rows, products, n_products);
}
