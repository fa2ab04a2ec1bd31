/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-matmul-adapted.h"

/* First halves with more outputs are not worth a way of their own. */
#define MAX_NARROW_OUTPUTS 64

/* All kinds of halves: outputs [@first, @end). */
static void
multiply (const LlkOps          *kernels,
          const LlmFloatProduct *product,
          guint                  first,
          guint                  end,
          float                 *scratch)
{
  guint n_group = llm_float_product_get_group (product->view);

  for (; first < end; first += n_group)
    llm_float_product_run (kernels, product, first, MIN (n_group, end - first), scratch);
}

/* Outputs [@first, @first + @n) as floats. */
static void
unpack_rows (const LlkOps        *kernels,
             const LlmWeightView *view,
             guint                first,
             guint                n,
             float               *floats)
{
  const guint8 *rows = (const guint8 *) view->data + first * view->row_bytes;
  guint n_in = view->in_count;

  if (view->row_bytes == n_in * llk_type_block_bytes (view->type))
    kernels->vector->unpack (view->type, rows, floats, (gsize) n * n_in);
  else
    for (guint i = 0; i < n; i++)
      kernels->vector->unpack (view->type, rows + i * view->row_bytes, floats + (gsize) i * n_in, n_in);
}

/* Outputs [@first, @first + LLK_NARROW_OUTPUTS). */
static void
multiply_narrow (const LlkOps          *kernels,
                 const LlmFloatProduct *product,
                 guint                  first,
                 float                 *scratch)
{
  unpack_rows (kernels, product->view, first, LLK_NARROW_OUTPUTS, scratch);
  kernels->vector->dot_narrow (scratch, product->rows.values, product->rows.stride, product->n_rows,
                               product->view->in_count, product->y + first, product->y_stride);
}

void
llm_adapted_begin (const LlkOps     *kernels,
                   const LlmAdapted *self,
                   const LlmRows    *rows,
                   guint             first,
                   guint             end,
                   float            *scratch)
{
  const LlmWeightView *a = &self->a;
  LlmFloatProduct product = { .view = a, .y_stride = a->out_count };

  first = MAX (first, self->first);
  end = MIN (end, self->first + self->n_rows);
  if (first >= end)
    return;
  product.rows = (LlmRows) { rows->values + first * rows->stride, rows->stride };
  product.n_rows = end - first;
  product.y = self->between + (gsize) (first - self->first) * a->out_count;
  if (a->type == LLK_F16 && a->out_count % LLK_NARROW_OUTPUTS == 0 && a->out_count <= MAX_NARROW_OUTPUTS)
    for (guint out = 0; out < a->out_count; out += LLK_NARROW_OUTPUTS)
      multiply_narrow (kernels, &product, out, scratch);
  else
    multiply (kernels, &product, 0, a->out_count, scratch);
  for (gsize i = 0; i < (gsize) product.n_rows * a->out_count; i++)
    product.y[i] *= self->scale;
}

/* Outputs [@first, @first + @n) of a second half with few inputs. */
static void
add_thin (const LlkOps          *kernels,
          const LlmFloatProduct *product,
          guint                  first,
          guint                  n,
          float                 *scratch)
{
  guint n_in = product->view->in_count;

  unpack_rows (kernels, product->view, first, n, scratch);
  kernels->vector->add_thin (scratch, product->rows.values, n_in, product->n_rows, n_in, n,
                             product->y + first, product->y_stride);
}

void
llm_adapted_end (const LlkOps     *kernels,
                 const LlmAdapted *self,
                 guint             first,
                 guint             n,
                 float            *y,
                 gsize             y_stride,
                 float            *scratch)
{
  const LlmWeightView *b = &self->b;
  const LlmFloatProduct product = {
    .view = b,
    .rows = { self->between, b->in_count },
    .n_rows = self->n_rows,
    .y = y + self->first * y_stride,
    .y_stride = y_stride,
    .is_added = TRUE,
  };
  guint end = MIN (first + n, b->out_count);

  if (llk_type_block_size (b->type) != 1 || b->in_count > LLK_THIN_INPUTS)
    {
      multiply (kernels, &product, first, end, scratch);
      return;
    }
  for (; first < end; first += LLK_THIN_OUTPUTS)
    add_thin (kernels, &product, first, MIN (LLK_THIN_OUTPUTS, end - first), scratch);
}

guint64
llm_adapted_count (const LlmAdapted *self)
{
  return (guint64) self->n_rows * self->b.in_count * (self->a.in_count + self->b.out_count);
}
