/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-backend-w8.h"

#include "backends/llm-w8-form.h"
#include "backends/llm-w8-rows.h"

/* Panels of a work item: what the widest kernel takes at once. */
#define UNIT_PANELS (LLM_W8_PART / LLK_W8_OUTPUTS)

typedef struct
{
  LlmBackend parent;
  LlmBackend *cpu;           /* (owned): for its estimates */
  double speedup;            /* beside these; 0: not measured */
  const LlkOps *kernels;     /* (unowned) */
  LlmW8Config config;
  guint n_layers;
  LlmW8Weights *weights;     /* (nullable) (unowned) */
  LlmW8Form **forms;         /* (owned) [n_layers × LLM_N_OPS × LLM_MAX_LEVELS]: (nullable)
                              * (owned): without @weights */
  guint64 bytes;
  LlmW8Counts counts;

  LlmW8Rows *rows;           /* (owned): that are multiplied now */
  /* What a gated network has between its products, by segment: kept for the product behind. */
  LlmW8Rows *inner[LLM_MAX_LEVELS];   /* (owned) (nullable) */
  gboolean keeps_inner;      /* the next product reads it */
} W8Backend;

/* Rows that stay in the cache beside the panels of a work item, gated: their floats take 2 × 6 KiB. */
#define GATED_ROWS 24

/* A piece of a product as the workers see it. */
typedef struct
{
  const LlmW8Rows *rows;
  LlkW8Matrix matrix;
  guint n_rows;
  float *y;
  gsize y_stride;
  gboolean is_added;
} Work;

/* One of both gated products. */
typedef struct
{
  const LlmW8Rows *rows;
  LlkW8Matrix gate, up;
  guint n_rows;
  const LlkVectorOps *vector;
  gboolean is_gelu;
  LlmW8Rows *inner;
} GatedWork;

static const LlmW8Site *
get_site (const W8Backend *self,
          guint            layer,
          LlmW8Kind        kind)
{
  const LlmW8Site *site = &self->config.sites[llm_w8_site_at (layer, kind)];

  return site->scale > 0 ? site : NULL;
}

static gboolean
can_run (LlmBackend       *backend,
         const LlmOpShape *shape)
{
  const W8Backend *self = (const W8Backend *) backend;
  LlmW8Kind kind = llm_w8_kind_of (shape->op);

  if (kind == LLM_W8_N_KINDS || shape->n_rows < self->config.min_rows
      || shape->n_in > LLK_W8_MAX_INPUTS || get_site (self, shape->layer, kind) == NULL)
    return FALSE;
  if (shape->kind == LLM_BACKEND_GATED)
    return self->config.methods == NULL && shape->n_out <= LLK_W8_MAX_INPUTS
           && get_site (self, shape->layer, LLM_W8_FFN_OUTPUT) != NULL;
  return shape->kind == LLM_BACKEND_PRODUCT;
}

static gconstpointer
prepare (LlmBackend       *backend,
         const LlmOpShape *shape,
         GError          **error)
{
  return backend;
}

/* The matrix of a segment: of the prepared file, or made now. FALSE for one that is empty. */
static gboolean
find_matrix (W8Backend           *self,
             LlmOperator          op,
             guint                layer,
             guint                segment,
             const LlmWeightView *view,
             LlkW8Matrix         *matrix)
{
  guint at = llm_w8_site_at (layer, llm_w8_kind_of (op));
  const LlmW8Site *site = &self->config.sites[at];
  LlmW8Form **form = &self->forms[(layer * LLM_N_OPS + op) * LLM_MAX_LEVELS + segment];

  if (view->in_count == 0 || view->out_count == 0)
    return FALSE;
  if (self->weights != NULL)
    return llm_w8_weights_find (self->weights, op, layer, segment, matrix);
  /* a search tries a site with hot channels and without */
  if (*form != NULL && ((*form)->matrix.n_hot > 0) != (site->hot_of != NULL))
    {
      self->bytes -= (*form)->bytes;
      g_clear_pointer (form, llm_w8_form_free);
    }
  if (*form == NULL)
    {
      *form = llm_w8_form_new (self->kernels, view,
                               self->config.methods != NULL ? self->config.methods[at].factors : NULL,
                               site);
      self->bytes += (*form)->bytes;
    }
  *matrix = (*form)->matrix;
  return TRUE;
}

static LlmW8RowsShape
get_rows_shape (const W8Backend   *self,
                guint              site_at,
                const LlkW8Matrix *matrix)
{
  const LlmW8Site *site = &self->config.sites[site_at];
  LlmW8RowsShape shape = {
    .n_in = matrix->n_in, .n_hot = matrix->n_hot, .hot_of = matrix->hot_of, .scale = site->scale,
    .has_shadow = site->has_shadow,
  };

  if (self->config.methods != NULL)
    {
      shape.is_dynamic = self->config.methods[site_at].is_dynamic;
      shape.factors = self->config.methods[site_at].factors;
    }
  return shape;
}

