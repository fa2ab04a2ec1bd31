/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl ask: from arguments and the standard input to a question, and its answer to
 * stdout as it comes. An answer that a restart of the service cut off is asked for
 * again once, where that can't do the turn twice or write another text after half of
 * the first.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "llmctl/chat/llmctl-answer.h"
#include "llmctl/chat/llmctl-call-options.h"
#include "llmctl/bus/llmctl-contexts.h"
#include "llmctl/output/llmctl-progress.h"
#include "llmctl/output/llmctl-term.h"
#include "llmctl/bus/llmctl-wait.h"

/* The service's own limit is lower or the administrator's choice. */
#define MAX_STDIN_BYTES (16 * 1024 * 1024)

static char *context_name;
static char *system_text;
static char *logprobs;
static char *suffix;
static gboolean continues;
static gboolean is_raw;
static gboolean shows_thinking;
static gboolean is_verbose;
static gboolean hides_progress;

/* Texts are of type FILENAME: GLib would have strings in the locale's charset. */
static const GOptionEntry options[] = {
  { "context", 'c', 0, G_OPTION_ARG_FILENAME, &context_name,
    N_("Go on in the context of this name; it is made when it is not there"), N_("NAME") },
  { "system", 's', 0, G_OPTION_ARG_FILENAME, &system_text,
    N_("The system text of a new context"), N_("TEXT") },
  { "show-thinking", 0, 0, G_OPTION_ARG_NONE, &shows_thinking,
    N_("Print what it thinks before the answer, as on a terminal"), NULL },
  { "logprobs", 0, 0, G_OPTION_ARG_STRING, &logprobs,
    N_("Tell the log-probability of each token, and of so many in its place, as JSON"), N_("K") },
  { "continue", 0, 0, G_OPTION_ARG_NONE, &continues,
    N_("Go on with the last answer of the context, instead of a prompt"), NULL },
  { "suffix", 0, 0, G_OPTION_ARG_FILENAME, &suffix,
    N_("Write what stands between the prompt and TEXT, with a model that can; not streamed"),
    N_("TEXT") },
  { "raw", 0, 0, G_OPTION_ARG_NONE, &is_raw,
    N_("Take the prompt as it is, without the model's template; not streamed"), NULL },
  { "no-progress", 0, 0, G_OPTION_ARG_NONE, &hides_progress,
    N_("Draw no line of progress on the terminal"), NULL },
  { "verbose", 'v', 0, G_OPTION_ARG_NONE, &is_verbose,
    N_("Tell how the answer was made, as on a terminal"), NULL },
  G_OPTION_ENTRY_NULL
};

/* --- what is asked --- */

/* (transfer full): the prompt with what comes through a pipe or file before it. @argument: (nullable):
 * without one, that is the prompt. */
static char *
read_prompt (const char  *argument,
             GError     **error)
{
  gboolean is_input = argument == NULL || strcmp (argument, "-") == 0;
  g_autofree char *input = NULL;

  if (!is_input && !g_utf8_validate (argument, -1, NULL))
    return llmctl_set_invalid_null (error, _("The prompt is not valid UTF-8 text"));
  if (!is_input && strspn (argument, " \t\n") == strlen (argument))
    return llmctl_set_invalid_null (error, _("The prompt is empty"));
  if (!is_input && isatty (STDIN_FILENO))
    return g_strdup (argument);

  input = llmctl_term_read ("-", MAX_STDIN_BYTES, error);
  if (input == NULL || (is_input && strspn (input, " \t\n") < strlen (input)))
    return g_steal_pointer (&input);
  if (!is_input)
    return *input == '\0' ? g_strdup (argument) : g_strconcat (input, "\n\n", argument, NULL);

  return llmctl_set_invalid_null (error, _("The standard input is empty: there is no prompt"));
}

/* (transfer full) */
static LlmsvcOptions *
collect_options (GError **error)
{
  g_autoptr(LlmsvcOptions) collected = llmctl_call_options_collect (error);
  g_autofree char *request_id = g_uuid_string_random ();
  gboolean is_set = collected != NULL;

  if (is_set && logprobs != NULL)
    is_set = llmsvc_options_set_from_string (collected, "logprobs", logprobs, error);
  if (is_set && continues)
    is_set = llmsvc_options_set_value (collected, "continue", g_variant_new_boolean (TRUE), error);
  if (is_set && suffix != NULL)
    is_set = llmsvc_options_set_value (collected, "suffix", g_variant_new_string (suffix), error);
  else if (is_set && is_raw)
    is_set = llmsvc_options_set_value (collected, "raw", g_variant_new_boolean (TRUE), error);
  else if (is_set && llmsvc_options_get_value (collected, "request-id") == NULL)
    is_set = llmsvc_options_set_value (collected, "request-id", g_variant_new_string (request_id),
                                       error);
  return is_set ? g_steal_pointer (&collected) : NULL;
}

