/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The same context on storage, by us and by another program: how many bytes, and how
 * long until it is in memory again, both past the page cache, in turns.
 */

#include "contexts/bench-contexts.h"

#include <stdio.h>

#include "bench-engine.h"
#include "bench-peer.h"
#include "support/llm-test-folder.h"

#define N_RUNS 3
#define WAIT_US (10 * G_TIME_SPAN_MILLISECOND)

typedef struct
{
  BenchFigure *bytes;
  BenchFigure *load;
} Figures;

/* Milliseconds from the begin of a call until all layers of the context are there. */
static gboolean
time_load (BenchEngine *engine,
           LlmKvSeq    *sequence,
           double      *ms,
           GError     **error)
{
  gint64 begin = g_get_monotonic_time ();
  LlmStatus status = LLM_READY;
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, 1, &plan, error))
    return FALSE;
  for (guint layer = 0; layer < engine->hparams->n_layers && status == LLM_READY; layer++)
    while ((status = llm_kv_seq_make_resident (sequence, layer, error)) == LLM_PENDING)
      llm_kv_store_wait (engine->store, WAIT_US);
  *ms = (double) (g_get_monotonic_time () - begin) / 1000;
  bench_engine_end_call (engine->store, sequence);
  return status == LLM_READY;
}

static gboolean
run_peer (BenchPeer   *peer,
          const char  *model,
          guint        depth,
          guint        n_threads,
          Figures     *figures,
          GError     **error)
{
  guint64 bytes;
  double seconds;

  if (!bench_peer_load_context (peer, model, depth, n_threads, &bytes, &seconds, error))
    return FALSE;
  bench_figure_add (figures->bytes, (double) bytes / 1e6);
  bench_figure_add (figures->load, seconds * 1000);
  return TRUE;
}

static gboolean
run_rounds (BenchEngine *engine,
            BenchPeer   *peer,
            const char  *model,
            guint        depth,
            Figures     *own,
            Figures     *others,
            GError     **error)
{
  g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (engine->store, "bench", "slots");
  guint64 before = llm_kv_storage_get_bytes (engine->storage);
  guint n_threads = llm_worker_pool_get_n_threads (engine->pool);
  LlmKvPlan plan;
  double ms;

  if (!llm_kv_seq_begin_call (sequence, depth, &plan, error))
    return FALSE;
  bench_engine_prompt (engine, sequence, depth, NULL);
  bench_engine_end_call (engine->store, sequence);
  bench_figure_add (own->bytes,
                    (double) (llm_kv_storage_get_bytes (engine->storage) - before) / 1e6);
  for (guint run = 0; run < N_RUNS; run++)
    {
      llm_kv_store_evict (engine->store, G_MAXUINT64, FALSE);
      if (!time_load (engine, sequence, &ms, error))
        return FALSE;
      bench_figure_add (own->load, ms);
      if (!run_peer (peer, model, depth, n_threads, others, error))
        return FALSE;
    }
  return TRUE;
}

static void
print_shape (const BenchRealConfig *config,
             const BenchModelShape *shape,
             guint                  depth,
             const char            *peer,
             Figures               *own,
             Figures               *others)
{
  double bytes = bench_figure_median (own->bytes), load = bench_figure_median (own->load);

  if (!config->is_silent)
    printf ("| %s | %u | %.1f | %.1f | %.2f | %.1f | %.1f | %.2f |\n", shape->title, depth, bytes,
            bench_figure_median (others->bytes), bytes / bench_figure_median (others->bytes), load,
            bench_figure_median (others->load), load / bench_figure_median (others->load));
  json_builder_set_member_name (config->json, shape->name);
  json_builder_begin_object (config->json);
  json_builder_set_member_name (config->json, "peer");
  json_builder_add_string_value (config->json, peer);
  bench_figure_add_json (own->bytes, config->json);
  bench_figure_add_json (own->load, config->json);
  bench_figure_add_json (others->bytes, config->json);
  bench_figure_add_json (others->load, config->json);
  json_builder_end_object (config->json);
}

static Figures
new_figures (const char *who)
{
  g_autofree char *bytes = g_strdup_printf ("%s-bytes", who);
  g_autofree char *load = g_strdup_printf ("%s-load", who);

  return (Figures) { bench_figure_new (bytes, "MB"), bench_figure_new (load, "ms") };
}

static void
clear_figures (Figures *figures)
{
  bench_figure_free (figures->bytes);
  bench_figure_free (figures->load);
}

static gboolean
run_shape (const BenchRealConfig *config,
           const BenchModelShape *shape,
           BenchPeer             *peer,
           GError               **error)
{
  g_autofree char *model = bench_rate_file_get_model (config->rates, shape, error);
  g_autofree char *folder = g_build_filename (config->folder, "llmsvc-bench-XXXXXX", NULL);
  const BenchEngineConfig settings = { .path = model, .policy = llm_kv_policy_find ("llms"),
                                       .chunks = folder };
  guint depth = shape->max_slots / 2;
  Figures own, others;
  BenchEngine *engine;
  gboolean is_done;

  if (model == NULL)
    return FALSE;
  if (g_mkdtemp (folder) == NULL)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "No folder can be made in %s",
                   config->folder);
      return FALSE;
    }
  own = new_figures ("llmsvc");
  others = new_figures ("peer");
  engine = bench_engine_new (&settings, error);
  is_done = engine != NULL && run_rounds (engine, peer, model, depth, &own, &others, error);
  if (is_done)
    print_shape (config, shape, depth, peer->name, &own, &others);
  bench_engine_free (engine);
  llm_test_folder_remove (folder);
  clear_figures (&own);
  clear_figures (&others);
  return is_done;
}

gboolean
bench_slots_run (const BenchRealConfig *config,
                 GError               **error)
{
  BenchPeer *peer;
  gboolean is_done = TRUE;

  if (config->peer == NULL)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "The part slots needs --peer PROGRAM");
      return FALSE;
    }
  peer = bench_peer_new (config->peer, error);
  if (peer == NULL)
    return FALSE;
  json_builder_set_member_name (config->json, "slots");
  json_builder_begin_object (config->json);
  if (!config->is_silent)
    printf ("\nThe same context on storage, beside %s: MB, and ms until it is in memory, both past "
            "the page cache\n\n| model | tokens | MB | peer | ratio | ms | peer | ratio |\n"
            "|---|---|---|---|---|---|---|---|\n", peer->name);
  for (guint i = 0; config->shapes[i] != NULL && is_done; i++)
    is_done = run_shape (config, config->shapes[i], peer, error);
  json_builder_end_object (config->json);
  bench_peer_free (peer);
  return is_done;
}
