/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-matmul-floats.h"

/* Unpacked weights that stay in the first cache together: floats, and rows at most. */
#define GROUP_FLOATS 8192
#define GROUP_ROWS 32
/* Activation rows that a group of weight rows is multiplied with before the next. */
#define TILE_ROWS 12

/* Values of the whole blocks of a row that hold the view's inputs, and those before them. */
static guint
get_row_values (const LlmWeightView *view,
                guint               *n_before)
{
  guint block = (guint) llk_type_block_size (view->type);

  *n_before = view->in_first % block;
  return (*n_before + view->in_count + block - 1) / block * block;
}

/* The weights of output @out as floats: in place where they are floats already,
 * or dequantized into @buffer, which has room for get_row_values(). */
static const float *
get_weights (const LlkOps        *kernels,
             const LlmWeightView *view,
             guint                out,
             float               *buffer)
{
  const guint8 *row = (const guint8 *) view->data + out * view->row_bytes;
  guint n_before;
  guint n_values = get_row_values (view, &n_before);

  if (view->type == LLK_F32 && GPOINTER_TO_SIZE (row) % sizeof (float) == 0)
    return (const float *) (gconstpointer) row;

  kernels->vector->unpack (view->type, row, buffer, n_values);
  return buffer + n_before;
}

/* The inputs that the view has weights for, side by side. */
static void
gather_channels (const LlmRows       *rows,
                 const LlmWeightView *view,
                 guint                first_row,
                 guint                n_rows,
                 float               *gathered)
{
  for (guint r = 0; r < n_rows; r++)
    {
      const float *x = rows->values + (first_row + r) * rows->stride;

      for (guint i = 0; i < view->in_count; i++)
        gathered[(gsize) r * view->in_count + i] = x[view->channels[i]];
    }
}

static void
multiply_tile (const LlkOps          *kernels,
               const LlmFloatProduct *product,
               const float           *weights,
               const float           *x,
               gsize                  x_stride,
               guint                  first_row,
               guint                  n_rows,
               guint                  out)
{
  const LlmWeightView *view = product->view;
  gsize y_stride = product->y_stride;
  float *y = product->y + first_row * y_stride + view->out_first + out;
  float sums[TILE_ROWS];

  if (!product->is_added)
    {
      kernels->vector->dot_rows (weights, x, x_stride, n_rows, view->in_count, y, y_stride);
      return;
    }

  kernels->vector->dot_rows (weights, x, x_stride, n_rows, view->in_count, sums, 1);
  for (guint r = 0; r < n_rows; r++)
    y[r * y_stride] += sums[r];
}

guint
llm_float_product_get_group (const LlmWeightView *view)
{
  guint n_before;

  return CLAMP (GROUP_FLOATS / MAX (get_row_values (view, &n_before), 1), 1, GROUP_ROWS);
}

gsize
llm_float_product_get_scratch (guint n_in)
{
  return MAX ((gsize) GROUP_FLOATS, n_in) + (gsize) TILE_ROWS * n_in;
}

void
llm_float_product_run (const LlkOps          *kernels,
                       const LlmFloatProduct *product,
                       guint                  first,
                       guint                  n,
                       float                 *scratch)
{
  const LlmWeightView *view = product->view;
  guint n_before;
  guint n_values = get_row_values (view, &n_before);
  float *gathered = scratch + MAX ((gsize) GROUP_FLOATS, n_values);
  const float *weights[GROUP_ROWS];

  for (guint i = 0; i < n; i++)
    weights[i] = get_weights (kernels, view, first + i, scratch + (gsize) i * n_values);

  for (guint row = 0; row < product->n_rows; row += TILE_ROWS)
    {
      guint n_rows = MIN (TILE_ROWS, product->n_rows - row);
      const float *x = product->rows.values + row * product->rows.stride + view->in_first;
      gsize x_stride = product->rows.stride;

      if (view->channels != NULL)
        {
          gather_channels (&product->rows, view, row, n_rows, gathered);
          x = gathered;
          x_stride = view->in_count;
        }
      for (guint i = 0; i < n; i++)
        multiply_tile (kernels, product, weights[i], x, x_stride, row, n_rows, first + i);
    }
}
