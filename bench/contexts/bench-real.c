/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Switches in real time: real models, the real forward pass, a real store on the real disk. One
 * engine for each model.
 */

#include "contexts/bench-contexts.h"

#include <stdio.h>

#include "bench-engine.h"
#include "bench-peer.h"
#include "bench-random.h"
#include "contexts/bench-replay.h"
#include "support/llm-test-folder.h"

#define MIB 1048576.0
/* Rows of a question. */
#define N_NEW 32

typedef struct
{
  BenchParts *parts;
  const BenchModelShape *shape;
  const char *model;
  BenchEngine *engine;
  BenchPeer *peer;       /* (nullable) */
  JsonObject *json;      /* of the part */
} Real;

typedef gboolean (*RealFunc) (Real    *real,
                              GError **error);

static gboolean
run_shape (Real     *real,
           RealFunc  run,
           GError  **error)
{
  g_autofree char *model = bench_rate_file_get_model (real->parts->rates, real->shape, error);
  g_autofree char *folder =
    model != NULL ? bench_make_folder (real->parts->rates->folder, error) : NULL;
  const BenchEngineConfig config = { .path = model, .policy = llm_kv_policy_find ("llms"),
                                     .chunks = folder };
  gboolean is_done;

  if (folder == NULL)
    return FALSE;
  real->model = model;
  real->engine = bench_engine_new (&config, error);
  is_done = real->engine != NULL && run (real, error);
  g_clear_pointer (&real->engine, bench_engine_free);
  llm_test_folder_remove (folder);
  return is_done;
}

/* Sets the member @name, to which @run adds what it finds for each model. */
static gboolean
run_shapes (BenchParts *parts,
            BenchPeer  *peer,
            const char *name,
            RealFunc    run,
            GError    **error)
{
  Real real = { .parts = parts, .peer = peer, .json = json_object_new () };

  json_object_set_object_member (parts->json, name, real.json);
  for (guint i = 0; i < parts->shapes->len; i++)
    {
      real.shape = parts->shapes->pdata[i];
      if (!run_shape (&real, run, error))
        return FALSE;
    }
  return TRUE;
}

static double
get_us (void)
{
  return (double) g_get_monotonic_time ();
}

/* A question of @n_new tokens behind what @sequence has, wherever that is. @s: (nullable): what the
 * call did. Microseconds from its begin to the first logits; the call goes on. */
static gboolean
ask (Real             *real,
     LlmKvSeq         *sequence,
     guint             n_new,
     const BenchRates *rates,
     BenchSwitch      *s,
     double           *us,
     GError          **error)
{
  LlmKvStore *store = real->engine->store;
  g_autofree LlmKvChunkInfo *infos = bench_switch_get_infos (sequence);
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  double begin = get_us ();
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, n_new, &plan, error))
    return FALSE;
  llm_kv_seq_get_missing (sequence, missing);
  if (s != NULL)
    bench_switch_note (s, store, sequence, real->shape, &rates->profile, infos, missing, n_new);
  bench_engine_prefill (real->engine, sequence, missing, n_new, NULL);
  *us = get_us () - begin;
  return TRUE;
}

/* --- switches, beside what replays say of them --- */

#define N_CONTEXTS 6

typedef struct
{
  double measured;     /* sums, µs */
  double predicted;
} Pair;

typedef struct
{
  Real *real;
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
                                             n_chunks - N_NEW / LLM_KV_CHUNK_SLOTS);
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
  double all = (double) llm_kv_store_get_packed_bytes (store);

  llm_kv_store_evict (store, (guint64) (all * bench_random_get (&self->random)), FALSE);
}

static BenchPrice
get_price (Switches          *self,
           const BenchSwitch *s)
{
  return bench_switch_price (s, llm_kv_store_get_policy (self->real->engine->store), &self->disk,
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
  double begin = get_us ();
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, N_NEW, &plan, error) ||
      !bench_store_restore (store, sequence, error))
    return FALSE;
  self->reads.measured += get_us () - begin;
  llm_kv_seq_get_missing (sequence, missing);
  bench_switch_note (&s, store, sequence, self->real->shape, &self->rates.profile, infos, missing,
                     N_NEW);
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

  if (!ask (self->real, sequence, N_NEW, &self->rates, &s, &away, error))
    return FALSE;
  llm_kv_seq_truncate (sequence, self->lengths[index]);
  there = get_us ();
  bench_engine_prefill (engine, sequence, NULL, N_NEW, NULL);
  there = get_us () - there;
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
print_switches (Switches *self)
{
  const struct
  {
    const char *name;
    const Pair *pair;
  } pairs[] = { { "read", &self->reads }, { "wait", &self->waits }, { "call", &self->calls } };
  BenchParts *parts = self->real->parts;
  JsonObject *json = json_object_new ();

  if (!parts->is_silent)
    printf ("| %s |", self->real->shape->title);
  for (guint i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      double predicted = pairs[i].pair->predicted / (parts->n_switches * 1000.0);
      double measured = pairs[i].pair->measured / (parts->n_switches * 1000.0);
      JsonObject *member = json_object_new ();

      if (!parts->is_silent)
        printf (" %.2f | %.2f | %.3f |", predicted, measured, predicted / measured);
      json_object_set_double_member (member, "predicted-ms", predicted);
      json_object_set_double_member (member, "measured-ms", measured);
      json_object_set_object_member (json, pairs[i].name, member);
    }
  if (!parts->is_silent)
    printf (" %.1f | %.1f |\n", self->bytes / parts->n_switches / MIB,
            (double) self->n_rows / parts->n_switches);
  json_object_set_object_member (self->real->json, self->real->shape->name, json);
}

