/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How fast a model runs in this process, beside the machine's limits and other
 * programs: rounds of limits, this engine, each peer, in turns, so that a slow
 * minute of a shared machine slows all of them.
 */

#include "bench.h"

#include <stdio.h>
#include <string.h>

#include "bench-engine.h"
#include "machine/bench-limits.h"
#include "bench-peer.h"
#include "bench-results.h"
#include "bench-variant.h"

#define OWN_NAME "llmsvc"
/* Memory that the reading limit is measured on: as large as the weights, within these. */
#define MIN_MEMORY ((gsize) 64 << 20)
#define MAX_MEMORY ((gsize) 2 << 30)

static char *opt_model;
static int opt_prompt = 512;
static int opt_gen = 128;
static int opt_depth;
static int opt_batch = 1;
static int opt_threads;
static int opt_runs = 5;
static char **opt_peers;
static char *opt_kernels;
static char *opt_cache;
static gboolean opt_no_cache;
static gboolean opt_exact;
static gboolean opt_profile;
static char *opt_kv;
static gboolean opt_density;
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file", "FILE" },
  { "prompt", 0, 0, G_OPTION_ARG_INT, &opt_prompt, "Tokens of a prompt, 0 for none (512)", "N" },
  { "gen", 0, 0, G_OPTION_ARG_INT, &opt_gen, "Tokens to generate, 0 for none (128)", "N" },
  { "depth", 0, 0, G_OPTION_ARG_INT, &opt_depth, "Tokens that are there before (0)", "N" },
  { "batch", 0, 0, G_OPTION_ARG_INT, &opt_batch, "Contexts that generate together (1)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads that compute (all processors)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Rounds (5)", "N" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-bench to run in turns with this one; may be given several times",
    "LLAMA_BENCH" },
  { "kernels", 0, 0, G_OPTION_ARG_STRING, &opt_kernels, "Kernels to use (the best)", "NAME" },
  { "exact", 0, 0, G_OPTION_ARG_NONE, &opt_exact, "The weights as floats: the exact path", NULL },
  { "cache", 0, 0, G_OPTION_ARG_FILENAME, &opt_cache,
    "Where the prepared copy is kept (the user's cache folder)", "FOLDER" },
  { "no-cache", 0, 0, G_OPTION_ARG_NONE, &opt_no_cache, "Prepare in memory", NULL },
  { "kv", 0, 0, G_OPTION_ARG_STRING, &opt_kv,
    "In turns, the same behind context memory that this policy packed (llms, vllm-sq, …)",
    "POLICY" },
  { "density", 0, 0, G_OPTION_ARG_NONE, &opt_density,
    "In turns, the same while densities of chunks are collected", NULL },
  { "profile", 0, 0, G_OPTION_ARG_NONE, &opt_profile, "Where the time goes, by stage", NULL },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object", NULL },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  BenchEngine *engine;
  BenchMemory *memory;
  const BenchPeak *peak;
  BenchResults *results;
  GPtrArray *peers;          /* (element-type BenchPeer) */
  GPtrArray *variants;       /* (element-type BenchVariant): ratios are to the first */
  guint n_threads;
  char *prompt_test;
  char *decode_test;
} Bench;

/* --- one engine, once --- */

static double
time_prompt (Bench              *bench,
             const BenchVariant *variant,
             BenchProfile       *profile)
{
  g_autoptr(LlmKvSeq) sequence = llm_kv_seq_fork (variant->filled[0], NULL, NULL);

  llm_forward_set_density (bench->engine->forward, variant->collects_density);
  return bench_engine_prompt (bench->engine, sequence, (guint) opt_prompt, profile);
}

static double
time_decode (Bench              *bench,
             const BenchVariant *variant,
             guint               n_tokens,
             BenchProfile       *profile)
{
  g_autofree LlmKvSeq **sequences = g_new (LlmKvSeq *, opt_batch);
  double seconds;

  llm_forward_set_density (bench->engine->forward, variant->collects_density);
  for (int i = 0; i < opt_batch; i++)
    sequences[i] = llm_kv_seq_fork (variant->filled[i], NULL, NULL);
  seconds = bench_engine_decode (bench->engine, sequences, (guint) opt_batch, n_tokens, profile);
  for (int i = 0; i < opt_batch; i++)
    llm_kv_seq_free (sequences[i]);
  return seconds;
}

