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
#include "bench-loss.h"
#include "bench-peer.h"
#include "bench-results.h"
#include "bench-shares.h"
#include "policies/bench-kv-policies.h"
#include "w8/bench-w8-prefill.h"

#define OWN_NAME "llmsvc"
/* Memory that the reading limit is measured on: as large as the weights, within these. */
#define MIN_MEMORY ((gsize) 64 << 20)
#define MAX_MEMORY ((gsize) 2 << 30)
#define WARM_UP_TOKENS 4

static char *opt_model;
static int opt_prompt = 512;
static int opt_gen = 128;
static int opt_depth;
static int opt_batch = 1;
static int opt_rows = 1;
static gboolean opt_tree;
static int opt_threads;
static int opt_runs = 5;
static char **opt_peers;
static char *opt_kernels;
static char *opt_cache;
static gboolean opt_no_cache;
static gboolean opt_exact;
static int opt_segments;
static GStrv opt_sub_models, opt_prefills;
static gboolean opt_profile;
static GStrv opt_kv;
static gboolean opt_density;
static char *opt_beside;
static char *opt_text;
static int opt_loss_windows = 4;
static int opt_turns = -1;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file", "FILE" },
  { "prompt", 0, 0, G_OPTION_ARG_INT, &opt_prompt, "Tokens of a prompt, 0 for none (512)", "N" },
  { "gen", 0, 0, G_OPTION_ARG_INT, &opt_gen, "Tokens to generate, 0 for none (128)", "N" },
  { "depth", 0, 0, G_OPTION_ARG_INT, &opt_depth, "Tokens that are there before (0)", "N" },
  { "batch", 0, 0, G_OPTION_ARG_INT, &opt_batch, "Contexts that generate together (1)", "N" },
  { "rows", 0, 0, G_OPTION_ARG_INT, &opt_rows,
    "Rows of each context in a step of decoding, of which the first stays (1)", "N" },
  { "tree", 0, 0, G_OPTION_ARG_NONE, &opt_tree, "They are a tree, and not a chain", NULL },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads that compute (all processors)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Rounds (5)", "N" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-bench to run in turns with this one; may be given several times",
    "LLAMA_BENCH" },
  { "kernels", 0, 0, G_OPTION_ARG_STRING, &opt_kernels, "Kernels to use (the best)", "NAME" },
  { "exact", 0, 0, G_OPTION_ARG_NONE, &opt_exact, "The weights as floats: the exact path", NULL },
  { "segments", 0, 0, G_OPTION_ARG_INT, &opt_segments,
    "Cut the weights into segments, though all are used; a build beside has one", "N" },
  { "sub-model", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_sub_models,
    "In turns, step by step, the same with the sub-model of so many percent, as the companion of the "
    "file has it; may be given several times", "PERCENT" },
  { "prefill", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_prefills,
    "In turns, the same with prompts in W8A8: w8a8; w8a8-naive for one scale up to the largest "
    "activation, without what outliers cost; w8a8-floats, where a gated network has rows of floats "
    "between its products; may be given several times", "NAME" },
  { "cache", 0, 0, G_OPTION_ARG_FILENAME, &opt_cache,
    "Where the prepared copy is kept (the user's cache folder)", "FOLDER" },
  { "no-cache", 0, 0, G_OPTION_ARG_NONE, &opt_no_cache, "Prepare in memory", NULL },
  { "kv", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_kv,
    "In turns, step by step, the same behind context memory that this policy packed (llms, "
    "vllm-sq, …), or with so many bits (8, 4, 3, 2); may be given several times", "POLICY" },
  { "density", 0, 0, G_OPTION_ARG_NONE, &opt_density,
    "In turns, step by step, the same while densities of chunks are collected", NULL },
  { "beside", 0, 0, G_OPTION_ARG_STRING, &opt_beside,
    "Another build of this program that runs the same in turns, step by step", "LLMSVC_BENCH" },
  { "text", 0, 0, G_OPTION_ARG_FILENAME, &opt_text,
    "A text on which to measure what the arithmetic loses", "FILE" },
  { "loss-windows", 0, 0, G_OPTION_ARG_INT, &opt_loss_windows,
    "Windows of 512 tokens of it at most (4)", "N" },
  { "turns", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_INT, &opt_turns, NULL, NULL },
  { "profile", 0, 0, G_OPTION_ARG_NONE, &opt_profile, "Where the time goes, by stage", NULL },
  G_OPTION_ENTRY_NULL
};

