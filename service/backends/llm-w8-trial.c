/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-w8-trial.h"

/* Rows of a prompt, as many as make so many products, so that what a run costs besides counts as in
 * one. */
#define N_PRODUCTS 400e6
#define LEAST_ROWS 32
#define MOST_ROWS 256
/* For so long, as another process may run beside the first ones; but no longer than it must where a
 * layer is large, as the executor waits. The first turn reads the weights. */
#define LEAST_TURNS 2
#define LEAST_US 30000
/* Beside the largest of other inputs: what a value has at most that is not beyond the scale, and what
 * hot inputs have. Gates of such rows are within their scale. */
#define COMMON (1 / 8.0f)
#define HOT 6

typedef struct
{
  LlmHost host;
  guint layer;
  guint n_rows;
  gsize widest;                   /* inputs or outputs of any operator */
  const LlmWeightView *views;     /* (unowned) [LLM_N_OPS] */
  const LlmW8Site *sites;         /* (unowned) [LLM_W8_N_KINDS] */
  const LlkVectorOps *vector;
  gboolean is_gated;              /* the network's inner values stay in W8A8 */
  gsize n_channels[LLM_W8_N_KINDS];
  float *x[LLM_W8_N_KINDS];       /* (owned) [n_rows × widest] */
  float *y[LLM_N_OPS];            /* (owned) (nullable) [n_rows × widest] */
} Trial;

/* Operators that read the same rows. */
static const LlmOperator groups[LLM_W8_N_KINDS][3] = {
  [LLM_W8_ATTENTION_INPUT] = { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE },
  [LLM_W8_ATTENTION_OUTPUT] = { LLM_OP_ATTENTION_OUT, LLM_N_OPS, LLM_N_OPS },
  [LLM_W8_FFN_INPUT] = { LLM_OP_FFN_GATE, LLM_OP_FFN_UP, LLM_N_OPS },
  [LLM_W8_FFN_OUTPUT] = { LLM_OP_FFN_DOWN, LLM_N_OPS, LLM_N_OPS },
};

static guint
make_ops (const Trial *self,
          LlmW8Kind    kind,
          LlmOp       *ops)
{
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (groups[kind]); i++)
    {
      LlmOperator op = groups[kind][i];
      const LlmWeightView *view = op < LLM_N_OPS ? &self->views[op] : NULL;

      if (view == NULL || view->in_count == 0)
        continue;
      ops[n++] = (LlmOp) {
        .shape = { LLM_BACKEND_PRODUCT, view->type, view->layout, view->in_count, view->out_count,
                   self->n_rows, op, self->layer },
        .rows = { self->x[kind], self->widest },
        .product = { .pieces = view, .n_rows = &self->n_rows, .n_pieces = 1, .y = self->y[op],
                     .y_stride = self->widest },
        .host = &self->host,
      };
    }
  return n;
}

/* As the forward pass does where a backend doesn't. */
static void
gate_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  const Trial *self = data;

  for (guint r = first; r < end; r++)
    self->vector->silu_mul (self->y[LLM_OP_FFN_GATE] + r * self->widest,
                            self->y[LLM_OP_FFN_UP] + r * self->widest,
                            self->n_channels[LLM_W8_FFN_OUTPUT]);
}

/* Microseconds of the layer's products, and of the gate between. */
static double
measure (Trial      *self,
         LlmBackend *backend,
         gboolean    is_w8)
{
  gint64 begin_us = g_get_monotonic_time ();

  for (guint kind = 0; kind < LLM_W8_N_KINDS; kind++)
    {
      LlmOp ops[3], *given[] = { &ops[0], &ops[1], &ops[2] };
      guint n = make_ops (self, kind, ops);

      if (self->is_gated && is_w8 && kind == LLM_W8_FFN_INPUT)
        {
          ops[0].shape.kind = LLM_BACKEND_GATED;
          ops[0].up = ops[1].product;
          n = 1;
        }
      if (self->is_gated && is_w8 && kind == LLM_W8_FFN_OUTPUT)
        ops[0].rows.values = NULL;
      if (self->is_gated && !is_w8 && kind == LLM_W8_FFN_OUTPUT)
        llm_worker_pool_run (self->host.pool, self->n_rows, 1, gate_rows, self);
      if (n > 0 && !backend->class->submit (backend, given, n, NULL))
        return G_MAXDOUBLE;
    }
  return (double) MAX (g_get_monotonic_time () - begin_us, 1);
}

