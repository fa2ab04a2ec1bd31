/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "decoding/llm-buffer-sink.h"
#include "engine/llm-engine.h"
#include "weights/llm-repacked-cache.h"

static char *model, *system_text, *draft, *schema_file, *grammar_file, *regex, *tools_file, *suffix;
static char *thinking;
static gboolean is_raw, as_json, is_exact;
static double temperature = -1;
static int max_tokens, threads, logprobs = -1;
static gint64 seed = -1;
static char **options;
static gboolean has_reasoned;

/* texts are of type FILENAME: GLib would have strings in the locale's charset */
static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &model, N_("The GGUF file"), N_("FILE") },
  { "raw", 0, 0, G_OPTION_ARG_NONE, &is_raw,
    N_("Take the prompt as it is, without the model's template"), NULL },
  { "system", 's', 0, G_OPTION_ARG_FILENAME, &system_text, N_("System text"), N_("TEXT") },
  { "temperature", 't', 0, G_OPTION_ARG_DOUBLE, &temperature,
    N_("0 for the likeliest token each time"), N_("X") },
  { "max-tokens", 'n', 0, G_OPTION_ARG_INT, &max_tokens, N_("The longest answer"), "N" },
  { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, N_("Same seed, same text"), "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &threads, N_("Threads that compute"), "N" },
  { "exact", 0, 0, G_OPTION_ARG_NONE, &is_exact,
    N_("Compute in floats with the weights as the file has them"), NULL },
  { "draft", 0, 0, G_OPTION_ARG_FILENAME, &draft,
    N_("What guesses the next tokens: a smaller model, lookup, or off"), N_("FILE") },
  { "json-schema", 0, 0, G_OPTION_ARG_FILENAME, &schema_file,
    N_("Hold the answer to the JSON schema in FILE"), N_("FILE") },
  { "grammar", 0, 0, G_OPTION_ARG_FILENAME, &grammar_file,
    N_("Hold the answer to the grammar (GBNF) in FILE"), N_("FILE") },
  { "regex", 0, 0, G_OPTION_ARG_FILENAME, &regex,
    N_("Hold the answer to a regular expression"), N_("REGEX") },
  { "tools", 0, 0, G_OPTION_ARG_FILENAME, &tools_file,
    N_("Let the answer call the functions in FILE (JSON); calls are printed as JSON"), N_("FILE") },
  { "thinking", 0, 0, G_OPTION_ARG_FILENAME, &thinking,
    N_("Whether the model thinks before it answers: auto, off, on, low, medium, high, or for N tokens at "
       "most"),
    N_("MODE") },
  { "suffix", 0, 0, G_OPTION_ARG_FILENAME, &suffix,
    N_("Write what stands between the prompt and TEXT, with a model that can"), N_("TEXT") },
  { "logprobs", 0, 0, G_OPTION_ARG_INT, &logprobs,
    N_("Tell the log-probability of each token, and of so many in its place, as JSON"), "K" },
  { "option", 'o', 0, G_OPTION_ARG_FILENAME_ARRAY, &options, N_("Any option of the interface"),
    "KEY=VALUE" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("Text and results as one JSON object"), NULL },
  G_OPTION_ENTRY_NULL
};

/* What the end of the answer sets. */
typedef struct
{
  gboolean is_finished;
  int status;
} Answer;

static void
print_text (const char *text,
            gsize       length)
{
  if (has_reasoned)
    fputs ("\n\n", stderr);
  has_reasoned = FALSE;
  fwrite (text, 1, length, stdout);
  fflush (stdout);
}

/* Reasoning, which is for people: where there is a terminal, and dim there. */
static void
print_reasoning (const char *text,
                 gsize       length)
{
  if (!isatty (STDERR_FILENO))
    return;
  fprintf (stderr, "\033[2m%.*s\033[0m", (int) length, text);
  has_reasoned = TRUE;
}

