/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-matmul.h"

/* Bytes of weights × activation rows that are worth handing to a worker. */
#define MIN_WORK (32 * 1024)
/* Values to prepare that are worth it. */
#define MIN_PREPARED 16384
/* Products of an adapter's first half that take as long as preparing a value. */
#define VALUES_OF_PRODUCTS 16
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
  const LlmWeightView *view;  /* (nullable): of the first piece; NULL for adapters alone */
  const LlkProduct *kernel;   /* of panels */
  LlkPiece pieces[LLM_MAX_LEVELS];   /* likewise */
  const LlmWeightView *views[LLM_MAX_LEVELS]; /* likewise */
  gboolean is_gathered;       /* some of them are by channel */
  guint n_pieces;
  guint in_count;             /* inputs of all pieces */
  guint n_rows;               /* the first so many */
  gboolean is_added;
  gboolean is_last;           /* of its outputs: what adapters add to them comes behind it */
  guint out_first, out_count;
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
  const LlmRows *const *rows; /* (nullable) [n_products]: of those whose adapters' first halves are computed
                               * before the parts */
  const LlmProduct *const *products;
  guint n_products;
} Run;

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
prepare_row (const Run *run,
             guint      r)
{
  const Part *part = run->prepared;
  LlkActivation form = part->kernel->activation;
  gsize row_bytes = llk_activation_bytes (form, part->in_count);
  gsize n = 0;

  for (guint i = 0; i < part->n_pieces && part->pieces[i].n_rows > r; i++)
    n += part->pieces[i].n_in;
  run->kernels->product->prepare (form,
                                  part->rows->values + r * part->rows->stride + part->view->in_first,
                                  n, part->in_count, run->host->prepared + r * row_bytes);
}

/* Items are rows: what the parts need of them, and adapters. */
static void
prepare_items (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  const Run *run = data;
  float *scratch = (float *) (gpointer) (run->host->scratch + worker * run->host->scratch_bytes);

  for (guint r = first; run->prepared != NULL && r < MIN (end, run->prepared->n_rows); r++)
    prepare_row (run, r);
  for (guint p = 0; p < run->n_products; p++)
    for (guint i = 0; i < run->products[p]->n_adapted; i++)
      llm_adapted_begin (run->kernels, &run->products[p]->adapted[i], run->rows[p], first, end, scratch);
}

/* --- both --- */

