/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What it costs to hold answers to schemas: to compile one, and to find a token's mask. The named
 * set is schemas/ beside this file; --suite adds the schemas of the JSON Schema test suite that are
 * supported, as one. Answers are made by chance of tokens that the masks allow, always the same.
 * Each schema is compiled anew, as its first call does; then all of its masks are timed, those that
 * come first included. Last comes what the choice of a token takes in all, held to the schemas and
 * free, of made-up logits.
 */

#include "bench.h"

#include <string.h>
#include <time.h>

#include "constraints/llm-constraint-cache.h"
#include "constraints/llm-constraint.h"
#include "decoding/llm-decoder.h"

#define ANSWERS 24
#define SUITE_ANSWERS 2
#define MAX_TOKENS 200
/* Each token of an answer has the made-up logits from another place on. */
#define N_PLACES 4096

static char *suite_folder;
static gboolean is_cold;

static const GOptionEntry entries[] = {
  { "suite", 0, 0, G_OPTION_ARG_FILENAME, &suite_folder,
    "Also the schemas of the JSON Schema test suite, in DIR", "DIR" },
  { "cold", 0, 0, G_OPTION_ARG_NONE, &is_cold, "Without the masks that are found ahead", NULL },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  Bench *bench;
  LlmTokenTrie *tokens;
  LlmTokenizer *tokenizer;
  GRand *random;
  GRand *noise;           /* of the logits: what masks are of does not depend on it */
  guint n_refused;
  BenchFigure *all;       /* (owned): masks of all */
  float *logits;          /* (owned) [n_tokens + N_PLACES] */
  BenchFigure *held;      /* (owned): choices */
  BenchFigure *free;      /* likewise */
} Run;

static double
read_us (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

/* (nullable): one of the tokens in @bits. */
static gint32
choose (Run           *run,
        const guint64 *bits,
        guint          n_words)
{
  guint n = 0;
  guint chosen;

  for (guint i = 0; i < n_words; i++)
    n += (guint) __builtin_popcountll (bits[i]);
  chosen = n > 0 ? (guint) g_rand_int_range (run->random, 0, (gint32) n) : 0;
  for (guint i = 0; i < n_words; i++)
    for (guint64 word = bits[i]; word != 0; word &= word - 1)
      if (chosen-- == 0)
        return (gint32) (i * 64 + (guint) __builtin_ctzll (word));
  return -1;
}

static void
answer (Run          *run,
        LlmMaskTable *table,
        BenchFigure  *masks)
{
  g_autoptr(LlmConstraint) constraint = llm_constraint_new (table, FALSE);
  guint n_words = llm_constraint_get_n_words (constraint);
  g_autofree guint64 *bits = g_new (guint64, n_words);

  for (guint n = 0; n < MAX_TOKENS; n++)
    {
      double before, after;
      gint32 token;

      before = read_us ();
      llm_constraint_compute_mask (constraint, bits);
      after = read_us ();
      token = choose (run, bits, n_words);
      if (token < 0 || llm_tokenizer_ends_answer (run->tokenizer, token))
        return;
      bench_figure_add (masks, after - before);
      llm_constraint_accept (constraint, token);
    }
}

/* An answer as a request has it, with an end within its tokens. */
static void
choose_all (Run         *run,
            LlmDecoder  *decoder,
            BenchFigure *figure)
{
  guint n;

  for (n = 0; n < MAX_TOKENS; n++)
    {
      const float *logits = run->logits + n * 19 % N_PLACES;
      double before = read_us ();
      gint32 token = decoder->class->consume (decoder, logits, NULL);

      bench_figure_add (figure, read_us () - before);
      if (token < 0 || llm_tokenizer_ends_answer (run->tokenizer, token))
        break;
    }
  llm_decoder_free (decoder);
}

static void
measure_choices (Run          *run,
                 LlmMaskTable *table)
{
  /* the most probable one: other sampling takes longer, the more so without masks */
  const LlmSamplerConfig config = { .top_p = 1, .repeat_penalty = 1 };
  guint n = run->tokens->n_tokens;

  for (guint i = 0; i < n + N_PLACES; i++)
    run->logits[i] = (float) g_rand_double_range (run->noise, -8, 8);
  choose_all (run, llm_decoder_new_constrained (&config, n, llm_constraint_new (table, FALSE),
                                                MAX_TOKENS),
              run->held);
  choose_all (run, llm_decoder_new_plain (&config, n), run->free);
}

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double x = *(const double *) a;
  double y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  return strcmp (*(char *const *) a, *(char *const *) b);
}

static void
add_mean (Run         *run,
          BenchFigure *samples,
          const char  *name)
{
  BenchFigure *figure = bench_figure_new (name, "µs");
  double sum = 0;

  for (guint i = 0; i < samples->samples->len; i++)
    sum += g_array_index (samples->samples, double, i);
  bench_figure_add (figure, sum / MAX (samples->samples->len, 1));
  g_ptr_array_add (run->bench->figures, figure);
}

static void
add_share (Run         *run,
           BenchFigure *masks,
           const char  *name,
           double       share)
{
  g_autoptr(GArray) sorted = g_array_copy (masks->samples);
  g_autofree char *title = g_strdup_printf ("%s: mask, %g %%", name, share * 100);
  BenchFigure *figure = bench_figure_new (title, "µs");

  g_array_sort (sorted, compare_doubles);
  if (sorted->len > 0)
    bench_figure_add (figure,
                      g_array_index (sorted, double, (guint) (share * (sorted->len - 1))));
  g_ptr_array_add (run->bench->figures, figure);
}

