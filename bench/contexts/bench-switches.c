/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Switches in real time beside what replays would say of them with the same rates: part of some
 * contexts is evicted, one of them is called, and called again with all of it there.
 */

#include "contexts/bench-real.h"

#include "bench-random.h"

#define N_CONTEXTS 6

typedef struct
{
  double measured;     /* sums, µs */
  double predicted;
} Pair;

typedef struct
{
  BenchReal *real;
  BenchRates rates;
  BenchDevice disk;
  LlmKvSeq *sequences[N_CONTEXTS];
  guint lengths[N_CONTEXTS];
  BenchRandom random;
  Pair reads;          /* all is read, nothing computed */
  Pair waits;          /* what the call waits more than with all there */
  Pair calls;          /* begin to first logits */
  guint n_rows;        /* computed again */
  double bytes;
} Switches;

static gboolean
fill_contexts (Switches *self,
               GError  **error)
{
  LlmKvStore *store = self->real->engine->store;
  guint n_chunks = self->real->shape->max_slots / LLM_KV_CHUNK_SLOTS;

  for (guint i = 0; i < N_CONTEXTS; i++)
    {
      g_autofree char *id = g_strdup_printf ("switch-%u", i);
      LlmKvPlan plan;

      /* Whole chunks, an eighth of the longest at least. */
      self->lengths[i] = LLM_KV_CHUNK_SLOTS *
                         bench_random_range (&self->random, n_chunks / 8,
                                             n_chunks - BENCH_N_NEW / LLM_KV_CHUNK_SLOTS);
      self->sequences[i] = llm_kv_seq_new (store, "bench", id);
      if (!llm_kv_seq_begin_call (self->sequences[i], self->lengths[i], &plan, error) ||
          !bench_sequence_fill (self->sequences[i], self->lengths[i], error))
        return FALSE;
      bench_store_end_call (store, self->sequences[i]);
    }
  return TRUE;
}

/* Some of what all contexts hold. */
static void
evict (Switches *self)
{
  LlmKvStore *store = self->real->engine->store;
  double all = (double) store->packed_bytes;

  llm_kv_store_evict (store, (guint64) (all * bench_random_get (&self->random)), FALSE);
}

static BenchPrice
get_price (Switches          *self,
           const BenchSwitch *s)
{
  return bench_switch_price (s, &self->real->engine->store->policy, &self->disk,
                             &self->rates);
}

/* A call begins and reads, and ends there. */
static gboolean
measure_read (Switches *self,
              LlmKvSeq *sequence,
              GError  **error)
{
  LlmKvStore *store = self->real->engine->store;
  g_autofree LlmKvChunkInfo *infos = bench_switch_get_infos (sequence);
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  BenchSwitch s = { 0 };
  double begin = (double) g_get_monotonic_time ();
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, BENCH_N_NEW, &plan, error) ||
      !bench_store_restore (store, sequence, error))
    return FALSE;
  self->reads.measured += (double) g_get_monotonic_time () - begin;
  llm_kv_seq_get_missing (sequence, missing);
  bench_switch_note (&s, store, sequence, self->real->shape, &self->rates.profile, infos, missing,
                     BENCH_N_NEW);
  self->reads.predicted += get_price (self, &s).read_us;
  bench_engine_prefill (self->real->engine, sequence, missing, 0, NULL);
  bench_store_end_call (store, sequence);
  return TRUE;
}

/* A call begins and computes a question; then the same question again with all there. */
static gboolean
measure_call (Switches *self,
              guint     index,
              GError  **error)
{
  LlmKvSeq *sequence = self->sequences[index];
  BenchEngine *engine = self->real->engine;
  BenchSwitch s = { 0 };
  double away, there;
  BenchPrice price;

  if (!bench_real_ask (self->real, sequence, BENCH_N_NEW, &self->rates, &s, &away, error))
    return FALSE;
  llm_kv_seq_truncate (sequence, self->lengths[index]);
  there = (double) g_get_monotonic_time ();
  bench_engine_prefill (engine, sequence, NULL, BENCH_N_NEW, NULL);
  there = (double) g_get_monotonic_time () - there;
  llm_kv_seq_truncate (sequence, self->lengths[index]);
  bench_store_end_call (engine->store, sequence);

  price = get_price (self, &s);
  self->calls.measured += away;
  self->calls.predicted += price.wait_us + s.new_us;
  self->waits.measured += away - there;
  self->waits.predicted += price.wait_us;
  self->n_rows += s.n_recomputed;
  self->bytes += s.read_bytes;
  return TRUE;
}

static gboolean
measure_switches (Switches *self,
                  GError  **error)
{
  guint last = N_CONTEXTS, index;

  for (guint i = 0; i < self->real->parts->n_switches; i++)
    {
      do
        index = bench_random_range (&self->random, 0, N_CONTEXTS - 1);
      while (index == last);
      last = index;
      evict (self);
      if (!measure_read (self, self->sequences[index], error))
        return FALSE;
      evict (self);
      if (!measure_call (self, index, error))
        return FALSE;
    }
  return TRUE;
}

static void
set_pair (Switches   *self,
          JsonObject *json,
          const char *name,
          const Pair *pair)
{
  double n = self->real->parts->n_switches * 1000.0;
  JsonObject *member = json_object_new ();

  json_object_set_double_member (member, "predicted-ms", pair->predicted / n);
  json_object_set_double_member (member, "measured-ms", pair->measured / n);
  json_object_set_object_member (json, name, member);
}

static void
set_json (Switches *self)
{
  guint n = self->real->parts->n_switches;
  JsonObject *json = json_object_new ();

  set_pair (self, json, "read", &self->reads);
  set_pair (self, json, "wait", &self->waits);
  set_pair (self, json, "call", &self->calls);
  json_object_set_double_member (json, "read-bytes", self->bytes / n);
  json_object_set_double_member (json, "recomputed-rows", (double) self->n_rows / n);
  json_object_set_object_member (self->real->json, self->real->shape->name, json);
}

static gboolean
run_switches (BenchReal    *real,
              GError **error)
{
  Switches self = { .real = real, .random = bench_random_derive (real->parts->seed, 2) };
  LlmKvProfile profile;
  gboolean is_done;

  if (!bench_rate_file_get_rates (&real->parts->rates, real->shape, &self.rates, error) ||
      !bench_rate_file_get_disk (&real->parts->rates, &self.disk, error))
    return FALSE;
  profile = self.rates.profile;
  bench_profile_set_device (&profile, &self.disk, 1);
  real->engine->store->profile = profile;
  is_done = fill_contexts (&self, error) && measure_switches (&self, error);
  for (guint i = 0; i < N_CONTEXTS; i++)
    g_clear_pointer (&self.sequences[i], llm_kv_seq_free);
  if (is_done)
    set_json (&self);
  return is_done;
}

gboolean
bench_switches_part (BenchParts *self,
                     GError    **error)
{
  return bench_real_run (self, NULL, "switches", run_switches, error);
}
