/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-replay.h"

#include "bench-engine.h"
#include "bench-random.h"

/* Rows of keys and values that chunks are made of. */
#define N_ROWS 64
/* Times that memory is asked for before the run gives up. */
#define MAX_EVICTIONS 1000
/* For what the real disk does. */
#define WAIT_US (10 * G_TIME_SPAN_MILLISECOND)

/* Densities of chunks, divided by the mean of their context: 32 quantiles of the chunks behind the
 * first, and the mean of first ones. Measured with the shipped 8M model over its held-out text in
 * ChatML, 56 windows of 1024 tokens, for each row that sees a chunk, without each window's last
 * eighth, which few rows see. */
static const float densities[] = {
  0.74f, 0.76f, 0.78f, 0.80f, 0.81f, 0.82f, 0.83f, 0.83f, 0.84f, 0.85f, 0.86f,
  0.87f, 0.88f, 0.89f, 0.90f, 0.91f, 0.92f, 0.93f, 0.95f, 0.97f, 0.99f, 1.01f,
  1.02f, 1.05f, 1.07f, 1.11f, 1.14f, 1.19f, 1.25f, 1.30f, 1.40f, 1.62f,
};
#define FIRST_DENSITY 2.24f

typedef struct
{
  char *id;
  LlmKvSeq *sequence;
  guint n_lives;
} Context;

typedef struct
{
  const BenchReplayConfig *config;
  GArray *switches;
  double factor;         /* bytes of the model / bytes of the store that runs */
  LlmLedger *ledger;
  LlmKvStorage *storage;
  LlmKvStore *store;
  Context *contexts;
  float *rows;           /* [N_ROWS × 2 × n_values] */
  guint n_values;
  BenchRandom random;
  double end_us;         /* of the call before, in virtual time, or of what came after it */
} Run;

double
bench_replay_get_slot_bytes (const BenchModelShape *shape,
                             guint                  chunk_slots,
                             LlkKvFormat            format)
{
  const LlmKvLayout layout = bench_model_shape_get_layout (shape, chunk_slots, FALSE);
  g_autoptr(LlmKvStore) store = llm_kv_store_new (&layout, NULL, NULL, NULL);

  return (double) llm_kv_store_get_chunk_bytes (store, format) / chunk_slots;
}

/* --- the life of a run --- */

static gboolean
open_store (Run     *run,
            GError **error)
{
  const BenchReplayConfig *config = run->config;
  const LlmKvLayout layout = bench_model_shape_get_layout (config->shape, config->chunk_slots,
                                                           TRUE);
  LlmKvProfile profile = config->rates->profile;

  llm_ledger_set_budget (run->ledger, (guint64) (config->budget / run->factor));
  run->store = llm_kv_store_new (&layout, config->policy, run->ledger, error);
  if (run->store == NULL)
    return FALSE;
  if (config->policy->swaps)
    {
      run->storage = bench_store_open_storage (run->store, config->folder,
                                               config->trace->config.seed, error);
      if (run->storage == NULL)
        return FALSE;
    }
  bench_profile_set_device (&profile, config->device, run->factor);
  run->store->profile = profile;
  run->store->piece_bytes = (guint64) ((double) run->store->piece_bytes / run->factor);
  return TRUE;
}

static void
close_context (Run     *run,
               Context *context)
{
  g_clear_pointer (&context->sequence, llm_kv_seq_free);
  if (run->storage != NULL && context->id != NULL)
    llm_kv_storage_remove (run->storage, context->id);
  g_clear_pointer (&context->id, g_free);
}

static void
open_context (Run  *run,
              guint index)
{
  Context *context = &run->contexts[index];

  context->id = g_strdup_printf ("c%u-%u", index, context->n_lives++);
  context->sequence = llm_kv_seq_new (run->store, "bench", context->id);
}

static void
close_run (Run *run)
{
  for (guint i = 0; i < run->config->trace->config.n_contexts; i++)
    close_context (run, &run->contexts[i]);
  g_clear_pointer (&run->store, llm_kv_store_free);
  g_clear_pointer (&run->storage, llm_kv_storage_free);
  llm_ledger_unref (run->ledger);
  g_free (run->contexts);
  g_free (run->rows);
}

static void
make_rows (Run *run)
{
  run->n_values = run->config->shape->head_dim;
  run->rows = g_new (float, (gsize) N_ROWS * 2 * run->n_values);
  /* Sums of uniform numbers look normal enough. */
  for (gsize i = 0; i < (gsize) N_ROWS * 2 * run->n_values; i++)
    run->rows[i] = (float) (bench_random_get (&run->random) + bench_random_get (&run->random) +
                            bench_random_get (&run->random) - 1.5);
}

/* --- a call --- */

static void
write_slot (Run      *run,
            LlmKvSeq *sequence,
            guint     slot)
{
  const float *row = run->rows + (gsize) (slot % N_ROWS) * 2 * run->n_values;

  llm_kv_seq_write (sequence, 0, slot, row, row + run->n_values);
}

/* What the store has done since @since: bytes of the model that were written, and floats that were
 * quantized. */