/* --- asking --- */

/* Whether there is no context. */
static gboolean
is_standalone (void)
{
  return is_raw || suffix != NULL;
}

/* (transfer full) */
static LlmsvcContext *
get_context (LlmsvcClient  *client,
             LlmsvcOptions *made,
             GError       **error)
{
  if (continues)
    return llmctl_contexts_open_as (client, context_name, made, error);
  return context_name != NULL
           ? llmctl_contexts_open_or_create (client, context_name, system_text, made, error)
           : llmctl_contexts_create (client, NULL, system_text, NULL, made, error);
}

/* (transfer full): its text written, piece by piece where there is a context; @made: options of one that
 * is made. */
static LlmsvcAnswer *
ask (LlmsvcClient   *client,
     const char     *prompt,
     LlmsvcOptions  *made,
     LlmsvcOptions  *call_options,
     LlmctlAnswer   *output,
     GError        **error)
{
  GCancellable *cancellable = llmctl_wait_get_cancellable ();
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;

  if (is_standalone ())
    {
      answer = llmsvc_client_complete_sync (client, prompt, call_options, cancellable, error);
      return answer != NULL && llmctl_answer_write (output, llmsvc_answer_get_text (answer), error)
                 ? g_steal_pointer (&answer)
                 : NULL;
    }

  context = get_context (client, made, error);
  if (context != NULL && continues)
    generation = llmsvc_context_generate_sync (context, NULL, 0, call_options, cancellable, error);
  else if (context != NULL)
    generation = llmsvc_context_prompt_sync (context, prompt, call_options, cancellable, error);
  if (generation == NULL || !llmctl_answer_copy (output, generation, NULL, error))
    return NULL;

  if (g_set_object (&answer, llmsvc_generation_get_answer (generation)))
    return g_steal_pointer (&answer);
  g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                       _("The answer ended without its results"));
  return NULL;
}

/* With the same request-id a turn that was kept comes again as it was. One that was
 * not kept would be another text, so nothing of it may have been written yet. */
static gboolean
may_ask_again (const LlmctlAnswer *output,
               const GError       *error)
{
  if (is_standalone () || llmctl_wait_get_end () != LLMCTL_EXIT_OK)
    return FALSE;
  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST))
    return output->written == NULL;

  return g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_KEPT) ||
         g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST_UNKNOWN);
}

/* The lines of --json have @json, what came beside the text, in the last one. */
static void
tell_json (const char *json)
{
  if (llmctl_globals.is_json || *json == '\0')
    return;
  llmctl_output_data (json);
  llmctl_output_data ("\n");
  llmctl_output_flush ();
}