/* Ways to run one engine in turns: with the KV cache as floats, packed, with densities collected.
 * Each has contexts of its own, of which runs are forks. */
typedef struct
{
  char *name;
  LlmKvStore *store;          /* (owned) (nullable): the engine's */
  gboolean collects_density;
  guint8 sub_model;           /* percent */
  BenchW8Prefill *prefill;    /* (owned) (nullable): computes prompts in W8A8 */
  BenchCosts costs;
  BenchShares *shares;        /* (owned) (nullable): of a sub-model, beside the whole model */
  LlmKvSeq **filled;          /* one for each context of a batch */
  double position_bytes;      /* of the KV cache of each token in them */
} Variant;

typedef struct
{
  BenchEngine *engine;
  BenchMemory *memory;
  const BenchPeak *peak;
  BenchResults *results;
  BenchLoss *loss;           /* (nullable) */
  GPtrArray *peers;          /* (element-type BenchPeer) */
  GPtrArray *variants;       /* (element-type Variant): ratios are to the first */
  char *prompt_test;
  char *decode_test;
} Rounds;

/* --- variants --- */

static void
variant_free (gpointer data)
{
  Variant *self = data;

  for (int i = 0; self->filled != NULL && i < opt_batch; i++)
    llm_kv_seq_free (self->filled[i]);
  g_free (self->filled);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_clear_pointer (&self->shares, bench_shares_free);
  g_clear_pointer (&self->prefill, bench_w8_prefill_free);
  g_free (self->name);
  g_free (self);
}

/* FALSE for an unknown name. */
static gboolean
find_policy (const char  *name,
             LlmKvPolicy *policy)
{
  static const LlkKvFormat formats[] = { LLK_KV_Q8, LLK_KV_Q4, LLK_KV_Q3, LLK_KV_Q2 };
  static const char *const bits[] = { "8", "4", "3", "2" };
  const LlmKvPolicy *found = bench_kv_policy_find (name);

  for (guint i = 0; i < G_N_ELEMENTS (bits); i++)
    if (g_str_equal (name, bits[i]))
      {
        *policy = *bench_kv_policy_find ("vllm-sq");
        policy->uniform = formats[i];
        return TRUE;
      }
  if (found != NULL)
    *policy = *found;
  return found != NULL;
}

/* @policy: (nullable): packs what its contexts are filled with. */
static gboolean
add_variant (Rounds     *rounds,
             const char *what,
             const char *policy,
             gboolean    collects_density,
             GError    **error)
{
  Variant *variant = g_new0 (Variant, 1);
  LlmKvPolicy found;

  g_ptr_array_add (rounds->variants, variant);
  variant->name = g_strdup_printf (OWN_NAME "%s%s", what[0] != '\0' ? ", " : "", what);
  variant->collects_density = collects_density;
  variant->sub_model = 100;
  variant->costs = rounds->engine->costs;
  variant->position_bytes = (double) rounds->engine->costs.position_bytes;
  if (policy == NULL)
    return TRUE;
  if (!find_policy (policy, &found))
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT, "There is no policy “%s”",
                   policy);
      return FALSE;
    }
  variant->store = bench_engine_new_store (rounds->engine, &found, error);
  return variant->store != NULL;
}

/* Also a share in percent; sub-models are made ready beside the whole one. */
static gboolean
add_sub_model (Rounds     *rounds,
               const char *percent,
               GError    **error)
{
  const LlmSubModels *table = rounds->engine->weights->sub_models;
  g_autofree char *name = g_strdup_printf ("%s %%", percent);
  guint64 asked = g_ascii_strtoull (percent, NULL, 10);
  guint level = llm_sub_models_find_level (table, (guint) MIN (asked, 100));
  Variant *variant;

  if (table->percent[level] != asked)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "There is no sub-model of “%s” percent; the next larger one has %u", percent,
                   (guint) table->percent[level]);
      return FALSE;
    }
  if (!add_variant (rounds, name, NULL, FALSE, error))
    return FALSE;
  variant = g_ptr_array_index (rounds->variants, rounds->variants->len - 1);
  variant->sub_model = table->percent[level];
  variant->costs = bench_engine_get_level_costs (rounds->engine, level);
  variant->position_bytes = (double) variant->costs.position_bytes;
  variant->shares = bench_shares_new ();
  return TRUE;
}

