/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8/bench-w8-prefill.h"

#include "backends/llm-backend-w8.h"
#include "backends/llm-backend-watch.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "kernels/llk-w8.h"
#include "tool/llm-w8-lab.h"

/* Of the prompt that scales are found on. */
#define N_TOKENS 256
/* Of all magnitudes at a site; without a shadow the scale reaches all. */
#define QUANTILE 0.9995
/* Steps with fewer rows are computed as ever. */
#define MIN_ROWS 32

struct _BenchW8Prefill
{
  guint n_sites;
  LlmW8Site *sites;        /* (owned) */
  LlmW8Method *methods;    /* (owned) (nullable) */
  LlmBackend *backend;     /* (owned) */
  LlmPlan *plan;           /* (owned) */
  LlmForward *forward;     /* (owned) */
};

void
bench_w8_prefill_free (BenchW8Prefill *self)
{
  if (self == NULL)
    return;

  g_clear_pointer (&self->forward, llm_forward_free);
  g_clear_pointer (&self->plan, llm_plan_unref);
  g_clear_pointer (&self->backend, llm_backend_free);
  g_free (self->sites);
  g_free (self->methods);
  g_free (self);
}

/* Runs a prompt with @backend in the engine's place. */
static void
run_prompt (BenchEngine *engine,
            LlmForward  *forward)
{
  g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (engine->store, NULL, NULL);
  LlmForward *own = engine->forward;

  engine->forward = forward;
  bench_engine_prefill (engine, sequence, NULL, N_TOKENS, NULL);
  engine->forward = own;
}

static LlmForward *
new_forward (BenchEngine  *engine,
             LlmBackend   *device,
             LlmPlan     **plan)
{
  const LlmPlanConfig config = { .kernels = engine->kernels, .device = device };

  *plan = llm_plan_new (engine->hparams, engine->weights, &config);
  return llm_forward_new (*plan, engine->pool, NULL);
}

static guint
find_scales (BenchW8Prefill *self,
             BenchEngine    *engine,
             gboolean        has_shadow)
{
  g_autoptr(LlmBackend) watch = llm_backend_watch_new (engine->kernels, engine->hparams, NULL);
  g_autoptr(LlmPlan) plan = NULL;
  g_autoptr(LlmForward) forward = new_forward (engine, watch, &plan);
  guint n = 0;

  run_prompt (engine, forward);
  self->n_sites = engine->hparams->n_layers * LLM_W8_N_KINDS;
  self->sites = g_new0 (LlmW8Site, self->n_sites);
  for (guint at = 0; at < self->n_sites; at++)
    {
      guint layer = at / LLM_W8_N_KINDS, kind = at % LLM_W8_N_KINDS;
      float largest = llm_backend_watch_get_quantile (watch, layer, kind,
                                                      has_shadow ? QUANTILE : 1);

      self->sites[at] = (LlmW8Site) { largest / LLK_W8_LIMIT, has_shadow };
      n += largest > 0;
    }
  return n;
}

BenchW8Prefill *
bench_w8_prefill_new (BenchEngine  *engine,
                      gboolean      has_shadow,
                      gboolean      gates,
                      GError      **error)
{
  g_autoptr(BenchW8Prefill) self = g_new0 (BenchW8Prefill, 1);
  LlmW8Config config = { .hparams = engine->hparams, .min_rows = MIN_ROWS };

  if (find_scales (self, engine, has_shadow) == 0)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "This model has none of the products that are computed with 8 bits");
  config.sites = self->sites;
  /* with methods, though all are plain, the gate is the CPU's */
  if (!gates)
    config.methods = self->methods = g_new0 (LlmW8Method, self->n_sites);
  self->backend = llm_backend_w8_new (engine->kernels, &config);
  self->forward = new_forward (engine, self->backend, &self->plan);
  /* weights are made into their int8 form when they are first multiplied */
  run_prompt (engine, self->forward);
  return g_steal_pointer (&self);
}

LlmForward *
bench_w8_prefill_get_forward (BenchW8Prefill *self)
{
  return self->forward;
}

double
bench_w8_prefill_get_shadow_share (BenchW8Prefill *self)
{
  LlmW8Counts counts = llm_backend_w8_get_counts (self->backend);

  return (double) counts.n_shadow_products / (double) MAX (counts.n_products, 1);
}

guint64
bench_w8_prefill_get_bytes (BenchW8Prefill *self)
{
  return self->backend->class->bytes (self->backend);
}
