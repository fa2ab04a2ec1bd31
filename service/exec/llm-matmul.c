/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "exec/llm-matmul.h"

/* Unpacked weights that stay in the first cache together: floats, and rows at most. */
#define GROUP_FLOATS 8192
#define GROUP_ROWS 32
/* Activation rows that a group of weight rows is multiplied with before the next. */
#define TILE_ROWS 12
/* Bytes of weights × activation rows that are worth handing to a worker. */
#define MIN_WORK (32 * 1024)

typedef struct
{
  const LlmMatmul *matmul;
  const LlmProduct *products;
  guint n_products;
} Run;

gsize
llm_matmul_get_scratch (guint n_in)
{
  return MAX ((gsize) GROUP_FLOATS, n_in) + (gsize) TILE_ROWS * n_in;
}

static guint
get_group_rows (guint n_in)
{
  return CLAMP (GROUP_FLOATS / MAX (n_in, 1), 1, GROUP_ROWS);
}

/* The weights of output @out as floats: in place where they are floats already,
 * or unpacked into @buffer. */
static const float *
get_weights (const LlkOps        *kernels,
             const LlmWeightView *view,
             guint                out,
             float               *buffer)
{
  const guint8 *row = (const guint8 *) view->data + out * view->row_bytes;

  if (view->type == LLK_F32 && GPOINTER_TO_SIZE (row) % sizeof (float) == 0)
    return (const float *) (gconstpointer) row;

  kernels->unpack (view->type, row, buffer, view->in_count);
  return buffer;
}

/* The inputs that the view has weights for, side by side. */
static void
gather_channels (const LlmProduct *product,
                 guint             first_row,
                 guint             n_rows,
                 float            *gathered)
{
  const LlmWeightView *view = product->view;

  for (guint r = 0; r < n_rows; r++)
    {
      const float *x = product->x + (first_row + r) * product->x_stride;

      for (guint i = 0; i < view->in_count; i++)
        gathered[(gsize) r * view->in_count + i] = x[view->channels[i]];
    }
}

static void
multiply_tile (const LlkOps     *kernels,
               const LlmProduct *product,
               const float      *weights,
               const float      *x,
               gsize             x_stride,
               guint             first_row,
               guint             n_rows,
               guint             out)
{
  float *y = product->y + first_row * product->y_stride + product->view->out_first + out;
  float sums[TILE_ROWS];

  if (!product->is_added)
    {
      kernels->dot_rows (weights, x, x_stride, n_rows, product->view->in_count, y,
                         product->y_stride);
      return;
    }

  kernels->dot_rows (weights, x, x_stride, n_rows, product->view->in_count, sums, 1);
  for (guint r = 0; r < n_rows; r++)
    y[r * product->y_stride] += sums[r];
}

/* Outputs [@first, @first + @n) of the view, n at most get_group_rows(). */
static void
multiply_group (const LlkOps     *kernels,
                const LlmProduct *product,
                guint             first,
                guint             n,
                float            *scratch)
{
  const LlmWeightView *view = product->view;
  float *gathered = scratch + MAX ((gsize) GROUP_FLOATS, view->in_count);
  const float *weights[GROUP_ROWS];

  for (guint i = 0; i < n; i++)
    weights[i] = get_weights (kernels, view, first + i, scratch + (gsize) i * view->in_count);

  for (guint row = 0; row < product->n_rows; row += TILE_ROWS)
    {
      guint n_rows = MIN (TILE_ROWS, product->n_rows - row);
      const float *x = product->x + row * product->x_stride + view->in_first;
      gsize x_stride = product->x_stride;

      if (view->channels != NULL)
        {
          gather_channels (product, row, n_rows, gathered);
          x = gathered;
          x_stride = view->in_count;
        }
      for (guint i = 0; i < n; i++)
        multiply_tile (kernels, product, weights[i], x, x_stride, row, n_rows, first + i);
    }
}

/* Items are the outputs of all products, one product behind the other. */
static void
multiply_items (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const Run *run = data;
  const LlmMatmul *matmul = run->matmul;
  float *scratch = matmul->scratch + worker * matmul->scratch_floats;
  guint base = 0;

  for (guint p = 0; p < run->n_products; p++)
    {
      const LlmProduct *product = &run->products[p];
      guint limit = MIN (end, base + product->view->out_count);
      guint step = get_group_rows (product->view->in_count);

      for (guint item = MAX (first, base); item < limit; item += step)
        multiply_group (matmul->kernels, product, item - base, MIN (step, limit - item), scratch);
      base += product->view->out_count;
    }
}

void
llm_matmul_run (const LlmMatmul  *self,
                const LlmProduct *products,
                guint             n_products)
{
  Run run = { self, products, n_products };
  guint n_items = 0;
  guint grain = 1;

  for (guint p = 0; p < n_products; p++)
    {
      const LlmWeightView *view = products[p].view;
      gsize work = MAX (view->row_bytes, 1) * MAX (products[p].n_rows, 1);

      g_assert (llm_matmul_get_scratch (view->in_count) <= self->scratch_floats);
      n_items += view->out_count;
      grain = MAX (grain, MAX (MIN_WORK / work, get_group_rows (view->in_count)));
    }
  llm_worker_pool_run (self->pool, n_items, grain, multiply_items, &run);
}
