/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whether guesses pay: the time of greedy answers with and without, by turns, on an executor that
 * learns what steps cost, as in the service. No test, as it measures:
 *
 *   draft-time --draft DRAFT.gguf [--prompts N] MODEL.gguf TASKS.jsonl…
 *
 * For each file, and for texts of random words: the sum over all prompts of the median of three,
 * plain beside each source, and the slowest prompt; and the time of a pass, all that lies between two
 * included.
 */

#include "draft-rig.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include "decoding/draft/llm-lookup-source.h"

#define N_TIMES 3

/* The last: not while steps wait for weights. */
enum { PLAIN, LOOKUP, MODEL, BETWEEN, N_MODES };
static const char *const mode_names[N_MODES] = { "plain", "lookup", "model", "between" };

static char *draft_path, *cache_path;
static int n_prompts = 20, n_tokens = 64, n_threads = 1;
static char **paths;

static const GOptionEntry entries[] = {
  { "draft", 0, 0, G_OPTION_ARG_FILENAME, &draft_path, "The draft model", "FILE" },
  { "stream", 0, 0, G_OPTION_ARG_FILENAME, &cache_path,
    "All weights stream, from prepared ones that are kept here", "FOLDER" },
  { "prompts", 0, 0, G_OPTION_ARG_INT, &n_prompts, "Prompts of each file", "N" },
  { "tokens", 0, 0, G_OPTION_ARG_INT, &n_tokens, "Tokens of each answer", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &n_threads, "Threads that compute", "N" },
  { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &paths, NULL, "MODEL TASKS…" },
  G_OPTION_ENTRY_NULL
};

/* (element-type utf8) (transfer full): of a file with an object a line; else random words. */
static GPtrArray *
read_prompts (const char *path)
{
  GPtrArray *prompts = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;
  g_autoptr(GRand) rand = g_rand_new_with_seed (1);

  if (path != NULL && !g_file_get_contents (path, &text, NULL, NULL))
    g_error ("%s can't be read", path);
  lines = g_strsplit (text != NULL ? text : "", "\n", -1);
  for (guint i = 0; prompts->len < (guint) n_prompts && (path == NULL || lines[i] != NULL); i++)
    {
      g_autoptr(JsonNode) node = path != NULL && *lines[i] != '\0'
                                   ? json_from_string (lines[i], NULL)
                                   : NULL;
      GString *words = NULL;

      if (node != NULL)
        g_ptr_array_add (prompts, g_strdup (json_object_get_string_member (
                                    json_node_get_object (node), "prompt")));
      if (path != NULL)
        continue;
      words = g_string_new (NULL);
      while (words->len < 400)
        {
          for (gint32 n = g_rand_int_range (rand, 2, 9); n > 0; n--)
            g_string_append_c (words, (char) ('a' + g_rand_int_range (rand, 0, 26)));
          g_string_append_c (words, ' ');
        }
      g_ptr_array_add (prompts, g_string_free (words, FALSE));
    }
  return prompts;
}

/* µs of an answer from its first token on. */
static double
answer (Rig            *rig,
        LlmDraftModel  *draft,
        guint           mode,
        LlmDraftRecord *record,
        const char     *prompt,
        guint          *counts)
{
  const LlmSamplerConfig sampler = { .temperature = 0, .repeat_penalty = 1 };
  const LlmGrowthConfig between = { .by_cost = TRUE, .due = 1 };
  LlmDecoder *decoder =
    llm_decoder_new_plain (&sampler, llm_model_get_hparams (rig->models[0])->n_vocab);
  Outcome outcome;
  double us;

  if (mode != PLAIN)
    decoder = llm_decoder_new_drafting (
      decoder, mode == LOOKUP ? llm_lookup_source_new () : llm_draft_model_new_source (draft),
      mode == BETWEEN ? &between : &LLM_GROWTH_CONFIG_BEST, record);
  rig_submit (rig, 0, decoder, prompt, (guint) n_tokens, 0, &outcome);
  rig_wait_for (rig, &outcome.is_done);
  us = outcome.tpot_ms * 1000 * (outcome.tokens->len - 1);
  counts[0] += outcome.n_drafted;
  counts[1] += outcome.n_accepted;
  counts[2] += outcome.n_passes;
  counts[3] += outcome.n_kept;
  outcome_clear (&outcome);
  return us;
}

static int
compare (gconstpointer a,
         gconstpointer b)
{
  double d = *(const double *) a - *(const double *) b;

  return d < 0 ? -1 : d > 0;
}

static void
measure (Rig             *rig,
         LlmDraftModel   *draft,
         LlmDraftRecord **records,
         const char      *path)
{
  g_autoptr(GPtrArray) prompts = read_prompts (path);
  double sums[N_MODES] = { 0 }, worst[N_MODES] = { 0 }, all[N_MODES] = { 0 };
  guint counts[N_MODES][4] = { 0 };

  for (guint i = 0; i < prompts->len; i++)
    {
      double us[N_MODES][N_TIMES];

      for (guint t = 0; t < N_TIMES; t++)
        for (guint m = 0; m < N_MODES; m++)
          {
            us[m][t] = answer (rig, draft, m, records[m], g_ptr_array_index (prompts, i), counts[m]);
            all[m] += us[m][t];
          }
      for (guint m = 0; m < N_MODES; m++)
        {
          qsort (us[m], N_TIMES, sizeof **us, compare);
          sums[m] += us[m][N_TIMES / 2];
          worst[m] = MAX (worst[m], us[m][N_TIMES / 2] / MAX (us[PLAIN][N_TIMES / 2], 1));
        }
    }
  for (guint m = 0; m < N_MODES; m++)
    printf ("%-40s %-7s %6.3f x plain (%.0f ms); slowest prompt %.3f x; %u of %u guesses right, %u "
            "passes, %u guesses while they waited, %.1f ms a pass\n", path != NULL ? path : "random words", mode_names[m], sums[PLAIN] / sums[m],
            sums[PLAIN] / 1000, worst[m] > 0 ? 1 / worst[m] : 0, counts[m][1], counts[m][0],
            counts[m][2], counts[m][3], all[m] / counts[m][2] / 1000);
}

int
main (int    argc,
      char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmDraftRecord *records[N_MODES];
  LlmDraftModel *draft;
  guint ignored[4];
  Rig rig;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    g_error ("%s", error->message);
  if (paths == NULL || draft_path == NULL)
    g_error ("Name a model, files of tasks, and the draft model with --draft");
  rig_init_with (&rig, paths[0], (guint) n_threads, NULL);
  if (cache_path != NULL)
    {
      rig_load_from (&rig, 0, llm_repacked_cache_new (cache_path, FALSE, NULL, 0));
      llm_repacked_wait_for_all ();
      llm_executor_keep_weights (rig.executor, 0);
    }
  else
    rig_load (&rig, 0);
  rig.n_ctx = llm_model_get_hparams (rig.models[0])->n_ctx;
  rig.has_markup = TRUE;
  draft = draft_rig_open (&rig, draft_path, (guint) n_threads);
  for (guint m = 0; m < N_MODES; m++)
    records[m] = llm_draft_record_new ();
  /* what steps cost is known of a service that has run for a while */
  answer (&rig, draft, PLAIN, NULL, "The band was formed in", ignored);
  for (guint i = 1; paths[i] != NULL; i++)
    measure (&rig, draft, records, paths[i]);
  measure (&rig, draft, records, NULL);
  for (guint m = 0; m < N_MODES; m++)
    llm_draft_record_unref (records[m]);
  llm_draft_model_unref (draft);
  rig_clear (&rig);
  return 0;
}
