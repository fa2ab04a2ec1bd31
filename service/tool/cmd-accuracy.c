/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "tool-answer.h"
#include "tool/llm-tasks.h"

static char *split;
static int n_tasks = 100, max_tokens = 128;

static const GOptionEntry entries[] = {
  TOOL_MODEL_ENTRIES,
  { "tasks", 'n', 0, G_OPTION_ARG_INT, &n_tasks, N_("The first tasks of the file, 0 for all (100)"),
    "N" },
  { "max-tokens", 0, 0, G_OPTION_ARG_INT, &max_tokens, N_("The longest answer (128)"), "N" },
  { "split", 0, 0, G_OPTION_ARG_STRING, &split,
    N_("A call begins with each of these in the prompt (<|im_start|>user)"), N_("TEXT") },
  TOOL_MODEL_SUB_MODEL_ENTRY,
  TOOL_MODEL_EXACT_ENTRY,
  TOOL_MODEL_KV_ENTRIES,
  G_OPTION_ENTRY_NULL
};

/* Where the calls before the last one end, in tokens: a call begins with each @split in the
 * prompt. */
static GArray *
find_calls (ToolModel    *model,
            const char   *prompt,
            const GArray *tokens)
{
  GArray *ends = g_array_new (FALSE, FALSE, sizeof (guint));

  for (const char *at = strstr (prompt, split); at != NULL;
       at = strstr (at + strlen (split), split))
    {
      g_autofree char *before = g_strndup (prompt, (gsize) (at - prompt));
      g_autoptr(GArray) piece = tool_model_encode (model, before, TRUE);
      guint end = 0;

      while (end < MIN (piece->len, tokens->len)
             && g_array_index (piece, gint32, end) == g_array_index (tokens, gint32, end))
        end++;
      if (end > 0 && end < tokens->len)
        g_array_append_val (ends, end);
    }

  return ends;
}

static gboolean
run_task (ToolModel      *model,
          const LlmTask  *task,
          LlmTaskScore   *score,
          GError        **error)
{
  const char *prompt = task->prompt;
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (model->store, NULL, NULL);
  g_autoptr(GArray) tokens = tool_model_encode (model, prompt, TRUE);
  g_autoptr(GArray) calls = find_calls (model, prompt, tokens);
  g_autoptr(GString) text = g_string_new (NULL);

  for (guint i = 0; i < calls->len; i++)
    {
      guint end = g_array_index (calls, guint, i);

      if (end > seq->length
          && !llm_measure_call (model->forward, model->store, seq, tool_model_tokens (tokens), end,
                                FALSE, 0, NULL, NULL, error))
        return FALSE;
    }
  if (!tool_answer (model, seq, tokens, (guint) max_tokens, text, error))
    return FALSE;

  llm_task_score_add (score, task, text->str);
  return TRUE;
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(GPtrArray) tasks = NULL;
  g_autofree char *text = NULL;
  LlmTaskScore score = { 0 };
  const char *fault =
    n_tasks < 0 || max_tokens < 1 ? _("--tasks is 0 or more, --max-tokens 1 or more")
                                  : tool_model_options_check ();

  if (fault != NULL)
    return tool_fail_usage (fault);
  if (split == NULL || *split == '\0')
    split = g_strdup ("<|im_start|>user");

  text = tool_read (arguments[0], &error);
  tasks = text != NULL ? llm_tasks_read (text, (guint) n_tasks, &error) : NULL;
  model = tasks != NULL ? tool_model_open (&error) : NULL;
  if (model == NULL)
    return tool_fail (error);

  for (guint i = 0; i < tasks->len; i++)
    {
      if (!run_task (model, g_ptr_array_index (tasks, i), &score, &error))
        return tool_fail (error);
      tool_progress ("%u ", i + 1);
    }

  tool_progress (NULL);
  printf ("tasks: %u\ncalls: %u\nvalid calls: %u\nright functions: %u\nexact arguments: %u\n"
          "right arguments: %u of %u\nwrong calls: %u\nexact answers: %u\n",
          score.n, score.n_calls, score.n_valid, score.n_names, score.n_arguments,
          score.n_right_slots, score.n_slots, score.n_wrong_calls, score.n_exact);
  return TOOL_OK;
}

const ToolCommand tool_accuracy = {
  "accuracy", N_("Measure how well a model solves tasks"), N_("TASKS"),
  N_("Scores a model's likeliest answers to the tasks of a file: lines of JSON "
     "with “prompt” and “answer”."), 1, entries, run,
};