static void
get_done (Run                 *run,
          const LlmKvCounters *since,
          double              *written_bytes,
          double              *packed_bytes)
{
  const LlmKvCounters *now = &run->store->counters;
  gsize chunk_bytes = llm_kv_store_get_chunk_bytes (run->store, LLK_KV_F16);

  *written_bytes = (double) (now->written_bytes - since->written_bytes) * run->factor;
  *packed_bytes = (double) (now->n_packed - since->n_packed) * (double) chunk_bytes * run->factor;
}

/* The smallest piece of what it does while no call runs. */
static void
step (Run *run)
{
  llm_kv_store_work (run->store, 0);
  while (run->store->n_batches > 0)
    llm_kv_store_wait (run->store, WAIT_US);
}

/* The store works until the next call comes: one processor quantizes while the device writes. Returns
 * how long. */
static double
work (Run    *run,
      double  idle_us)
{
  const BenchRates *rates = run->config->rates;
  const LlmKvCounters since = run->store->counters;
  double written, packed, pack_us = 0, write_us = 0;

  while (MAX (pack_us, write_us) < idle_us && !llm_kv_store_is_settled (run->store))
    {
      step (run);
      get_done (run, &since, &written, &packed);
      pack_us = packed * rates->pack_us_per_byte + written * rates->write_us_per_byte;
      write_us = written / run->config->device->write_bytes_per_us;
    }
  return MAX (pack_us, write_us);
}

/* Frees memory as the executor does when a call has none: what is not written, or not even
 * quantized, has to be first. */
static gboolean
make_room (Run     *run,
           guint    n_slots,
           guint   *n_tries,
           GError **error)
{
  guint64 bytes = llm_kv_store_price (run->store, n_slots);
  guint64 before = run->store->bytes;

  if ((*n_tries)++ >= MAX_EVICTIONS)
    return FALSE;
  g_clear_error (error);
  llm_kv_store_evict (run->store, bytes, FALSE);
  while (run->store->bytes + bytes > before && !llm_kv_store_is_settled (run->store))
    step (run);
  return TRUE;
}

static gboolean
begin_call (Run      *run,
            LlmKvSeq *sequence,
            guint     n_new,
            GError  **error)
{
  LlmKvPlan plan;
  guint n_tries = 0;

  while (!llm_kv_seq_begin_call (sequence, n_new, &plan, error))
    if (!make_room (run, n_new, &n_tries, error))
      return FALSE;
  return TRUE;
}

static gboolean
append (Run      *run,
        LlmKvSeq *sequence,
        guint     n_slots,
        GError  **error)
{
  guint first = sequence->length;
  guint n_tries = 0;

  while (!llm_kv_seq_append (sequence, n_slots, error))
    if (!make_room (run, n_slots, &n_tries, error))
      return FALSE;
  for (guint i = 0; i < n_slots; i++)
    write_slot (run, sequence, first + i);
  return TRUE;
}

/* What attention would have found, by a law that a chunk keeps. */
static void
add_densities (LlmKvSeq *sequence,
               guint     context,
               guint     n_rows)
{
  guint n_chunks = sequence->holds->len;

  for (guint i = 0; i < n_chunks; i++)
    {
      BenchRandom random = bench_random_derive (context, i);
      float density = i == 0 ? FIRST_DENSITY
                             : densities[bench_random_range (&random, 0,
                                                             G_N_ELEMENTS (densities) - 1)];

      llm_kv_seq_add_density (sequence, i,
                              (guint64) (density / n_chunks * n_rows * (double) LLM_KV_DENSITY_ONE),
                              (guint64) n_rows * sequence->store->layout.chunk_slots);
    }
}

/* The one that is called last goes first, and before it what begins anew (Belady's rule, by cost). */
static void
give_future (const BenchTrace *trace,
             guint             index,
             guint             context,
             LlmKvReuse       *reuse)
{
  guint at = bench_trace_find_call (trace, index, context);
  const BenchCall *call = &g_array_index (trace->calls, BenchCall, at);

  reuse->chance = 0;
  if (at == trace->calls->len || call->n_before == 0)
    return;
  reuse->chance = 1.0 / (at - index + 1);
  reuse->history.n_new = call->n_prompt;
}

/* What a policy that knows more than the service may know when the call @index has not come yet: the
 * probabilities, or all calls. */
static void
give_chances (Run  *run,
              guint index)
{
  const BenchReplayConfig *config = run->config;
  const BenchTrace *trace = config->trace;
  guint n = trace->config.n_contexts;
  g_autofree double *chances = g_new (double, n);

  if (config->policy->order != LLM_KV_BY_GIVEN_COST)
    return;
  bench_trace_get_chances (trace, index, chances);
  for (guint i = 0; i < n; i++)
    {
      LlmKvReuse *reuse = &run->contexts[i].sequence->reuse;

      if (config->is_clairvoyant)
        give_future (trace, index, i, reuse);
      else
        reuse->chance = chances[i];
    }
}

/* What the service reads back, as far as the device and its own work on what arrives get in that
 * time. */
