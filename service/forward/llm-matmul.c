/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-matmul.h"

/* Unpacked weights that stay in the first cache together: floats, and rows at most. */
#define GROUP_FLOATS 8192
#define GROUP_ROWS 32
/* Activation rows that a group of weight rows is multiplied with before the next. */
#define TILE_ROWS 12
/* Matrices with more outputs are not worth a way of their own. */
#define MAX_NARROW_OUTPUTS 64
/* Bytes of weights × activation rows that are worth handing to a worker. */
#define MIN_WORK (32 * 1024)
/* Values to prepare that are worth it. */
#define MIN_PREPARED 16384
/* Pieces of all products of one call at most. */
#define MAX_PARTS (LLM_MATMUL_MAX_PRODUCTS * LLM_MAX_LEVELS)
/* Panels that a worker puts together of channels before it multiplies them. */
#define GATHERED_PANELS 4

/* A piece of a product as the workers see it: cut into units of outputs. In panels, with the pieces
 * behind it of the same outputs. */
typedef struct
{
  const LlmProduct *product;
  const LlmRows *rows;
  const LlmWeightView *view;  /* of the first piece */
  const LlkProduct *kernel;   /* of panels */
  LlkPiece pieces[LLM_MAX_LEVELS];   /* likewise */
  const LlmWeightView *views[LLM_MAX_LEVELS]; /* likewise */
  gboolean is_gathered;       /* some of them are by channel */
  guint n_pieces;
  guint in_count;             /* inputs of all pieces */
  guint n_rows;               /* the first so many */
  gboolean is_added;
  gboolean is_thin, is_narrow;
  guint unit;                 /* outputs */
  guint n_units;
} Part;

typedef struct
{
  const LlkOps *kernels;
  const LlmHost *host;
  const Part *parts[MAX_PARTS];
  guint n_parts;

  const Part *prepared;       /* (nullable): one of them whose rows are being prepared */
} Run;

/* --- weights as rows of a file --- */

static guint
get_group_rows (guint n_in)
{
  return CLAMP (GROUP_FLOATS / MAX (n_in, 1), 1, GROUP_ROWS);
}

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
multiply_tile (const LlkOps *kernels,
               const Part   *part,
               const float  *weights,
               const float  *x,
               gsize         x_stride,
               guint         first_row,
               guint         n_rows,
               guint         out)
{
  gsize y_stride = part->product->y_stride;
  float *y = part->product->y + first_row * y_stride + part->view->out_first + out;
  float sums[TILE_ROWS];

  if (!part->is_added)
    {
      kernels->vector->dot_rows (weights, x, x_stride, n_rows, part->view->in_count, y, y_stride);
      return;
    }

  kernels->vector->dot_rows (weights, x, x_stride, n_rows, part->view->in_count, sums, 1);
  for (guint r = 0; r < n_rows; r++)
    y[r * y_stride] += sums[r];
}

/* Outputs [@first, @first + @n) of the view, n at most get_group_rows() of its row values. */
static void
multiply_floats (const Run  *run,
                 const Part *part,
                 guint       first,
                 guint       n,
                 float      *scratch)
{
  const LlmWeightView *view = part->view;
  guint n_before;
  guint n_values = get_row_values (view, &n_before);
  float *gathered = scratch + MAX ((gsize) GROUP_FLOATS, n_values);
  const float *weights[GROUP_ROWS];

  for (guint i = 0; i < n; i++)
    weights[i] = get_weights (run->kernels, view, first + i, scratch + (gsize) i * n_values);

  for (guint row = 0; row < part->n_rows; row += TILE_ROWS)
    {
      guint n_rows = MIN (TILE_ROWS, part->n_rows - row);
      const float *x = part->rows->values + row * part->rows->stride + view->in_first;
      gsize x_stride = part->rows->stride;

      if (view->channels != NULL)
        {
          gather_channels (part->rows, view, row, n_rows, gathered);
          x = gathered;
          x_stride = view->in_count;
        }
      for (guint i = 0; i < n; i++)
        multiply_tile (run->kernels, part, weights[i], x, x_stride, row, n_rows, first + i);
    }
}