/* @depth_bytes: of a token that was there before. */
static void
add_prompt (Bench      *bench,
            const char *engine,
            double      depth_bytes,
            double      seconds)
{
  const BenchCosts *costs = &bench->engine->costs;
  guint n = (guint) opt_prompt;
  BenchRun run = { engine, bench->prompt_test, n, seconds };

  run.ops = bench_costs_get_ops (costs, n, 1, (guint) opt_depth, TRUE);
  run.bytes = (double) costs->row_bytes + (double) costs->position_bytes * n +
              depth_bytes * opt_depth;
  bench_results_add (bench->results, &run);
}

static void
add_decode (Bench      *bench,
            const char *engine,
            double      depth_bytes,
            double      seconds)
{
  const BenchCosts *costs = &bench->engine->costs;
  guint n = (guint) opt_gen, n_sequences = (guint) opt_batch;
  BenchRun run = { engine, bench->decode_test, n * n_sequences, seconds };
  /* of all sequences: the depth and what was generated before each token */
  double n_positions = ((double) opt_depth * n + (double) n * (n + 1) / 2) * n_sequences;

  run.bytes = (double) costs->row_bytes * n + (double) costs->position_bytes * n_positions +
              (depth_bytes - (double) costs->position_bytes) * opt_depth * n * n_sequences;
  run.ops = (double) n * n_sequences * (costs->row_ops + costs->logits_ops) +
            n_positions * costs->position_ops;
  bench_results_add (bench->results, &run);
}

static void
run_peer (Bench     *bench,
          BenchPeer *peer)
{
  double position_bytes = (double) bench->engine->costs.position_bytes;
  g_autoptr(GError) error = NULL;
  BenchPeerTimes times;

  if (peer->has_failed)
    return;
  if (!bench_peer_run (peer, opt_model, (guint) opt_prompt, (guint) opt_gen, (guint) opt_depth,
                       (guint) opt_batch, bench->n_threads, &times, &error))
    {
      g_printerr ("llmsvc-bench: left out: %s\n", error->message);
      peer->has_failed = TRUE;
      return;
    }
  if (opt_prompt > 0)
    add_prompt (bench, peer->name, position_bytes, times.prompt_seconds);
  if (opt_gen > 0)
    add_decode (bench, peer->name, position_bytes, times.decode_seconds);
}

/* --- rounds --- */

/* The limits before and behind this engine's runs; the better ones count. */
static void
run_round (Bench *bench)
{
  double read = bench_read_best (bench->memory, bench->n_threads);
  double compute = bench_compute (bench->peak, bench->n_threads);
  guint n_variants = bench->variants->len;
  g_autofree double *prompts = g_new0 (double, n_variants);
  g_autofree double *decodes = g_new0 (double, n_variants);

  for (guint i = 0; i < n_variants; i++)
    {
      const BenchVariant *variant = g_ptr_array_index (bench->variants, i);

      prompts[i] = opt_prompt > 0 ? time_prompt (bench, variant, NULL) : 0;
      decodes[i] = opt_gen > 0 ? time_decode (bench, variant, (guint) opt_gen, NULL) : 0;
    }

  read = MAX (read, bench_read_best (bench->memory, bench->n_threads));
  compute = MAX (compute, bench_compute (bench->peak, bench->n_threads));
  bench_results_add_limits (bench->results, read, compute);
  for (guint i = 0; i < n_variants; i++)
    {
      const BenchVariant *variant = g_ptr_array_index (bench->variants, i);

      if (opt_prompt > 0)
        add_prompt (bench, variant->name, variant->position_bytes, prompts[i]);
      if (opt_gen > 0)
        add_decode (bench, variant->name, variant->position_bytes, decodes[i]);
    }
  for (guint i = 0; i < bench->peers->len; i++)
    run_peer (bench, g_ptr_array_index (bench->peers, i));
}

static void
warm_up (Bench *bench)
{
  const guint n_tokens = 4;

  for (guint i = 0; i < bench->variants->len; i++)
    {
      BenchVariant *variant = g_ptr_array_index (bench->variants, i);

      bench_variant_fill (variant, (guint) opt_batch, (guint) opt_depth);
      if (opt_prompt > 0)
        time_prompt (bench, variant, NULL);
      if (opt_gen > 0)
        time_decode (bench, variant, n_tokens, NULL);
    }
}

static gboolean
add_variants (Bench   *bench,
              GError **error)
{
  g_autofree char *name = g_strdup_printf (OWN_NAME ", %s", opt_kv);
  BenchVariant *packed;

  g_ptr_array_add (bench->variants, bench_variant_new (bench->engine, OWN_NAME, FALSE));
  if (opt_density)
    g_ptr_array_add (bench->variants,
                     bench_variant_new (bench->engine, OWN_NAME ", densities", TRUE));
  if (opt_kv == NULL)
    return TRUE;
  packed = bench_variant_new_packed (bench->engine, name, opt_kv, opt_density, error);
  if (packed == NULL)
    return FALSE;
  g_ptr_array_add (bench->variants, packed);
  return TRUE;
}

