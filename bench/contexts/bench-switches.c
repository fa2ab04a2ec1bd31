/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Switches in real time beside what replays would say of them: part of some contexts is evicted, one
 * of them is called, which takes memory from the others, and called again with all of it there.
 * What computing, reading and writing cost is measured between the switches, so that both meet the
 * same machine; a switch is priced with the medians of the rounds around it.
 */

#include "contexts/bench-measure.h"
#include "contexts/bench-real.h"

#include "bench-random.h"

#define N_CONTEXTS 6
/* Switches between two rounds of measuring rates. */
#define ROUND_SWITCHES 4
/* Rounds that price a switch. */
#define WINDOW_ROUNDS 5
/* Chunks that a call adds to its context at most, besides the question. */
#define MAX_ADDED 16

typedef struct
{
  BenchSwitch s;
  GArray *missing;     /* (element-type guint): rows that were computed again */
  guint length;
  double wait_us;      /* measured: what the call waited more than with all there */
  double call_us;      /* until the first logits, memory taken from others included */
  double predicted_us; /* of wait_us */
} Switch;

typedef struct
{
  BenchReal *real;
  BenchSteps *steps;
  BenchTaking *taking;
  LlmKvSeq *sequences[N_CONTEXTS];
  guint lengths[N_CONTEXTS];   /* at first, and when they have become too long */
  BenchRandom random;
  GArray *switches;            /* (element-type Switch) */
  guint n_priced;              /* of them */
} Switches;

static void
clear_switch (gpointer data)
{
  g_array_unref (((Switch *) data)->missing);
}

static gboolean
append (Switches *self,
        guint     index,
        guint     n,
        GError  **error)
{
  LlmKvSeq *sequence = self->sequences[index];
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, n, &plan, error) ||
      !bench_sequence_fill (sequence, n, error))
    return FALSE;
  bench_store_end_call (self->real->engine->store, sequence);
  return TRUE;
}

/* Lengths are whole chunks: the systems that are compared would write one that is not full. */
static gboolean
fill_contexts (Switches *self,
               GError  **error)
{
  guint n_chunks = self->real->shape->max_slots / LLM_KV_CHUNK_SLOTS;

  for (guint i = 0; i < N_CONTEXTS; i++)
    {
      g_autofree char *id = g_strdup_printf ("switch-%u", i);

      self->lengths[i] = LLM_KV_CHUNK_SLOTS *
                         bench_random_range (&self->random, n_chunks / 8, n_chunks * 3 / 4);
      self->sequences[i] = llm_kv_seq_new (self->real->engine->store, "bench", id);
      if (!append (self, i, self->lengths[i], error))
        return FALSE;
    }
  return TRUE;
}

/* Some of what all contexts hold. */
static void
evict (Switches *self)
{
  LlmKvStore *store = self->real->engine->store;

  llm_kv_store_evict (store, (guint64) ((double) store->bytes * bench_random_get (&self->random)),
                      FALSE);
  bench_store_settle (store);
}

static guint64
count_missing_bytes (LlmKvSeq *sequence)
{
  g_autofree LlmKvChunkInfo *infos = bench_switch_get_infos (sequence);
  guint n = 0;

  for (guint i = 0; i < sequence->holds->len; i++)
    n += infos[i].is_in_memory ? 0 : 1;
  return n == 0 ? 0 : llm_kv_store_price (sequence->store, n * LLM_KV_CHUNK_SLOTS);
}

/* Any context, but one of which something is away, if there is one. */
static guint
choose_context (Switches *self)
{
  guint first = bench_random_range (&self->random, 0, N_CONTEXTS - 1);

  for (guint i = 0; i < N_CONTEXTS; i++)
    if (count_missing_bytes (self->sequences[(first + i) % N_CONTEXTS]) > 0)
      return (first + i) % N_CONTEXTS;
  return first;
}