static void
count_rows (W8Backend       *self,
            const LlmW8Rows *rows,
            gsize            n_in,
            guint            n_rows)
{
  self->counts.n_beyond += llm_w8_rows_count_beyond (rows);
  self->counts.n_values += n_in * n_rows;
}

static void
count_products (W8Backend         *self,
                const LlmHost     *host,
                const LlmW8Rows   *rows,
                const LlkW8Matrix *matrix,
                guint              n_rows)
{
  guint64 n_products = (guint64) n_rows * matrix->n_in * matrix->n_out;

  self->counts.n_products += n_products;
  self->counts.n_shadow_products += llm_w8_rows_count_shadows (rows, n_rows) * matrix->n_out;
  if (host->n_multiplied != NULL)
    *host->n_multiplied += n_products;
}

/* --- products --- */

static gsize
count_panels (const LlkW8Matrix *matrix)
{
  return (matrix->n_out + LLK_W8_OUTPUTS - 1) / LLK_W8_OUTPUTS;
}

static guint
count_units (const LlkW8Matrix *matrix)
{
  return (guint) (count_panels (matrix) + UNIT_PANELS - 1) / UNIT_PANELS;
}

static void
multiply_units (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  const Work *work = data;
  gsize panel = (gsize) first * UNIT_PANELS;
  gsize n = MIN ((gsize) end * UNIT_PANELS, count_panels (&work->matrix)) - panel;

  llm_w8_rows_multiply (work->rows, &work->matrix, panel, n, 0, work->n_rows, work->y,
                        work->y_stride, work->is_added);
}

/* The inputs of the rows that are quantized now. */
typedef struct
{
  const float *values;
  guint first_in;
  gsize n_in;
  guint n_rows;
} Quantized;

/* Rows are quantized once for the pieces that read the same inputs of them; those of a gated network
 * are there already. */
static const LlmW8Rows *
find_rows (W8Backend         *self,
           const LlmOp       *op,
           guint              piece,
           const LlkW8Matrix *matrix,
           Quantized         *quantized)
{
  guint at = llm_w8_site_at (op->shape.layer, llm_w8_kind_of (op->shape.op));
  Quantized now = {
    op->rows.values, op->product.pieces[piece].in_first, matrix->n_in, op->product.n_rows[piece],
  };

  if (now.values == NULL)
    {
      g_assert (self->keeps_inner);
      return self->inner[piece];
    }
  if (now.values != quantized->values || now.first_in != quantized->first_in
      || now.n_in != quantized->n_in || now.n_rows > quantized->n_rows)
    {
      LlmW8RowsShape shape = get_rows_shape (self, at, matrix);

      llm_w8_rows_set (self->rows, op->host->pool, &shape, now.n_rows, now.values + now.first_in,
                       op->rows.stride);
      count_rows (self, self->rows, now.n_in, now.n_rows);
      *quantized = now;
    }
  return self->rows;
}

static void
run_product (W8Backend *self,
             LlmOp     *op,
             Quantized *quantized)
{
  const LlmProduct *product = &op->product;

  for (guint i = 0; i < product->n_pieces; i++)
    {
      const LlmWeightView *view = &product->pieces[i];
      Work work = {
        .n_rows = product->n_rows[i], .y = product->y + view->out_first,
        .y_stride = product->y_stride, .is_added = product->is_added || view->in_first > 0,
      };

      if (work.n_rows == 0
          || !find_matrix (self, op->shape.op, op->shape.layer, i, view, &work.matrix))
        continue;
      work.rows = find_rows (self, op, i, &work.matrix, quantized);
      llm_worker_pool_run (op->host->pool, count_units (&work.matrix), 1, multiply_units, &work);
      count_products (self, op->host, work.rows, &work.matrix, work.n_rows);
    }
}

/* --- gated --- */

/* The outputs of a unit alone. */
static LlkW8Matrix
cut_unit (const LlkW8Matrix *matrix,
          guint              unit)
{
  gsize panel = (gsize) unit * UNIT_PANELS;
  LlkW8Matrix cut = *matrix;

  cut.panels += panel * llk_w8_panel_bytes (matrix->n_in, matrix->n_hot);
  cut.n_out = MIN (matrix->n_out - panel * LLK_W8_OUTPUTS, LLM_W8_PART);
  return cut;
}

static void
gate_units (guint    first,
            guint    end,
            guint    worker,
            gpointer data)
{
  const GatedWork *work = data;
  float gate[GATED_ROWS * LLM_W8_PART], up[GATED_ROWS * LLM_W8_PART];

  for (guint unit = first; unit < end; unit++)
    {
      LlkW8Matrix gate_unit = cut_unit (&work->gate, unit), up_unit = cut_unit (&work->up, unit);
      gsize n_panels = count_panels (&gate_unit);

      for (guint r = 0; r < work->n_rows; r += GATED_ROWS)
        {
          guint n = MIN (GATED_ROWS, work->n_rows - r);

          llm_w8_rows_multiply (work->rows, &gate_unit, 0, n_panels, r, n, gate, LLM_W8_PART, FALSE);
          llm_w8_rows_multiply (work->rows, &up_unit, 0, n_panels, r, n, up, LLM_W8_PART, FALSE);
          for (guint i = 0; i < n; i++)
            (work->is_gelu ? work->vector->gelu_mul : work->vector->silu_mul)
              (gate + i * LLM_W8_PART, up + i * LLM_W8_PART, gate_unit.n_out);
          llm_w8_rows_set_part (work->inner, unit, r, n, gate, gate_unit.n_out);
        }
    }
}