/* The numbers that the products of most weights are made of. */
static const char *
get_peak_name (LlkType type)
{
  if (opt_exact || type == LLK_F32)
    return "fp32";
  return type == LLK_F16 || type == LLK_BF16 ? "bf16" : "int8";
}

static void
find_peak (Bench *bench)
{
  const char *kernels = bench->engine->kernels->name;
  const BenchSet *set = NULL;
  g_autofree char *name = NULL;

  bench->peak = bench_set_find_peak (kernels, get_peak_name (bench->engine->costs.type), &set);
  if (bench->peak == NULL)
    bench->peak = bench_set_find_peak (kernels, "fp32", &set);
  name = g_strdup_printf ("%s %s: %s", set->name, bench->peak->name, bench->peak->instruction);
  bench->results = bench_results_new (name);
}

/* --- printing --- */

static void
print_profile (const char         *title,
               const BenchProfile *profile,
               guint               n_steps)
{
  double sum = 0;

  for (guint i = 0; i < profile->names->len; i++)
    sum += g_array_index (profile->seconds, double, i);
  printf ("\n| stage of %s | ms | share |\n|---|---|---|\n", title);
  for (guint i = 0; i < profile->names->len; i++)
    {
      double seconds = g_array_index (profile->seconds, double, i);

      printf ("| %s | %.3f | %.1f %% |\n",
              (const char *) g_ptr_array_index (profile->names, i), seconds * 1000 / n_steps,
              100 * seconds / sum);
    }
  printf ("| all | %.3f | |\n", sum * 1000 / n_steps);
}

static void
add_profile_json (JsonBuilder        *builder,
                  const char         *title,
                  const BenchProfile *profile,
                  guint               n_steps)
{
  json_builder_set_member_name (builder, title);
  json_builder_begin_object (builder);
  for (guint i = 0; i < profile->names->len; i++)
    {
      json_builder_set_member_name (builder, g_ptr_array_index (profile->names, i));
      json_builder_add_double_value (builder, g_array_index (profile->seconds, double, i) * 1000 /
                                                n_steps);
    }
  json_builder_end_object (builder);
}

/* A prompt as a whole, and a step of decoding on average. */
static void
profile_stages (Bench       *bench,
                JsonBuilder *builder)
{
  g_autoptr(BenchProfile) prompt = bench_profile_new ();
  g_autoptr(BenchProfile) decode = bench_profile_new ();
  const BenchVariant *variant = g_ptr_array_index (bench->variants, 0);

  if (opt_prompt > 0)
    time_prompt (bench, variant, prompt);
  if (opt_gen > 0)
    time_decode (bench, variant, (guint) opt_gen, decode);
  if (builder == NULL)
    {
      if (opt_prompt > 0)
        print_profile (bench->prompt_test, prompt, 1);
      if (opt_gen > 0)
        print_profile (bench->decode_test, decode, (guint) opt_gen);
      return;
    }
  json_builder_set_member_name (builder, "profile-ms");
  json_builder_begin_object (builder);
  if (opt_prompt > 0)
    add_profile_json (builder, "prompt", prompt, 1);
  if (opt_gen > 0)
    add_profile_json (builder, "decode-step", decode, (guint) opt_gen);
  json_builder_end_object (builder);
}

static void
add_int (JsonBuilder *builder,
         const char  *name,
         gint64       value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, value);
}

static void
add_string (JsonBuilder *builder,
            const char  *name,
            const char  *value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_string_value (builder, value);
}

static void
print_json (Bench *bench)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  const BenchEngine *engine = bench->engine;
  g_autofree char *file = g_path_get_basename (opt_model);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "model");
  json_builder_begin_object (builder);
  add_string (builder, "file", file);
  add_string (builder, "architecture", engine->hparams->architecture);
  add_string (builder, "format", llk_type_name (engine->costs.type));
  add_int (builder, "bytes", (gint64) engine->weights->bytes);
  add_int (builder, "bytes-per-token", (gint64) engine->costs.row_bytes);
  add_int (builder, "bytes-per-position", (gint64) engine->costs.position_bytes);
  json_builder_end_object (builder);
  json_builder_set_member_name (builder, "settings");
  json_builder_begin_object (builder);
  add_int (builder, "prompt", opt_prompt);
  add_int (builder, "gen", opt_gen);
  add_int (builder, "depth", opt_depth);
  add_int (builder, "batch", opt_batch);
  add_int (builder, "threads", bench->n_threads);
  add_int (builder, "runs", opt_runs);
  add_string (builder, "kernels", engine->kernels->name);
  json_builder_set_member_name (builder, "exact");
  json_builder_add_boolean_value (builder, opt_exact);
  json_builder_end_object (builder);
  bench_results_add_json (bench->results, builder);
  if (opt_profile)
    profile_stages (bench, builder);
  json_builder_end_object (builder);
  bench_print_json (builder);
}