/* Of a view with few outputs: the first half of an adapter. */
static void
multiply_narrow (const Run  *run,
                 const Part *part,
                 guint       first,
                 float      *scratch)
{
  const LlmWeightView *view = part->view;
  guint n_in = view->in_count;

  for (guint i = 0; i < LLK_NARROW_OUTPUTS; i++)
    run->kernels->vector->unpack (view->type,
                                  (const guint8 *) view->data + (first + i) * view->row_bytes,
                                  scratch + (gsize) i * n_in, n_in);
  run->kernels->vector->dot_narrow (scratch, part->rows->values, part->rows->stride, part->n_rows, n_in,
                                    part->product->y + view->out_first + first, part->product->y_stride);
}

/* Of a view with few inputs: the second half of an adapter. */
static void
add_thin (const Run  *run,
          const Part *part,
          guint       first,
          guint       n,
          float      *scratch)
{
  const LlmWeightView *view = part->view;
  const guint8 *rows = (const guint8 *) view->data + first * view->row_bytes;
  guint n_in = view->in_count;

  if (view->row_bytes == n_in * llk_type_block_bytes (view->type))
    run->kernels->vector->unpack (view->type, rows, scratch, (gsize) n * n_in);
  else
    for (guint i = 0; i < n; i++)
      run->kernels->vector->unpack (view->type, rows + i * view->row_bytes, scratch + (gsize) i * n_in, n_in);
  run->kernels->vector->add_thin (scratch, part->rows->values, part->rows->stride, part->n_rows, n_in, n,
                                  part->product->y + view->out_first + first, part->product->y_stride);
}

/* --- weights in panels --- */

/* Panels [@first, @first + @n) of what is by channel, into @memory; *@memory goes behind them. */
static const void *
gather_panels (const LlmWeightView *view,
               guint                first,
               guint                n,
               guint8             **memory)
{
  const gsize panel_bytes = llk_panel_bytes (view->type, view->in_first, view->in_count);
  const guint8 *panels = *memory;

  for (guint i = first; i < first + n; i++, *memory += panel_bytes)
    llk_channels_gather (view->type, (const guint8 *) view->data + i * view->row_bytes,
                         view->in_first, view->in_count, view->codes + i * llk_channel_bytes (view->type),
                         view->codes_at, *memory);
  return panels;
}

/* A few panels at a time, which stay in the cache until they are multiplied. */
static void
multiply_gathered (const Run  *run,
                   const Part *part,
                   guint       first,
                   guint       n,
                   gpointer    scratch,
                   guint8     *memory)
{
  const LlmWeightView *view = part->view;
  LlkPiece pieces[LLM_MAX_LEVELS];
  LlkMatrix matrix = { view->type, part->in_count, 0, pieces, part->n_pieces };
  guint end = first + n;

  for (; first < end; first += n)
    {
      guint8 *at = memory;

      n = MIN (GATHERED_PANELS, end - first);
      for (guint i = 0; i < part->n_pieces; i++)
        {
          const LlmWeightView *piece = part->views[i];

          pieces[i] = part->pieces[i];
          pieces[i].panels =
            piece->layout == LLM_LAYOUT_CHANNELS
              ? gather_panels (piece, first, n, &at)
              : (const guint8 *) piece->data
                  + first * llk_panel_bytes (piece->type, piece->in_first, piece->in_count);
        }
      matrix.n_out = MIN (n * LLK_PANEL_OUTPUTS, view->out_count - first * LLK_PANEL_OUTPUTS);
      part->kernel->multiply (&matrix, 0, n, run->host->prepared, part->n_rows,
                              part->product->y + view->out_first + first * LLK_PANEL_OUTPUTS,
                              part->product->y_stride, part->is_added, scratch);
    }
}