static gboolean
add_prefill (Rounds     *rounds,
             const char *name,
             GError    **error)
{
  static const char *const names[] = { "w8a8", "w8a8-naive", "w8a8-floats", NULL };
  Variant *variant;

  if (!g_strv_contains (names, name))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "unknown prefill “%s”: w8a8, w8a8-naive or w8a8-floats", name);
      return FALSE;
    }
  if (!add_variant (rounds, name, NULL, FALSE, error))
    return FALSE;
  variant = g_ptr_array_index (rounds->variants, rounds->variants->len - 1);
  variant->prefill = bench_w8_prefill_new (rounds->engine, !g_str_equal (name, "w8a8-naive"),
                                           !g_str_equal (name, "w8a8-floats"), error);
  return variant->prefill != NULL;
}

static void
fill_variant (Rounds  *rounds,
              Variant *variant)
{
  LlmKvStore *store = variant->store != NULL ? variant->store : rounds->engine->store;
  guint depth = (guint) opt_depth;

  variant->filled = g_new0 (LlmKvSeq *, opt_batch);
  for (int i = 0; i < opt_batch; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autofree char *id = g_strdup_printf ("%d", i);
      LlmKvPlan plan;

      variant->filled[i] = llm_kv_seq_new (store, NULL, id);
      if (depth == 0)
        continue;
      if (!llm_kv_seq_begin_call (variant->filled[i], depth, &plan, &error))
        g_error ("%s", error->message);
      if (!bench_sequence_fill (variant->filled[i], depth, &error))
        g_error ("%s", error->message);
      bench_store_end_call (store, variant->filled[i]);
    }
  if (variant->store != NULL && depth > 0)
    variant->position_bytes = (double) store->bytes /
                              ((double) opt_batch * depth);
}

/* --- one engine, once --- */

static double
time_prompt (Rounds        *rounds,
             const Variant *variant,
             BenchProfile  *profile)
{
  g_autoptr(LlmKvSeq) sequence = llm_kv_seq_fork (variant->filled[0], NULL, NULL);
  BenchEngine *engine = rounds->engine;
  LlmForward *own = engine->forward;
  double seconds;

  engine->sub_model = variant->sub_model;
  if (variant->prefill != NULL)
    engine->forward = bench_w8_prefill_get_forward (variant->prefill);
  llm_forward_set_density (engine->forward, variant->collects_density);
  seconds = bench_engine_prefill (engine, sequence, NULL, (guint) opt_prompt, profile);
  engine->forward = own;
  return seconds;
}

static int
compare_seconds (gconstpointer a,
                 gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;

  return (left > right) - (left < right);
}

/* Of @n_steps steps; those of several that take turns are short, and what the machine does meanwhile
 * is no part of their ratio: as many of the median one, of each kind, as densities are collected
 * in one of LLM_ROWS_SAMPLED. */
static double
sum_steps (const double *steps,
           guint         n_steps,
           gboolean      takes_turns)
{
  double sum = 0;

  for (guint kind = 0; takes_turns && kind < LLM_ROWS_SAMPLED; kind++)
    {
      g_autofree double *of_kind = g_new (double, n_steps);
      guint n = 0;

      for (guint i = kind; i < n_steps; i += LLM_ROWS_SAMPLED)
        of_kind[n++] = steps[i];
      qsort (of_kind, n, sizeof *of_kind, compare_seconds);
      sum += n > 0 ? of_kind[n / 2] * n : 0;
    }
  for (guint i = 0; !takes_turns && i < n_steps; i++)
    sum += steps[i];
  return sum;
}

/* Variants from @first on take turns, step by step. @seconds: [n_variants]. @profile: (nullable). */
static void
time_decode (Rounds       *rounds,
             guint         first,
             guint         n_variants,
             guint         n_tokens,
             double       *seconds,
             BenchProfile *profile)
{
  guint n_sequences = (guint) opt_batch;
  g_autofree LlmKvSeq **sequences = g_new (LlmKvSeq *, n_variants * n_sequences);
  g_autofree double *steps = g_new (double, n_variants * n_tokens);

  for (guint i = 0; i < n_variants * n_sequences; i++)
    {
      const Variant *variant = g_ptr_array_index (rounds->variants, first + i / n_sequences);

      sequences[i] = llm_kv_seq_fork (variant->filled[i % n_sequences], NULL, NULL);
    }
  for (guint turn = 0; turn < n_tokens * n_variants; turn++)
    {
      /* each is first, second, … as often */
      guint i = (turn + turn / n_variants) % n_variants;
      const Variant *variant = g_ptr_array_index (rounds->variants, first + i);

      rounds->engine->sub_model = variant->sub_model;
      llm_forward_set_density (rounds->engine->forward, variant->collects_density);
      steps[i * n_tokens + turn / n_variants] =
        bench_engine_decode (rounds->engine, sequences + i * n_sequences, n_sequences,
                             (guint) opt_rows, opt_tree, 1, profile);
    }
  for (guint i = 0; i < n_variants; i++)
    seconds[i] = sum_steps (steps + i * n_tokens, n_tokens, n_variants > 1);
  for (guint i = 0; i < n_variants * n_sequences; i++)
    llm_kv_seq_free (sequences[i]);
}

