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

/* Makes room for the columns of hot channels. */
static void
add_columns (LlmW8Form    *self,
             const guint8 *is_hot,
             gsize         n_in)
{
  guint16 n = 0;

  self->column_of = g_new0 (guint16, n_in);
  for (gsize i = 0; i < n_in; i++)
    if (is_hot[i] && n < G_MAXUINT16)
      self->column_of[i] = ++n;
  self->columns = g_new0 (float, (gsize) n * self->n_panels * N);
  self->bytes += n_in * sizeof (guint16) + (guint64) n * self->n_panels * N * sizeof (float);
}

LlmW8Form *
llm_w8_form_new (const LlkOps        *kernels,
                 const LlmWeightView *view,
                 const float         *factors,
                 const guint8        *is_hot)
{
  LlmW8Form *self = g_new0 (LlmW8Form, 1);
  gsize n_in = view->in_count, panel_bytes = llk_w8_panel_bytes (n_in);
  g_autofree float *rows = g_new (float, N * n_in);

  self->n_panels = (view->out_count + N - 1) / N;
  self->bytes = self->n_panels * (panel_bytes + N * sizeof (float));
  self->panels = g_aligned_alloc (self->n_panels, panel_bytes, 64);
  self->scales = g_new (float, self->n_panels * N);
  if (is_hot != NULL)
    add_columns (self, is_hot, n_in);
  for (guint first = 0; first < view->out_count; first += N)
    {
      guint n = MIN (N, view->out_count - first);

      for (guint o = 0; o < n; o++)
        {
          llm_w8_read_output (kernels, view, first + o, rows + o * n_in);
          for (gsize i = 0; factors != NULL && i < n_in; i++)
            rows[o * n_in + i] *= factors[i];
          for (gsize i = 0; is_hot != NULL && i < n_in; i++)
            if (self->column_of[i] != 0)
              self->columns[(self->column_of[i] - 1u) * self->n_panels * N + first + o] =
                rows[o * n_in + i];
        }
      llk_w8_pack (rows, n_in, n_in, n, self->panels + first / N * panel_bytes,
                   self->scales + first);
    }
  self->matrix = (LlkW8Matrix) { n_in, view->out_count, self->panels, self->scales,
                                  self->column_of, self->columns };
  return self;
}

void
llm_w8_form_free (LlmW8Form *self)
{
  if (self == NULL)
    return;

  g_aligned_free (self->panels);
  g_free (self->scales);
  g_free (self->column_of);
  g_free (self->columns);
  g_free (self);
}
