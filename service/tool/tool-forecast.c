/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool/tool-forecast.h"

#include <glib/gi18n.h>
#include <math.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "forward/llm-forward.h"
#include "model/llm-footprint.h"
#include "tool/tool.h"
#include "weights/llm-read-forecast.h"

/* Products are timed on the first layers of a pass, of so many bytes: more than caches hold, and less than
 * any budget has. */
#define SAMPLE_BYTES ((guint64) 192 << 20)
#define N_SAMPLES 5

/* Microseconds for a byte of weights: a token's first stages, the fastest of some rounds behind one that
 * brings them into memory. */
static gboolean
time_products (LlmModel      *model,
               LlmWeights    *weights,
               LlmWorkerPool *pool,
               const LlkOps  *kernels,
               double        *product_us,
               GError       **error)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  const LlmPlanConfig config = { .kernels = kernels };
  g_autoptr(LlmPlan) plan = llm_plan_new (hparams, weights, &config);
  g_autoptr(LlmForward) forward = llm_forward_new (plan, pool, NULL);
  g_autoptr(LlmKvStore) store = NULL;
  g_autoptr(LlmKvSeq) seq = NULL;
  LlmKvLayer layers[LLM_MAX_LAYERS];
  const LlmKvLayout layout = llm_forward_get_layout (hparams, LLK_KV_F16, LLM_KV_CHUNK_SLOTS, layers);
  const double share = MIN (1.0, (double) SAMPLE_BYTES / (double) weights->bytes);
  const guint n_nodes = MAX ((guint) (share * plan->n_nodes), 1);
  LlmRow row = { .sub_model = 100, .wants_logits = TRUE };
  LlmBatch batch = { &row, 1, &seq, 1 };
  gint64 least_us = G_MAXINT64;

  store = llm_kv_store_new (&layout, NULL, NULL, error);
  if (store == NULL)
    return FALSE;
  seq = llm_kv_seq_new (store, NULL, NULL);
  for (guint i = 0; i <= N_SAMPLES; i++)
    {
      gint64 begun_us = 0;
      LlmStatus status = LLM_PENDING;
      gboolean waits;

      llm_kv_seq_truncate (seq, 0);
      if (!llm_kv_seq_append (seq, 1, error) || !llm_forward_begin (forward, &batch, error))
        return FALSE;
      begun_us = llm_clock_now_us ();
      for (guint k = 0; k < n_nodes && status == LLM_PENDING; k++)
        status = llm_forward_step (forward, &waits, error);
      if (status == LLM_FAILED)
        return FALSE;
      if (i > 0)
        least_us = MIN (least_us, llm_clock_now_us () - begun_us);
      if (status == LLM_PENDING)
        llm_forward_abandon (forward);
    }
  *product_us = (double) least_us * plan->n_nodes / n_nodes / (double) weights->bytes;
  return TRUE;
}

typedef struct
{
  guint64 bytes, staying;            /* of weights */
  LlmReadRates rates;
  const LlmThresholds *thresholds;   /* (nullable) */
  LlmReadForecast forecasts[1 + LLM_MAX_SPARSITIES];
  guint n;
} Found;

/* In the way that is faster. */
static double
get_us (const LlmReadForecast *forecast)
{
  return forecast->n_requests > 0 ? MIN (forecast->whole_us, forecast->channel_us) : forecast->whole_us;
}

static gboolean
goes_by_channel (const LlmReadForecast *forecast)
{
  return forecast->n_requests > 0 && forecast->channel_us < forecast->whole_us;
}

/* The one that leaves out least of those that are fast enough; NULL: none is, or none is looked for. */
static const LlmReadForecast *
find_fitting (const ToolForecast *self,
              const Found        *found)
{
  for (guint i = 0; i < found->n; i++)
    if (get_us (&found->forecasts[i]) <= self->most_us)
      return &found->forecasts[i];
  return NULL;
}

static double
get_growth (const Found *found,
            guint        i)
{
  return i == 0 ? 0
         : 100 * expm1 ((double) (found->thresholds->losses[i - 1] - found->thresholds->dense_loss));
}

