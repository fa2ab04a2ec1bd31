/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "llmsvc-statistics.h"

#include <glib/gi18n.h>

#define COUNTER LLMSVC_STATISTIC_COUNTER
#define GAUGE   LLMSVC_STATISTIC_GAUGE
#define NUMBER  LLMSVC_STATISTIC_NUMBER
#define BYTES   LLMSVC_STATISTIC_BYTES
#define MS      LLMSVC_STATISTIC_MS
#define PERCENT LLMSVC_STATISTIC_PERCENT

static const LlmsvcStatisticInfo statistics[] = {
  [LLMSVC_STATISTIC_REQUESTS] = {
    "requests", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS, N_("requests"), "Questions asked."
  },
  [LLMSVC_STATISTIC_FAILED] = {
    "failed", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS, N_("of them failed"),
    "Questions that failed, refused ones included."
  },
  [LLMSVC_STATISTIC_CANCELLED] = {
    "cancelled", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS, N_("of them cancelled"),
    "Questions whose answer was cancelled."
  },
  [LLMSVC_STATISTIC_REFUSED] = {
    "refused", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS,
    N_("of them refused, as they would have been far too late"),
    "Calls refused because their answer would have come far too late."
  },
  [LLMSVC_STATISTIC_REFUSED_FLOODS] = {
    "refused-floods", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS,
    N_("calls refused by the rate limit"), "Messages dropped because one program sent too many."
  },
  [LLMSVC_STATISTIC_SLO_MET] = {
    "slo-met", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS, N_("answered in time"),
    "Answers that met their latency target."
  },
  [LLMSVC_STATISTIC_SLO_MISSED] = {
    "slo-missed", COUNTER, NUMBER, LLMSVC_STATISTICS_REQUESTS, N_("answered late"),
    "Answers that missed their latency target."
  },
  [LLMSVC_STATISTIC_PROMPT_TOKENS] = {
    "prompt-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS, N_("prompt tokens"),
    "Tokens of prompts."
  },
  [LLMSVC_STATISTIC_CACHED_TOKENS] = {
    "cached-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS,
    N_("of them in the KV cache already"),
    "Tokens of prompts that the KV cache had already."
  },
  [LLMSVC_STATISTIC_OUTPUT_TOKENS] = {
    "output-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS, N_("generated tokens"),
    "Tokens of answers that have ended."
  },
  [LLMSVC_STATISTIC_STEPS] = {
    "steps", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS, N_("steps (forward passes)"),
    "Forward passes."
  },
  [LLMSVC_STATISTIC_ROWS] = {
    "rows", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS, N_("rows (tokens) in these steps"),
    "Rows (tokens) of all forward passes."
  },
  [LLMSVC_STATISTIC_MULTIPLICATIONS] = {
    "multiplications", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS,
    N_("multiplications in these steps"),
    "Multiplications of two numbers in matrix products of all forward passes."
  },
  [LLMSVC_STATISTIC_PREFILL_TOKENS] = {
    "prefill-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS,
    N_("prompt tokens in these steps"),
    "Tokens of prompts computed (prefill), including calls under way."
  },
  [LLMSVC_STATISTIC_PREFILL_W8A8_TOKENS] = {
    "prefill-w8a8-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS, N_("of them with 8 bits"),
    "Tokens of prompts computed in W8A8."
  },
  [LLMSVC_STATISTIC_GENERATED_TOKENS] = {
    "generated-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_TOKENS,
    N_("generated tokens in these steps"), "Tokens generated (decode), including calls under way."
  },
  [LLMSVC_STATISTIC_MODEL_LOADS] = {
    "model-loads", COUNTER, NUMBER, LLMSVC_STATISTICS_MODEL, N_("times the model was loaded"),
    "Times a model was loaded."
  },
  [LLMSVC_STATISTIC_MODEL_UNLOADS] = {
    "model-unloads", COUNTER, NUMBER, LLMSVC_STATISTICS_MODEL, N_("times it was unloaded"),
    "Times a model was unloaded."
  },
  [LLMSVC_STATISTIC_TRIMS] = {
    "trims", COUNTER, NUMBER, LLMSVC_STATISTICS_MODEL, N_("times memory was released"),
    "Times memory was released."
  },
  [LLMSVC_STATISTIC_TRIMMED_BYTES] = {
    "trimmed-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MODEL, N_("released in all"),
    "Memory released."
  },
  [LLMSVC_STATISTIC_CONTEXTS] = {
    "contexts", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW, N_("contexts"),
    "Contexts of all applications."
  },
  [LLMSVC_STATISTIC_CALLS] = {
    "calls", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW, N_("requests under way"), "Calls under way."
  },
  [LLMSVC_STATISTIC_QUEUED_CALLS] = {
    "queued-calls", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW, N_("of them queued"),
    "Calls under way that are queued.", "calls_by_state", "state=queued"
  },
  [LLMSVC_STATISTIC_PREFILL_CALLS] = {
    "prefill-calls", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW, N_("of them in prefill"),
    "Calls under way in prefill.", "calls_by_state", "state=prefill"
  },
  [LLMSVC_STATISTIC_DECODE_CALLS] = {
    "decode-calls", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW, N_("of them in decode"),
    "Calls under way in decode.", "calls_by_state", "state=decode"
  },
  [LLMSVC_STATISTIC_STALLED_CALLS] = {
    "stalled-calls", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW,
    N_("of them blocked by a slow reader"), "Calls under way that are stalled by a slow reader.",
    "calls_by_state", "state=stalled"
  },
  [LLMSVC_STATISTIC_BUDGET_NOW_BYTES] = {
    "budget-now-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_NOW, N_("the most the service may hold"),
    "The most that the service may hold now."
  },
  [LLMSVC_STATISTIC_PROCESS_RESIDENT_BYTES] = {
    "process-resident-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_NOW, N_("memory of the process"),
    "Resident memory of the process, as the kernel counts it."
  },
  [LLMSVC_STATISTIC_APPS] = {
    "apps", GAUGE, NUMBER, LLMSVC_STATISTICS_NOW, N_("applications that are remembered"),
    "Applications that are remembered.", "applications"
  },
  [LLMSVC_STATISTIC_HEAP_BYTES] = {
    "heap-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_NOW, N_("of it given out by the C library"),
    "Memory that the C library has given out."
  },
  [LLMSVC_STATISTIC_SLO_INTERACTIVE_CALLS] = {
    "slo-interactive-calls", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("interactive"),
    "Interactive calls that were answered or refused.", "class_calls", "class=interactive"
  },
  [LLMSVC_STATISTIC_SLO_INTERACTIVE_MET] = {
    "slo-interactive-met", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them in time"),
    "Interactive calls that met their latency target.", "class_slo_met", "class=interactive"
  },
  [LLMSVC_STATISTIC_SLO_INTERACTIVE_MISSED] = {
    "slo-interactive-missed", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them late"),
    "Interactive calls that missed their latency target.", "class_slo_missed", "class=interactive"
  },
  [LLMSVC_STATISTIC_SLO_INTERACTIVE_REFUSED] = {
    "slo-interactive-refused", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them refused"),
    "Interactive calls refused because their answer would have come far too late.",
    "class_refused", "class=interactive"
  },
  [LLMSVC_STATISTIC_SLO_RESPONSIVE_CALLS] = {
    "slo-responsive-calls", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("responsive"),
    "Responsive calls that were answered or refused.", "class_calls", "class=responsive"
  },
  [LLMSVC_STATISTIC_SLO_RESPONSIVE_MET] = {
    "slo-responsive-met", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them in time"),
    "Responsive calls that met their latency target.", "class_slo_met", "class=responsive"
  },
  [LLMSVC_STATISTIC_SLO_RESPONSIVE_MISSED] = {
    "slo-responsive-missed", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them late"),
    "Responsive calls that missed their latency target.", "class_slo_missed", "class=responsive"
  },
  [LLMSVC_STATISTIC_SLO_RESPONSIVE_REFUSED] = {
    "slo-responsive-refused", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them refused"),
    "Responsive calls refused because their answer would have come far too late.",
    "class_refused", "class=responsive"
  },
  [LLMSVC_STATISTIC_SLO_BACKGROUND_CALLS] = {
    "slo-background-calls", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("background"),
    "Background calls that were answered or refused.", "class_calls", "class=background"
  },
  [LLMSVC_STATISTIC_SLO_BACKGROUND_MET] = {
    "slo-background-met", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them in time"),
    "Background calls that met their latency target.", "class_slo_met", "class=background"
  },
  [LLMSVC_STATISTIC_SLO_BACKGROUND_MISSED] = {
    "slo-background-missed", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS, N_("of them late"),
    "Background calls that missed their latency target.", "class_slo_missed", "class=background"
  },
  [LLMSVC_STATISTIC_TTFT_FORECASTS] = {
    "ttft-forecasts", COUNTER, NUMBER, LLMSVC_STATISTICS_TARGETS,
    N_("forecasts of the first token"),
    "Forecasts of the time to first token that were compared with the time it took."
  },
  [LLMSVC_STATISTIC_TTFT_FORECAST_ERROR_MS] = {
    "ttft-forecast-error-ms", GAUGE, MS, LLMSVC_STATISTICS_TARGETS,
    N_("their mean error, in ms"),
    "Mean absolute error of the forecasts of the time to first token."
  },
  [LLMSVC_STATISTIC_DRAFTED_TOKENS] = {
    "drafted-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_DRAFTS, N_("tokens that were guessed"),
    "Drafted tokens that were verified, of answers that have ended."
  },
  [LLMSVC_STATISTIC_ACCEPTED_TOKENS] = {
    "accepted-tokens", COUNTER, NUMBER, LLMSVC_STATISTICS_DRAFTS, N_("of them right"),
    "Drafted tokens that were accepted, of answers that have ended."
  },
  [LLMSVC_STATISTIC_DRAFT_PASSES] = {
    "draft-passes", COUNTER, NUMBER, LLMSVC_STATISTICS_DRAFTS, N_("steps that checked guesses"),
    "Decode steps that verified drafted tokens, of answers that have ended."
  },
  [LLMSVC_STATISTIC_DRAFT_LOADS] = {
    "draft-loads", COUNTER, NUMBER, LLMSVC_STATISTICS_DRAFTS,
    N_("times a draft model was loaded"), "Times a draft model was loaded."
  },
  [LLMSVC_STATISTIC_PRESSURE_LEVEL] = {
    "pressure-level", GAUGE, NUMBER, LLMSVC_STATISTICS_MEMORY,
    N_("pressure, from 0 (none) to 3 (critical)"),
    "Memory pressure as a number, from 0 (none) to 3 (critical)."
  },
  [LLMSVC_STATISTIC_BUDGET_ALLOWED_BYTES] = {
    "budget-allowed-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("the most that settings and the machine allow"),
    "The most that the service may hold without memory pressure."
  },
  [LLMSVC_STATISTIC_CUT_BYTES] = {
    "cut-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("cut off from that, as memory is short"),
    "What memory pressure has cut the budget by, as of now.", "budget_cut"
  },
  [LLMSVC_STATISTIC_CUTS] = {
    "cuts", COUNTER, NUMBER, LLMSVC_STATISTICS_MEMORY, N_("times it was cut"),
    "Times memory pressure cut the budget.", "budget_cuts"
  },
  [LLMSVC_STATISTIC_SINCE_CUT_MS] = {
    "since-cut-ms", GAUGE, MS, LLMSVC_STATISTICS_MEMORY, N_("ms since the last cut"),
    "Time since memory pressure cut the budget."
  },
  [LLMSVC_STATISTIC_REGROWN_BYTES] = {
    "regrown-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY, N_("grown again after cuts"),
    "What the budget grew by after cuts.", "budget_regrown"
  },
  [LLMSVC_STATISTIC_OWN_TRIMS] = {
    "own-trims", COUNTER, NUMBER, LLMSVC_STATISTICS_MEMORY,
    N_("times the service released memory by itself"),
    "Times the service released memory by itself."
  },
  [LLMSVC_STATISTIC_HELD_ANONYMOUS_BYTES] = {
    "held-anonymous-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY, N_("held that is no file's"),
    "Held memory that only the service can release."
  },
  [LLMSVC_STATISTIC_HELD_BACKED_BYTES] = {
    "held-backed-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY, N_("held of files"),
    "Held memory that is pages of files."
  },
  [LLMSVC_STATISTIC_USED_BACKED_BYTES] = {
    "used-backed-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY, N_("of them in use"),
    "Pages of files that calls use, in memory or not."
  },
  [LLMSVC_STATISTIC_KEEP_BACKED_BYTES] = {
    "keep-backed-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY, N_("of them kept"),
    "Pages of files that may stay in memory between two steps of running calls."
  },
  [LLMSVC_STATISTIC_CONSTRAINT_BYTES] = {
    "constraint-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("held for schemas and grammars"),
    "Compiled schemas and grammars, and their masks of tokens."
  },
  [LLMSVC_STATISTIC_LOWERED_CLASSES] = {
    "lowered-classes", GAUGE, NUMBER, LLMSVC_STATISTICS_MEMORY,
    N_("classes that sub-models answer, 0 to 2"),
    "Classes of new calls that a smaller sub-model answers under memory pressure, 0 to 2."
  },
  [LLMSVC_STATISTIC_LOWERED_CALLS] = {
    "lowered-calls", COUNTER, NUMBER, LLMSVC_STATISTICS_MEMORY,
    N_("calls that sub-models answered"),
    "Calls that a smaller sub-model answered under memory pressure."
  },
  [LLMSVC_STATISTIC_HELD_SUB_MODEL] = {
    "held-sub-model", GAUGE, PERCENT, LLMSVC_STATISTICS_MEMORY,
    N_("percent of the model that stay in memory"),
    "The share of the model that stays in memory, as sub-models answer.", "held_sub_model"
  },
  [LLMSVC_STATISTIC_UNUSED_TAIL_BYTES] = {
    "unused-tail-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("weights given back for that now"),
    "Weights released because no call uses them, as of now."
  },
  [LLMSVC_STATISTIC_GIVEN_SCRATCH_BYTES] = {
    "given-scratch-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of working memory"), "Working memory released.", "given", "step=scratch"
  },
  [LLMSVC_STATISTIC_GIVEN_KV_BYTES] = {
    "given-kv-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY, N_("released of contexts"),
    "KV cache released.", "given", "step=contexts"
  },
  [LLMSVC_STATISTIC_GIVEN_TEXT_BYTES] = {
    "given-text-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY, N_("released of their texts"),
    "Texts of contexts released.", "given", "step=text"
  },
  [LLMSVC_STATISTIC_GIVEN_CONSTRAINTS_BYTES] = {
    "given-constraints-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of schemas and grammars"), "Compiled schemas and grammars released.", "given",
    "step=constraints"
  },
  [LLMSVC_STATISTIC_GIVEN_DRAFT_BYTES] = {
    "given-draft-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of draft models"), "Draft models released.", "given", "step=draft"
  },
  [LLMSVC_STATISTIC_GIVEN_TAIL_BYTES] = {
    "given-tail-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of what sub-models lack"),
    "Weights released that the smaller sub-model lacks.", "given", "step=tail"
  },
  [LLMSVC_STATISTIC_GIVEN_CALLS_BYTES] = {
    "given-calls-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of calls that wait"), "KV cache of preempted calls released.", "given",
    "step=calls"
  },
  [LLMSVC_STATISTIC_GIVEN_PAGES_BYTES] = {
    "given-pages-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of files' pages"), "Pages of files released.", "given", "step=pages"
  },
  [LLMSVC_STATISTIC_GIVEN_WEIGHTS_BYTES] = {
    "given-weights-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY, N_("released of weights"),
    "Weights released.", "given", "step=weights"
  },
  [LLMSVC_STATISTIC_GIVEN_PROMPT_WEIGHTS_BYTES] = {
    "given-prompt-weights-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_MEMORY,
    N_("released of weights for prompts"), "Weights for prompts in W8A8 released.", "given",
    "step=prompt-weights"
  },
  [LLMSVC_STATISTIC_PROMPT_WEIGHTS_BYTES] = {
    "prompt-weights-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MEMORY, N_("weights for prompts"),
    "Weights for prompts in W8A8, the first to be released."
  },
  [LLMSVC_STATISTIC_STREAMING_BYTES] = {
    "streaming-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_STREAM, N_("read for each step now"),
    "Weights that each pass streams from the disk, as memory has no room for them."
  },
  [LLMSVC_STATISTIC_STREAMED_BYTES] = {
    "streamed-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_STREAM, N_("read in all"),
    "Weights read from the disk by all passes so far."
  },
  [LLMSVC_STATISTIC_STREAM_RING_BYTES] = {
    "stream-ring-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_STREAM,
    N_("buffers that they pass through"), "The buffers that streamed weights pass through."
  },
  [LLMSVC_STATISTIC_EXPERT_USES] = {
    "expert-uses", COUNTER, NUMBER, LLMSVC_STATISTICS_STREAM, N_("experts that tokens chose"),
    "Experts that rows chose while weights were streaming."
  },
  [LLMSVC_STATISTIC_EXPERT_HITS] = {
    "expert-hits", COUNTER, NUMBER, LLMSVC_STATISTICS_STREAM, N_("of them in memory"),
    "Experts that rows chose while weights were streaming and that were in memory."
  },
  [LLMSVC_STATISTIC_EXPERT_ROOM_BYTES] = {
    "expert-room-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_STREAM, N_("memory for experts"),
    "Memory that experts are kept in while weights are streaming."
  },
  [LLMSVC_STATISTIC_CHANNEL_BYTES] = {
    "channel-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_STREAM, N_("of it for calls with “active”"),
    "Weights read from the disk by channel, for calls that leave a part of them out."
  },
  [LLMSVC_STATISTIC_CHANNELS_READ] = {
    "channels-read", COUNTER, NUMBER, LLMSVC_STATISTICS_STREAM, N_("channels read for these"),
    "Inputs of matrices whose weights were read by channel."
  },
  [LLMSVC_STATISTIC_CHANNELS_LEFT_OUT] = {
    "channels-left-out", COUNTER, NUMBER, LLMSVC_STATISTICS_STREAM, N_("channels left out"),
    "Inputs beside them whose weights were not needed."
  },
  [LLMSVC_STATISTIC_MACHINE_AVAILABLE_BYTES] = {
    "machine-available-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MACHINE,
    N_("memory that is available"), "Available memory of the machine."
  },
  [LLMSVC_STATISTIC_GROUP_LIMIT_BYTES] = {
    "group-limit-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MACHINE,
    N_("limit of the service's control group"),
    "The tightest limit of the control groups that the service is in.", "cgroup_limit"
  },
  [LLMSVC_STATISTIC_GROUP_USAGE_BYTES] = {
    "group-usage-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_MACHINE, N_("of it used"),
    "Memory that the control group with the tightest limit uses.", "cgroup_usage"
  },
  [LLMSVC_STATISTIC_STALL_MS] = {
    "stall-ms", COUNTER, MS, LLMSVC_STATISTICS_MACHINE,
    N_("ms in which programs waited for memory"),
    "Time that some program waited for memory, since the machine was started."
  },
  [LLMSVC_STATISTIC_ON_BATTERY] = {
    "on-battery", GAUGE, NUMBER, LLMSVC_STATISTICS_MACHINE, N_("on battery, 0 or 1"),
    "1 while the machine runs on its battery."
  },
  [LLMSVC_STATISTIC_POWER_SAVER] = {
    "power-saver", GAUGE, NUMBER, LLMSVC_STATISTICS_MACHINE, N_("saves power, 0 or 1"),
    "1 while its power profile is one that saves."
  },
  [LLMSVC_STATISTIC_BACKGROUND_PACE] = {
    "background-pace", GAUGE, NUMBER, LLMSVC_STATISTICS_MACHINE,
    N_("background calls: 0 run, 1 run slowly, 2 wait"),
    "Pace of background requests: 0 full, 1 slow, 2 suspended."
  },
  [LLMSVC_STATISTIC_SUSPENDS] = {
    "suspends", COUNTER, NUMBER, LLMSVC_STATISTICS_MACHINE, N_("times it was about to sleep"),
    "Times the machine was about to sleep."
  },
  [LLMSVC_STATISTIC_KV_PACKED_CHUNKS] = {
    "kv-packed-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("quantized"),
    "Chunks of KV cache quantized.", "chunks", "event=packed"
  },
  [LLMSVC_STATISTIC_KV_EVICTED_CHUNKS] = {
    "kv-evicted-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("evicted from memory"),
    "Chunks of KV cache evicted from memory.", "chunks", "event=evicted"
  },
  [LLMSVC_STATISTIC_KV_DROPPED_CHUNKS] = {
    "kv-dropped-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV,
    N_("of them not on storage either"),
    "Chunks of KV cache evicted without a copy on storage.", "chunks", "event=dropped"
  },
  [LLMSVC_STATISTIC_KV_RESTORED_CHUNKS] = {
    "kv-restored-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("read back from storage"),
    "Chunks of KV cache restored from storage.", "chunks", "event=restored"
  },
  [LLMSVC_STATISTIC_KV_RECOMPUTED_CHUNKS] = {
    "kv-recomputed-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("computed again"),
    "Chunks of KV cache computed again.", "chunks", "event=recomputed"
  },
  [LLMSVC_STATISTIC_KV_FAULTED_CHUNKS] = {
    "kv-faulted-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("found missing or damaged"),
    "Chunks of KV cache found missing or damaged when they were needed.", "chunks", "event=faulted"
  },
  [LLMSVC_STATISTIC_KV_NARROWED_CHUNKS] = {
    "kv-narrowed-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV,
    N_("quantized further, as memory was short"),
    "Chunks of KV cache quantized further under memory pressure.", "chunks", "event=narrowed"
  },
  [LLMSVC_STATISTIC_KV_WIDENED_CHUNKS] = {
    "kv-widened-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("that got their bits back"),
    "Chunks of KV cache restored to their usual bits.", "chunks", "event=widened"
  },
  [LLMSVC_STATISTIC_KV_NARROW_CHUNKS] = {
    "kv-narrow-chunks", GAUGE, NUMBER, LLMSVC_STATISTICS_KV, N_("that lack bits now"),
    "Chunks of KV cache with fewer bits than usual because of memory pressure, as of now."
  },
  [LLMSVC_STATISTIC_KV_SHARED_CHUNKS] = {
    "kv-shared-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_KV, N_("shared by contexts"),
    "Chunks of KV cache shared with another context of the same application.", "chunks",
    "event=shared"
  },
  [LLMSVC_STATISTIC_KV_KEPT_BYTES] = {
    "kv-kept-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_KV,
    N_("kept for contexts that begin alike"),
    "KV cache of prefixes kept unquantized for contexts that begin alike."
  },
  [LLMSVC_STATISTIC_KV_WRITTEN_CHUNKS] = {
    "kv-written-chunks", COUNTER, NUMBER, LLMSVC_STATISTICS_STORAGE, N_("chunks written"),
    "Chunks of KV cache written to storage.", "chunks", "event=written"
  },
  [LLMSVC_STATISTIC_KV_WRITTEN_BYTES] = {
    "kv-written-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_STORAGE, N_("written in all"),
    "KV cache written to storage.", "storage_written"
  },
  [LLMSVC_STATISTIC_KV_READ_BYTES] = {
    "kv-read-bytes", COUNTER, BYTES, LLMSVC_STATISTICS_STORAGE, N_("read in all"),
    "KV cache read from storage.", "storage_read"
  },
  [LLMSVC_STATISTIC_KV_STORAGE_BYTES] = {
    "kv-storage-bytes", GAUGE, BYTES, LLMSVC_STATISTICS_STORAGE, N_("held now"),
    "KV cache on storage.", "storage"
  },
};

const LlmsvcStatisticInfo *
llmsvc_statistic_get_info (LlmsvcStatistic statistic)
{
  G_STATIC_ASSERT (G_N_ELEMENTS (statistics) == LLMSVC_N_STATISTICS);
  g_return_val_if_fail (statistic < LLMSVC_N_STATISTICS, NULL);

  return &statistics[statistic];
}

LlmsvcStatistic
llmsvc_statistic_find (const char *key)
{
  LlmsvcStatistic statistic = 0;

  while (statistic < LLMSVC_N_STATISTICS && !g_str_equal (statistics[statistic].key, key))
    statistic++;
  return statistic;
}
