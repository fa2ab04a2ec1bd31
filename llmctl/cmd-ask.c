/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl ask: from arguments and the standard input to a question. */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl.h"

#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "llmctl/llmctl-answer.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/llmctl-term.h"

/* The service's own limit is lower or the administrator's choice. */
#define MAX_STDIN_BYTES (16 * 1024 * 1024)

static void
question_clear (LlmctlQuestion *question)
{
  g_free (question->context_name);
  g_free (question->system);
  g_free (question->prompt);
  g_clear_pointer (&question->options, g_variant_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlQuestion, question_clear)

/* (transfer full): the prompt with what comes through a pipe or file before it. */
static char *
read_prompt (const char  *argument,
             GError     **error)
{
  g_autofree char *input = NULL;

  if (!g_utf8_validate (argument, -1, NULL))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "The prompt is not valid UTF-8 text");
      return NULL;
    }

  if (strcmp (argument, "-") == 0)
    {
      input = llmctl_term_read (MAX_STDIN_BYTES, error);
      if (input != NULL && *input == '\0')
        {
          g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                               "The standard input is empty: there is no prompt");
          return NULL;
        }
      return g_steal_pointer (&input);
    }
  if (isatty (STDIN_FILENO))
    return g_strdup (argument);

  input = llmctl_term_read (MAX_STDIN_BYTES, error);
  if (input == NULL)
    return NULL;

  return *input == '\0' ? g_strdup (argument) : g_strconcat (input, "\n\n", argument, NULL);
}

static GVariant *
collect_options (char       **assignments,
                 const char  *max_tokens,
                 const char  *temperature,
                 const char  *seed,
                 gboolean     is_raw,
                 GError     **error)
{
  const char *const pairs[][2] = {
    { "max-tokens", max_tokens }, { "temperature", temperature }, { "seed", seed }
  };
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) options = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      g_autofree char *assignment = g_strconcat (pairs[i][0], "=", pairs[i][1], NULL);

      if (pairs[i][1] != NULL && !llmctl_options_add (&dict, assignment, error))
        return NULL;
    }
  for (gsize i = 0; assignments != NULL && assignments[i] != NULL; i++)
    if (!llmctl_options_add (&dict, assignments[i], error))
      return NULL;
  if (is_raw)
    g_variant_dict_insert (&dict, "raw", "b", TRUE);
  else
    g_variant_dict_insert (&dict, "stream", "s", "jsonl");

  options = g_variant_ref_sink (g_variant_dict_end (&dict));
  if (!llmctl_options_check (options, is_raw ? LLMSVC_CALL_COMPLETE : LLMSVC_CALL_GENERATE, error))
    return NULL;

  return g_steal_pointer (&options);
}

LlmctlExit
llmctl_cmd_ask (int   argc,
                char *argv[])
{
  g_auto(LlmctlQuestion) question = { .which_bus = LLMCTL_BUS_ANY };
  gboolean is_system_bus = FALSE;
  gboolean is_session_bus = FALSE;
  g_autofree char *max_tokens = NULL;
  g_autofree char *temperature = NULL;
  g_autofree char *seed = NULL;
  g_auto(GStrv) assignments = NULL;
  const GOptionEntry entries[] = {
    { "system-bus", 0, 0, G_OPTION_ARG_NONE, &is_system_bus,
      "Ask the service on the system bus only", NULL },
    { "session-bus", 0, 0, G_OPTION_ARG_NONE, &is_session_bus,
      "Ask the service on the session bus only", NULL },
    { "context", 'c', 0, G_OPTION_ARG_STRING, &question.context_name,
      "Go on in the context of this name; it is made when it is not there", "NAME" },
    { "system", 's', 0, G_OPTION_ARG_STRING, &question.system,
      "The system text of a new context", "TEXT" },
    { "max-tokens", 'n', 0, G_OPTION_ARG_STRING, &max_tokens, "The longest answer", "N" },
    { "temperature", 't', 0, G_OPTION_ARG_STRING, &temperature,
      "How freely words are chosen; 0 for always the most probable", "X" },
    { "seed", 0, 0, G_OPTION_ARG_STRING, &seed, "Same seed, same text", "N" },
    { "option", 'o', 0, G_OPTION_ARG_STRING_ARRAY, &assignments,
      "Any other option of the call; may be given several times", "KEY=VALUE" },
    { "raw", 0, 0, G_OPTION_ARG_NONE, &question.is_raw,
      "Take the prompt as it is, without the model's template; not streamed", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &question.timeout_s,
      "Give up after so many seconds", "S" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &question.is_json,
      "Print the answer as lines of JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) rest = NULL;
  LlmctlExit status;

  if (!llmctl_parse (&argc, &argv, "PROMPT|-",
                     "Asks the language model and prints its answer as it comes. With “-” "
                     "the prompt is read\nfrom the standard input; otherwise what comes there "
                     "is put before the prompt.",
                     entries, &status))
    return status;

  rest = argv;
  if (argc != 2)
    {
      llmctl_complain (argc < 2 ? "there is no prompt; see “llmctl ask --help”"
                                : "there is more than one prompt: put it into quotes");
      return LLMCTL_EXIT_USAGE;
    }
  if (is_system_bus && is_session_bus)
    {
      llmctl_complain ("--system-bus and --session-bus exclude each other");
      return LLMCTL_EXIT_USAGE;
    }
  if (question.is_raw && (question.context_name != NULL || question.system != NULL))
    {
      llmctl_complain ("--raw takes the prompt as it is: leave --context and --system out");
      return LLMCTL_EXIT_USAGE;
    }
  if (!(question.timeout_s >= 0 && question.timeout_s <= 4000000))
    {
      llmctl_complain ("--timeout takes seconds from 0 (none) to 4000000");
      return LLMCTL_EXIT_USAGE;
    }
  if ((question.system != NULL && !g_utf8_validate (question.system, -1, NULL)) ||
      (question.context_name != NULL && !g_utf8_validate (question.context_name, -1, NULL)))
    {
      llmctl_complain ("--context and --system take UTF-8 text");
      return LLMCTL_EXIT_USAGE;
    }

  question.which_bus = is_system_bus    ? LLMCTL_BUS_SYSTEM
                   : is_session_bus ? LLMCTL_BUS_SESSION
                                    : LLMCTL_BUS_ANY;
  question.options =
      collect_options (assignments, max_tokens, temperature, seed, question.is_raw, &error);
  if (question.options == NULL)
    return llmctl_fail (error);
  question.prompt = read_prompt (argv[1], &error);
  if (question.prompt == NULL)
    return llmctl_fail (error);

  return llmctl_answer_run (&question);
}