/* As activations are: small beside the scale, but every so many beyond it, and those of hot inputs far
 * beyond. */
static void
fill_rows (const Trial     *self,
           float           *x,
           const LlmW8Site *site,
           double           share)
{
  const float limit = LLK_W8_LIMIT * site->scale;
  gsize n = self->n_rows * self->widest;
  gsize period = share > 0 ? (gsize) MAX (1 / share, 1) : n + 1;

  for (gsize i = 0; i < n; i++)
    {
      float part = (float) ((int) (i * 37 % 255) - 127) / 127;

      x[i] = i % period == period - 1 ? 2 * limit : COMMON * limit * part;
    }
  for (gsize k = 0; site->hot_of != NULL && k < self->n_channels[site - self->sites]; k++)
    for (guint r = 0; r < self->n_rows && site->hot_of[k] != 0; r++)
      x[r * self->widest + k] = (r % 2 == 0 ? HOT : -HOT) * limit;
}

static void
begin (Trial         *self,
       LlmBackend    *w8,
       const LlkOps  *kernels,
       LlmWorkerPool *pool,
       double         share)
{
  double n_products = 1;

  for (guint op = 0; op < LLM_N_OPS; op++)
    {
      const LlmWeightView *view = &self->views[op];

      n_products += (double) view->in_count * view->out_count;
      self->widest = MAX (self->widest, MAX (view->in_count, view->out_count));
      if (view->in_count > 0)
        self->n_channels[llm_w8_kind_of (op)] = view->in_count;
    }
  self->n_rows = (guint) CLAMP (N_PRODUCTS / n_products, LEAST_ROWS, MOST_ROWS);
  for (guint kind = 0; kind < LLM_W8_N_KINDS; kind++)
    {
      self->x[kind] = g_new (float, self->n_rows * self->widest);
      fill_rows (self, self->x[kind], &self->sites[kind], share);
    }
  for (guint op = 0; op < LLM_N_OPS; op++)
    if (self->views[op].in_count > 0)
      self->y[op] = g_new (float, self->n_rows * self->widest);
  if (self->views[LLM_OP_FFN_GATE].in_count > 0 && self->views[LLM_OP_FFN_UP].in_count > 0
      && self->views[LLM_OP_FFN_DOWN].in_count > 0)
    {
      LlmOp ops[3];

      make_ops (self, LLM_W8_FFN_INPUT, ops);
      ops[0].shape.kind = LLM_BACKEND_GATED;
      self->is_gated = w8->class->can_run (w8, &ops[0].shape);
    }
  self->vector = kernels->vector;
  self->host.pool = pool;
  self->host.scratch_bytes = llm_matmul_get_scratch (kernels, (guint) self->widest, self->n_rows);
  self->host.scratch = g_aligned_alloc (llm_worker_pool_get_n_threads (pool),
                                        self->host.scratch_bytes, 64);
  self->host.row_bytes = llm_matmul_get_row_bytes ((guint) self->widest);
  self->host.prepared = g_aligned_alloc (self->n_rows, self->host.row_bytes, 64);
}

static void
end (Trial *self)
{
  for (guint kind = 0; kind < LLM_W8_N_KINDS; kind++)
    g_free (self->x[kind]);
  for (guint op = 0; op < LLM_N_OPS; op++)
    g_free (self->y[op]);
  g_aligned_free (self->host.scratch);
  g_aligned_free (self->host.prepared);
}

double
llm_w8_trial (LlmBackend          *w8,
              const LlkOps        *kernels,
              LlmWorkerPool       *pool,
              guint                layer,
              const LlmWeightView *views,
              const LlmW8Site     *sites,
              double               share)
{
  g_autoptr(LlmBackend) cpu = llm_backend_cpu_new (kernels);
  Trial self = { .layer = layer, .views = views, .sites = sites };
  double least = G_MAXDOUBLE, least_w8 = G_MAXDOUBLE;
  gint64 end_us = g_get_monotonic_time () + LEAST_US;

  begin (&self, w8, kernels, pool, share);
  for (guint i = 0; self.widest > 0 && (i < LEAST_TURNS || g_get_monotonic_time () < end_us); i++)
    {
      double cpu_us = measure (&self, cpu, FALSE), w8_us = measure (&self, w8, TRUE);

      least = MIN (least, cpu_us);
      least_w8 = MIN (least_w8, w8_us);
    }
  end (&self);
  return self.widest > 0 ? least / least_w8 : 1;
}
