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
                 const float         *factors)
{
  LlmW8Form *self = g_new0 (LlmW8Form, 1);
  gsize n_in = view->in_count, panel_bytes = llk_w8_panel_bytes (n_in);
  g_autofree float *rows = g_new (float, N * n_in);

  self->n_panels = (view->out_count + N - 1) / N;
  self->bytes = self->n_panels * (panel_bytes + N * sizeof (float)) + n_in * sizeof (float *);
  self->panels = g_aligned_alloc (self->n_panels, panel_bytes, 64);
  self->scales = g_new (float, self->n_panels * N);
  self->columns = g_new0 (float *, n_in);
  for (guint first = 0; first < view->out_count; first += N)
    {
      guint n = MIN (N, view->out_count - first);

      for (guint o = 0; o < n; o++)
        {
          llm_w8_read_output (kernels, view, first + o, rows + o * n_in);
          for (gsize i = 0; factors != NULL && i < n_in; i++)
            rows[o * n_in + i] *= factors[i];
        }
      llk_w8_pack (rows, n_in, n_in, n, self->panels + first / N * panel_bytes,
                   self->scales + first);
    }
  self->matrix = (LlkW8Matrix) { n_in, view->out_count, self->panels, self->scales };
  return self;
}

void
llm_w8_form_free (LlmW8Form *self)
{
  if (self == NULL)
    return;

  for (gsize i = 0; i < self->matrix.n_in; i++)
    g_free (self->columns[i]);
  g_free (self->columns);
  g_aligned_free (self->panels);
  g_free (self->scales);
  g_free (self);
}

/* Each output is unpacked once for all of them. */
void
llm_w8_form_add_columns (LlmW8Form           *self,
                         const LlkOps        *kernels,
                         const LlmWeightView *view,
                         const guint         *channels,
                         guint                n)
{
  g_autofree guint *missing = g_new (guint, n);
  g_autofree float *row = NULL;
  guint n_missing = 0;

  for (guint i = 0; i < n; i++)
    if (self->columns[channels[i]] == NULL)
      {
        self->columns[channels[i]] = g_new (float, view->out_count);
        missing[n_missing++] = channels[i];
      }
  if (n_missing == 0)
    return;

  self->bytes += (guint64) n_missing * view->out_count * sizeof (float);
  row = g_new (float, view->in_count);
  for (guint o = 0; o < view->out_count; o++)
    {
      llm_w8_read_output (kernels, view, o, row);
      for (guint i = 0; i < n_missing; i++)
        self->columns[missing[i]][o] = row[missing[i]];
    }
}