static void
print_json (const ToolForecast *self,
            const Found        *found)
{
  const LlmReadForecast *fitting = find_fitting (self, found);
  GVariantBuilder lines;
  double request_us, byte_us;

  llm_read_cost_get (&found->rates.cost, &request_us, &byte_us);
  g_variant_builder_init (&lines, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < found->n; i++)
    g_variant_builder_add_value (
      &lines,
      g_variant_new_parsed ("{'active': <%u>, 'token-us': <%d>, 'by-channel': <%b>, 'read-bytes': <%t>, "
                            "'requests': <%t>, 'whole-us': <%d>, 'channel-us': <%d>, 'growth': <%d>}",
                            found->forecasts[i].percent, get_us (&found->forecasts[i]), goes_by_channel (&found->forecasts[i]),
                            goes_by_channel (&found->forecasts[i]) ? found->forecasts[i].channel_bytes
                                                            : found->forecasts[i].whole_bytes,
                            found->forecasts[i].n_requests, found->forecasts[i].whole_us, found->forecasts[i].channel_us,
                            get_growth (found, i)));
  tool_print_json (
    g_variant_new_parsed ("{'version': <%u>, 'budget': <%t>, 'bytes': <%t>, 'stays': <%t>, "
                          "'request-us': <%d>, 'read-bytes-per-us': <%d>, 'product-bytes-per-us': <%d>, "
                          "'forecasts': <%@aa{sv}>, 'fits': <%i>}",
                          (guint) TOOL_JSON_VERSION, self->budget, found->bytes, found->staying, request_us,
                          found->rates.stream_us > 0 ? 1 / found->rates.stream_us : 0, 1 / found->rates.product_us,
                          g_variant_builder_end (&lines), fitting != NULL ? (gint) fitting->percent : -1),
    FALSE);
}

static void
print_text (const ToolForecast *self,
            const Found        *found)
{
  const LlmReadForecast *fitting = find_fitting (self, found);
  double request_us, byte_us;

  llm_read_cost_get (&found->rates.cost, &request_us, &byte_us);
  g_print (_("Of %.0f MB of weights %.0f MB stay in memory\n"), (double) found->bytes / 1e6,
           (double) found->staying / 1e6);
  if (found->rates.stream_us > 0)
    g_print (_("The disk: %.0f MB/s, and %.1f µs for each request; products: %.1f GB/s\n"),
             1 / found->rates.stream_us, request_us, 1e-3 / found->rates.product_us);
  /* Translators: the heads of a table, in columns of these widths */
  g_print ("%s\n", _("  active    read MB  requests   ms a token  perplexity"));
  for (guint i = 0; i < found->n; i++)
    {
      const LlmReadForecast *f = &found->forecasts[i];
      gboolean by_channel = goes_by_channel (f);

      g_print ("  %4u %%  %9.0f  %8" G_GUINT64_FORMAT "  %11.1f  %+9.1f %%\n", f->percent,
               (double) (by_channel ? f->channel_bytes : f->whole_bytes) / 1e6,
               by_channel ? f->n_requests : (guint64) 0, get_us (f) / 1000, get_growth (found, i));
    }
  if (found->n == 1)
    g_print (_("It has no thresholds for sparse answers in a companion: llmsvc-active finds them\n"));
  if (fitting != NULL)
    g_print (_("At most %.0f ms a token: active=%u\n"), self->most_us / 1000, fitting->percent);
  else if (self->most_us > 0)
    g_print (_("Nothing here has a token in %.0f ms\n"), self->most_us / 1000);
}

gboolean
tool_forecast_print (const ToolForecast *self,
                     LlmModel           *model,
                     LlmRepackedCache   *cache,
                     LlmWorkerPool      *pool,
                     const LlkOps       *kernels,
                     GError            **error)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  LlmGguf *gguf = llm_model_get_gguf (model);
  const LlmFootprint footprint = llm_footprint_find (gguf, hparams);
  g_autoptr(GError) cause = NULL;
  g_autoptr(LlmLevels) levels = llm_levels_open (model, NULL, &cause);
  Found found = { .thresholds = llm_levels_get_thresholds (levels) };
  g_autoptr(LlmWeights) weights = NULL;
  g_autoptr(LlmDisk) disk = NULL;
  LlmWeightSource source;

  if (cause != NULL)
    g_printerr (_("The companion is not used: %s\n"), cause->message);
  if (self->budget < footprint.least)
    return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                     "The model needs %u MiB of memory at the least",
                     (guint) (footprint.least >> 20) + 1);
  weights = llm_weights_new_repacked (gguf, hparams, llm_levels_get_table (levels), cache,
                                      llm_worker_pool_get_n_threads (pool), NULL, error);
  disk = weights != NULL ? llm_disk_new (NULL, error) : NULL;
  if (disk == NULL)
    return FALSE;
  found.bytes = weights->bytes;
  found.staying = MIN (self->budget - footprint.work, weights->bytes);
  source = llm_weight_source_of_disk (disk);
  /* or the copy would be read into memory beside the probe */
  llm_weights_keep (weights, 0);
  if (found.staying < found.bytes && !llm_weights_probe_reads (weights, &source, &found.rates, error))
    return FALSE;
  llm_weights_keep (weights, G_MAXUINT64);
  if (!time_products (model, weights, pool, kernels, &found.rates.product_us, error))
    return FALSE;
  found.n = llm_weights_forecast_reads (weights, found.thresholds, found.staying, &found.rates,
                                        found.forecasts, error);
  if (found.n == 0)
    return FALSE;
  (self->as_json ? print_json : print_text) (self, &found);
  return TRUE;
}