static void
multiply_panels (const Run  *run,
                 const Part *part,
                 guint       first,
                 guint       n,
                 gpointer    scratch)
{
  const LlmWeightView *view = part->view;
  LlkMatrix matrix = { view->type, part->in_count, view->out_count, part->pieces, part->n_pieces };

  part->kernel->multiply (&matrix, first / LLK_PANEL_OUTPUTS,
                          (n + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS, run->host->prepared,
                          part->n_rows, part->product->y + view->out_first,
                          part->product->y_stride, part->is_added, scratch);
}

/* A row has the inputs of its own pieces, and zeros behind them. */
static void
prepare_items (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  const Run *run = data;
  const Part *part = run->prepared;
  LlkActivation form = part->kernel->activation;
  gsize row_bytes = llk_activation_bytes (form, part->in_count);

  for (guint r = first; r < end; r++)
    {
      gsize n = 0;

      for (guint i = 0; i < part->n_pieces && part->pieces[i].n_rows > r; i++)
        n += part->pieces[i].n_in;
      run->kernels->product->prepare (form,
                                      part->rows->values + r * part->rows->stride
                                        + part->view->in_first,
                                      n, part->in_count, run->host->prepared + r * row_bytes);
    }
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
  guint8 *scratch = run->host->scratch + worker * run->host->scratch_bytes;
  guint base = 0;

  for (guint p = 0; p < run->n_parts; p++)
    {
      const Part *part = run->parts[p];
      guint last = MIN (end, base + part->n_units);
      guint n_units = part->kernel != NULL ? MAX (last, first) - first : 1;

      for (; first < last; first += n_units)
        {
          guint out = (first - base) * part->unit;
          guint n = MIN (n_units * part->unit, part->view->out_count - out);

          if (part->is_gathered)
            multiply_gathered (run, part, out / LLK_PANEL_OUTPUTS,
                               (n + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS, scratch,
                               run->host->gathered + worker * run->host->gathered_bytes);
          else if (part->kernel != NULL)
            multiply_panels (run, part, out, n, scratch);
          else if (part->is_narrow)
            multiply_narrow (run, part, out, (float *) (gpointer) scratch);
          else if (part->is_thin)
            add_thin (run, part, out, n, (float *) (gpointer) scratch);
          else
            multiply_floats (run, part, out, n, (float *) (gpointer) scratch);
        }
      base += part->n_units;
    }
}

static gboolean
is_empty (const LlmProduct *product,
          guint             piece)
{
  const LlmWeightView *view = &product->pieces[piece];

  return product->n_rows[piece] == 0 || view->in_count == 0 || view->out_count == 0;
}

/* From piece *@piece on, which is not empty; moves it behind what the part has. */
static void
make_part (const LlkOps     *kernels,
           const LlmRows    *rows,
           const LlmProduct *product,
           guint            *piece,
           Part             *part)
{
  const LlmWeightView *view = &product->pieces[*piece];
  gboolean is_plain;
  guint n_before;

  part->product = product;
  part->rows = rows;
  part->view = view;
  part->n_rows = product->n_rows[*piece];
  part->is_added = product->is_added;
  for (guint i = 0; i < *piece; i++)
    part->is_added = part->is_added || (!is_empty (product, i)
                                        && product->pieces[i].out_first == view->out_first);
  part->kernel = NULL;
  part->is_thin = part->is_narrow = part->is_gathered = FALSE;
  part->n_pieces = part->in_count = 0;
  if (view->layout != LLM_LAYOUT_ROWS)
    {
      part->kernel = kernels->product->find (view->type);
      part->unit = MAX (part->kernel->n_panels, 1) * LLK_PANEL_OUTPUTS;
      for (; *piece < product->n_pieces; ++*piece)
        {
          const LlmWeightView *next = &product->pieces[*piece];

          if (is_empty (product, *piece))
            continue;
          if (next->out_first != view->out_first
              || next->in_first != view->in_first + part->in_count)
            break;
          part->views[part->n_pieces] = next;
          part->pieces[part->n_pieces++] =
            (LlkPiece) { next->data, next->in_count, product->n_rows[*piece] };
          part->in_count += next->in_count;
          part->is_gathered = part->is_gathered || next->layout == LLM_LAYOUT_CHANNELS;
        }
    }
  else
    {
      part->in_count = view->in_count;
      is_plain = view->in_first == 0 && view->channels == NULL && llk_type_block_size (view->type) == 1;
      part->is_thin = is_plain && part->is_added && view->in_count <= LLK_THIN_INPUTS;
      part->is_narrow = is_plain && !part->is_added && view->type == LLK_F16
                        && view->out_count % LLK_NARROW_OUTPUTS == 0
                        && view->out_count <= MAX_NARROW_OUTPUTS;
      part->unit = part->is_thin ? LLK_THIN_OUTPUTS
                   : part->is_narrow ? LLK_NARROW_OUTPUTS
                                     : get_group_rows (get_row_values (view, &n_before));
      ++*piece;
    }
  part->n_units = (view->out_count + part->unit - 1) / part->unit;
}

/* Parts run together whose rows are prepared alike, as there is one place for them, and that write
 * different outputs. */
static gboolean
may_join (const Part *a,
          const Part *b)
{
  if (a->product == b->product && a->view->out_first == b->view->out_first)
    return FALSE;
  return a->kernel == NULL || b->kernel == NULL
         || (a->rows->values == b->rows->values && a->n_pieces == 1 && b->n_pieces == 1
             && a->view->in_first == b->view->in_first && a->in_count == b->in_count
             && a->kernel->activation == b->kernel->activation);
}

static void
run_parts (Run *run)
{
  guint n_items = 0;
  guint grain = 1;

  run->prepared = NULL;
  for (guint p = 0; p < run->n_parts; p++)
    {
      const Part *part = run->parts[p];
      gsize work = (gsize) part->in_count * part->unit / 2 * part->n_rows;

      n_items += part->n_units;
      grain = MAX (grain, MIN_WORK / MAX (work, 1));
      if (part->kernel != NULL
          && (run->prepared == NULL || part->n_rows > run->prepared->n_rows))
        run->prepared = part;
    }
  if (run->prepared != NULL)
    llm_worker_pool_run (run->host->pool, run->prepared->n_rows,
                         MAX (1, MIN_PREPARED / run->prepared->in_count), prepare_items, run);
  llm_worker_pool_run (run->host->pool, n_items, grain, multiply_items, run);
}

gsize
llm_matmul_get_scratch (const LlkOps *kernels,
                        guint         n_in,
                        guint         n_rows)
{
  gsize bytes = (MAX ((gsize) GROUP_FLOATS, n_in) + (gsize) TILE_ROWS * n_in) * sizeof (float);

  for (guint type = 0; kernels->product != NULL && type < LLK_TYPE_LIMIT; type++)
    if (llk_type_is_known (type))
      {
        const LlkProduct *product = kernels->product->find (type);

        bytes = MAX (bytes, n_rows <= LLK_FEW_ROWS ? product->few_scratch : product->scratch);
      }
  return (bytes + 63) / 64 * 64;
}

gsize
llm_matmul_get_gathered (guint n_in)
{
  gsize bytes = 0;

  /* each border between pieces begins a run */
  for (guint type = 0; type < LLK_TYPE_LIMIT; type++)
    if (llk_type_is_known (type) && llk_channels_have (type))
      bytes = MAX (bytes, llk_panel_bytes (type, 0, n_in)
                            + LLM_MAX_LEVELS * llk_panel_head_bytes (llk_panel_shape (type)));
  return (GATHERED_PANELS * bytes + 63) / 64 * 64;
}

gsize
llm_matmul_get_row_bytes (guint n_in)
{
  gsize bytes = 0;

  for (guint form = 0; form < LLK_N_ACTIVATIONS; form++)
    bytes = MAX (bytes, llk_activation_bytes (form, n_in));
  return bytes;
}

static guint64
count_products (const Part *part)
{
  guint64 n = part->kernel == NULL ? (guint64) part->n_rows * part->view->in_count : 0;

  for (guint i = 0; i < part->n_pieces && part->kernel != NULL; i++)
    n += (guint64) part->pieces[i].n_rows * part->pieces[i].n_in;
  return n * part->view->out_count;
}

/* Pieces of the same outputs go one after the other: a row's sums are in their order. */
void
llm_matmul_run (const LlkOps            *kernels,
                const LlmHost           *host,
                const LlmRows *const    *rows,
                const LlmProduct *const *products,
                guint                    n_products)
{
  Run run;
  Part parts[MAX_PARTS];
  const Part *left[MAX_PARTS];
  guint n_parts = 0, n_left;

  g_assert (n_products <= LLM_MATMUL_MAX_PRODUCTS);
  for (guint p = 0; p < n_products; p++)
    for (guint piece = 0; piece < products[p]->n_pieces;)
      if (is_empty (products[p], piece))
        piece++;
      else
        {
          make_part (kernels, rows[p], products[p], &piece, &parts[n_parts]);
          g_assert (llm_matmul_get_row_bytes (parts[n_parts].in_count) <= host->row_bytes);
          left[n_parts] = &parts[n_parts];
          if (host->n_multiplied != NULL)
            *host->n_multiplied += count_products (&parts[n_parts]);
          n_parts++;
        }

  run.kernels = kernels;
  run.host = host;
  for (; n_parts > 0; n_parts = n_left)
    {
      run.n_parts = n_left = 0;
      for (guint p = 0; p < n_parts; p++)
        {
          gboolean fits = TRUE;

          for (guint other = 0; fits && other < run.n_parts; other++)
            fits = may_join (run.parts[other], left[p]);
          if (fits)
            run.parts[run.n_parts++] = left[p];
          else
            left[n_left++] = left[p];
        }
      run_parts (&run);
    }
}