/* Outputs [@first, @first + @n) of the part. */
static void
multiply_outputs (const Run  *run,
                  const Part *part,
                  guint       first,
                  guint       n,
                  guint       worker)
{
  guint8 *scratch = run->host->scratch + worker * run->host->scratch_bytes;
  float *floats = (float *) (gpointer) scratch;
  const LlmProduct *product = part->product;
  const LlmFloatProduct of_rows = {
    part->view, *part->rows, part->n_rows, product->y, product->y_stride, part->is_added,
  };

  if (part->is_gathered)
    multiply_gathered (run, part, first / LLK_PANEL_OUTPUTS, (n + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS,
                       scratch, run->host->gathered + worker * run->host->gathered_bytes);
  else if (part->kernel != NULL)
    multiply_panels (run, part, first, n, scratch);
  else if (part->view != NULL)
    llm_float_product_run (run->kernels, &of_rows, first, n, floats);
  for (guint i = 0; part->is_last && i < product->n_adapted; i++)
    llm_adapted_end (run->kernels, &product->adapted[i], part->out_first + first, n, product->y,
                     product->y_stride, floats);
}

/* Items are the units of all parts, one part behind the other. Panels go together; with adapters while
 * what they add to is in the cache. */
static void
multiply_items (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const Run *run = data;
  guint base = 0;

  for (guint p = 0; p < run->n_parts; p++)
    {
      const Part *part = run->parts[p];
      guint last = MIN (end, base + part->n_units);
      gboolean is_joined =
        part->kernel != NULL && (part->product->n_adapted == 0 || part->n_rows <= LLK_FEW_ROWS);
      guint n_units = is_joined ? MAX (last, first) - first : 1;

      for (; first < last; first += n_units)
        {
          guint out = (first - base) * part->unit;

          multiply_outputs (run, part, out, MIN (n_units * part->unit, part->out_count - out), worker);
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

/* Whether a piece from @piece on has outputs from @out_first on. */
static gboolean
is_followed (const LlmProduct *product,
             guint             piece,
             guint             out_first)
{
  for (; piece < product->n_pieces; piece++)
    if (!is_empty (product, piece) && product->pieces[piece].out_first == out_first)
      return TRUE;
  return FALSE;
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

  part->product = product;
  part->rows = rows;
  part->view = view;
  part->n_rows = product->n_rows[*piece];
  part->is_added = product->is_added;
  part->out_first = view->out_first;
  part->out_count = view->out_count;
  for (guint i = 0; i < *piece; i++)
    part->is_added = part->is_added || (!is_empty (product, i)
                                        && product->pieces[i].out_first == view->out_first);
  part->kernel = NULL;
  part->is_gathered = FALSE;
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
      part->unit = llm_float_product_get_group (view);
      ++*piece;
    }
  part->is_last = !is_followed (product, *piece, view->out_first);
  part->n_units = (part->out_count + part->unit - 1) / part->unit;
}

/* Of a product of adapters alone. */
static void
make_adapted_part (const LlmRows    *rows,
                   const LlmProduct *product,
                   Part             *part)
{
  *part = (Part) { .product = product, .rows = rows, .is_last = TRUE, .unit = LLK_THIN_OUTPUTS };
  for (guint i = 0; i < product->n_adapted; i++)
    {
      const LlmAdapted *adapted = &product->adapted[i];

      part->out_count = MAX (part->out_count, adapted->b.out_count);
      part->in_count = MAX (part->in_count, adapted->b.in_count);
      part->n_rows = MAX (part->n_rows, adapted->n_rows);
    }
  part->n_units = (part->out_count + part->unit - 1) / part->unit;
}

/* Parts run together whose rows are prepared alike, as there is one place for them, and that write
 * different outputs. */
static gboolean
may_join (const Part *a,
          const Part *b)
{
  if (a->product == b->product && a->out_first == b->out_first)
    return FALSE;
  return a->kernel == NULL || b->kernel == NULL
         || (a->rows->values == b->rows->values && a->n_pieces == 1 && b->n_pieces == 1
             && a->view->in_first == b->view->in_first && a->in_count == b->in_count
             && a->kernel->activation == b->kernel->activation);
}

/* Rows that something is prepared of, and roughly how many values each. */
static guint
count_prepared (const Run *run,
                guint     *n_values)
{
  guint n_rows = run->prepared != NULL ? run->prepared->n_rows : 0;

  *n_values = run->prepared != NULL ? run->prepared->in_count : 1;
  for (guint p = 0; p < run->n_products; p++)
    for (guint i = 0; i < run->products[p]->n_adapted; i++)
      {
        const LlmAdapted *adapted = &run->products[p]->adapted[i];

        n_rows = MAX (n_rows, adapted->first + adapted->n_rows);
        *n_values += adapted->a.in_count * adapted->a.out_count / VALUES_OF_PRODUCTS;
      }
  return n_rows;
}

static void
run_parts (Run *run)
{
  guint n_items = 0;
  guint grain = 1;
  guint n_rows, n_values;

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
  n_rows = count_prepared (run, &n_values);
  if (n_rows > 0)
    llm_worker_pool_run (run->host->pool, n_rows, MAX (1, MIN_PREPARED / n_values), prepare_items, run);
  llm_worker_pool_run (run->host->pool, n_items, grain, multiply_items, run);
}

gsize
llm_matmul_get_scratch (const LlkOps *kernels,
                        guint         n_in,
                        guint         n_rows)
{
  gsize bytes = llm_float_product_get_scratch (n_in) * sizeof (float);

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
  guint64 n = 0;

  if (part->view != NULL && part->kernel == NULL)
    n = (guint64) part->n_rows * part->in_count;
  for (guint i = 0; i < part->n_pieces; i++)
    n += (guint64) part->pieces[i].n_rows * part->pieces[i].n_in;
  return n * part->out_count;
}

/* Of all products; returns how many. */
static guint
make_parts (const LlkOps            *kernels,
            const LlmHost           *host,
            const LlmRows *const    *rows,
            const LlmProduct *const *products,
            guint                    n_products,
            Part                    *parts)
{
  guint64 n_multiplied = 0;
  guint n = 0;

  for (guint p = 0; p < n_products; p++)
    {
      for (guint piece = 0; piece < products[p]->n_pieces;)
        if (is_empty (products[p], piece))
          piece++;
        else
          make_part (kernels, rows[p], products[p], &piece, &parts[n++]);
      if (products[p]->n_pieces == 0 && products[p]->n_adapted > 0)
        make_adapted_part (rows[p], products[p], &parts[n++]);
      for (guint i = 0; i < products[p]->n_adapted; i++)
        n_multiplied += llm_adapted_count (&products[p]->adapted[i]);
    }
  for (guint i = 0; i < n; i++)
    {
      g_assert (llm_matmul_get_row_bytes (parts[i].in_count) <= host->row_bytes);
      n_multiplied += count_products (&parts[i]);
    }
  if (host->n_multiplied != NULL)
    *host->n_multiplied += n_multiplied;
  return n;
}

/* Pieces of the same outputs go one after the other: a row's sums are in their order. */
void
llm_matmul_run (const LlkOps            *kernels,
                const LlmHost           *host,
                const LlmRows *const    *rows,
                const LlmProduct *const *products,
                guint                    n_products)
{
  Run run = { .kernels = kernels, .host = host, .rows = rows, .products = products, .n_products = n_products };
  Part parts[MAX_PARTS];
  const Part *left[MAX_PARTS];
  guint n_parts, n_left;

  g_assert (n_products <= LLM_MATMUL_MAX_PRODUCTS);
  n_parts = make_parts (kernels, host, rows, products, n_products, parts);
  for (guint p = 0; p < n_parts; p++)
    left[p] = &parts[p];
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
      run.n_products = 0;
    }
}
