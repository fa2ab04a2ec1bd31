/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Statistics for administrators. */

#include "engine/calls/llm-generation-private.h"

#include <malloc.h>

#include "base/llm-clock.h"
#include "base/llm-sysinfo.h"
#include "common/llmsvc-statistics.h"

/* Process figures are cached for this time. */
#define PROCESS_INTERVAL_US (100 * 1000)

/* By class, and the sums of all. */
static void
set_slo (LlmEngine *self,
         guint64   *values)
{
  static const LlmsvcStatistic calls[LLM_N_SLO_CLASSES] = {
    [LLM_SLO_INTERACTIVE] = LLMSVC_STATISTIC_SLO_INTERACTIVE_CALLS,
    [LLM_SLO_RESPONSIVE] = LLMSVC_STATISTIC_SLO_RESPONSIVE_CALLS,
    [LLM_SLO_BACKGROUND] = LLMSVC_STATISTIC_SLO_BACKGROUND_CALLS,
  };

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      const LlmSloCounters *of_class = &self->counters.slo[i];
      guint64 *first = &values[calls[i]];

      first[0] = of_class->met + of_class->missed + of_class->refused;
      first[1] = of_class->met;
      first[2] = of_class->missed;
      /* background requests have no deadline: they are not refused for time */
      if (i != LLM_SLO_BACKGROUND)
        first[3] = of_class->refused;
      values[LLMSVC_STATISTIC_SLO_MET] += of_class->met;
      values[LLMSVC_STATISTIC_SLO_MISSED] += of_class->missed;
      values[LLMSVC_STATISTIC_REFUSED] += of_class->refused;
    }
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