/* Until what @sequence lacks is free, as in a replay. */
static void
make_room (LlmKvSeq    *sequence,
           BenchSwitch *s)
{
  LlmKvStore *store = sequence->store;
  const LlmKvCounters since = store->counters;

  llm_kv_store_evict (store, count_missing_bytes (sequence), FALSE);
  bench_store_settle (store);
  s->written_bytes = (double) (store->counters.written_bytes - since.written_bytes);
  s->n_evicted = (guint) (store->counters.n_evicted - since.n_evicted);
  s->evicted_bytes = (double) (store->counters.evicted_bytes - since.evicted_bytes);
}

/* What comes before the first step where reading and computing don't overlap. */
static gboolean
begin (Switches  *self,
       LlmKvSeq  *sequence,
       Switch    *item,
       GError   **error)
{
  LlmKvStore *store = sequence->store;
  g_autofree LlmKvChunkInfo *infos = NULL;
  LlmKvPlan plan;

  make_room (sequence, &item->s);
  infos = bench_switch_get_infos (sequence);
  if (!llm_kv_seq_begin_call (sequence, BENCH_N_NEW, &plan, error))
    return FALSE;
  llm_kv_seq_get_missing (sequence, item->missing);
  bench_switch_note (&item->s, store, sequence, self->real->shape, infos, item->missing);
  return bench_policy_plans (&store->policy) || bench_store_restore (store, sequence, error);
}

/* A call begins and computes a question; then the same question again with all there. */
static gboolean
measure_call (Switches *self,
              guint     index,
              GError  **error)
{
  LlmKvSeq *sequence = self->sequences[index];
  BenchEngine *engine = self->real->engine;
  Switch item = { .length = sequence->length,
                  .missing = g_array_new (FALSE, FALSE, sizeof (guint)) };
  double begin_us = (double) g_get_monotonic_time (), there_us;
  gboolean is_done = begin (self, sequence, &item, error);

  if (is_done)
    {
      bench_engine_prefill (engine, sequence, item.missing, BENCH_N_NEW, NULL);
      item.call_us = (double) g_get_monotonic_time () - begin_us;
      llm_kv_seq_truncate (sequence, item.length);
      there_us = (double) g_get_monotonic_time ();
      bench_engine_prefill (engine, sequence, NULL, BENCH_N_NEW, NULL);
      item.wait_us = item.call_us - ((double) g_get_monotonic_time () - there_us);
      bench_store_end_call (engine->store, sequence);
    }
  g_array_append_val (self->switches, item);
  return is_done;
}

/* What the call said, which others will have to write. */
static gboolean
lengthen (Switches *self,
          guint     index,
          GError  **error)
{
  LlmKvSeq *sequence = self->sequences[index];
  guint n = LLM_KV_CHUNK_SLOTS * bench_random_range (&self->random, 1, MAX_ADDED);

  if (sequence->length + n + BENCH_N_NEW <= self->real->shape->max_slots - 2 * LLM_KV_CHUNK_SLOTS)
    return append (self, index, n, error);
  llm_kv_seq_truncate (sequence, self->lengths[index]);
  return TRUE;
}

/* Prices the switches since the last but (WINDOW_ROUNDS / 2)th round: there are as many behind them. */
static void
price_switches (Switches *self,
                guint     end)
{
  BenchRates rates;
  BenchDevice disk;

  bench_steps_get_rates (self->steps, WINDOW_ROUNDS, &rates);
  bench_taking_get_rates (self->taking, WINDOW_ROUNDS, &rates, &disk);
  for (; self->n_priced < end; self->n_priced++)
    {
      Switch *item = &g_array_index (self->switches, Switch, self->n_priced);

      bench_switch_time (&item->s, &rates.profile, item->missing, item->length, BENCH_N_NEW);
      item->predicted_us = bench_switch_price (&item->s, self->real->policy, &disk, &rates).wait_us;
    }
}

static gboolean
run_round (Switches  *self,
           GError   **error)
{
  guint behind = WINDOW_ROUNDS / 2 * ROUND_SWITCHES;

  bench_steps_run_round (self->steps);
  if (!bench_taking_run_round (self->taking, error))
    return FALSE;
  if (self->switches->len > behind)
    price_switches (self, self->switches->len - behind);
  return TRUE;
}

