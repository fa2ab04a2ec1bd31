/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What administrators are told in numbers. */

#include "engine/calls/llm-generation-private.h"

#include <malloc.h>

#include "base/llm-clock.h"
#include "base/llm-sysinfo.h"

/* For so long, figures of the process are taken as they were. */
#define PROCESS_INTERVAL_US (100 * 1000)

static void
add (GVariantBuilder *builder,
     const char      *key,
     guint64          value)
{
  g_variant_builder_add (builder, "{sv}", key, g_variant_new_uint64 (value));
}

/* Of each class; returns the sum of all. No one waits for background calls: they are not refused for
 * time. */
static LlmSloCounters
add_slo (LlmEngine       *self,
         GVariantBuilder *builder)
{
  static const char *const names[] = { "calls", "met", "missed", "refused" };
  LlmSloCounters sum = { 0 };

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      const LlmSloCounters *of_class = &self->counters.slo[i];
      const guint64 values[] = { of_class->met + of_class->missed + of_class->refused,
                                 of_class->met, of_class->missed, of_class->refused };

      for (guint j = 0; j < G_N_ELEMENTS (names) - (i == LLM_SLO_BACKGROUND); j++)
        {
          g_autofree char *key = g_strdup_printf ("slo-%s-%s", llm_slo_class_to_string (i),
                                                  names[j]);

          add (builder, key, values[j]);
        }
      sum.met += of_class->met;
      sum.missed += of_class->missed;
      sum.refused += of_class->refused;
    }
  return sum;
}

/* Answers by their state. */
typedef struct
{
  guint n[LLM_GENERATION_DONE + 1];
} CallCounts;