static void
print_text (Bench *bench)
{
  const BenchEngine *engine = bench->engine;
  g_autofree char *file = g_path_get_basename (opt_model);

  printf ("%s: %s, mostly %s, %.0f MiB; a token reads %.1f MB of weights and %.1f kB for each "
          "token before it\n%s kernels%s, %u thread%s\n",
          file, engine->hparams->architecture, llk_type_name (engine->costs.type),
          (double) engine->weights->bytes / (1 << 20), (double) engine->costs.row_bytes / 1e6,
          (double) engine->costs.position_bytes / 1e3, engine->kernels->name,
          opt_exact ? ", exact path" : "", bench->n_threads, bench->n_threads == 1 ? "" : "s");
  bench_results_print (bench->results);
  if (opt_profile)
    profile_stages (bench, NULL);
}

/* --- --- */

static gboolean
open_all (Bench   *bench,
          GError **error)
{
  g_autofree char *cache = opt_cache != NULL
                             ? g_strdup (opt_cache)
                             : g_build_filename (g_get_user_cache_dir (), "llmsvc", NULL);
  const BenchEngineConfig config = {
    .path = opt_model,
    .kernels = opt_kernels,
    .cache = opt_no_cache ? NULL : cache,
    .n_threads = (guint) opt_threads,
    .is_exact = opt_exact,
  };
  g_autofree char *depth = opt_depth > 0 ? g_strdup_printf (" behind %d", opt_depth)
                                         : g_strdup ("");
  g_autofree char *batch = opt_batch > 1 ? g_strdup_printf (" in %d contexts", opt_batch)
                                         : g_strdup ("");

  bench->variants = 
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_variant_free);
  bench->peers = g_ptr_array_new_with_free_func ((GDestroyNotify) bench_peer_free);
  for (guint i = 0; opt_peers != NULL && opt_peers[i] != NULL; i++)
    {
      BenchPeer *peer = bench_peer_new (opt_peers[i], error);

      if (peer == NULL)
        return FALSE;
      g_ptr_array_add (bench->peers, peer);
    }
  bench->engine = bench_engine_new (&config, error);
  if (bench->engine == NULL || !add_variants (bench, error))
    return FALSE;

  bench->n_threads = llm_worker_pool_get_n_threads (bench->engine->pool);
  bench->memory = bench_memory_new (BENCH_PAGES_HUGE,
                                    CLAMP (bench->engine->costs.row_bytes, MIN_MEMORY, MAX_MEMORY),
                                    NULL, error);
  if (bench->memory == NULL)
    return FALSE;

  find_peak (bench);
  bench->prompt_test = g_strdup_printf ("prompt of %d%s", opt_prompt, depth);
  bench->decode_test = g_strdup_printf ("decode of %d%s%s", opt_gen, batch, depth);
  return TRUE;
}

static void
close_all (Bench *bench)
{
  g_ptr_array_unref (bench->variants);
  g_clear_pointer (&bench->engine, bench_engine_free);
  g_clear_pointer (&bench->memory, bench_memory_free);
  g_clear_pointer (&bench->results, bench_results_free);
  g_clear_pointer (&bench->peers, g_ptr_array_unref);
  g_free (bench->prompt_test);
  g_free (bench->decode_test);
}

int
bench_model (int    argc,
             char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  Bench bench = { NULL };
  int status = 0;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_model == NULL ||
      opt_prompt < 0 || opt_gen < 0 || opt_prompt + opt_gen == 0 || opt_depth < 0 ||
      opt_batch < 1 || opt_batch > LLM_BATCH_MAX_ROWS || opt_threads < 0 || opt_runs < 1)
    {
      g_printerr ("llmsvc-bench: %s\n",
                  error != NULL ? error->message
                                : "model needs --model FILE, --runs of 1 or more, and numbers "
                                  "that are not negative");
      return 2;
    }

  if (open_all (&bench, &error))
    {
      warm_up (&bench);
      for (int run = 0; run < opt_runs; run++)
        run_round (&bench);
      if (opt_json)
        print_json (&bench);
      else
        print_text (&bench);
    }
  else
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      status = 1;
    }
  close_all (&bench);
  return status;
}