static void
print_end (const char   *text,
           GVariant     *results,
           const GError *error,
           gpointer      data)
{
  Answer *answer = data;
  const char *calls = NULL, *told = NULL;

  answer->is_finished = TRUE;
  if (results != NULL)
    {
      g_variant_lookup (results, "tool-calls", "&s", &calls);
      g_variant_lookup (results, "logprobs", "&s", &told);
    }
  if (!as_json && (*text != '\0' || (error == NULL && calls == NULL)))
    putchar ('\n');
  if (!as_json && calls != NULL)
    puts (calls);
  if (!as_json && told != NULL)
    puts (told);
  if (error != NULL)
    {
      answer->status = tool_fail (error);
    }
  else if (as_json)
    {
      GVariantDict dict;

      g_variant_dict_init (&dict, results);
      g_variant_dict_insert (&dict, "version", "u", TOOL_JSON_VERSION);
      g_variant_dict_insert (&dict, "text", "s", text);
      tool_print_json (g_variant_dict_end (&dict), FALSE);
    }
}

/* KEY=VALUE with the value in GVariant's text format, or a plain string. */
static gboolean
add_option (GVariantDict *dict,
            const char   *text,
            GError      **error)
{
  const char *equals = strchr (text, '=');
  g_autofree char *key = NULL;
  g_autoptr(GVariant) value = NULL;

  if (equals == NULL || equals == text || !g_utf8_validate (text, -1, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--option %s: write KEY=VALUE", text);
      return FALSE;
    }
  key = g_strndup (text, equals - text);
  value = g_variant_parse (NULL, equals + 1, NULL, NULL, NULL);
  if (value == NULL)
    value = g_variant_ref_sink (g_variant_new_string (equals + 1));
  g_variant_dict_insert_value (dict, key, value);
  return TRUE;
}

static void
on_begun (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGeneration) generation =
    g_task_propagate_pointer (G_TASK (result), &error);

  if (generation == NULL)
    print_end ("", NULL, error, data);
}

static gboolean
is_draft_file (void)
{
  return !g_str_equal (draft, "off") && !g_str_equal (draft, "lookup");
}

/* Loads the model that guesses. */
static gboolean
set_draft (LlmEngine         *engine,
           const LlmSettings *settings,
           GError           **error)
{
  g_autoptr(LlmModel) small = llm_model_open (draft, error);
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();
  g_autoptr(LlmRepackedCache) cache = NULL;
  LlmWeights *weights;
  LlmDraftModel *guesser;

  if (small == NULL)
    return FALSE;
  cache = llm_repacked_cache_new (settings->cache_folder, FALSE, settings->system_cache_folder, 0);
  weights = llm_weights_new_repacked (llm_model_get_gguf (small), llm_model_get_hparams (small),
                                      NULL, cache, settings->n_threads, NULL, error);
  if (weights == NULL)
    return FALSE;
  guesser = llm_draft_model_new (small, weights, llk_ops_best (), settings->n_threads, ledger);
  llm_engine_set_draft (engine, guesser);
  llm_draft_model_unref (guesser);
  return TRUE;
}

/* Adds the text of @file (nullable) as option @key. */
static gboolean
add_file (GVariantDict *dict,
          const char   *key,
          const char   *file)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;

  if (file == NULL)
    return TRUE;
  if (!g_file_get_contents (file, &text, NULL, &error))
    {
      tool_fail (error);
      return FALSE;
    }
  if (!g_utf8_validate (text, -1, NULL))
    {
      tool_fail_usage (_("the text is not valid UTF-8"));
      return FALSE;
    }
  g_variant_dict_insert (dict, key, "s", text);
  return TRUE;
}