static gboolean
run_switches (Real    *real,
              GError **error)
{
  Switches self = { .real = real, .random = bench_random_derive (real->parts->seed, 2) };
  LlmKvProfile profile;
  gboolean is_done;

  if (!bench_rate_file_get_rates (real->parts->rates, real->shape, &self.rates, error) ||
      !bench_rate_file_get_disk (real->parts->rates, &self.disk, error))
    return FALSE;
  profile = self.rates.profile;
  bench_profile_set_device (&profile, &self.disk, 1);
  llm_kv_store_set_profile (real->engine->store, &profile);
  is_done = fill_contexts (&self, error) && measure_switches (&self, error);
  for (guint i = 0; i < N_CONTEXTS; i++)
    g_clear_pointer (&self.sequences[i], llm_kv_seq_free);
  if (is_done)
    print_switches (&self);
  return is_done;
}

gboolean
bench_switches_part (BenchParts *self,
                     GError    **error)
{
  if (!self->is_silent)
    printf ("\n%u real switches of each model to contexts of which a random part was away, "
            "question of %d tokens, means in ms: predicted, measured, ratio\n\n"
            "| model | read | | | wait | | | whole call | | | MiB read | rows recomputed |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|\n", self->n_switches, N_NEW);
  return run_shapes (self, NULL, "switches", run_switches, error);
}

/* --- figures of a context that is there, read, computed or a peer's --- */

#define N_RUNS 3
#define MAX_FIGURES 4

typedef struct
{
  const char *name;
  const char *unit;
} FigureName;

/* Ended by one without a name. */
static const FigureName ttft_names[] = {
  { "there", "ms" }, { "restored", "ms" }, { "computed", "ms" }, { NULL, NULL },
};
static const FigureName slots_names[] = {
  { "llmsvc-bytes", "MB" }, { "llmsvc-load", "ms" }, { "peer-bytes", "MB" }, { "peer-load", "ms" },
  { NULL, NULL },
};

enum { THERE, RESTORED, COMPUTED };
enum { OWN_BYTES, OWN_LOAD, PEER_BYTES, PEER_LOAD };

static GPtrArray *
make_figures (const FigureName *names)
{
  GPtrArray *figures = bench_figures_new ();

  for (; names->name != NULL; names++)
    g_ptr_array_add (figures, bench_figure_new (names->name, names->unit));
  return figures;
}

/* Sets the member @name, and gives the medians. */
static void
end_figures (JsonObject *json,
             const char *name,
             JsonObject *member,
             GPtrArray  *figures,
             double      medians[MAX_FIGURES])
{
  for (guint i = 0; i < figures->len; i++)
    {
      bench_figure_set_json (figures->pdata[i], member);
      medians[i] = bench_figure_median (figures->pdata[i]);
    }
  json_object_set_object_member (json, name, member);
}

/* --- the time to the first token: there, read, computed anew --- */

/* The context is as before afterwards. */
static gboolean
measure_question (Real        *real,
                  LlmKvSeq    *sequence,
                  BenchFigure *figure,
                  GError     **error)
{
  guint length = llm_kv_seq_get_length (sequence);
  double us;

  if (!ask (real, sequence, N_NEW, NULL, NULL, &us, error))
    return FALSE;
  bench_figure_add (figure, us / 1000);
  llm_kv_seq_truncate (sequence, length);
  bench_store_end_call (real->engine->store, sequence);
  return TRUE;
}

static gboolean
measure_depth (Real      *real,
               guint      depth,
               GPtrArray *figures,
               GError   **error)
{
  LlmKvStore *store = real->engine->store;

  for (guint run = 0; run < N_RUNS; run++)
    {
      g_autofree char *id = g_strdup_printf ("ttft-%u-%u", depth, run);
      g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (store, "bench", id);
      double us;

      if (!ask (real, sequence, depth + N_NEW, NULL, NULL, &us, error))
        return FALSE;
      bench_figure_add (figures->pdata[COMPUTED], us / 1000);
      llm_kv_seq_truncate (sequence, depth);
      bench_store_end_call (store, sequence);
      for (guint i = 0; i < N_RUNS; i++)
        {
          if (!measure_question (real, sequence, figures->pdata[THERE], error))
            return FALSE;
          llm_kv_store_evict (store, G_MAXUINT64, FALSE);
          if (!measure_question (real, sequence, figures->pdata[RESTORED], error))
            return FALSE;
        }
    }
  return TRUE;
}

