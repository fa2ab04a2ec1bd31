/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-real.h"

#include "support/llm-test-folder.h"

static gboolean
run_policy (BenchReal     *real,
            BenchRealFunc  run,
            GError       **error)
{
  g_autofree char *model = bench_rate_file_get_model (&real->parts->rates, real->shape, error);
  g_autofree char *folder =
    model != NULL ? bench_make_folder (real->parts->rates.folder, error) : NULL;
  const BenchEngineConfig config = { .path = model, .policy = real->policy, .chunks = folder };
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

gboolean
bench_real_run (BenchParts    *parts,
                BenchPeer     *peer,
                const char    *name,
                BenchRealFunc  run,
                GError       **error)
{
  BenchReal real = { .parts = parts, .peer = peer, .json = json_object_new () };

  json_object_set_object_member (parts->json, name, real.json);
  for (guint i = 0; i < parts->shapes->len; i++)
    for (guint k = 0; k < parts->policies->len; k++)
      {
        real.shape = parts->shapes->pdata[i];
        real.policy = parts->policies->pdata[k];
        if (!run_policy (&real, run, error))
          return FALSE;
      }
  return TRUE;
}

gboolean
bench_real_ask (BenchReal  *real,
                LlmKvSeq   *sequence,
                guint       n_new,
                double     *us,
                GError    **error)
{
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  double begin = (double) g_get_monotonic_time ();
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, n_new, &plan, error))
    return FALSE;
  llm_kv_seq_get_missing (sequence, missing);
  bench_engine_prefill (real->engine, sequence, missing, n_new, NULL);
  *us = (double) g_get_monotonic_time () - begin;
  return TRUE;
}

/* --- figures of a context that is there, read, computed or a peer's --- */

#define N_RUNS 3
/* Contexts of more tokens are computed once: that takes long, and varies less. */
#define OFTEN_COMPUTED 1024
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
measure_question (BenchReal        *real,
                  LlmKvSeq    *sequence,
                  BenchFigure *figure,
                  GError     **error)
{
  guint length = sequence->length;
  double us;

  if (!bench_real_ask (real, sequence, BENCH_N_NEW, &us, error))
    return FALSE;
  bench_figure_add (figure, us / 1000);
  llm_kv_seq_truncate (sequence, length);
  bench_store_end_call (real->engine->store, sequence);
  return TRUE;
}

static gboolean
measure_depth (BenchReal      *real,
               guint      depth,
               GPtrArray *figures,
               GError   **error)
{
  LlmKvStore *store = real->engine->store;
  guint n_computed = depth <= OFTEN_COMPUTED ? N_RUNS : 1;

  for (guint run = 0; run < n_computed; run++)
    {
      g_autofree char *id = g_strdup_printf ("ttft-%u-%u", depth, run);
      g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (store, "bench", id);
      double us;

      if (!bench_real_ask (real, sequence, depth + BENCH_N_NEW, &us, error))
        return FALSE;
      bench_figure_add (figures->pdata[COMPUTED], us / 1000);
      llm_kv_seq_truncate (sequence, depth);
      bench_store_end_call (store, sequence);
      for (guint i = 0; i < N_RUNS * N_RUNS / n_computed; i++)
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
run_ttft (BenchReal    *real,
          GError **error)
{
  static const guint depths[] = { 1024, 4096, 16384, 32768 };
  /* what the model bears, and who waits */
  guint most = MIN (real->engine->hparams->n_ctx - 2 * BENCH_N_NEW, real->parts->deepest);

  for (guint i = 0; i < G_N_ELEMENTS (depths) && (i == 0 || depths[i - 1] <= most); i++)
    {
      guint depth = MIN (depths[i], most);
      g_autofree char *name = g_strdup_printf ("%s-%u", real->shape->name, depth);
      g_autoptr(GPtrArray) figures = make_figures (ttft_names);
      double ms[MAX_FIGURES];

      if (!measure_depth (real, depth, figures, error))
        return FALSE;
      end_figures (real->json, name, json_object_new (), figures, ms);
    }
  return TRUE;
}

gboolean
bench_ttft_part (BenchParts *self,
                 GError    **error)
{
  return bench_real_run (self, NULL, "ttft", run_ttft, error);
}

/* --- the same context on storage, by us and by another program --- */

static gboolean
measure_rounds (BenchReal      *real,
                guint      depth,
                GPtrArray *figures,
                GError   **error)
{
  BenchEngine *engine = real->engine;
  g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (engine->store, "bench", "slots");
  guint64 before = llm_kv_storage_get_bytes (engine->storage);
  double us, bytes, seconds;
  LlmKvPlan plan;

  if (!bench_real_ask (real, sequence, depth, &us, error))
    return FALSE;
  bench_store_end_call (engine->store, sequence);
  bench_figure_add (figures->pdata[OWN_BYTES],
                    (double) (llm_kv_storage_get_bytes (engine->storage) - before) / 1e6);
  for (guint run = 0; run < N_RUNS; run++)
    {
      llm_kv_store_evict (engine->store, G_MAXUINT64, FALSE);
      us = (double) g_get_monotonic_time ();
      if (!llm_kv_seq_begin_call (sequence, 1, &plan, error) ||
          !bench_store_restore (engine->store, sequence, error))
        return FALSE;
      bench_figure_add (figures->pdata[OWN_LOAD], ((double) g_get_monotonic_time () - us) / 1000);
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
run_slots (BenchReal    *real,
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
  return bench_real_run (self, peer, "slots", run_slots, error);
}