static double
count_prompt_ops (const BenchCosts *costs)
{
  double n = opt_prompt;
  /* each row sees the depth, itself and those before it */
  double n_seen = n * (opt_depth + 1) + n * (n - 1) / 2;

  return n * costs->row_ops + costs->logits_ops + n_seen * costs->position_ops;
}

/* Of all sequences: the depth and what was generated before each token, read once for its rows. */
static double
count_positions (void)
{
  double n = opt_gen;

  return (opt_depth * n + n * (n + 1) / 2) * opt_batch;
}

static double
count_decode_bytes (const BenchCosts *costs)
{
  return (double) costs->row_bytes * opt_gen + (double) costs->position_bytes * count_positions ();
}

/* @costs: of the engine, or of a sub-model. @depth_bytes: of a token that was there before; 0
 * seconds: not measured. */
static void
add_times (Rounds           *rounds,
           const char       *engine,
           const BenchCosts *costs,
           double            depth_bytes,
           double            prompt_seconds,
           double            decode_seconds)
{
  double n_prompt = opt_prompt, n_gen = opt_gen, depth = opt_depth;
  double n_sequences = opt_batch, n_rows = opt_rows;
  double position_bytes = (double) costs->position_bytes;
  double n_positions = count_positions ();
  const BenchRun prompt = {
    .engine = engine,
    .test = rounds->prompt_test,
    .n_tokens = (guint) opt_prompt,
    .seconds = prompt_seconds,
    .bytes = (double) costs->row_bytes + position_bytes * n_prompt + depth_bytes * depth,
    .ops = count_prompt_ops (costs),
  };
  const BenchRun decode = {
    .engine = engine,
    .test = rounds->decode_test,
    .n_tokens = (guint) (opt_gen * opt_batch * opt_rows),
    .seconds = decode_seconds,
    .bytes = count_decode_bytes (costs) +
             (depth_bytes - position_bytes) * depth * n_gen * n_sequences,
    .ops = n_rows * (n_gen * n_sequences * (costs->row_ops + costs->logits_ops) +
                     n_positions * costs->position_ops),
  };

  if (opt_prompt > 0)
    bench_results_add (rounds->results, &prompt);
  if (opt_gen > 0)
    bench_results_add (rounds->results, &decode);
}

static void
run_peer (Rounds    *rounds,
          BenchPeer *peer)
{
  const BenchPeerTest test = {
    opt_model, (guint) opt_prompt, (guint) opt_gen, (guint) opt_depth, (guint) opt_batch,
    rounds->engine->n_threads,
  };
  BenchPeerTimes times;

  if (bench_peer_run (peer, &test, &times))
    add_times (rounds, peer->name, &rounds->engine->costs,
               (double) rounds->engine->costs.position_bytes,
               times.prompt_seconds, times.decode_seconds);
}

/* --- rounds --- */

/* The better ones of before and now count. */
static void
measure_limits (Rounds *rounds,
                double *read,
                double *compute)
{
  *read = MAX (*read, bench_read_best (rounds->memory, rounds->engine->n_threads));
  *compute = MAX (*compute, bench_compute (rounds->peak, rounds->engine->n_threads).steady);
}

/* The limits before and behind this engine's runs. */
static void
run_round (Rounds *rounds)
{
  double read = 0, compute = 0;
  guint n_variants = rounds->variants->len;
  g_autofree double *prompts = g_new0 (double, n_variants);
  g_autofree double *decodes = g_new0 (double, n_variants);

  measure_limits (rounds, &read, &compute);
  for (guint i = 0; i < n_variants; i++)
    {
      const Variant *variant = g_ptr_array_index (rounds->variants, i);

      prompts[i] = opt_prompt > 0 ? time_prompt (rounds, variant, NULL) : 0;
    }
  if (opt_gen > 0)
    time_decode (rounds, 0, n_variants, (guint) opt_gen, decodes, NULL);

  measure_limits (rounds, &read, &compute);
  bench_results_add_limits (rounds->results, read, compute);
  for (guint i = 0; i < n_variants; i++)
    {
      const Variant *variant = g_ptr_array_index (rounds->variants, i);

      add_times (rounds, variant->name, &variant->costs, variant->position_bytes, prompts[i],
                 decodes[i]);
      if (variant->shares != NULL)
        bench_shares_add (variant->shares, prompts[i], prompts[0], decodes[i], decodes[0]);
    }
  for (guint i = 0; i < rounds->peers->len; i++)
    run_peer (rounds, g_ptr_array_index (rounds->peers, i));
}

