/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-play.h"

#include <string.h>

#include "slo/bench-slo-peer.h"
#include "slo/bench-slo-service.h"

/* A run that is not through by then is not through at all. */
#define GRACE_S 60
#define SATURATED_S 600
/* Room in a peer's slot beyond its longest call. */
#define SPARE_TOKENS 16
/* For what is played before figures count. */
#define WARM_SEED 0x5eed
#define BLOCK 10

/* --- servers --- */

static guint
find_slot_tokens (const GArray *trace,
                  const GArray *n_prompts)
{
  guint most = 0;

  for (guint i = 0; i < trace->len; i++)
    {
      const BenchSloArrival *arrival = &g_array_index (trace, BenchSloArrival, i);

      most = MAX (most, g_array_index (n_prompts, guint, arrival->number) + arrival->n_output);
    }
  return most + SPARE_TOKENS;
}

static BenchSloServer *
start_server (BenchSlo             *self,
              const BenchSloPolicy *policy,
              gboolean              refuses,
              guint                 slot_tokens,
              GError              **error)
{
  if (policy->is_peer)
    return bench_slo_peer_new (policy->name, self->model, self->n_threads, self->n_slots,
                               slot_tokens, self->seed, error);
  return bench_slo_service_new (self->daemon, self->model, self->cache, policy->name,
                                refuses && strcmp (policy->name, "fifo") != 0, error);
}

/* --- prompts --- */

/* (element-type guint): tokens of the prompt of each call below @n. */
static GArray *
count_prompts (BenchSlo       *self,
               BenchSloServer *counter,
               guint64         seed,
               guint           n,
               GError        **error)
{
  g_autoptr(GArray) trace = bench_slo_trace_new_batch (seed, n, self->divisor);
  g_autoptr(GArray) n_prompts = g_array_sized_new (FALSE, FALSE, sizeof (guint), n);

  for (guint i = 0; i < n; i++)
    {
      g_autofree char *text =
        bench_slo_trace_make_text (seed, &g_array_index (trace, BenchSloArrival, i));
      guint n_tokens;

      if (!counter->count (counter, text, &n_tokens, error))
        return NULL;
      n_tokens += self->extra_tokens;
      g_array_append_val (n_prompts, n_tokens);
    }
  return g_steal_pointer (&n_prompts);
}

/* One call of each class, one after the other: what a server does for the first time only. */
static GArray *
make_warm_trace (BenchSlo *self)
{
  g_autoptr(GArray) all = bench_slo_trace_new_batch (WARM_SEED, BLOCK, self->divisor);
  GArray *trace = g_array_new (FALSE, FALSE, sizeof (BenchSloArrival));

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    for (guint k = 0; k < all->len; k++)
      if (g_array_index (all, BenchSloArrival, k).slo_class == i)
        {
          g_array_append_val (trace, g_array_index (all, BenchSloArrival, k));
          break;
        }
  return trace;
}

static BenchSloRecord *
warm_up (BenchSlo       *self,
         BenchSloServer *server,
         const GArray   *n_prompts)
{
  g_autoptr(GArray) trace = make_warm_trace (self);

  return bench_slo_run (server, WARM_SEED, trace, n_prompts, 1, SATURATED_S);
}

/* CountTokens knows nothing of the beginning of the answer, which is a part of each prompt. */
static gboolean
find_extra_tokens (BenchSlo       *self,
                   BenchSloServer *counter,
                   GArray        **warm_prompts,
                   GError        **error)
{
  g_autoptr(GArray) n_prompts = count_prompts (self, counter, WARM_SEED, BLOCK, error);
  g_autoptr(BenchSloRecord) record = NULL;
  const BenchSloCall *call;
  guint counted;

  if (n_prompts == NULL)
    return FALSE;
  record = warm_up (self, counter, n_prompts);
  call = g_ptr_array_index (record->calls, 0);
  counted = g_array_index (n_prompts, guint, call->arrival.number);
  if (call->end != BENCH_SLO_DONE || call->n_prompt < counted)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "The first call failed: %s",
                   call->message != NULL ? call->message : "no end");
      return FALSE;
    }
  self->extra_tokens = call->n_prompt - counted;
  for (guint i = 0; i < n_prompts->len; i++)
    g_array_index (n_prompts, guint, i) += self->extra_tokens;
  *warm_prompts = g_steal_pointer (&n_prompts);
  return TRUE;
}

/* --- runs --- */

/* Starts a server of @policy and plays @trace. */
static BenchSloRecord *
play (BenchSlo             *self,
      const BenchSloPolicy *policy,
      guint64               seed,
      const GArray         *trace,
      const GArray         *n_prompts,
      const GArray         *warm_prompts,
      guint                 max_calls,
      GError              **error)
{
  guint slot_tokens = find_slot_tokens (trace, n_prompts);
  g_autoptr(GArray) warm_trace = make_warm_trace (self);
  g_autoptr(BenchSloServer) server = NULL;

  slot_tokens = MAX (slot_tokens, find_slot_tokens (warm_trace, warm_prompts));
  server = start_server (self, policy, max_calls == 0, slot_tokens, error);
  if (server == NULL)
    return NULL;
  bench_slo_record_free (warm_up (self, server, warm_prompts));
  return bench_slo_run (server, seed, trace, n_prompts, max_calls,
                        max_calls > 0 ? SATURATED_S : GRACE_S);
}