/* The masks of a schema; NULL if it is refused. Takes no time of the suite's compiling. */
static gboolean
measure (Run         *run,
         const char  *schema,
         BenchFigure *compile,
         BenchFigure *masks,
         guint        n_answers)
{
  gint64 start = g_get_monotonic_time ();
  g_autoptr(LlmGrammar) grammar =
    llm_constraint_compile (NULL, LLM_CONSTRAINT_JSON_SCHEMA, schema, NULL);
  g_autoptr(LlmMaskTable) table = NULL;

  if (grammar == NULL)
    {
      run->n_refused++;
      return FALSE;
    }
  table = llm_mask_table_new (grammar, run->tokens, NULL);
  if (!is_cold)
    llm_mask_table_warm (table);
  bench_figure_add (compile, (double) (g_get_monotonic_time () - start) / 1e3);
  for (guint i = 0; i < n_answers; i++)
    answer (run, table, masks);
  for (guint i = 0; i < n_answers; i++)
    measure_choices (run, table);
  return TRUE;
}

static void
finish (Run         *run,
        const char  *name,
        BenchFigure *compile,
        BenchFigure *masks)
{
  g_array_append_vals (run->all->samples, masks->samples->data, masks->samples->len);
  g_ptr_array_add (run->bench->figures, compile);
  add_share (run, masks, name, 0.5);
  add_share (run, masks, name, 0.99);
  bench_figure_free (masks);
}

static gboolean
measure_file (Run         *run,
              const char  *folder,
              const char  *file,
              GError     **error)
{
  g_autofree char *path = g_build_filename (folder, file, NULL);
  g_autofree char *name = g_strndup (file, strlen (file) - strlen (".json"));
  g_autofree char *title = g_strconcat (name, ": compiled", NULL);
  g_autofree char *schema = NULL;
  BenchFigure *compile = bench_figure_new (title, "ms");
  BenchFigure *masks = bench_figure_new (name, "µs");

  if (!g_file_get_contents (path, &schema, NULL, error))
    return FALSE;
  measure (run, schema, compile, masks, ANSWERS);
  finish (run, name, compile, masks);
  return TRUE;
}

static gboolean
measure_folder (Run     *run,
                GError **error)
{
  g_autofree char *path = g_build_filename (BENCH_FOLDER, "masks", "schemas", NULL);
  g_autoptr(GDir) folder = g_dir_open (path, 0, error);
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const char *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    if (!measure_file (run, path, g_ptr_array_index (names, i), error))
      return FALSE;
  return folder != NULL;
}

static gboolean
measure_suite (Run     *run,
               GError **error)
{
  g_autoptr(GDir) folder = g_dir_open (suite_folder, 0, error);
  BenchFigure *compile = bench_figure_new ("suite: compiled", "ms");
  BenchFigure *masks = bench_figure_new ("suite", "µs");
  const char *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *path = g_build_filename (suite_folder, name, NULL);
      g_autoptr(JsonParser) parser = json_parser_new ();
      JsonArray *cases;

      if (!g_str_has_suffix (name, ".json"))
        continue;
      if (!json_parser_load_from_file (parser, path, error))
        return FALSE;
      cases = json_node_get_array (json_parser_get_root (parser));
      for (guint i = 0; i < json_array_get_length (cases); i++)
        {
          JsonObject *entry = json_array_get_object_element (cases, i);
          g_autofree char *schema =
            json_to_string (json_object_get_member (entry, "schema"), FALSE);

          measure (run, schema, compile, masks, SUITE_ANSWERS);
        }
    }
  finish (run, "suite", compile, masks);
  return folder != NULL;
}

static LlmTokenizer *
open_tokenizer (const char *path,
                GError    **error)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, error);

  return gguf != NULL ? llm_tokenizer_new (gguf, error) : NULL;
}

static gboolean
run_masks (Bench   *bench,
           GError **error)
{
  g_autoptr(LlmTokenizer) tokenizer = NULL;
  g_autoptr(LlmTokenTrie) tokens = NULL;
  g_autoptr(GRand) random = g_rand_new_with_seed (22);
  g_autoptr(GRand) noise = g_rand_new_with_seed (22);
  BenchFigure *trie = bench_figure_new ("vocabulary: trie", "ms");
  Run run = { .bench = bench, .random = random, .noise = noise };
  gboolean is_done;
  gint64 start;

  if (bench->argc != 2)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "a model file is wanted");
      return FALSE;
    }
  tokenizer = open_tokenizer (bench->argv[1], error);
  if (tokenizer == NULL)
    return FALSE;
  start = g_get_monotonic_time ();
  tokens = llm_token_trie_new (tokenizer);
  bench_figure_add (trie, (double) (g_get_monotonic_time () - start) / 1e3);
  g_ptr_array_add (bench->figures, trie);
  run.tokenizer = tokenizer;
  run.tokens = tokens;
  run.all = bench_figure_new ("all", "µs");
  run.logits = g_new (float, tokens->n_tokens + N_PLACES);
  run.held = bench_figure_new ("held", "µs");
  run.free = bench_figure_new ("free", "µs");
  is_done = measure_folder (&run, error)
            && (suite_folder == NULL || measure_suite (&run, error));
  add_share (&run, run.all, "all", 0.5);
  add_share (&run, run.all, "all", 0.99);
  add_mean (&run, run.held, "choice, held: mean");
  add_mean (&run, run.free, "choice, free: mean");
  bench_figure_free (run.all);
  bench_figure_free (run.held);
  bench_figure_free (run.free);
  g_free (run.logits);
  return is_done;
}

const BenchCommand bench_masks_command = {
  "masks", NULL, entries, "MODEL",
  "Times the masks of answers that are held to schemas, with the vocabulary of MODEL.",
  run_masks,
};
