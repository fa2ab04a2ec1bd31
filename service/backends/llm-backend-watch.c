/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-backend-watch.h"

#include <math.h>
#include <string.h>

/* Magnitudes are counted by the upper bits of their floats: the exponent and five bits behind
 * it. */
#define BIN_SHIFT 18
#define N_BINS (0x7f800000u >> BIN_SHIFT)

typedef struct
{
  float *maxima;       /* (owned) [n_channels] */
  float largest;
  guint64 n;
  guint64 bins[N_BINS];
} Watched;

typedef struct
{
  LlmBackend parent;
  LlmBackend *cpu;     /* (owned) */
  const LlmW8Site *of;  /* (nullable) (unowned) */
  guint n_layers;
  Watched **sites;     /* (owned) [n_layers × LLM_W8_N_KINDS]: (nullable) (owned) */
} WatchBackend;

static gboolean
can_run (LlmBackend       *backend,
         const LlmOpShape *shape)
{
  return shape->kind == LLM_BACKEND_PRODUCT && llm_w8_kind_of (shape->op) != LLM_W8_N_KINDS;
}

static gconstpointer
prepare (LlmBackend       *backend,
         const LlmOpShape *shape,
         GError          **error)
{
  return backend;
}

static void
watch (Watched       *site,
       const guint16 *hot_of,
       const float   *x,
       guint          n)
{
  for (guint i = 0; i < n; i++)
    {
      float magnitude = fabsf (x[i]);
      guint32 bits;

      memcpy (&bits, &magnitude, sizeof bits);
      if (!isfinite (x[i]))
        continue;
      site->maxima[i] = MAX (site->maxima[i], magnitude);
      if (hot_of != NULL && hot_of[i] != 0)
        continue;
      site->bins[bits >> BIN_SHIFT]++;
      site->n++;
      site->largest = MAX (site->largest, magnitude);
    }
}

static gboolean
submit (LlmBackend   *backend,
        LlmOp *const *ops,
        guint         n_ops,
        GError      **error)
{
  WatchBackend *self = (WatchBackend *) backend;
  const float *values = NULL;

  for (guint i = 0; i < n_ops; i++)
    {
      const LlmOp *op = ops[i];
      guint at = llm_w8_site_at (op->shape.layer, llm_w8_kind_of (op->shape.op));
      Watched **site = &self->sites[at];

      if (*site == NULL)
        {
          *site = g_new0 (Watched, 1);
          (*site)->maxima = g_new0 (float, op->shape.n_in);
        }
      for (guint r = 0; r < op->shape.n_rows && op->rows.values != values; r++)
        watch (*site, self->of != NULL ? self->of[at].hot_of : NULL, op->rows.values + r * op->rows.stride, op->shape.n_in);
      values = op->rows.values;
    }
  return self->cpu->class->submit (self->cpu, ops, n_ops, error);
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
  WatchBackend *self = (WatchBackend *) backend;

  return self->cpu->class->cost_us (self->cpu, shape) / 2;
}

static guint64
get_bytes (LlmBackend *backend)
{
  return 0;
}

static void
free_backend (LlmBackend *backend)
{
  WatchBackend *self = (WatchBackend *) backend;

  for (guint i = 0; i < self->n_layers * LLM_W8_N_KINDS; i++)
    if (self->sites[i] != NULL)
      {
        g_free (self->sites[i]->maxima);
        g_free (self->sites[i]);
      }
  g_free (self->sites);
  llm_backend_free (self->cpu);
  g_free (self);
}

static const LlmBackendClass watch_class = {
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
llm_backend_watch_new (const LlkOps     *kernels,
                       const LlmHparams *hparams,
                       const LlmW8Site  *sites)
{
  WatchBackend *self = g_new0 (WatchBackend, 1);

  self->parent = (LlmBackend) { .class = &watch_class, .name = "watch", .has_cpu_bits = TRUE };
  self->cpu = llm_backend_cpu_new (kernels);
  self->of = sites;
  self->n_layers = hparams->n_layers;
  self->sites = g_new0 (Watched *, (gsize) hparams->n_layers * LLM_W8_N_KINDS);
  return &self->parent;
}

const float *
llm_backend_watch_get_maxima (LlmBackend *backend,
                              guint       layer,
                              LlmW8Kind   kind)
{
  const Watched *site = ((WatchBackend *) backend)->sites[llm_w8_site_at (layer, kind)];

  return site != NULL ? site->maxima : NULL;
}

float
llm_backend_watch_get_quantile (LlmBackend *backend,
                                guint       layer,
                                LlmW8Kind   kind,
                                double      quantile)
{
  const Watched *site = ((WatchBackend *) backend)->sites[llm_w8_site_at (layer, kind)];
  guint64 n = 0;

  if (site == NULL)
    return 0;
  for (guint bin = 0; bin < N_BINS; bin++)
    {
      guint32 bits = (bin + 1) << BIN_SHIFT;
      float end;

      n += site->bins[bin];
      if ((double) n < quantile * (double) site->n)
        continue;
      memcpy (&end, &bits, sizeof end);
      return MIN (end, site->largest);
    }
  return site->largest;
}