static void
warm_up (Rounds *rounds)
{
  for (guint i = 0; i < rounds->variants->len; i++)
    {
      Variant *variant = g_ptr_array_index (rounds->variants, i);
      double seconds;

      fill_variant (rounds, variant);
      if (opt_prompt > 0)
        time_prompt (rounds, variant, NULL);
      if (opt_gen > 0)
        time_decode (rounds, i, 1, WARM_UP_TOKENS, &seconds, NULL);
    }
}

/* --- beside another build --- */

/* (transfer full): the words behind the other one's name. */
static char *
describe_options (Rounds *rounds)
{
  g_autofree char *model = g_shell_quote (opt_model);
  g_autofree char *cache = opt_cache != NULL ? g_shell_quote (opt_cache) : NULL;
  g_autofree char *rows = g_strdup_printf ("--rows %d", opt_rows);

  return g_strdup_printf ("model --json --model %s --prompt %d --gen %d --depth %d --batch %d "
                          "%s%s --runs %d --threads %u%s%s%s%s%s%s", model, opt_prompt,
                          opt_gen, opt_depth, opt_batch, opt_rows > 1 ? rows : "",
                          opt_tree ? " --tree" : "", opt_runs, rounds->engine->n_threads,
                          opt_no_cache ? " --no-cache" : "", opt_exact ? " --exact" : "",
                          cache != NULL ? " --cache " : "", cache != NULL ? cache : "",
                          opt_kernels != NULL ? " --kernels " : "",
                          opt_kernels != NULL ? opt_kernels : "");
}

/* The limits once: nothing else runs while the two take turns. */
static gboolean
run_in_turns (Rounds  *rounds,
              GError **error)
{
  const Variant *variant = g_ptr_array_index (rounds->variants, 0);
  g_autofree double *prompts = g_new0 (double, opt_runs);
  g_autofree double *decodes = g_new0 (double, opt_runs);
  g_autofree char *options = describe_options (rounds);
  g_autoptr(GSubprocess) other = NULL;
  g_autoptr(JsonNode) results = NULL;
  double read = 0, compute = 0;

  measure_limits (rounds, &read, &compute);
  bench_results_add_limits (rounds->results, read, compute);
  if (opt_turns >= 0)
    bench_turns_init (&rounds->engine->turns, opt_turns);
  else if ((other = bench_turns_start (&rounds->engine->turns, opt_beside, options,
                                       error)) == NULL)
    return FALSE;

  warm_up (rounds);
  for (int i = 0; i < opt_runs; i++)
    {
      prompts[i] = opt_prompt > 0 ? time_prompt (rounds, variant, NULL) : 0;
      if (opt_gen > 0)
        time_decode (rounds, 0, 1, (guint) opt_gen, &decodes[i], NULL);
    }
  bench_turns_clear (&rounds->engine->turns);
  if (other != NULL && (results = bench_turns_finish (other, error)) == NULL)
    return FALSE;
  for (int i = 0; i < opt_runs; i++)
    {
      add_times (rounds, OWN_NAME, &variant->costs, variant->position_bytes, prompts[i], decodes[i]);
      if (results != NULL)
        add_times (rounds, "beside", &variant->costs, variant->position_bytes,
                   opt_prompt / bench_turns_get_speed (results, rounds->prompt_test, i),
                   opt_gen * opt_batch * opt_rows /
                     bench_turns_get_speed (results, rounds->decode_test, i));
    }
  return TRUE;
}

/* --- printing --- */

/* Of one stage, or of all. */
static void
print_stage (const char           *name,
             double                seconds,
             double                sum,
             const LlmWorkerTimes *times,
             guint                 n_threads,
             guint                 n_steps)
{
  double alone = MAX (seconds - times->shared_ns * 1e-9, 0);
  double waiting = MAX (times->shared_ns - (double) times->busy_ns / n_threads, 0) * 1e-9;

  printf ("| %s | %.3f | %.1f %% | %.1f | %.3f | %.3f |\n", name, seconds * 1000 / n_steps,
          100 * seconds / sum, (double) times->n_shared / n_steps, alone * 1000 / n_steps,
          waiting * 1000 / n_steps);
}

