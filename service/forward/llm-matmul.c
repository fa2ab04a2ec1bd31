/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-matmul.h"

/* Unpacked weights that stay in the first cache together: floats, and rows at most. */
#define GROUP_FLOATS 8192
#define GROUP_ROWS 32
/* Activation rows that a group of weight rows is multiplied with before the next. */
#define TILE_ROWS 12
/* Bytes of weights × activation rows that are worth handing to a worker. */
#define MIN_WORK (32 * 1024)
/* Values to prepare that are worth it. */
#define MIN_PREPARED 16384
/* Products of one run at most. */
#define MAX_PRODUCTS 8

/* A product as the workers see it: cut into units of outputs. */
typedef struct
{
  const LlmProduct *product;
  const LlkProduct *kernels[LLK_N_ROW_KINDS];   /* of panels; NULL where there are no rows */
  guint unit;                                   /* outputs */
  guint n_units;
} Part;

typedef struct
{
  const LlmMatmul *matmul;
  const LlmRows *rows;
  Part parts[MAX_PRODUCTS];
  guint n_parts;

  /* What is being prepared. */
  LlkRowKind kind;
  LlkActivation form;
  guint in_first;
  guint in_count;
} Run;

/* --- weights as rows of a file --- */

static guint
get_group_rows (guint n_in)
{
  return CLAMP (GROUP_FLOATS / MAX (n_in, 1), 1, GROUP_ROWS);
}

/* The weights of output @out as floats: in place where they are floats already,
 * or dequantized into @buffer. */
static const float *
get_weights (const LlkOps        *kernels,
             const LlmWeightView *view,
             guint                out,
             float               *buffer)
{
  const guint8 *row = (const guint8 *) view->data + out * view->row_bytes;

  if (view->type == LLK_F32 && GPOINTER_TO_SIZE (row) % sizeof (float) == 0)
    return (const float *) (gconstpointer) row;

  kernels->vector->unpack (view->type, row, buffer, view->in_count);
  return buffer;
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
      kernels->vector->dot_rows (weights, x, x_stride, n_rows, product->view->in_count, y,
                                 product->y_stride);
      return;
    }

  kernels->vector->dot_rows (weights, x, x_stride, n_rows, product->view->in_count, sums, 1);
  for (guint r = 0; r < n_rows; r++)
    y[r * product->y_stride] += sums[r];
}

