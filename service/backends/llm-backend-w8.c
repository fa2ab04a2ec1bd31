/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-backend-w8.h"

#include <math.h>
#include <string.h>

#include "backends/llm-w8-form.h"

/* Panels of a work item: what the widest kernel takes at once. */
#define UNIT_PANELS 4
/* Values to quantize that are worth a worker. */
#define MIN_VALUES 16384
/* Of so many values of a row, there is room for one beyond its scale from the beginning. */
#define SHADOW_PART 16

typedef struct
{
  LlmBackend parent;
  LlmBackend *cpu;           /* (owned): for what is not computed here */
  const LlkOps *kernels;     /* (unowned) */
  LlmW8Config config;
  guint n_layers;
  LlmW8Weights *weights;     /* (nullable) (unowned) */
  LlmW8Form **forms;         /* (owned) [n_layers × LLM_N_OPS]: (nullable) (owned): without @weights */
  guint64 bytes;
  LlmW8Counts counts;

  /* Of the rows that are multiplied now. */
  guint8 *rows;              /* (owned): LlkW8Row */
  gsize rows_bytes;
  gsize row_bytes;
  LlkW8Beyond **shadows;     /* (owned) [n_rows]: (nullable) (owned): what is multiplied as floats */
  guint32 *n_shadows;        /* (owned) [n_rows] */
  guint32 *most_shadows;     /* (owned) [n_rows]: that there is room for */
  guint *n_beyond;           /* (owned) [n_rows] */
  guint16 *hot_inputs;       /* (owned) [n_hot]: of the matrix that is multiplied now */
  float *hot;                /* (owned) [n_rows × n_hot]: what the rows have there */
  gsize n_hot_values;        /* there is room for */
  guint n_rows;              /* there is room for */
} W8Backend;

/* A piece of a product as the workers see it. */
typedef struct
{
  W8Backend *self;
  const LlmOp *op;
  const LlmW8Site *site;
  LlmW8Method method;
  LlkW8Matrix matrix;
  guint first_in;            /* of the rows' inputs */
  guint first_out;
  guint n_rows;
  gboolean is_added;
} Work;

static const LlmW8Site *
find_site (W8Backend        *self,
           const LlmOpShape *shape)
{
  LlmW8Kind kind = shape->kind == LLM_BACKEND_PRODUCT ? llm_w8_kind_of (shape->op)
                                                      : LLM_W8_N_KINDS;
  const LlmW8Site *site;

  if (kind == LLM_W8_N_KINDS || shape->n_rows < self->config.min_rows
      || shape->n_in > LLK_W8_MAX_INPUTS)
    return NULL;
  site = &self->config.sites[llm_w8_site_at (shape->layer, kind)];
  return site->scale > 0 ? site : NULL;
}

static gboolean
can_run (LlmBackend       *backend,
         const LlmOpShape *shape)
{
  return find_site ((W8Backend *) backend, shape) != NULL;
}

static gconstpointer
prepare (LlmBackend       *backend,
         const LlmOpShape *shape,
         GError          **error)
{
  return backend;
}

/* --- rows --- */

/* Room for @n of row @r. */
static LlkW8Beyond *
reserve_shadows (W8Backend *self,
                 guint      r,
                 guint      n)
{
  if (n > self->most_shadows[r])
    {
      self->most_shadows[r] = 2 * n;
      self->shadows[r] = g_renew (LlkW8Beyond, self->shadows[r], self->most_shadows[r]);
    }
  return self->shadows[r];
}

static float
find_largest (const float   *x,
              const guint16 *hot_of,
              gsize          n)
{
  float largest = 0;

  for (gsize i = 0; i < n; i++)
    if ((hot_of == NULL || hot_of[i] == 0) && fabsf (x[i]) > largest)
      largest = fabsf (x[i]);
  return largest;
}

/* Takes hot inputs out of the row: they are floats. */
static void
take_hot (W8Backend   *self,
          const Work  *work,
          guint        r,
          const float *x,
          LlkW8Row    *row)
{
  gsize n_hot = work->matrix.n_hot;

  for (gsize i = 0; i < n_hot; i++)
    {
      guint16 input = self->hot_inputs[i];

      self->hot[r * n_hot + i] = x[input];
      row->sum -= row->q[input];
      row->q[input] = 0;
    }
}