/* "alone": one thread works and the others wait for it; "waiting": what a thread waits on average
 * while all work. */
static void
print_profile (const char         *title,
               const BenchProfile *profile,
               guint               n_threads,
               guint               n_steps)
{
  LlmWorkerTimes times = { 0 };
  double sum = 0;

  for (guint i = 0; i < profile->n_stages; i++)
    {
      sum += profile->stages[i].seconds;
      times.n_shared += profile->stages[i].times.n_shared;
      times.shared_ns += profile->stages[i].times.shared_ns;
      times.busy_ns += profile->stages[i].times.busy_ns;
    }
  printf ("\n| stage of %s | ms | share | shared runs | alone, ms | waiting, ms |\n"
          "|---|---|---|---|---|---|\n", title);
  for (guint i = 0; i < profile->n_stages; i++)
    print_stage (profile->stages[i].name, profile->stages[i].seconds, sum,
                 &profile->stages[i].times, n_threads, n_steps);
  print_stage ("all", sum, sum, &times, n_threads, n_steps);
}

/* (transfer full) */
static JsonObject *
list_stages (const BenchProfile *profile,
             guint               n_steps)
{
  JsonObject *stages = json_object_new ();

  for (guint i = 0; i < profile->n_stages; i++)
    json_object_set_double_member (stages, profile->stages[i].name,
                                   profile->stages[i].seconds * 1000 / n_steps);
  return stages;
}

/* A prompt as a whole, in each arithmetic; @object: (nullable): for JSON. */
static void
profile_prompts (Rounds     *rounds,
                 JsonObject *object)
{
  for (guint i = 0; i < rounds->variants->len; i++)
    {
      const Variant *variant = g_ptr_array_index (rounds->variants, i);
      g_autofree char *title = g_strconcat (rounds->prompt_test, ", ", variant->name, NULL);
      BenchProfile profile = { 0 };

      if (i > 0 && variant->prefill == NULL)
        continue;
      time_prompt (rounds, variant, &profile);
      if (object == NULL)
        print_profile (title, &profile, rounds->engine->n_threads, 1);
      else
        json_object_set_object_member (object, i == 0 ? "prompt" : variant->name,
                                       list_stages (&profile, 1));
    }
}

/* Besides, a step of decoding on average. */
static void
profile_stages (Rounds     *rounds,
                JsonObject *object)
{
  BenchProfile profile = { 0 };
  double seconds;

  if (opt_prompt > 0)
    profile_prompts (rounds, object);
  if (opt_gen == 0)
    return;
  time_decode (rounds, 0, 1, (guint) opt_gen, &seconds, &profile);
  if (object == NULL)
    print_profile (rounds->decode_test, &profile, rounds->engine->n_threads, (guint) opt_gen);
  else
    json_object_set_object_member (object, "decode-step", list_stages (&profile, (guint) opt_gen));
}

static void
print_json (Rounds *rounds)
{
  g_autoptr(JsonObject) object = json_object_new ();
  JsonObject *model = json_object_new (), *settings = json_object_new (), *profile;
  const BenchEngine *engine = rounds->engine;
  const BenchCosts *costs = &engine->costs;
  g_autofree char *file = g_path_get_basename (opt_model);

  json_object_set_string_member (model, "file", file);
  json_object_set_string_member (model, "architecture", engine->hparams->architecture);
  json_object_set_string_member (model, "format", llk_type_name (costs->type));
  json_object_set_int_member (model, "bytes", (gint64) engine->weights->bytes);
  json_object_set_int_member (model, "bytes-per-token", (gint64) costs->row_bytes);
  json_object_set_int_member (model, "bytes-per-position", (gint64) costs->position_bytes);
  json_object_set_object_member (object, "model", model);
  json_object_set_int_member (settings, "prompt", opt_prompt);
  json_object_set_int_member (settings, "gen", opt_gen);
  json_object_set_int_member (settings, "depth", opt_depth);
  json_object_set_int_member (settings, "batch", opt_batch);
  json_object_set_int_member (settings, "rows", opt_rows);
  json_object_set_boolean_member (settings, "tree", opt_tree);
  json_object_set_int_member (settings, "threads", engine->n_threads);
  json_object_set_int_member (settings, "runs", opt_runs);
  json_object_set_string_member (settings, "kernels", engine->kernels->name);
  json_object_set_boolean_member (settings, "exact", opt_exact);
  json_object_set_object_member (object, "settings", settings);
  bench_results_set_json (rounds->results, object);
  if (rounds->loss != NULL)
    json_object_set_object_member (object, "loss", bench_loss_get_json (rounds->loss));
  if (opt_profile)
    {
      profile = json_object_new ();
      profile_stages (rounds, profile);
      json_object_set_object_member (object, "profile-ms", profile);
    }
  bench_print_object (object);
}