static void
tell_results (LlmsvcAnswer *answer)
{
  g_autofree char *summary = NULL;
  g_autofree char *harmless = NULL;
  g_autofree char *line = NULL;
  g_autofree char *fitted = NULL;
  gboolean is_dim;

  if (!is_verbose && (llmctl_globals.is_json || !isatty (STDOUT_FILENO) || !isatty (STDERR_FILENO)))
    return;

  summary = llmctl_answer_summarize (answer);
  harmless = llmctl_output_make_harmless (summary);
  if (is_verbose && llmsvc_answer_get_kv_bits (answer) > 0)
    {
      g_autofree char *before = g_steal_pointer (&harmless);

      /* Translators: behind how many tokens there were and how long they took */
      harmless = g_strdup_printf (_("%s; KV cache of %.1f bits"), before,
                                  llmsvc_answer_get_kv_bits (answer));
    }
  if (is_verbose && g_str_equal (llmsvc_answer_get_prefill (answer), "w8a8"))
    {
      g_autofree char *before = g_steal_pointer (&harmless);

      /* Translators: likewise */
      harmless = g_strdup_printf (_("%s; prompt with 8 bits"), before);
    }
  if (is_verbose && llmsvc_answer_get_sub_model (answer) % 100 != 0)
    {
      g_autofree char *before = g_steal_pointer (&harmless);

      /* Translators: likewise; how much of the model has answered, and how good that is beside the whole */
      harmless = g_strdup_printf (llmsvc_answer_get_sub_model_quality (answer) > 0
                                    ? _("%s; %u %% of the model, %.1f %% as good")
                                    : _("%s; %u %% of the model"), before,
                                  llmsvc_answer_get_sub_model (answer),
                                  llmsvc_answer_get_sub_model_quality (answer));
    }
  if (is_verbose && llmsvc_answer_get_active (answer) > 0)
    {
      g_autofree char *before = g_steal_pointer (&harmless);

      /* Translators: likewise; how many of the weights each token of the answer has left out, and how good that
       * is beside all of them */
      harmless = g_strdup_printf (llmsvc_answer_get_active_quality (answer) > 0
                                    ? _("%s; each word without %u %% of the weights, %.1f %% as good")
                                    : _("%s; each word without %u %% of the weights"), before,
                                  llmsvc_answer_get_active (answer),
                                  llmsvc_answer_get_active_quality (answer));
    }
  if (is_verbose && llmsvc_answer_get_left_out_tokens (answer) > 0)
    {
      g_autofree char *before = g_steal_pointer (&harmless);

      /* Translators: likewise; how much of the prompt was used, and the tokens that were left out of it */
      harmless = g_strdup_printf (_("%s; %u %% of the prompt, without %u tokens"), before,
                                  llmsvc_answer_get_prompt_level (answer),
                                  llmsvc_answer_get_left_out_tokens (answer));
    }
  line = g_strconcat ("[", harmless, "]", NULL);
  fitted = llmctl_output_fit_lines (line, STDERR_FILENO);
  is_dim = llmctl_output_has_colour (STDERR_FILENO);
  g_printerr ("%s%s%s\n", is_dim ? "\033[2m" : "", fitted, is_dim ? "\033[0m" : "");
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_auto(LlmctlAnswer) output = { .is_json = llmctl_globals.is_json,
                                  .shows_reasoning = shows_thinking };
  g_autoptr(LlmsvcOptions) call_options = NULL;
  g_autoptr(LlmsvcOptions) made = NULL;
  g_autofree char *prompt = NULL;
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) local_error = NULL;

  if (argc > 2)
    return llmctl_complain_usage (_("There is more than one prompt: put it into quotes"));
  if (argc < 2 && !continues && isatty (STDIN_FILENO))
    return llmctl_complain_usage (_("There is no prompt"));
  if (is_standalone () && (context_name != NULL || system_text != NULL || continues))
    return llmctl_complain_usage (_("--raw and --suffix take the prompt as it is: leave --context, "
                                    "--system and --continue out"));
  if (continues && (argc > 1 || context_name == NULL))
    return llmctl_complain_usage (_("--continue goes on with the last answer: name its --context, "
                                    "and leave the prompt out"));
  if ((suffix != NULL && !g_utf8_validate (suffix, -1, NULL)) || (system_text != NULL && !g_utf8_validate (system_text, -1, NULL)) ||
      (context_name != NULL && !g_utf8_validate (context_name, -1, NULL)))
    return llmctl_complain_usage (_("--context, --system and --suffix take UTF-8 text"));

  call_options = collect_options (error);
  if (call_options != NULL && continues)
    prompt = g_strdup ("");
  else if (call_options != NULL)
    prompt = read_prompt (argv[1], error);
  if (prompt != NULL)
    client = llmctl_wait_client (error);
  if (client == NULL)
    return LLMCTL_EXIT_FAILED;

  if (!is_standalone ())
    made = llmctl_call_options_split (call_options);
  llmctl_progress_begin (!hides_progress);
  llmctl_progress_await_model (client);
  answer = ask (client, prompt, made, call_options, &output, &local_error);
  if (answer == NULL && may_ask_again (&output, local_error))
    {
      g_clear_error (&local_error);
      output.n_repeated = 0;
      answer = ask (client, prompt, made, call_options, &output, &local_error);
    }
  if (answer == NULL)
    {
      llmctl_answer_end_line (&output);
      g_propagate_error (error, g_steal_pointer (&local_error));
    }
  else if (llmctl_answer_finish (&output, answer))
    {
      tell_json (llmsvc_answer_get_tool_calls (answer));
      tell_json (llmsvc_answer_get_logprobs (answer));
      tell_results (answer);
    }
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_ask_command = {
  .name = "ask",
  .parameters = N_("[PROMPT|-]"),
  .summary = N_("Ask, and print the answer as it comes"),
  .description = N_("With “-”, or without a prompt, it is read from the standard input; otherwise what "
                    "comes there is put before the prompt: git diff | llmctl ask \"One line on "
                    "this\". With --continue there is no prompt.\n"
                    "--json: lines {\"t\":\"…\"} with pieces of the text, before them "
                    "{\"reasoning\":\"…\"} with what the model thinks, then {\"done\":{…}} with the "
                    "results."),
  .options = options,
  .more_options = llmctl_call_options,
  .run = run,
};