/* What each policy does when there is more than enough to do. The capacity is what comes of it
 * when calls are taken in their order. */
static gboolean
saturate (BenchSlo     *self,
          const GArray *n_prompts,
          const GArray *warm_prompts,
          GError      **error)
{
  static const BenchSloPolicy fifo = { "fifo", "fifo", FALSE };
  g_autoptr(GArray) trace = bench_slo_trace_new_batch (self->seed, self->n_calls, self->divisor);
  gboolean has_fifo = FALSE;

  for (guint i = 0; i <= self->policies->len; i++)
    {
      const BenchSloPolicy *policy =
        i < self->policies->len ? &g_array_index (self->policies, BenchSloPolicy, i) : &fifo;
      g_autoptr(GPtrArray) records =
        g_ptr_array_new_with_free_func ((GDestroyNotify) bench_slo_record_free);
      BenchSloRecord *record;
      BenchSloResult *result;

      if (i == self->policies->len && has_fifo)
        break;
      record = play (self, policy, self->seed, trace, n_prompts, warm_prompts, trace->len, error);
      if (record == NULL)
        return FALSE;
      g_ptr_array_add (records, record);
      result = bench_slo_result_new (policy->title, 0, records);
      g_ptr_array_add (self->saturated, result);
      if (!self->is_silent)
        bench_slo_result_print (result);
      if (!policy->is_peer && strcmp (policy->name, "fifo") == 0)
        {
          has_fifo = TRUE;
          self->capacity = trace->len / record->seconds;
          if (result->message != NULL)
            {
              g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED,
                           "The capacity can't be measured: %s", result->message);
              return FALSE;
            }
        }
    }
  return TRUE;
}

/* (element-type GArray): for each round. */
static GPtrArray *
count_rounds (BenchSlo       *self,
              BenchSloServer *counter,
              GError        **error)
{
  g_autoptr(GPtrArray) rounds =
    g_ptr_array_new_with_free_func ((GDestroyNotify) g_array_unref);

  for (guint round = 0; round < self->n_rounds; round++)
    {
      guint64 seed = self->seed + round;
      double rate = self->capacity * self->loads[self->n_loads - 1];
      g_autoptr(GArray) trace = bench_slo_trace_new (seed, rate, self->seconds, self->divisor);
      GArray *n_prompts = count_prompts (self, counter, seed, trace->len, error);

      if (n_prompts == NULL)
        return NULL;
      g_ptr_array_add (rounds, n_prompts);
    }
  return g_steal_pointer (&rounds);
}

/* All policies at one load, in turns. */
static gboolean
run_load (BenchSlo     *self,
          double        load,
          GPtrArray    *rounds,
          const GArray *warm_prompts,
          GError      **error)
{
  g_autoptr(GPtrArray) all = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);

  for (guint i = 0; i < self->policies->len; i++)
    g_ptr_array_add (all,
                     g_ptr_array_new_with_free_func ((GDestroyNotify) bench_slo_record_free));
  for (guint round = 0; round < rounds->len; round++)
    {
      guint64 seed = self->seed + round;
      g_autoptr(GArray) trace = bench_slo_trace_new (seed, self->capacity * load, self->seconds,
                                                     self->divisor);

      for (guint i = 0; i < self->policies->len; i++)
        {
          const BenchSloPolicy *policy = &g_array_index (self->policies, BenchSloPolicy, i);
          BenchSloRecord *record = play (self, policy, seed, trace,
                                         g_ptr_array_index (rounds, round), warm_prompts, 0, error);

          if (record == NULL)
            return FALSE;
          g_ptr_array_add (g_ptr_array_index (all, i), record);
        }
    }
  for (guint i = 0; i < self->policies->len; i++)
    {
      const BenchSloPolicy *policy = &g_array_index (self->policies, BenchSloPolicy, i);
      BenchSloResult *result =
        bench_slo_result_new (policy->title, load, g_ptr_array_index (all, i));

      g_ptr_array_add (self->results, result);
      if (!self->is_silent)
        bench_slo_result_print (result);
    }
  return TRUE;
}

gboolean
bench_slo_play (BenchSlo *self,
                GError  **error)
{
  static const BenchSloPolicy fifo = { "fifo", "fifo", FALSE };
  g_autoptr(BenchSloServer) counter = start_server (self, &fifo, FALSE, 0, error);
  g_autoptr(GArray) warm_prompts = NULL;
  g_autoptr(GArray) n_prompts = NULL;
  g_autoptr(GPtrArray) rounds = NULL;

  if (counter == NULL || !find_extra_tokens (self, counter, &warm_prompts, error))
    return FALSE;
  n_prompts = count_prompts (self, counter, self->seed, self->n_calls, error);
  g_clear_pointer (&counter, bench_slo_server_free);
  if (n_prompts == NULL)
    return FALSE;

  if (!self->is_silent)
    bench_slo_result_print_head ();
  if (!saturate (self, n_prompts, warm_prompts, error))
    return FALSE;
  counter = start_server (self, &fifo, FALSE, 0, error);
  rounds = counter != NULL ? count_rounds (self, counter, error) : NULL;
  g_clear_pointer (&counter, bench_slo_server_free);
  for (guint i = 0; rounds != NULL && i < self->n_loads; i++)
    if (!run_load (self, self->loads[i], rounds, warm_prompts, error))
      return FALSE;
  return rounds != NULL;
}