/* Bytes that malloc() has allocated, as the C library says; 0 where it does not. KV caches and
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

/* Figures from the system and the C library. They are cached, because the heap is walked for them,
 * with its locks held, and a caller may ask thousands of times a second. */
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
  guint64 values[LLMSVC_N_STATISTICS] = {
    [LLMSVC_STATISTIC_REQUESTS] = counters->requests,
    [LLMSVC_STATISTIC_FAILED] = counters->failed,
    [LLMSVC_STATISTIC_CANCELLED] = counters->cancelled,
    [LLMSVC_STATISTIC_PROMPT_TOKENS] = counters->prompt_tokens,
    [LLMSVC_STATISTIC_CACHED_TOKENS] = counters->cached_tokens,
    [LLMSVC_STATISTIC_OUTPUT_TOKENS] = counters->output_tokens,
    [LLMSVC_STATISTIC_QUEUED_CALLS] = calls.n[LLM_GENERATION_QUEUED],
    [LLMSVC_STATISTIC_PREFILL_CALLS] = calls.n[LLM_GENERATION_PREFILL],
    [LLMSVC_STATISTIC_DECODE_CALLS] = calls.n[LLM_GENERATION_DECODE],
    [LLMSVC_STATISTIC_STALLED_CALLS] = calls.n[LLM_GENERATION_STALLED],
    [LLMSVC_STATISTIC_TTFT_FORECASTS] = counters->forecasts,
    [LLMSVC_STATISTIC_TTFT_FORECAST_ERROR_MS] =
      counters->forecasts > 0 ? (guint64) (counters->forecast_error_ms / counters->forecasts) : 0,
    [LLMSVC_STATISTIC_DRAFTED_TOKENS] = drafts.n_drafted,
    [LLMSVC_STATISTIC_ACCEPTED_TOKENS] = drafts.n_accepted,
    [LLMSVC_STATISTIC_DRAFT_PASSES] = drafts.n_passes,
    [LLMSVC_STATISTIC_DRAFT_LOADS] = counters->draft_loads,
    [LLMSVC_STATISTIC_MODEL_LOADS] = counters->model_loads,
    [LLMSVC_STATISTIC_MODEL_UNLOADS] = counters->model_unloads,
    [LLMSVC_STATISTIC_TRIMS] = counters->trims,
    [LLMSVC_STATISTIC_TRIMMED_BYTES] = counters->trimmed_bytes,
    [LLMSVC_STATISTIC_STEPS] = figures.n_steps,
    [LLMSVC_STATISTIC_ROWS] = figures.n_rows,
    [LLMSVC_STATISTIC_MULTIPLICATIONS] = figures.n_multiplied,
    [LLMSVC_STATISTIC_PREFILL_TOKENS] = figures.n_prompt,
    [LLMSVC_STATISTIC_PREFILL_W8A8_TOKENS] = figures.n_prompt_w8,
    [LLMSVC_STATISTIC_GENERATED_TOKENS] = figures.n_generated,
    [LLMSVC_STATISTIC_KV_PACKED_CHUNKS] = kv.n_packed,
    [LLMSVC_STATISTIC_KV_WRITTEN_CHUNKS] = kv.n_written,
    [LLMSVC_STATISTIC_KV_EVICTED_CHUNKS] = kv.n_evicted,
    [LLMSVC_STATISTIC_KV_DROPPED_CHUNKS] = kv.n_dropped,
    [LLMSVC_STATISTIC_KV_NARROWED_CHUNKS] = kv.n_narrowed,
    [LLMSVC_STATISTIC_KV_WIDENED_CHUNKS] = kv.n_widened,
    [LLMSVC_STATISTIC_KV_NARROW_CHUNKS] = figures.n_narrow,
    [LLMSVC_STATISTIC_KV_KEPT_BYTES] = figures.kept_bytes,
    [LLMSVC_STATISTIC_KV_RESTORED_CHUNKS] = kv.n_restored,
    [LLMSVC_STATISTIC_KV_RECOMPUTED_CHUNKS] = kv.n_recomputed,
    [LLMSVC_STATISTIC_KV_FAULTED_CHUNKS] = kv.n_faulted,
    [LLMSVC_STATISTIC_KV_SHARED_CHUNKS] = kv.n_shared,
    [LLMSVC_STATISTIC_KV_READ_BYTES] = kv.read_bytes,
    [LLMSVC_STATISTIC_KV_WRITTEN_BYTES] = kv.written_bytes,
    [LLMSVC_STATISTIC_KV_STORAGE_BYTES] = figures.storage_bytes,
    [LLMSVC_STATISTIC_CONTEXTS] = g_hash_table_size (self->store.contexts),
    [LLMSVC_STATISTIC_CALLS] = g_hash_table_size (self->calls.generations),
    [LLMSVC_STATISTIC_APPS] = g_hash_table_size (self->accounts.apps),
    [LLMSVC_STATISTIC_HEAP_BYTES] = process->heap_bytes,
    [LLMSVC_STATISTIC_PROCESS_RESIDENT_BYTES] = process->resident_bytes,
    [LLMSVC_STATISTIC_PRESSURE_LEVEL] = state->action.level,
    [LLMSVC_STATISTIC_BUDGET_NOW_BYTES] = state->action.budget,
    [LLMSVC_STATISTIC_BUDGET_ALLOWED_BYTES] = state->allowed,
    [LLMSVC_STATISTIC_CUT_BYTES] =
      state->allowed > state->action.budget ? state->allowed - state->action.budget : 0,
    [LLMSVC_STATISTIC_CUTS] = state->n_cuts,
    [LLMSVC_STATISTIC_SINCE_CUT_MS] = (guint64) since_cut_us / 1000,
    [LLMSVC_STATISTIC_REGROWN_BYTES] = state->regrown,
    [LLMSVC_STATISTIC_LOWERED_CLASSES] = self->memory.lowered,
    [LLMSVC_STATISTIC_LOWERED_CALLS] = counters->lowered_calls,
    [LLMSVC_STATISTIC_HELD_SUB_MODEL] = figures.sub_model,
    [LLMSVC_STATISTIC_UNUSED_TAIL_BYTES] = figures.given_tail_bytes,
    [LLMSVC_STATISTIC_OWN_TRIMS] = state->n_reclaims,
    [LLMSVC_STATISTIC_HELD_ANONYMOUS_BYTES] = llm_ledger_get_anonymous (self->ledger),
    [LLMSVC_STATISTIC_HELD_BACKED_BYTES] = llm_ledger_get (self->ledger, LLM_LEDGER_BACKED),
    [LLMSVC_STATISTIC_CONSTRAINT_BYTES] = llm_ledger_get (self->ledger, LLM_HOLDER_CONSTRAINTS),
    [LLMSVC_STATISTIC_USED_BACKED_BYTES] = llm_ledger_get_used_backed (self->ledger),
    [LLMSVC_STATISTIC_PROMPT_WEIGHTS_BYTES] = llm_ledger_get (self->ledger, LLM_LEDGER_SPARE),
    [LLMSVC_STATISTIC_KEEP_BACKED_BYTES] =
      MIN (state->action.keep_backed, llm_ledger_get_used_backed (self->ledger)),
    [LLMSVC_STATISTIC_STREAMING_BYTES] = figures.stream.pass_bytes,
    [LLMSVC_STATISTIC_STREAMED_BYTES] = figures.stream.read_bytes,
    [LLMSVC_STATISTIC_STREAM_RING_BYTES] = figures.stream.ring_bytes,
    [LLMSVC_STATISTIC_EXPERT_USES] = figures.stream.n_expert_uses,
    [LLMSVC_STATISTIC_EXPERT_HITS] = figures.stream.n_expert_hits,
    [LLMSVC_STATISTIC_EXPERT_ROOM_BYTES] = figures.stream.expert_bytes,
    [LLMSVC_STATISTIC_CHANNEL_BYTES] = figures.stream.channel_bytes,
    [LLMSVC_STATISTIC_CHANNELS_READ] = figures.stream.n_channels_read,
    [LLMSVC_STATISTIC_CHANNELS_LEFT_OUT] = figures.stream.n_channels_left,
    [LLMSVC_STATISTIC_GROUP_LIMIT_BYTES] = reading->group.limit,
    [LLMSVC_STATISTIC_GROUP_USAGE_BYTES] = reading->group.usage,
    [LLMSVC_STATISTIC_MACHINE_AVAILABLE_BYTES] = reading->available,
    [LLMSVC_STATISTIC_STALL_MS] = reading->stalled_us / 1000,
    [LLMSVC_STATISTIC_ON_BATTERY] = self->power.is_on_battery,
    [LLMSVC_STATISTIC_POWER_SAVER] = self->power.saves,
    [LLMSVC_STATISTIC_BACKGROUND_PACE] = self->power.pace,
    [LLMSVC_STATISTIC_SUSPENDS] = self->power.suspends,
  };

  set_slo (self, values);
  for (guint i = 0; i < reclaimers->len; i++)
    {
      const LlmReclaimer *reclaimer = g_ptr_array_index (reclaimers, i);
      g_autofree char *key = g_strdup_printf ("given-%s-bytes", reclaimer->name);
      LlmsvcStatistic given = llmsvc_statistic_find (key);

      if (given < LLMSVC_N_STATISTICS)
        values[given] = reclaimer->reclaimed;
      else
        g_variant_builder_add (builder, "{sv}", key, g_variant_new_uint64 (reclaimer->reclaimed));
    }
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    /* the bus counts messages that it drops */
    if (i != LLMSVC_STATISTIC_REFUSED_FLOODS)
      g_variant_builder_add (builder, "{sv}", llmsvc_statistic_get_info (i)->key,
                             g_variant_new_uint64 (values[i]));
}