/* What is beyond the scale, but for hot inputs. */
static void
find_shadows (W8Backend   *self,
              const Work  *work,
              guint        r,
              const float *x,
              float        scale)
{
  const guint16 *hot_of = work->matrix.hot_of;
  LlkW8Beyond *to = reserve_shadows (self, r, self->n_beyond[r]);
  guint n = (guint) self->kernels->w8->find_beyond (x, work->matrix.n_in, scale, to);
  guint n_kept = 0;

  for (guint i = 0; i < n; i++)
    if (hot_of == NULL || hot_of[to[i].input] == 0)
      to[n_kept++] = to[i];
  self->n_shadows[r] = n_kept;
}

static void
quantize_row (const Work *work,
              guint       r,
              float      *changed)
{
  W8Backend *self = work->self;
  const float *x = work->op->rows.values + r * work->op->rows.stride + work->first_in;
  const LlmW8Method *method = &work->method;
  float scale = work->site->scale;
  LlkW8Row *row = (gpointer) (self->rows + r * self->row_bytes);

  self->n_shadows[r] = 0;
  if (method->factors != NULL)
    {
      for (guint i = 0; i < work->matrix.n_in; i++)
        changed[i] = x[i] / method->factors[i];
      x = changed;
    }
  if (method->is_dynamic)
    {
      float largest = find_largest (x, work->matrix.hot_of, work->matrix.n_in);

      scale = largest > 0 ? largest / LLK_W8_LIMIT : 1;
    }
  self->n_beyond[r] = (guint) self->kernels->w8->quantize (x, work->matrix.n_in, scale, row);
  if (self->n_beyond[r] > 0 && work->site->has_shadow)
    find_shadows (self, work, r, x, scale);
  take_hot (self, work, r, x, row);
}

static void
quantize_rows (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  const Work *work = data;
  g_autofree float *changed =
    work->method.factors != NULL ? g_new (float, work->matrix.n_in) : NULL;

  for (guint r = first; r < end; r++)
    quantize_row (work, r, changed);
}

/* Which inputs are hot, and room for what the rows have there. */
static void
find_hot (W8Backend         *self,
          const LlkW8Matrix *matrix,
          guint              n_rows)
{
  gsize n_values = matrix->n_hot * n_rows;

  self->hot_inputs = g_renew (guint16, self->hot_inputs, matrix->n_hot);
  for (gsize i = 0; matrix->hot_of != NULL && i < matrix->n_in; i++)
    if (matrix->hot_of[i] != 0)
      self->hot_inputs[matrix->hot_of[i] - 1] = (guint16) i;
  if (n_values <= self->n_hot_values)
    return;
  self->n_hot_values = n_values;
  self->hot = g_renew (float, self->hot, n_values);
}

static void
make_room (W8Backend *self,
           gsize      n_in,
           guint      n_rows)
{
  self->row_bytes = llk_w8_row_bytes (n_in);
  if (n_rows * self->row_bytes > self->rows_bytes)
    {
      g_aligned_free (self->rows);
      self->rows = g_aligned_alloc (n_rows, self->row_bytes, 64);
      self->rows_bytes = n_rows * self->row_bytes;
    }
  if (n_rows <= self->n_rows)
    return;

  self->n_beyond = g_renew (guint, self->n_beyond, n_rows);
  self->n_shadows = g_renew (guint32, self->n_shadows, n_rows);
  self->most_shadows = g_renew (guint32, self->most_shadows, n_rows);
  self->shadows = g_renew (LlkW8Beyond *, self->shadows, n_rows);
  memset (self->most_shadows + self->n_rows, 0, (n_rows - self->n_rows) * sizeof (guint32));
  memset (self->shadows + self->n_rows, 0, (n_rows - self->n_rows) * sizeof *self->shadows);
  self->n_rows = n_rows;
}

static void
prepare_rows (Work *work)
{
  W8Backend *self = work->self;

  make_room (self, work->matrix.n_in, work->n_rows);
  find_hot (self, &work->matrix, work->n_rows);
  /* more than rows have: no later prompt needs any */
  for (guint r = 0; r < work->n_rows && work->site->has_shadow; r++)
    reserve_shadows (self, r, (guint) (work->matrix.n_in / SHADOW_PART));
  llm_worker_pool_run (work->op->host->pool, work->n_rows,
                       MAX (1, MIN_VALUES / MAX (work->matrix.n_in, 1)), quantize_rows, work);
  for (guint r = 0; r < work->n_rows; r++)
    self->counts.n_beyond += self->n_beyond[r];
  self->counts.n_values += (guint64) work->n_rows * work->matrix.n_in;
}

