/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Progress reports until the first token, so that a caller can tell a long prompt, a queue and a
 * slow disk from a service that hangs. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/calls/llm-generation-private.h"

#include "base/llm-clock.h"

/* An answer that begins sooner has no such lines; later ones come no more often. */
#define INTERVAL_MS 400

/* (transfer floating) */
static GVariant *
describe (LlmGeneration *self)
{
  static const char *const waits[] = {
    [LLM_REQUEST_WAIT_TURN] = "turn",
    [LLM_REQUEST_WAIT_MEMORY] = "memory",
    [LLM_REQUEST_WAIT_STORAGE] = "storage",
  };
  LlmRequest *request = self->request;
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  guint64 n_restoring = __atomic_load_n (&request->progress.n_restoring, __ATOMIC_RELAXED);
  guint forecast_ms = __atomic_load_n (&request->progress.forecast_ms, __ATOMIC_RELAXED);
  gint64 waited_ms = (llm_clock_now_us () - request->arrived_us) / 1000;

  if (!__atomic_load_n (&request->progress.has_started, __ATOMIC_ACQUIRE))
    {
      g_variant_dict_insert (&dict, "phase", "s", "queued");
      g_variant_dict_insert (&dict, "waits-for", "s",
                             waits[__atomic_load_n (&request->progress.waits_for,
                                                    __ATOMIC_RELAXED)]);
      g_variant_dict_insert (&dict, "ahead", "t",
                             (guint64) __atomic_load_n (&request->progress.n_ahead,
                                                        __ATOMIC_RELAXED));
    }
  else if (n_restoring > 0)
    {
      g_variant_dict_insert (&dict, "phase", "s", "restoring");
      g_variant_dict_insert (&dict, "total", "t", n_restoring);
    }
  else
    {
      g_variant_dict_insert (&dict, "phase", "s", "prefill");
      g_variant_dict_insert (&dict, "done", "t",
                             (guint64) __atomic_load_n (&request->progress.n_prefilled,
                                                        __ATOMIC_RELAXED));
      g_variant_dict_insert (&dict, "total", "t", (guint64) request->prompt->len);
    }
  /* a forecast that has passed is not reported */
  if (forecast_ms > waited_ms)
    g_variant_dict_insert (&dict, "forecast-ms", "t", (guint64) (forecast_ms - waited_ms));
  return g_variant_dict_end (&dict);
}

static gboolean
on_interval (gpointer data)
{
  LlmGeneration *self = data;
  g_autoptr(GVariant) progress = NULL;
  g_autofree char *text = NULL;

  if (self->request == NULL
      || __atomic_load_n (&self->request->progress.has_first, __ATOMIC_ACQUIRE))
    {
      self->progress_timer = 0;
      return G_SOURCE_REMOVE;
    }
  progress = g_variant_ref_sink (describe (self));
  text = g_variant_print (progress, FALSE);
  if (g_strcmp0 (text, self->progress) != 0)
    llm_sink_progress (self->call->answer.sink, progress);
  g_free (self->progress);
  self->progress = g_steal_pointer (&text);
  return G_SOURCE_CONTINUE;
}

void
llm_generation_begin_progress (LlmGeneration *self)
{
  self->progress_timer = g_timeout_add (INTERVAL_MS, on_interval, self);
}

void
llm_generation_end_progress (LlmGeneration *self)
{
  g_clear_handle_id (&self->progress_timer, g_source_remove);
  g_clear_pointer (&self->progress, g_free);
}