static gboolean
run_ttft (Real    *real,
          GError **error)
{
  static const guint depths[] = { 1024, 4096 };
  guint most = real->engine->hparams->n_ctx - 2 * N_NEW;   /* what the model bears */

  for (guint i = 0; i < G_N_ELEMENTS (depths) && (i == 0 || depths[i - 1] <= most); i++)
    {
      guint depth = MIN (depths[i], most);
      g_autofree char *name = g_strdup_printf ("%s-%u", real->shape->name, depth);
      g_autoptr(GPtrArray) figures = make_figures (ttft_names);
      double ms[MAX_FIGURES];

      if (!measure_depth (real, depth, figures, error))
        return FALSE;
      end_figures (real->json, name, json_object_new (), figures, ms);
      if (!real->parts->is_silent)
        printf ("| %s | %u | %.1f | %.1f | %.1f | %.1f × |\n", real->shape->title, depth, ms[THERE],
                ms[RESTORED], ms[COMPUTED], ms[COMPUTED] / ms[RESTORED]);
    }
  return TRUE;
}

gboolean
bench_ttft_part (BenchParts *self,
                 GError    **error)
{
  if (!self->is_silent)
    printf ("\nTime to the first token of a question of %d tokens, ms (medians)\n\n"
            "| model | tokens before it | in memory | read from storage | computed anew | "
            "gained |\n"
            "|---|---|---|---|---|---|\n", N_NEW);
  return run_shapes (self, NULL, "ttft", run_ttft, error);
}

/* --- the same context on storage, by us and by another program --- */

static gboolean
measure_rounds (Real      *real,
                guint      depth,
                GPtrArray *figures,
                GError   **error)
{
  BenchEngine *engine = real->engine;
  g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (engine->store, "bench", "slots");
  guint64 before = llm_kv_storage_get_bytes (engine->storage);
  double us, bytes, seconds;
  LlmKvPlan plan;

  if (!ask (real, sequence, depth, NULL, NULL, &us, error))
    return FALSE;
  bench_store_end_call (engine->store, sequence);
  bench_figure_add (figures->pdata[OWN_BYTES],
                    (double) (llm_kv_storage_get_bytes (engine->storage) - before) / 1e6);
  for (guint run = 0; run < N_RUNS; run++)
    {
      llm_kv_store_evict (engine->store, G_MAXUINT64, FALSE);
      us = get_us ();
      if (!llm_kv_seq_begin_call (sequence, 1, &plan, error) ||
          !bench_store_restore (engine->store, sequence, error))
        return FALSE;
      bench_figure_add (figures->pdata[OWN_LOAD], (get_us () - us) / 1000);
      bench_store_end_call (engine->store, sequence);
      if (!bench_peer_load_context (real->peer, real->model, depth, engine->n_threads, &bytes,
                                    &seconds, error))
        return FALSE;
      bench_figure_add (figures->pdata[PEER_BYTES], bytes / 1e6);
      bench_figure_add (figures->pdata[PEER_LOAD], seconds * 1000);
    }
  return TRUE;
}

static gboolean
run_slots (Real    *real,
           GError **error)
{
  guint depth = real->shape->max_slots / 2;
  g_autoptr(GPtrArray) figures = make_figures (slots_names);
  JsonObject *member;
  double m[MAX_FIGURES];

  if (!measure_rounds (real, depth, figures, error))
    return FALSE;
  member = json_object_new ();
  json_object_set_string_member (member, "peer", real->peer->name);
  end_figures (real->json, real->shape->name, member, figures, m);
  if (!real->parts->is_silent)
    printf ("| %s | %u | %.1f | %.1f | %.2f | %.1f | %.1f | %.2f |\n", real->shape->title, depth,
            m[OWN_BYTES], m[PEER_BYTES], m[OWN_BYTES] / m[PEER_BYTES], m[OWN_LOAD], m[PEER_LOAD],
            m[OWN_LOAD] / m[PEER_LOAD]);
  return TRUE;
}

gboolean
bench_slots_part (BenchParts *self,
                  GError    **error)
{
  g_autoptr(BenchPeer) peer = NULL;

  if (self->peer == NULL)
    return bench_fail_usage (error, "The part slots needs --peer PROGRAM");
  peer = bench_peer_new (self->peer, error);
  if (peer == NULL)
    return FALSE;
  if (!self->is_silent)
    printf ("\nThe same context on storage, beside %s: MB, and ms until it is in memory, both past "
            "the page cache\n\n| model | tokens | MB | peer | ratio | ms | peer | ratio |\n"
            "|---|---|---|---|---|---|---|---|\n", peer->name);
  return run_shapes (self, peer, "slots", run_slots, error);
}
