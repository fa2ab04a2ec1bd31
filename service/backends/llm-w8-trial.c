/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "backends/llm-w8-trial.h"

#define N_ROWS 32
#define N_TURNS 4

/* Microseconds of one run. */
static double
measure (LlmBackend *backend,
         LlmOp      *op)
{
  gint64 begin_us = g_get_monotonic_time ();

  if (!backend->class->submit (backend, &op, 1, NULL))
    return G_MAXDOUBLE;
  return (double) MAX (g_get_monotonic_time () - begin_us, 1);
}

/* Evenly within the scale, and every so many beyond it. */
static void
fill_rows (float  *x,
           gsize   n,
           float   scale,
           double  share)
{
  gsize period = share > 0 ? (gsize) MAX (1 / share, 1) : n + 1;

  for (gsize i = 0; i < n; i++)
    {
      float value = scale * (float) ((int) (i * 37 % 255) - 127);

      x[i] = i % period == period - 1 ? 2 * LLK_W8_LIMIT * scale : value;
    }
}

double
llm_w8_trial (LlmBackend          *w8,
              const LlkOps        *kernels,
              LlmWorkerPool       *pool,
              LlmOperator          op,
              guint                layer,
              const LlmWeightView *view,
              float                scale,
              double               share)
{
  const guint n_rows = N_ROWS, n_threads = llm_worker_pool_get_n_threads (pool);
  const gsize scratch_bytes = llm_matmul_get_scratch (kernels, view->in_count, N_ROWS);
  const gsize row_bytes = llm_matmul_get_row_bytes (view->in_count);
  g_autoptr(LlmBackend) cpu = llm_backend_cpu_new (kernels);
  g_autofree float *x = g_new (float, N_ROWS * (gsize) view->in_count);
  g_autofree float *y = g_new (float, N_ROWS * (gsize) view->out_count);
  LlmHost host = {
    .pool = pool, .scratch = g_aligned_alloc (n_threads, scratch_bytes, 64),
    .scratch_bytes = scratch_bytes, .prepared = g_aligned_alloc (N_ROWS, row_bytes, 64),
    .row_bytes = row_bytes,
  };
  LlmOp made = {
    .shape = { LLM_BACKEND_PRODUCT, view->type, view->layout, view->in_count, view->out_count,
               N_ROWS, op, layer },
    .rows = { x, view->in_count },
    .product = { view, &n_rows, 1, y, view->out_count, FALSE },
    .host = &host,
  };
  double least = G_MAXDOUBLE, least_w8 = G_MAXDOUBLE;

  fill_rows (x, N_ROWS * (gsize) view->in_count, scale, share);
  for (guint i = 0; i < N_TURNS; i++)
    {
      double cpu_us = measure (cpu, &made), w8_us = measure (w8, &made);

      least = MIN (least, cpu_us);
      least_w8 = MIN (least_w8, w8_us);
    }
  g_aligned_free (host.scratch);
  g_aligned_free (host.prepared);
  return least / least_w8;
}