/* The options of the call, as a{sv}; NULL after a message. */
static GVariant *
make_options (void)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GError) error = NULL;

  for (guint i = 0; options != NULL && options[i] != NULL; i++)
    if (!add_option (&dict, options[i], &error))
      {
        tool_fail (error);
        return NULL;
      }
  if (system_text != NULL && !g_utf8_validate (system_text, -1, NULL))
    {
      tool_fail_usage (_("the text is not valid UTF-8"));
      return NULL;
    }
  if (!add_file (&dict, "schema", schema_file) || !add_file (&dict, "grammar", grammar_file)
      || !add_file (&dict, "tools", tools_file))
    return NULL;
  if ((regex != NULL && !g_utf8_validate (regex, -1, NULL))
      || (suffix != NULL && !g_utf8_validate (suffix, -1, NULL)))
    {
      tool_fail_usage (_("the text is not valid UTF-8"));
      return NULL;
    }
  if (regex != NULL)
    g_variant_dict_insert (&dict, "regex", "s", regex);
  if (thinking != NULL && !g_utf8_validate (thinking, -1, NULL))
    {
      tool_fail_usage (_("the text is not valid UTF-8"));
      return NULL;
    }
  if (thinking != NULL)
    g_variant_dict_insert (&dict, "thinking", "s", thinking);
  if (suffix != NULL)
    g_variant_dict_insert (&dict, "suffix", "s", suffix);
  if (logprobs >= 0)
    g_variant_dict_insert (&dict, "logprobs", "u", logprobs);
  if (is_raw)
    g_variant_dict_insert (&dict, "raw", "b", TRUE);
  if (system_text != NULL)
    g_variant_dict_insert (&dict, "system", "s", system_text);
  if (temperature >= 0)
    g_variant_dict_insert (&dict, "temperature", "d", temperature);
  if (draft != NULL)
    g_variant_dict_insert (&dict, "draft", "s", is_draft_file () ? "auto" : draft);
  if (max_tokens > 0)
    g_variant_dict_insert (&dict, "max-tokens", "u", max_tokens);
  if (seed >= 0)
    g_variant_dict_insert (&dict, "seed", "t", seed);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmCallOptions) parsed = NULL;
  g_autoptr(LlmEngine) engine = NULL;
  g_autoptr(LlmCaller) caller = llm_caller_new (0, "", "", LLM_CALLER_HOST);
  g_autoptr(LlmSink) sink = NULL;
  g_autofree char *prompt = NULL;
  g_autoptr(GVariant) dict = NULL;
  LlmSettings *settings;
  Answer answer = { FALSE, TOOL_OK };

  if (model == NULL)
    return tool_fail_usage (_("--model FILE is missing"));
  dict = make_options ();
  if (dict == NULL)
    return TOOL_USAGE;

  settings = llm_settings_new ();
  settings->model_file = g_steal_pointer (&model);
  settings->n_threads = threads;
  settings->is_exact = is_exact;
  llm_settings_set_cache (settings, FALSE);
  engine = llm_engine_new (settings);
  if (draft != NULL && is_draft_file () && !set_draft (engine, settings, &error))
    return tool_fail (error);
  parsed = llm_call_options_parse (dict, LLMSVC_CALL_COMPLETE, llm_engine_get_features (engine),
                                   &error);
  if (parsed == NULL)
    return tool_fail_usage (error->message);
  prompt = tool_read_text (arguments[0], &error);
  if (prompt == NULL)
    return tool_fail (error);
  if (!g_utf8_validate (prompt, -1, NULL))
    return tool_fail_usage (_("the prompt is not valid UTF-8"));

  sink = llm_buffer_sink_new (as_json ? NULL : print_text, print_end, &answer, NULL);
  if (!as_json)
    llm_buffer_sink_set_reasoning (sink, print_reasoning);
  llm_engine_start (engine);
  llm_engine_complete_async (engine, caller, prompt, parsed, sink, on_begun, &answer);
  while (!answer.is_finished)
    g_main_context_iteration (NULL, TRUE);
  llm_engine_stop (engine);
  return answer.status;
}

const ToolCommand tool_generate = {
  "generate", N_("Answer a prompt"), N_("PROMPT"),
  N_("Answers PROMPT (- reads it from standard input)."), 1, entries, run,
};