static CallCounts
count_calls (LlmEngine *self)
{
  GHashTableIter iter;
  LlmGeneration *generation;
  CallCounts counts = { 0 };

  g_hash_table_iter_init (&iter, self->calls.generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    counts.n[llm_generation_get_state (generation)]++;
  return counts;
}

/* What malloc() has given out, the C library's own word; 0 where it says none. Context memory and
 * weights are not part of it. */
static guint64
read_heap (void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2 ();

  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

/* What the system and the C library have to look up: the heap is walked for it, with its locks
 * held, and a caller may ask thousands of times a second. */
static const LlmProcessFigures *
look_up_process (LlmEngine *self)
{
  LlmProcessFigures *process = &self->process;
  gint64 now_us = g_get_monotonic_time ();

  if (process->read_us == 0 || now_us - process->read_us >= PROCESS_INTERVAL_US)
    {
      process->heap_bytes = read_heap ();
      process->resident_bytes = llm_sysinfo_read_resident (NULL);
      process->read_us = now_us;
    }
  return process;
}

void
llm_engine_add_statistics (LlmEngine       *self,
                           GVariantBuilder *builder)
{
  const LlmSloCounters sum = add_slo (self, builder);
  const LlmEngineCounters *counters = &self->counters;
  const LlmExecutorFigures figures = llm_engine_get_figures (self);
  const LlmKvCounters kv = figures.kv;
  const LlmGovernorState *state = llm_governor_get_state (self->memory.governor);
  const LlmMemoryReading *reading = &state->reading;
  gint64 since_cut_us = state->cut_us > 0 ? llm_clock_now_us () - state->cut_us : 0;
  const GPtrArray *reclaimers = llm_ledger_get_reclaimers (self->ledger);
  const CallCounts calls = count_calls (self);
  const LlmProcessFigures *process = look_up_process (self);
  const LlmDraftSums drafts = llm_engine_sum_drafts (self, NULL);
  const struct
  {
    const char *key;
    guint64 value;
  } entries[] = {
    { "requests", counters->requests },
    { "failed", counters->failed },
    { "cancelled", counters->cancelled },
    { "prompt-tokens", counters->prompt_tokens },
    { "cached-tokens", counters->cached_tokens },
    { "output-tokens", counters->output_tokens },
    { "slo-met", sum.met },
    { "slo-missed", sum.missed },
    { "refused", sum.refused },
    { "queued-calls", calls.n[LLM_GENERATION_QUEUED] },
    { "prefill-calls", calls.n[LLM_GENERATION_PREFILL] },
    { "decode-calls", calls.n[LLM_GENERATION_DECODE] },
    { "stalled-calls", calls.n[LLM_GENERATION_STALLED] },
    { "ttft-forecasts", counters->forecasts },
    { "ttft-forecast-error-ms",
      counters->forecasts > 0 ? (guint64) (counters->forecast_error_ms / counters->forecasts) : 0 },
    { "drafted-tokens", drafts.n_drafted },
    { "accepted-tokens", drafts.n_accepted },
    { "draft-passes", drafts.n_passes },
    { "draft-loads", counters->draft_loads },
    { "model-loads", counters->model_loads },
    { "model-unloads", counters->model_unloads },
    { "trims", counters->trims },
    { "trimmed-bytes", counters->trimmed_bytes },
    { "steps", figures.n_steps },
    { "rows", figures.n_rows },
    { "multiplications", figures.n_multiplied },
    { "prefill-tokens", figures.n_prompt },
    { "generated-tokens", figures.n_generated },
    { "kv-packed-chunks", kv.n_packed },
    { "kv-written-chunks", kv.n_written },
    { "kv-evicted-chunks", kv.n_evicted },
    { "kv-dropped-chunks", kv.n_dropped },
    { "kv-narrowed-chunks", kv.n_narrowed },
    { "kv-widened-chunks", kv.n_widened },
    { "kv-narrow-chunks", figures.n_narrow },
    { "kv-kept-bytes", figures.kept_bytes },
    { "kv-restored-chunks", kv.n_restored },
    { "kv-recomputed-chunks", kv.n_recomputed },
    { "kv-faulted-chunks", kv.n_faulted },
    { "kv-shared-chunks", kv.n_shared },
    { "kv-read-bytes", kv.read_bytes },
    { "kv-written-bytes", kv.written_bytes },
    { "kv-storage-bytes", figures.storage_bytes },
    { "contexts", g_hash_table_size (self->store.contexts) },
    { "calls", g_hash_table_size (self->calls.generations) },
    { "apps", g_hash_table_size (self->accounts.apps) },
    { "heap-bytes", process->heap_bytes },
    { "process-resident-bytes", process->resident_bytes },
    { "pressure-level", state->action.level },
    { "budget-now-bytes", state->action.budget },
    { "budget-allowed-bytes", state->allowed },
    { "cut-bytes",
      state->allowed > state->action.budget ? state->allowed - state->action.budget : 0 },
    { "cuts", state->n_cuts },
    { "since-cut-ms", (guint64) since_cut_us / 1000 },
    { "regrown-bytes", state->regrown },
    { "lowered-classes", self->memory.lowered },
    { "lowered-calls", counters->lowered_calls },
    { "held-sub-model", figures.sub_model },
    { "unused-tail-bytes", figures.given_tail_bytes },
    { "own-trims", state->n_reclaims },
    { "held-anonymous-bytes", llm_ledger_get_anonymous (self->ledger) },
    { "held-backed-bytes", llm_ledger_get (self->ledger, LLM_LEDGER_BACKED) },
    { "constraint-bytes", llm_ledger_get (self->ledger, LLM_HOLDER_CONSTRAINTS) },
    { "used-backed-bytes", llm_ledger_get_used_backed (self->ledger) },
    { "keep-backed-bytes",
      MIN (state->action.keep_backed, llm_ledger_get_used_backed (self->ledger)) },
    { "streaming-bytes", figures.stream.pass_bytes },
    { "streamed-bytes", figures.stream.read_bytes },
    { "stream-ring-bytes", figures.stream.ring_bytes },
    { "expert-uses", figures.stream.n_expert_uses },
    { "expert-hits", figures.stream.n_expert_hits },
    { "expert-room-bytes", figures.stream.expert_bytes },
    { "group-limit-bytes", reading->group.limit },
    { "group-usage-bytes", reading->group.usage },
    { "machine-available-bytes", reading->available },
    { "stall-ms", reading->stalled_us / 1000 },
    { "on-battery", self->power.is_on_battery },
    { "power-saver", self->power.saves },
    { "background-pace", self->power.pace },
    { "suspends", self->power.suspends },
  };

  for (guint i = 0; i < G_N_ELEMENTS (entries); i++)
    add (builder, entries[i].key, entries[i].value);
  for (guint i = 0; i < reclaimers->len; i++)
    {
      const LlmReclaimer *reclaimer = g_ptr_array_index (reclaimers, i);
      g_autofree char *key = g_strdup_printf ("given-%s-bytes", reclaimer->name);

      add (builder, key, reclaimer->reclaimed);
    }
}