/* Outputs [@first, @first + @n) of the view, n at most get_group_rows(). */
static void
multiply_floats (const Run        *run,
                 const LlmProduct *product,
                 guint             first,
                 guint             n,
                 float            *scratch)
{
  const LlmWeightView *view = product->view;
  const LlkOps *kernels = run->matmul->kernels;
  float *gathered = scratch + MAX ((gsize) GROUP_FLOATS, view->in_count);
  const float *weights[GROUP_ROWS];

  for (guint i = 0; i < n; i++)
    weights[i] = get_weights (kernels, view, first + i, scratch + (gsize) i * view->in_count);

  for (guint kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    for (guint done = 0; done < product->n_rows[kind]; done += TILE_ROWS)
      {
        guint row = run->rows->first[kind] + done;
        guint n_rows = MIN (TILE_ROWS, product->n_rows[kind] - done);
        const float *x = run->rows->values + row * run->rows->stride + view->in_first;
        gsize x_stride = run->rows->stride;

        if (view->channels != NULL)
          {
            gather_channels (run->rows, view, row, n_rows, gathered);
            x = gathered;
            x_stride = view->in_count;
          }
        for (guint i = 0; i < n; i++)
          multiply_tile (kernels, product, weights[i], x, x_stride, row, n_rows, first + i);
      }
}

/* --- weights in panels --- */

static guint8 *
get_prepared (const Run *run,
              guint      kind)
{
  return run->matmul->prepared + run->rows->first[kind] * run->matmul->row_bytes;
}

static void
multiply_panels (const Run  *run,
                 const Part *part,
                 guint       first,
                 guint       n,
                 gpointer    scratch)
{
  const LlmProduct *product = part->product;
  const LlmWeightView *view = product->view;
  LlkMatrix matrix = { view->type, view->data, view->in_count, view->out_count };

  for (guint kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    if (part->kernels[kind] != NULL)
      part->kernels[kind]->multiply (&matrix, first / LLK_PANEL_OUTPUTS,
                                     (n + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS,
                                     get_prepared (run, kind), product->n_rows[kind],
                                     product->y + run->rows->first[kind] * product->y_stride
                                       + view->out_first,
                                     product->y_stride, product->is_added, scratch);
}

static void
prepare_items (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  const Run *run = data;
  gsize row_bytes = llk_activation_bytes (run->form, run->in_count);
  guint8 *prepared = get_prepared (run, run->kind);

  for (guint r = first; r < end; r++)
    run->matmul->kernels->product->prepare (run->form,
                                            run->rows->values
                                              + (run->rows->first[run->kind] + r)
                                                  * run->rows->stride
                                              + run->in_first,
                                            run->in_count, prepared + r * row_bytes);
}

/* --- both --- */

/* Items are the units of all parts, one part behind the other. */
static void
multiply_items (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const Run *run = data;
  guint8 *scratch = run->matmul->scratch + worker * run->matmul->scratch_bytes;
  guint base = 0;

  for (guint p = 0; p < run->n_parts; p++)
    {
      const Part *part = &run->parts[p];
      guint n_out = part->product->view->out_count;

      for (guint item = MAX (first, base); item < MIN (end, base + part->n_units); item++)
        {
          guint out = (item - base) * part->unit;
          guint n = MIN (part->unit, n_out - out);

          if (part->product->view->layout == LLM_LAYOUT_PANELS)
            multiply_panels (run, part, out, n, scratch);
          else
            multiply_floats (run, part->product, out, n, (float *) (gpointer) scratch);
        }
      base += part->n_units;
    }
}

static Part
make_part (const LlmMatmul  *self,
           const LlmProduct *product)
{
  const LlmWeightView *view = product->view;
  Part part = { .product = product };

  if (view->layout == LLM_LAYOUT_ROWS)
    part.unit = get_group_rows (view->in_count);
  else
    for (guint kind = 0; kind < LLK_N_ROW_KINDS; kind++)
      if (product->n_rows[kind] > 0)
        {
          part.kernels[kind] = self->kernels->product->find (view->type, kind);
          part.unit = MAX (part.unit, part.kernels[kind]->n_panels * LLK_PANEL_OUTPUTS);
        }
  part.unit = MAX (part.unit, 1);
  part.n_units = view->in_count > 0 ? (view->out_count + part.unit - 1) / part.unit : 0;
  return part;
}

/* Parts whose rows are prepared alike run together: there is one place for rows. */
static gboolean
is_alike (const Part *a,
          const Part *b)
{
  const LlmWeightView *v = a->product->view;
  const LlmWeightView *w = b->product->view;

  if (v->layout == LLM_LAYOUT_ROWS || w->layout == LLM_LAYOUT_ROWS)
    return TRUE;
  if (v->in_first != w->in_first || v->in_count != w->in_count)
    return FALSE;
  for (guint kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    if (a->kernels[kind] != NULL && b->kernels[kind] != NULL
        && a->kernels[kind]->activation != b->kernels[kind]->activation)
      return FALSE;
  return TRUE;
}

static void
prepare_rows (Run *run)
{
  for (guint kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    {
      guint n_rows = 0;

      run->kind = kind;
      for (guint p = 0; p < run->n_parts; p++)
        if (run->parts[p].kernels[kind] != NULL)
          {
            run->form = run->parts[p].kernels[kind]->activation;
            run->in_first = run->parts[p].product->view->in_first;
            run->in_count = run->parts[p].product->view->in_count;
            n_rows = MAX (n_rows, run->parts[p].product->n_rows[kind]);
          }
      if (n_rows > 0)
        llm_worker_pool_run (run->matmul->pool, n_rows,
                             MAX (1, MIN_PREPARED / MAX (run->in_count, 1)), prepare_items, run);
    }
}

static void
run_parts (Run *run)
{
  guint n_items = 0;
  guint grain = 1;

  prepare_rows (run);
  for (guint p = 0; p < run->n_parts; p++)
    {
      const Part *part = &run->parts[p];
      const LlmWeightView *view = part->product->view;
      gsize rows = part->product->n_rows[LLK_ROWS_PROMPT]
                   + part->product->n_rows[LLK_ROWS_GENERATED];
      gsize work = (gsize) view->in_count * part->unit / 2 * MAX (rows, 1);

      n_items += part->n_units;
      grain = MAX (grain, MIN_WORK / MAX (work, 1));
    }
  llm_worker_pool_run (run->matmul->pool, n_items, grain, multiply_items, run);
}

gsize
llm_matmul_get_scratch (const LlkOps *kernels,
                        guint         n_in)
{
  gsize bytes = (MAX ((gsize) GROUP_FLOATS, n_in) + (gsize) TILE_ROWS * n_in) * sizeof (float);

  for (guint type = 0; type < LLK_TYPE_LIMIT; type++)
    for (guint kind = 0; kernels->product != NULL && kind < LLK_N_ROW_KINDS; kind++)
      if (llk_type_is_known (type))
        {
          const LlkProduct *product = kernels->product->find (type, kind);

          if (product->get_scratch != NULL)
            bytes = MAX (bytes, product->get_scratch (type, n_in));
        }
  return (bytes + 63) / 64 * 64;
}

gsize
llm_matmul_get_row_bytes (guint n_in)
{
  gsize bytes = 0;

  for (guint form = 0; form < LLK_N_ACTIVATIONS; form++)
    bytes = MAX (bytes, llk_activation_bytes (form, n_in));
  return bytes;
}

void
llm_matmul_run (const LlmMatmul  *self,
                const LlmRows    *rows,
                const LlmProduct *products,
                guint             n_products)
{
  Part parts[MAX_PRODUCTS];
  gboolean is_done[MAX_PRODUCTS] = { FALSE };

  g_assert (n_products <= MAX_PRODUCTS);
  for (guint p = 0; p < n_products; p++)
    {
      g_assert (llm_matmul_get_row_bytes (products[p].view->in_count) <= self->row_bytes);
      parts[p] = make_part (self, &products[p]);
    }

  for (guint first = 0; first < n_products; first++)
    {
      Run run = { .matmul = self, .rows = rows };

      if (is_done[first])
        continue;
      for (guint p = first; p < n_products; p++)
        {
          gboolean fits = !is_done[p];

          for (guint other = 0; fits && other < run.n_parts; other++)
            fits = is_alike (&run.parts[other], &parts[p]);
          if (fits)
            {
              run.parts[run.n_parts++] = parts[p];
              is_done[p] = TRUE;
            }
        }
      run_parts (&run);
    }
}