/* --- products --- */

static gsize
count_panels (const LlkW8Matrix *matrix)
{
  return (matrix->n_out + LLK_W8_OUTPUTS - 1) / LLK_W8_OUTPUTS;
}

static void
multiply_units (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const Work *work = data;
  const LlmProduct *product = &work->op->product;
  const LlkW8Ops *kernels = work->self->kernels->w8;
  gsize panel = (gsize) first * UNIT_PANELS;
  gsize n = MIN ((gsize) end * UNIT_PANELS, count_panels (&work->matrix)) - panel;
  float *y = product->y + work->first_out;

  kernels->multiply (&work->matrix, panel, n, (gpointer) work->self->rows, work->n_rows, y,
                     product->y_stride, work->is_added);
  kernels->add_hot (&work->matrix, panel, n, work->self->hot, work->n_rows, y, product->y_stride);
  kernels->add_beyond (&work->matrix, panel, n, (const LlkW8Beyond *const *) work->self->shadows,
                       work->self->n_shadows, work->n_rows, y, product->y_stride);
}

/* The matrix of segment @segment: of the prepared file, or made now. FALSE for one that is empty. */
static gboolean
find_matrix (Work  *work,
             guint  segment)
{
  W8Backend *self = work->self;
  const LlmOpShape *shape = &work->op->shape;
  LlmW8Form **form = &self->forms[shape->layer * LLM_N_OPS + shape->op];

  if (self->weights != NULL)
    return llm_w8_weights_find (self->weights, shape->op, shape->layer, segment, &work->matrix);
  /* a search tries a site with hot channels and without */
  if (*form != NULL && ((*form)->matrix.n_hot > 0) != (work->site->hot_of != NULL))
    {
      self->bytes -= (*form)->bytes;
      g_clear_pointer (form, llm_w8_form_free);
    }
  if (*form == NULL)
    {
      *form = llm_w8_form_new (self->kernels, &work->op->product.pieces[0], work->method.factors,
                               work->site);
      self->bytes += (*form)->bytes;
    }
  work->matrix = (*form)->matrix;
  return TRUE;
}

static void
run_piece (Work *work)
{
  W8Backend *self = work->self;
  const LlmHost *host = work->op->host;
  guint64 n_products = (guint64) work->n_rows * work->matrix.n_in * work->matrix.n_out;
  guint64 n_shadows = (guint64) work->n_rows * work->matrix.n_hot;

  llm_worker_pool_run (host->pool,
                       (guint) (count_panels (&work->matrix) + UNIT_PANELS - 1) / UNIT_PANELS, 1,
                       multiply_units, work);
  for (guint r = 0; r < work->n_rows; r++)
    n_shadows += self->n_shadows[r];
  self->counts.n_products += n_products;
  self->counts.n_shadow_products += n_shadows * work->matrix.n_out;
  if (host->n_multiplied != NULL)
    *host->n_multiplied += n_products;
}

/* One matrix, for all rows. */
static gboolean
is_whole (const LlmOp *op)
{
  const LlmProduct *product = &op->product;

  for (guint i = 1; i < product->n_pieces; i++)
    if (product->pieces[i].in_count > 0 && product->pieces[i].out_count > 0)
      return FALSE;
  return product->pieces[0].channels == NULL && product->pieces[0].in_count == op->shape.n_in
         && product->pieces[0].out_count == op->shape.n_out
         && product->n_rows[0] == op->shape.n_rows;
}

/* The inputs of the rows that are quantized now. */
typedef struct
{
  const float *values;
  guint first_in;
  gsize n_in;
  guint n_rows;
} Quantized;

/* Rows are quantized once for the pieces that read the same inputs of them. */
static void
run_product (W8Backend *self,
             LlmOp     *op,
             Quantized *quantized)
{
  guint at = llm_w8_site_at (op->shape.layer, llm_w8_kind_of (op->shape.op));

  for (guint i = 0; i < op->product.n_pieces; i++)
    {
      const LlmWeightView *view = &op->product.pieces[i];
      Work work = {
        .self = self, .op = op, .site = &self->config.sites[at], .first_in = view->in_first,
        .first_out = view->out_first, .n_rows = op->product.n_rows[i],
        .is_added = op->product.is_added || view->in_first > 0,
      };
      Quantized now = { op->rows.values, view->in_first, view->in_count, work.n_rows };

      if (self->config.methods != NULL)
        work.method = self->config.methods[at];
      if (view->in_count == 0 || view->out_count == 0 || work.n_rows == 0
          || !find_matrix (&work, i))
        continue;
      if (now.values != quantized->values || now.first_in != quantized->first_in
          || now.n_in != quantized->n_in || now.n_rows > quantized->n_rows)
        {
          prepare_rows (&work);
          *quantized = now;
        }
      run_piece (&work);
    }
}