static void
run_gated (W8Backend *self,
           LlmOp     *op,
           Quantized *quantized)
{
  guint layer = op->shape.layer, at = llm_w8_site_at (layer, LLM_W8_FFN_OUTPUT);

  for (guint i = 0; i < op->product.n_pieces; i++)
    {
      const LlmWeightView *view = &op->product.pieces[i];
      GatedWork work = {
        .n_rows = op->product.n_rows[i], .vector = self->kernels->vector, .is_gelu = op->is_gelu,
      };
      g_autofree guint16 *hot_of = NULL;
      LlkW8Matrix behind = { .n_in = view->out_count };
      LlmW8RowsShape shape;

      if (work.n_rows == 0 || !find_matrix (self, op->shape.op, layer, i, view, &work.gate)
          || !find_matrix (self, LLM_OP_FFN_UP, layer, i, &op->up.pieces[i], &work.up))
        continue;
      if (self->weights == NULL)
        {
          guint n_hot;

          behind.hot_of = hot_of = llm_w8_cut_hot (&self->config.sites[at], view->out_first,
                                                   view->out_count, &n_hot);
          behind.n_hot = n_hot;
        }
      else if (!llm_w8_weights_find (self->weights, LLM_OP_FFN_DOWN, layer, i, &behind))
        continue;
      shape = get_rows_shape (self, at, &behind);
      if (self->inner[i] == NULL)
        self->inner[i] = llm_w8_rows_new (self->kernels->w8);
      work.inner = self->inner[i];
      work.rows = find_rows (self, op, i, &work.gate, quantized);
      llm_w8_rows_begin_parts (work.inner, &shape, work.n_rows);
      llm_worker_pool_run (op->host->pool, count_units (&work.gate), 1, gate_units, &work);
      llm_w8_rows_end_parts (work.inner, op->host->pool);
      count_rows (self, work.inner, shape.n_in, work.n_rows);
      count_products (self, op->host, work.rows, &work.gate, work.n_rows);
      count_products (self, op->host, work.rows, &work.up, work.n_rows);
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
      if (ops[i]->shape.kind == LLM_BACKEND_GATED)
        run_gated (self, ops[i], &quantized);
      else
        run_product (self, ops[i], &quantized);
      self->keeps_inner = ops[i]->shape.kind == LLM_BACKEND_GATED;
      ops[i]->status = LLM_READY;
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

static double
get_cost_us (LlmBackend       *backend,
             const LlmOpShape *shape)
{
  W8Backend *self = (W8Backend *) backend;

  return self->speedup > 0 ? self->cpu->class->cost_us (self->cpu, shape) / self->speedup : 0;
}

static guint64
get_bytes (LlmBackend *backend)
{
  W8Backend *self = (W8Backend *) backend;
  guint64 bytes = self->bytes + llm_w8_rows_get_bytes (self->rows);

  for (guint i = 0; i < LLM_MAX_LEVELS; i++)
    if (self->inner[i] != NULL)
      bytes += llm_w8_rows_get_bytes (self->inner[i]);
  return bytes;
}

void
llm_backend_w8_trim (LlmBackend *backend)
{
  W8Backend *self = (W8Backend *) backend;

  llm_w8_rows_trim (self->rows);
  for (guint i = 0; i < LLM_MAX_LEVELS && !self->keeps_inner; i++)
    g_clear_pointer (&self->inner[i], llm_w8_rows_free);
}

static void
free_backend (LlmBackend *backend)
{
  W8Backend *self = (W8Backend *) backend;

  self->keeps_inner = FALSE;
  llm_backend_w8_trim (backend);
  llm_w8_rows_free (self->rows);
  for (gsize i = 0; i < (gsize) self->n_layers * LLM_N_OPS * LLM_MAX_LEVELS; i++)
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
  self->forms = g_new0 (LlmW8Form *,
                        (gsize) config->hparams->n_layers * LLM_N_OPS * LLM_MAX_LEVELS);
  self->rows = llm_w8_rows_new (kernels->w8);
  return &self->parent;
}

LlmW8Counts
llm_backend_w8_get_counts (LlmBackend *backend)
{
  return ((W8Backend *) backend)->counts;
}

void
llm_backend_w8_set_speedup (LlmBackend *backend,
                            double      speedup)
{
  ((W8Backend *) backend)->speedup = speedup;
}

void
llm_backend_w8_set_weights (LlmBackend   *backend,
                            LlmW8Weights *weights)
{
  ((W8Backend *) backend)->weights = weights;
}
