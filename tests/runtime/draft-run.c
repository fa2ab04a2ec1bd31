/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Greedy answers of models in many number formats, without guesses, with those of the context's own
 * text and with those of a draft model: every token and every byte is the same (C5). As a test a
 * sample; by hand as long as it is to be:
 *
 *   draft-run --tokens 1000000 --log FILE --draft DRAFT.gguf MODEL.gguf…
 *
 * The log has a line for each group of answers that were the same. With the log of a run that was
 * cut off it goes on behind that.
 */

#include "draft-rig.h"

#include <stdio.h>
#include <string.h>

#include "decoding/draft/llm-lookup-source.h"

/* Answers at once, and the most of their tokens. */
#define N_TOGETHER 4
#define N_TOKENS 192
#define SOURCES 2

static const char *const source_names[SOURCES] = { "lookup", "model" };
static const char *const beginnings[] = {
  "I want a restaurant in ", "Find me a movie with ", "The city of ", "What is the weather in ",
  "Book a table for four people in ", "List: {\"name\": \"", "The band was formed in ",
  "He was born in ", "Play some music by ", "The school is located in ", "def main(): print(\"",
  "Add a reminder for ", "Set an alarm for ", "The film was directed by ",
};
static const char *const endings[] = {
  "San Jose.", "Paris, ", "the north of England, ", "1984. ", "Anna\", \"age\": 31}, {\"name\":",
  "Monday at seven and", "New York City, New York.", "the United States, ", "April 12, ",
  "the river and", "his mother. ", "seven o'clock. Please ",
};

static char *log_path, *draft_path;
static gint64 n_wanted = 3000;
static int n_threads = 1;
static char **model_paths;

static const GOptionEntry entries[] = {
  { "tokens", 0, 0, G_OPTION_ARG_INT64, &n_wanted, "Tokens to compare, in all", "N" },
  { "log", 0, 0, G_OPTION_ARG_FILENAME, &log_path, "Where to note them, and go on", "FILE" },
  { "draft", 0, 0, G_OPTION_ARG_FILENAME, &draft_path, "The draft model", "FILE" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &n_threads, "Threads that compute", "N" },
  { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &model_paths, NULL, "MODEL…" },
  G_OPTION_ENTRY_NULL
};

/* What was the same, of a model and a source. */
typedef struct
{
  guint64 n_tokens, n_bytes, n_drafted, n_accepted, n_passes;
} Counts;

/* --- the log --- */

static void
count_line (Counts     *counts,
            const char *line,
            guint       n_models,
            guint      *round)
{
  guint found_round, model, source;
  Counts more;

  if (sscanf (line,
              "%u %u %u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
              " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT,
              &found_round, &model, &source, &more.n_tokens, &more.n_bytes, &more.n_drafted,
              &more.n_accepted, &more.n_passes) != 8
      || model >= n_models || source >= SOURCES)
    return;
  counts += model * SOURCES + source;
  counts->n_tokens += more.n_tokens;
  counts->n_bytes += more.n_bytes;
  counts->n_drafted += more.n_drafted;
  counts->n_accepted += more.n_accepted;
  counts->n_passes += more.n_passes;
  *round = MAX (*round, found_round + 1);
}

/* Returns the first round that is not begun. A last line that was cut off is ended, and counts
 * nothing. */
static guint
open_log (Counts *counts,
          guint   n_models,
          FILE  **file)
{
  g_autofree char *text = NULL;
  g_autofree char *header = g_strjoinv (" ", model_paths);
  g_auto(GStrv) lines = NULL;
  guint round = 0;

  *file = NULL;
  if (log_path == NULL)
    return 0;
  if (g_file_get_contents (log_path, &text, NULL, NULL) && *text != '\0')
    {
      lines = g_strsplit (text, "\n", -1);
      if (strcmp (lines[0], header) != 0)
        g_error ("%s is the log of other models", log_path);
      for (guint i = 1; lines[i] != NULL && lines[i + 1] != NULL; i++)
        count_line (counts, lines[i], n_models, &round);
    }
  *file = fopen (log_path, "a");
  if (*file == NULL)
    g_error ("%s can't be written", log_path);
  if (text == NULL || *text == '\0')
    fprintf (*file, "%s\n", header);
  else if (text[strlen (text) - 1] != '\n')
    fputc ('\n', *file);
  return round;
}

static void
print_counts (const Counts *counts,
              guint         n_models)
{
  Counts sum = { 0 };

  for (guint i = 0; i < n_models * SOURCES; i++)
    {
      g_autofree char *name = g_path_get_basename (model_paths[i / SOURCES]);

      printf ("# %-36s %-6s %8" G_GUINT64_FORMAT " tokens, %9" G_GUINT64_FORMAT " bytes the same; "
              "%" G_GUINT64_FORMAT " guesses, %" G_GUINT64_FORMAT " right, %" G_GUINT64_FORMAT
              " passes\n", name, source_names[i % SOURCES], counts[i].n_tokens, counts[i].n_bytes,
              counts[i].n_drafted, counts[i].n_accepted, counts[i].n_passes);
      sum.n_tokens += counts[i].n_tokens;
      sum.n_bytes += counts[i].n_bytes;
    }
  printf ("# all: %" G_GUINT64_FORMAT " tokens, %" G_GUINT64_FORMAT " bytes\n", sum.n_tokens,
          sum.n_bytes);
}

static guint64
count_all (const Counts *counts,
           guint         n_models)
{
  guint64 sum = 0;

  for (guint i = 0; i < n_models * SOURCES; i++)
    sum += counts[i].n_tokens;
  return sum;
}

/* --- answers --- */