static gboolean
submit (LlmBackend   *backend,
        LlmOp *const *ops,
        guint         n_ops,
        GError      **error)
{
  W8Backend *self = (W8Backend *) backend;
  Quantized quantized = { 0 };

  for (guint i = 0; i < n_ops; i++)
    {
      LlmOp *op = ops[i];

      if (self->weights != NULL || is_whole (op))
        run_product (self, op, &quantized);
      else if (!self->cpu->class->submit (self->cpu, &op, 1, error))
        return FALSE;
      op->status = LLM_READY;
    }
  return self->weights == NULL || llm_w8_weights_check (self->weights, error);
}

static LlmStatus
poll_op (LlmBackend *backend,
         LlmOp      *op,
         GError    **error)
{
  return op->status;
}

static void
cancel (LlmBackend *backend,
        LlmOp      *op)
{
}

/* Below the CPU's estimate: where there is a scale, it is used. */
static double
get_cost_us (LlmBackend       *backend,
             const LlmOpShape *shape)
{
  W8Backend *self = (W8Backend *) backend;

  return self->cpu->class->cost_us (self->cpu, shape) / 2;
}

static guint64
get_bytes (LlmBackend *backend)
{
  W8Backend *self = (W8Backend *) backend;
  guint64 bytes = self->bytes + self->rows_bytes + self->n_hot_values * sizeof (float);

  for (guint r = 0; r < self->n_rows; r++)
    bytes += self->most_shadows[r] * sizeof (LlkW8Beyond);
  return bytes;
}

void
llm_backend_w8_trim (LlmBackend *backend)
{
  W8Backend *self = (W8Backend *) backend;

  for (guint r = 0; r < self->n_rows; r++)
    g_free (self->shadows[r]);
  g_clear_pointer (&self->shadows, g_free);
  g_clear_pointer (&self->n_shadows, g_free);
  g_clear_pointer (&self->most_shadows, g_free);
  g_clear_pointer (&self->n_beyond, g_free);
  g_clear_pointer (&self->hot_inputs, g_free);
  g_clear_pointer (&self->hot, g_free);
  g_clear_pointer (&self->rows, g_aligned_free);
  self->rows_bytes = self->n_hot_values = 0;
  self->n_rows = 0;
}

static void
free_backend (LlmBackend *backend)
{
  W8Backend *self = (W8Backend *) backend;

  llm_backend_w8_trim (backend);
  for (gsize i = 0; i < (gsize) self->n_layers * LLM_N_OPS; i++)
    llm_w8_form_free (self->forms[i]);
  g_free (self->forms);
  llm_backend_free (self->cpu);
  g_free (self);
}

static const LlmBackendClass w8_class = {
  .can_run = can_run,
  .prepare = prepare,
  .submit = submit,
  .poll = poll_op,
  .cancel = cancel,
  .cost_us = get_cost_us,
  .bytes = get_bytes,
  .free = free_backend,
};

LlmBackend *
llm_backend_w8_new (const LlkOps      *kernels,
                    const LlmW8Config *config)
{
  W8Backend *self = g_new0 (W8Backend, 1);

  self->parent = (LlmBackend) { .class = &w8_class, .name = "W8A8" };
  self->cpu = llm_backend_cpu_new (kernels);
  self->kernels = kernels;
  self->config = *config;
  self->n_layers = config->hparams->n_layers;
  self->forms = g_new0 (LlmW8Form *, (gsize) config->hparams->n_layers * LLM_N_OPS);
  return &self->parent;
}

LlmW8Counts
llm_backend_w8_get_counts (LlmBackend *backend)
{
  return ((W8Backend *) backend)->counts;
}

void
llm_backend_w8_set_weights (LlmBackend   *backend,
                            LlmW8Weights *weights)
{
  ((W8Backend *) backend)->weights = weights;
}
