/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The time to the first token of a question behind a long context: with the context
 * in memory, read from storage past the page cache, and computed anew. One engine, in turns.
 */

#include "contexts/bench-contexts.h"

#include <stdio.h>

#include "bench-engine.h"
#include "support/llm-test-folder.h"

#define N_NEW 32
#define N_RUNS 3

static const guint depths[] = { 1024, 4096 };

typedef struct
{
  BenchFigure *there;
  BenchFigure *restored;
  BenchFigure *computed;
} Figures;

static double
get_ms (gint64 begin)
{
  return (double) (g_get_monotonic_time () - begin) / 1000;
}

/* A question behind what @sequence has, wherever that is; the context is as before afterwards. */
static gboolean
ask (BenchEngine *engine,
     LlmKvSeq    *sequence,
     BenchFigure *figure,
     GError     **error)
{
  guint length = llm_kv_seq_get_length (sequence);
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  gint64 begin = g_get_monotonic_time ();
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, N_NEW, &plan, error))
    return FALSE;
  llm_kv_seq_get_missing (sequence, missing);
  bench_engine_call (engine, sequence, missing, N_NEW);
  bench_figure_add (figure, get_ms (begin));
  llm_kv_seq_truncate (sequence, length);
  bench_engine_end_call (engine->store, sequence);
  return TRUE;
}

static gboolean
run_depth (BenchEngine *engine,
           guint        depth,
           Figures     *figures,
           GError     **error)
{
  for (guint run = 0; run < N_RUNS; run++)
    {
      g_autofree char *id = g_strdup_printf ("ttft-%u-%u", depth, run);
      g_autoptr(LlmKvSeq) sequence = llm_kv_seq_new (engine->store, "bench", id);
      gint64 begin = g_get_monotonic_time ();
      LlmKvPlan plan;

      if (!llm_kv_seq_begin_call (sequence, depth + N_NEW, &plan, error))
        return FALSE;
      bench_engine_prompt (engine, sequence, depth + N_NEW, NULL);
      bench_figure_add (figures->computed, get_ms (begin));
      llm_kv_seq_truncate (sequence, depth);
      bench_engine_end_call (engine->store, sequence);
      for (guint i = 0; i < N_RUNS; i++)
        {
          if (!ask (engine, sequence, figures->there, error))
            return FALSE;
          llm_kv_store_evict (engine->store, G_MAXUINT64, FALSE);
          if (!ask (engine, sequence, figures->restored, error))
            return FALSE;
        }
    }
  return TRUE;
}

static void
print_depth (const BenchRealConfig *config,
             const BenchModelShape *shape,
             guint                  depth,
             Figures               *figures)
{
  double computed = bench_figure_median (figures->computed);
  double restored = bench_figure_median (figures->restored);
  g_autofree char *name = g_strdup_printf ("%s-%u", shape->name, depth);

  if (!config->is_silent)
    printf ("| %s | %u | %.1f | %.1f | %.1f | %.1f × |\n", shape->title, depth,
            bench_figure_median (figures->there), restored, computed, computed / restored);
  json_builder_set_member_name (config->json, name);
  json_builder_begin_object (config->json);
  bench_figure_add_json (figures->there, config->json);
  bench_figure_add_json (figures->restored, config->json);
  bench_figure_add_json (figures->computed, config->json);
  json_builder_end_object (config->json);
}

static gboolean
run_shape (const BenchRealConfig *config,
           const BenchModelShape *shape,
           GError               **error)
{
  g_autofree char *model = bench_rate_file_get_model (config->rates, shape, error);
  g_autofree char *folder = g_build_filename (config->folder, "llmsvc-bench-XXXXXX", NULL);
  const BenchEngineConfig settings = { .path = model, .policy = llm_kv_policy_find ("llms"),
                                       .chunks = folder };
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
  engine = bench_engine_new (&settings, error);
  is_done = engine != NULL;
  for (guint i = 0; i < G_N_ELEMENTS (depths) && is_done; i++)
    {
      /* What the model bears. */
      guint depth = MIN (depths[i], engine->hparams->n_ctx - 2 * N_NEW);
      Figures figures = { bench_figure_new ("there", "ms"), bench_figure_new ("restored", "ms"),
                          bench_figure_new ("computed", "ms") };

      is_done = run_depth (engine, depth, &figures, error);
      if (is_done)
        print_depth (config, shape, depth, &figures);
      bench_figure_free (figures.there);
      bench_figure_free (figures.restored);
      bench_figure_free (figures.computed);
      if (depth < depths[i])
        break;
    }
  bench_engine_free (engine);
  llm_test_folder_remove (folder);
  return is_done;
}

gboolean
bench_ttft_run (const BenchRealConfig *config,
                GError               **error)
{
  json_builder_set_member_name (config->json, "ttft");
  json_builder_begin_object (config->json);
  if (!config->is_silent)
    printf ("\nTime to the first token of a question of %d tokens, ms (medians)\n\n"
            "| model | tokens before it | in memory | read from storage | computed anew | "
            "gained |\n"
            "|---|---|---|---|---|---|\n", N_NEW);
  for (guint i = 0; config->shapes[i] != NULL; i++)
    if (!run_shape (config, config->shapes[i], error))
      return FALSE;
  json_builder_end_object (config->json);
  return TRUE;
}