static gboolean
measure_switches (Switches *self,
                  GError  **error)
{
  for (guint i = 0; i < self->real->parts->n_switches; i++)
    {
      guint index;

      if (i % ROUND_SWITCHES == 0 && !run_round (self, error))
        return FALSE;
      evict (self);
      index = choose_context (self);
      if (!measure_call (self, index, error) || !lengthen (self, index, error))
        return FALSE;
    }
  if (!run_round (self, error))
    return FALSE;
  price_switches (self, self->switches->len);
  return TRUE;
}

/* --- predictions --- */

/* Sorts both. */
static void
set_pair (JsonObject *json,
          const char *name,
          double     *predicted,
          double     *measured,
          guint       n)
{
  BenchLatency first = bench_latency_new (predicted, n), second = bench_latency_new (measured, n);
  JsonObject *member = json_object_new ();

  json_object_set_double_member (member, "predicted-ms", first.p50 / 1000);
  json_object_set_double_member (member, "measured-ms", second.p50 / 1000);
  json_object_set_double_member (member, "predicted-mean-ms", first.mean / 1000);
  json_object_set_double_member (member, "measured-mean-ms", second.mean / 1000);
  json_object_set_object_member (json, name, member);
}

static void
set_json (Switches *self)
{
  guint n = self->switches->len;
  g_autofree double *values = g_new (double, 4 * n);
  double *waits = values, *calls = waits + n, *real_waits = calls + n, *real_calls = real_waits + n;
  double bytes = 0, written = 0, n_rows = 0;
  const LlmKvPolicy *policy = self->real->policy;
  JsonObject *json = json_object_new (), *shape;
  const char *name = self->real->shape->name;

  for (guint i = 0; i < n; i++)
    {
      Switch *item = &g_array_index (self->switches, Switch, i);

      waits[i] = item->predicted_us;
      calls[i] = waits[i] + item->s.new_us;
      real_waits[i] = item->wait_us;
      real_calls[i] = item->call_us;
      bytes += item->s.read_bytes / n;
      written += item->s.written_bytes / n;
      n_rows += (double) item->s.n_recomputed / n;
    }
  set_pair (json, "wait", waits, real_waits, n);
  set_pair (json, "call", calls, real_calls, n);
  json_object_set_double_member (json, "read-bytes", bytes);
  json_object_set_double_member (json, "written-bytes", written);
  json_object_set_double_member (json, "recomputed-rows", n_rows);
  if (!json_object_has_member (self->real->json, name))
    json_object_set_object_member (self->real->json, name, json_object_new ());
  shape = json_object_get_object_member (self->real->json, name);
  json_object_set_object_member (shape, policy->name, json);
}

static gboolean
run_switches (BenchReal  *real,
              GError    **error)
{
  Switches self = { .real = real, .random = bench_random_derive (real->parts->seed, 2) };
  BenchRates rates;
  BenchDevice disk;
  gboolean is_done;

  self.steps = bench_steps_new (real->engine, real->shape, real->policy, error);
  self.taking = self.steps != NULL
                  ? bench_taking_new (real->parts->rates.folder, real->shape, error)
                  : NULL;
  is_done = self.taking != NULL && bench_taking_run_round (self.taking, error);
  if (is_done)
    {
      /* What plans go by. */
      bench_steps_run_round (self.steps);
      bench_steps_get_rates (self.steps, 0, &rates);
      bench_taking_get_rates (self.taking, 0, &rates, &disk);
      bench_profile_set_device (&rates.profile, &disk, 1);
      real->engine->store->profile = rates.profile;
      self.switches = g_array_new (FALSE, TRUE, sizeof (Switch));
      g_array_set_clear_func (self.switches, clear_switch);
      is_done = fill_contexts (&self, error) && measure_switches (&self, error);
      for (guint i = 0; i < N_CONTEXTS; i++)
        g_clear_pointer (&self.sequences[i], llm_kv_seq_free);
      if (is_done)
        set_json (&self);
      g_array_unref (self.switches);
    }
  bench_steps_free (self.steps);
  bench_taking_free (self.taking);
  return is_done;
}

gboolean
bench_switches_part (BenchParts *self,
                     GError    **error)
{
  return bench_real_run (self, NULL, "switches", run_switches, error);
}