static void
print_shares (Rounds *rounds)
{
  const BenchCosts *whole = &rounds->engine->costs;

  bench_shares_print_head ();
  for (guint i = 0; i < rounds->variants->len; i++)
    {
      const Variant *variant = g_ptr_array_index (rounds->variants, i);

      if (variant->shares == NULL)
        continue;
      bench_shares_print (variant->shares, variant->sub_model,
                          count_prompt_ops (&variant->costs) / count_prompt_ops (whole),
                          count_decode_bytes (&variant->costs) / count_decode_bytes (whole));
    }
  bench_shares_print_switches (rounds->engine);
}

/* Also where nothing was measured, so that speed is never read without its price in sight. */
static void
print_loss (Rounds *rounds)
{
  printf ("\n");
  if (rounds->loss != NULL)
    bench_loss_print (rounds->loss);
  else if (opt_exact)
    printf ("loss of the arithmetic: none, --exact is what it would be measured against\n");
  else
    printf ("loss of the arithmetic: not measured, --text=FILE would print it\n");
}

static void
print_text (Rounds *rounds)
{
  const BenchEngine *engine = rounds->engine;
  g_autofree char *file = g_path_get_basename (opt_model);

  printf ("%s: %s, mostly %s, %.0f MiB; a token reads %.1f MB of weights and %.1f kB for each "
          "token before it\n%s kernels%s, %u thread%s\n",
          file, engine->hparams->architecture, llk_type_name (engine->costs.type),
          (double) engine->weights->bytes / (1 << 20), (double) engine->costs.row_bytes / 1e6,
          (double) engine->costs.position_bytes / 1e3, engine->kernels->name,
          opt_exact ? ", exact path" : "", engine->n_threads, bench_plural (engine->n_threads));
  bench_results_print (rounds->results);
  print_loss (rounds);
  if (opt_sub_models != NULL)
    print_shares (rounds);
  for (guint i = 0; i < rounds->variants->len; i++)
    {
      const Variant *variant = g_ptr_array_index (rounds->variants, i);

      if (variant->prefill != NULL)
        printf ("%s: %.4f %% of the products in floats; %.1f MB of weights and rows\n", variant->name,
                100 * bench_w8_prefill_get_shadow_share (variant->prefill),
                (double) bench_w8_prefill_get_bytes (variant->prefill) / 1e6);
    }
  if (opt_profile)
    profile_stages (rounds, NULL);
}

/* --- --- */

/* The loop for the numbers that the products of most weights are made of. */
static void
find_peak (Rounds *rounds)
{
  const char *kernels = rounds->engine->kernels->name;
  LlkType type = rounds->engine->costs.type;
  const char *number = type == LLK_F16 || type == LLK_BF16 ? "bf16" : "int8";
  const BenchSet *set = NULL;
  g_autofree char *name = NULL;

  if (!opt_exact && type != LLK_F32)
    rounds->peak = bench_set_find_peak (kernels, number, &set);
  if (rounds->peak == NULL)
    rounds->peak = bench_set_find_peak (kernels, "fp32", &set);
  name = g_strdup_printf ("%s %s: %s", set->name, rounds->peak->name, rounds->peak->instruction);
  rounds->results = bench_results_new (name);
}