/* A row costs a twentieth of what a step of one does, however long they take here: a text has
 * guesses, and the same ones each time. */
static void
set_costs (LlmCommand *base)
{
  LlmRunner *runner = g_ptr_array_index (base->executor->runners, 0);
  LlmCostCurve *curve = &runner->scheduler->costs.curves[LLM_COST_DECODE];

  for (guint i = 0; i < LLM_COST_POINTS; i++)
    {
      curve->us[i] = 1000 + 50 * llm_cost_rows[LLM_COST_DECODE][i];
      curve->n_seen[i] = 1;
    }
  curve->depth_us = 0.01;
  curve->n_steps = 1000;
}

/* The answers to the questions of a round, with @source, or SOURCES for none. */
static void
answer (Rig           *rig,
        LlmDraftModel *draft,
        guint          round,
        guint          source,
        Outcome       *outcomes)
{
  for (guint i = 0; i < N_TOGETHER; i++)
    {
      g_autoptr(GRand) rand = g_rand_new_with_seed (round * N_TOGETHER + i);
      g_autoptr(GString) prompt = g_string_new (NULL);
      LlmDecoder *decoder;
      gint32 n = g_rand_int_range (rand, 1, 4);

      for (gint32 j = 0; j < n; j++)
        g_string_append_printf (
          prompt, "%s%s", beginnings[g_rand_int_range (rand, 0, G_N_ELEMENTS (beginnings))],
          endings[g_rand_int_range (rand, 0, G_N_ELEMENTS (endings))]);
      /* greedy texts soon turn in circles: a penalty keeps every other one from it */
      rig->penalty = (round + i) % 2 == 0 ? 1 : 1.15f;
      decoder = rig_new_plain (rig, 0, 0, 0);
      if (source < SOURCES)
        decoder = llm_decoder_new_drafting (
          decoder, source == 0 ? llm_lookup_source_new () : llm_draft_model_new_source (draft),
          &LLM_GROWTH_CONFIG_BEST, NULL);
      rig_submit (rig, 0, decoder, prompt->str, N_TOKENS, 0, &outcomes[i]);
    }
  for (guint i = 0; i < N_TOGETHER; i++)
    rig_wait_for (rig, &outcomes[i].is_done);
}

static void
compare (const char    *path,
         guint          round,
         guint          source,
         const Outcome *found,
         const Outcome *expected,
         Counts        *counts)
{
  for (guint i = 0; i < N_TOGETHER; i++)
    {
      if (found[i].finish != expected[i].finish
          || found[i].tokens->len != expected[i].tokens->len
          || memcmp (found[i].tokens->data, expected[i].tokens->data,
                     found[i].tokens->len * sizeof (gint32)) != 0
          || strcmp (found[i].text, expected[i].text) != 0)
        g_error ("%s, round %u, answer %u: with guesses (%s) the text is “%s”, without “%s”", path,
                 round, i, source_names[source], found[i].text, expected[i].text);
      counts->n_tokens += found[i].tokens->len;
      counts->n_bytes += strlen (found[i].text);
      counts->n_drafted += found[i].n_drafted;
      counts->n_accepted += found[i].n_accepted;
      counts->n_passes += found[i].n_passes;
    }
}

/* A round of one model: what was the same joins @counts, and the log. */
static void
run_model (guint   model,
           guint   round,
           Counts *counts,
           FILE   *log)
{
  Outcome plain[N_TOGETHER], found[N_TOGETHER];
  LlmDraftModel *draft;
  Rig rig;

  rig_init_with (&rig, model_paths[model], (guint) n_threads, NULL);
  rig_load (&rig, 0);
  llm_executor_send (rig.executor, set_costs);
  draft = draft_rig_open (&rig, draft_path, 1);
  answer (&rig, NULL, round, SOURCES, plain);
  for (guint source = 0; source < SOURCES; source++)
    {
      Counts *sum = &counts[model * SOURCES + source];
      Counts before = *sum;

      answer (&rig, draft, round, source, found);
      compare (model_paths[model], round, source, found, plain, sum);
      for (guint i = 0; i < N_TOGETHER; i++)
        outcome_clear (&found[i]);
      if (log != NULL)
        {
          fprintf (log,
                   "%u %u %u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
                   " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n",
                   round, model, source, sum->n_tokens - before.n_tokens,
                   sum->n_bytes - before.n_bytes, sum->n_drafted - before.n_drafted,
                   sum->n_accepted - before.n_accepted, sum->n_passes - before.n_passes);
          fflush (log);
        }
    }
  for (guint i = 0; i < N_TOGETHER; i++)
    outcome_clear (&plain[i]);
  llm_draft_model_unref (draft);
  rig_clear (&rig);
}

int
main (int    argc,
      char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GError) error = NULL;
  g_autofree Counts *counts = NULL;
  guint n_models, round;
  FILE *log;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    g_error ("%s", error->message);
  if (model_paths == NULL || draft_path == NULL)
    g_error ("Name models, and the draft model with --draft");
  n_models = g_strv_length (model_paths);
  counts = g_new0 (Counts, n_models * SOURCES);
  llm_clock_set_for_test (g_get_monotonic_time ());
  for (round = open_log (counts, n_models, &log);
       count_all (counts, n_models) < (guint64) n_wanted; round++)
    for (guint model = 0; model < n_models; model++)
      run_model (model, round, counts, log);
  print_counts (counts, n_models);
  /* without a guess nothing was shown */
  for (guint i = 0; i < n_models * SOURCES; i++)
    if (counts[i].n_accepted == 0)
      g_error ("%s: not one guess was right", model_paths[i / SOURCES]);
  if (log != NULL)
    fclose (log);
  return 0;
}