static void
refill (Run    *run,
        double  idle_us)
{
  const BenchRates *rates = run->config->rates;
  double us_per_byte = (1 / run->config->device->read_bytes_per_us + rates->packed.take_us_per_byte) *
                       run->factor;
  double left = idle_us / us_per_byte;
  double bytes;

  while (left >= 1 && (bytes = (double) llm_kv_store_refill (run->store, (guint64) left)) > 0)
    {
      left -= bytes;
      bench_store_settle (run->store);
    }
}

/* Until the call @index begins: when it comes and the call before has ended. */
static void
spend_idle (Run   *run,
            guint  index)
{
  const BenchCall *call = &g_array_index (run->config->trace->calls, BenchCall, index);
  double begin_us = MAX (call->at_s * 1e6, run->end_us);
  double idle_us = begin_us - run->end_us;

  give_chances (run, index);
  refill (run, idle_us - work (run, idle_us));
  run->end_us = begin_us;
}

static void
end_call (Context *context)
{
  guint n = context->sequence->length;
  g_autofree gint32 *tokens = g_new (gint32, n);

  /* no two contexts have the same text, or they would share chunks */
  for (guint i = 0; i < n; i++)
    tokens[i] = (gint32) (context->sequence->reuse.id + i);
  llm_kv_seq_end_call (context->sequence, tokens, n);
}

/* The answer, token by token, behind @length. */
static double
get_answer_us (const LlmKvProfile *profile,
               guint               length,
               guint               n)
{
  return n * llm_kv_profile_get_prompt_us (profile, 1, length + n / 2);
}

static gboolean
run_call (Run             *run,
          const BenchCall *call,
          GError         **error)
{
  const BenchReplayConfig *config = run->config;
  const LlmKvProfile *profile = &config->rates->profile;
  Context *context = &run->contexts[call->context];
  LlmKvSeq *sequence = context->sequence;
  LlmKvCounters since;
  BenchSwitch s = { .is_counted = call->is_counted };
  g_autofree LlmKvChunkInfo *infos = NULL;
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr(GArray) priced = g_array_new (FALSE, FALSE, sizeof (guint));

  since = run->store->counters;
  infos = bench_switch_get_infos (sequence);
  if (!begin_call (run, sequence, call->n_prompt, error))
    return FALSE;
  llm_kv_seq_get_missing (sequence, missing);
  g_array_append_vals (priced, missing->data, missing->len);
  bench_switch_note (&s, run->store, sequence, config->shape, infos, priced);
  bench_switch_time (&s, profile, priced, sequence->length, call->n_prompt);
  if (!bench_store_restore (run->store, sequence, error))
    return FALSE;
  for (guint i = 0; i < missing->len; i++)
    write_slot (run, sequence, g_array_index (missing, guint, i));
  if (!append (run, sequence, call->n_prompt, error) ||
      !append (run, sequence, call->n_answer, error))
    return FALSE;
  get_done (run, &since, &s.written_bytes, &s.packed_bytes);
  s.n_evicted = (guint) (run->store->counters.n_evicted - since.n_evicted);
  s.evicted_bytes = (double) (run->store->counters.evicted_bytes - since.evicted_bytes) *
                    run->factor;

  add_densities (sequence, call->context, call->n_prompt + call->n_answer);
  end_call (context);
  run->end_us += s.new_us +
                 bench_switch_price (&s, config->policy, config->device, config->rates).wait_us +
                 get_answer_us (profile, sequence->length, call->n_answer);
  g_array_append_val (run->switches, s);
  return TRUE;
}

/* What contexts had before the trace began. */
static gboolean
fill_contexts (Run     *run,
               GError **error)
{
  const BenchTrace *trace = run->config->trace;

  for (guint i = 0; i < trace->config.n_contexts; i++)
    {
      const BenchCall call = { .context = i, .n_prompt = trace->first_slots[i] };

      open_context (run, i);
      if (!run_call (run, &call, error))
        return FALSE;
      bench_store_settle (run->store);
    }
  g_array_set_size (run->switches, 0);
  run->end_us = 0;
  return TRUE;
}

GArray *
bench_replay_run (const BenchReplayConfig *config,
                  GError                 **error)
{
  const BenchTrace *trace = config->trace;
  g_autoptr(GArray) switches = g_array_new (FALSE, FALSE, sizeof (BenchSwitch));
  Run run = {
    .config = config,
    .switches = switches,
    .factor = (double) config->shape->n_layers * config->shape->n_kv_heads,
    .ledger = llm_ledger_new (),
    .contexts = g_new0 (Context, trace->config.n_contexts),
    .random = bench_random_derive (trace->config.seed, 0),
  };
  gboolean is_done;

  make_rows (&run);
  is_done = open_store (&run, error) && fill_contexts (&run, error);
  for (guint i = 0; is_done && i < trace->calls->len; i++)
    {
      const BenchCall *call = &g_array_index (trace->calls, BenchCall, i);

      spend_idle (&run, i);
      if (call->n_before == 0)
        {
          close_context (&run, &run.contexts[call->context]);
          open_context (&run, call->context);
        }
      give_chances (&run, i + 1);
      is_done = run_call (&run, call, error);
    }
  close_run (&run);
  return is_done ? g_steal_pointer (&switches) : NULL;
}
