/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-w8-form.h"

#define N LLK_W8_OUTPUTS

G_STATIC_ASSERT (LLK_W8_OUTPUTS == LLK_PANEL_OUTPUTS);

const float *
llm_w8_read_output (const LlkOps        *kernels,
                    const LlmWeightView *view,
                    guint                output,
                    float               *dst)
{
  if (view->layout == LLM_LAYOUT_PANELS)
    {
      gsize bytes = llk_panel_bytes (view->type, view->in_first, view->in_count);
      const guint8 *panel = (const guint8 *) view->data + output / N * bytes;

      llk_panel_unpack (view->type, panel, view->in_first, view->in_count, output % N, dst);
    }
  else
    kernels->vector->unpack (view->type,
                             (const guint8 *) view->data + output * view->row_bytes, dst,
                             view->in_count);
  return dst;
}

LlmW8Form *
llm_w8_form_new (const LlkOps        *kernels,
                 const LlmWeightView *view,
                 const float         *factors,
                 const LlmW8Site     *site)
{
  LlmW8Form *self = g_new0 (LlmW8Form, 1);
  gsize n_in = view->in_count, panel_bytes;
  g_autofree float *rows = g_new (float, N * n_in);
  guint n_hot;

  self->hot_of = llm_w8_cut_hot (site, view->in_first, view->in_count, &n_hot);
  self->n_panels = (view->out_count + N - 1) / N;
  panel_bytes = llk_w8_panel_bytes (n_in, n_hot);
  self->bytes = self->n_panels * panel_bytes + (self->hot_of != NULL ? n_in * sizeof (guint16) : 0);
  self->panels = g_aligned_alloc (self->n_panels, panel_bytes, 64);
  self->matrix = (LlkW8Matrix) { n_in, view->out_count, n_hot, self->panels, self->hot_of };
  for (guint first = 0; first < view->out_count; first += N)
    {
      guint n = MIN (N, view->out_count - first);

      for (guint o = 0; o < n; o++)
        {
          llm_w8_read_output (kernels, view, first + o, rows + o * n_in);
          for (gsize i = 0; factors != NULL && i < n_in; i++)
            rows[o * n_in + i] *= factors[i];
        }
      llk_w8_pack (&self->matrix, rows, n_in, n, self->panels + first / N * panel_bytes);
    }
  return self;
}

void
llm_w8_form_free (LlmW8Form *self)
{
  if (self == NULL)
    return;

  g_aligned_free (self->panels);
  g_free (self->hot_of);
  g_free (self);
}