static gboolean
open_all (Rounds  *rounds,
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
    .n_segments = (guint) MAX (opt_segments, 0),
    .has_levels = opt_sub_models != NULL,
  };
  g_autofree char *depth = g_strdup_printf (opt_depth > 0 ? " behind %d" : "", opt_depth);
  g_autofree char *batch = g_strdup_printf (opt_batch > 1 ? " in %d contexts" : "", opt_batch);
  g_autofree char *rows = g_strdup_printf (opt_rows > 1 ? " × %d%s" : "", opt_rows,
                                           opt_tree ? " in a tree" : "");

  rounds->variants = g_ptr_array_new_with_free_func (variant_free);
  rounds->peers = bench_peers_new (opt_peers, error);
  if (rounds->peers == NULL)
    return FALSE;
  rounds->engine = bench_engine_new (&config, error);
  if (rounds->engine == NULL || !add_variant (rounds, "", NULL, FALSE, error) ||
      (opt_density && !add_variant (rounds, "densities", NULL, TRUE, error)))
    return FALSE;
  if (opt_text != NULL && !opt_exact &&
      (rounds->loss = bench_loss_new (rounds->engine, opt_text, (guint) opt_loss_windows,
                                      error)) == NULL)
    return FALSE;
  for (guint i = 0; opt_sub_models != NULL && opt_sub_models[i] != NULL; i++)
    if (!add_sub_model (rounds, opt_sub_models[i], error))
      return FALSE;
  for (guint i = 0; opt_prefills != NULL && opt_prefills[i] != NULL; i++)
    if (!add_prefill (rounds, opt_prefills[i], error))
      return FALSE;
  for (guint i = 0; opt_kv != NULL && opt_kv[i] != NULL; i++)
    if (!add_variant (rounds, opt_kv[i], opt_kv[i], opt_density, error))
      return FALSE;

  rounds->memory = bench_memory_new (BENCH_PAGES_HUGE, CLAMP (rounds->engine->costs.row_bytes,
                                                              MIN_MEMORY, MAX_MEMORY),
                                     NULL, error);
  find_peak (rounds);
  rounds->prompt_test = g_strdup_printf ("prompt of %d%s", opt_prompt, depth);
  rounds->decode_test = g_strdup_printf ("decode of %d%s%s%s", opt_gen, rows, batch, depth);
  return rounds->memory != NULL;
}

static void
close_all (Rounds *rounds)
{
  g_ptr_array_unref (rounds->variants);
  g_clear_pointer (&rounds->engine, bench_engine_free);
  g_clear_pointer (&rounds->memory, bench_memory_free);
  g_clear_pointer (&rounds->results, bench_results_free);
  g_clear_pointer (&rounds->loss, bench_loss_free);
  g_clear_pointer (&rounds->peers, g_ptr_array_unref);
  g_free (rounds->prompt_test);
  g_free (rounds->decode_test);
}

static gboolean
run_model (Bench   *bench,
           GError **error)
{
  Rounds rounds = { NULL };
  gboolean in_turns = opt_beside != NULL || opt_turns >= 0;
  gboolean is_done;

  if (opt_model == NULL || opt_prompt < 0 || opt_gen < 0 || opt_prompt + opt_gen == 0 ||
      opt_depth < 0 || opt_batch < 1 || opt_rows < 1 || opt_rows > LLM_BATCH_MAX_ROWS ||
      opt_batch > LLM_BATCH_MAX_ROWS / opt_rows || (opt_tree && opt_rows > 64) ||
      opt_threads < 0 || opt_runs < 1)
    return bench_fail_usage (error, "model needs --model FILE, --runs of 1 or more, and numbers "
                                    "that are not negative");
  if (opt_peers != NULL && opt_rows > 1)
    return bench_fail_usage (error, "--peer goes without --rows");
  if (opt_loss_windows < 1)
    return bench_fail_usage (error, "--loss-windows is 1 or more");
  if (opt_segments < 0 || opt_segments > LLM_MAX_LEVELS)
    return bench_fail_usage (error, "--segments is 1 to " G_STRINGIFY (LLM_MAX_LEVELS));
  if (opt_sub_models != NULL && (in_turns || opt_segments > 1))
    return bench_fail_usage (error, "--sub-model goes without --beside and --segments");
  if (in_turns && (opt_peers != NULL || opt_kv != NULL || opt_prefills != NULL || opt_density))
    return bench_fail_usage (error, "--beside goes without --peer, --kv, --prefill and --density");

  is_done = open_all (&rounds, error) && (!in_turns || run_in_turns (&rounds, error));
  if (is_done)
    {
      if (!in_turns)
        warm_up (&rounds);
      for (int run = 0; run < opt_runs && !in_turns; run++)
        run_round (&rounds);
      /* behind all that is timed, which it would slow */
      is_done = rounds.loss == NULL ||
                bench_loss_measure (rounds.loss, rounds.engine, opt_model, error);
    }
  if (is_done)
    {
      if (bench->as_json)
        print_json (&rounds);
      else
        print_text (&rounds);
    }
  close_all (&rounds);
  return is_done;
}

const BenchCommand bench_model_command = {
  .name = "model",
  .summary = "how fast a model runs, beside the limits and other programs",
  .entries = entries,
  .run = run_model,
};
