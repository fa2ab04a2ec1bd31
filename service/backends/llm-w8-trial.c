/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-w8-trial.h"

#include "base/llm-clock.h"

#define N_ROWS 64
#define N_PANELS 8
#define N_TURNS 5

typedef struct
{
  const LlkOps *kernels;
  const LlkProduct *product;   /* (unowned): of the packed weights */
  const LlkW8Matrix *w8;
  LlkMatrix packed;
  gsize n_panels, n_in;
  float *x, *y;                /* (owned) */
  guint8 *rows;                /* (owned) */
  gpointer scratch;            /* (owned) */
} Trial;

G_STATIC_ASSERT (LLK_PANEL_OUTPUTS == LLK_W8_OUTPUTS);

/* Returns its microseconds. */
static double
run_w8 (Trial *self)
{
  gsize bytes = llk_w8_row_bytes (self->n_in);
  gint64 begin = g_get_monotonic_time ();

  for (guint r = 0; r < N_ROWS; r++)
    self->kernels->w8->quantize (self->x + r * self->n_in, self->n_in, 1 / (float) LLK_W8_LIMIT,
                                 (gpointer) (self->rows + r * bytes));
  self->kernels->w8->multiply (self->w8, 0, self->n_panels, (gpointer) self->rows, N_ROWS, self->y,
                               N_PANELS * LLK_W8_OUTPUTS, FALSE);
  return (double) (g_get_monotonic_time () - begin);
}

static double
run_packed (Trial *self)
{
  gsize bytes = llk_activation_bytes (self->product->activation, self->n_in);
  gint64 begin = g_get_monotonic_time ();

  for (guint r = 0; r < N_ROWS; r++)
    self->kernels->product->prepare (self->product->activation, self->x + r * self->n_in,
                                     self->n_in, self->n_in, self->rows + r * bytes);
  self->product->multiply (&self->packed, 0, self->n_panels, self->rows, N_ROWS, self->y,
                           N_PANELS * LLK_W8_OUTPUTS, FALSE, self->scratch);
  return (double) (g_get_monotonic_time () - begin);
}

double
llm_w8_trial (const LlkOps        *kernels,
              const LlmWeightView *view,
              const LlkW8Matrix   *w8)
{
  const LlkPiece piece = { view->data, view->in_count, N_ROWS };
  gsize n_out = MIN (MIN (view->out_count, w8->n_out), N_PANELS * LLK_W8_OUTPUTS);
  Trial self = {
    .kernels = kernels, .w8 = w8, .n_in = view->in_count,
    .n_panels = (n_out + LLK_W8_OUTPUTS - 1) / LLK_W8_OUTPUTS,
    .packed = { view->type, view->in_count, n_out, &piece, 1 },
  };
  double least = G_MAXDOUBLE, least_w8 = G_MAXDOUBLE;

  if (view->layout == LLM_LAYOUT_PANELS)
    self.product = kernels->product->find (view->type);
  if (self.product == NULL)
    return 0;
  self.x = g_new (float, N_ROWS * self.n_in);
  self.y = g_new (float, N_ROWS * N_PANELS * LLK_W8_OUTPUTS);
  self.rows = g_aligned_alloc (N_ROWS, MAX (llk_w8_row_bytes (self.n_in),
                                            llk_activation_bytes (self.product->activation,
                                                                  self.n_in)), 64);
  self.scratch = g_aligned_alloc (self.product->scratch + 64, 1, 64);
  for (gsize i = 0; i < N_ROWS * self.n_in; i++)
    self.x[i] = (float) (i * 37 % 255) / 127 - 1;
  for (guint i = 0; i <= N_TURNS; i++)
    {
      double packed_us = run_packed (&self), w8_us = run_w8 (&self);

      /* the first turn reads both into the cache */
      least = i > 0 ? MIN (least, packed_us) : least;
      least_w8 = i > 0 ? MIN (least_w8, w8_us) : least_w8;
    }
  g_free (self.x);
  g_free (self.y);
  g_aligned_free (self.rows);
  g_aligned_free (self.scratch);
  return least / MAX (least_w8, 1);
}
