/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "tool-answer.h"
#include "tool/llm-tasks.h"

static char *split, *turns;
static int n_tasks = 100, max_tokens = 128;

static const GOptionEntry entries[] = {
  TOOL_MODEL_ENTRIES,
  { "tasks", 'n', 0, G_OPTION_ARG_INT, &n_tasks, N_("The first tasks of the file, 0 for all (100)"),
    "N" },
  { "max-tokens", 0, 0, G_OPTION_ARG_INT, &max_tokens, N_("The longest answer (128)"), "N" },
  { "split", 0, 0, G_OPTION_ARG_STRING, &split,
    N_("A call begins with each of these in the prompt (<|im_start|>user)"), N_("TEXT") },
  TOOL_MODEL_SUB_MODEL_ENTRY,
  { "active", 0, 0, G_OPTION_ARG_INT, &tool_model_options.active,
    N_("Tokens of answers leave out so much of the layers' weights, by the companion's thresholds"), N_("PERCENT") },
  { "turns", 0, 0, G_OPTION_ARG_STRING, &turns,
    N_("Compute calls in turn with these sub-models: 100,40,100; the last one answers"), N_("PERCENT,…") },
  TOOL_MODEL_EXACT_ENTRY,
  TOOL_MODEL_KV_ENTRIES,
  G_OPTION_ENTRY_NULL
};

/* One for each call, in turn; those of the last calls are the last ones. */
typedef struct
{
  LlmForward *forwards[LLM_MAX_LEVELS];   /* (owned) */
  guint n;
} Turns;

/* Of @turns, or the model's own. */
static gboolean
open_turns (Turns      *self,
            ToolModel  *model,
            GError    **error)
{
  g_auto(GStrv) words = g_strsplit (turns != NULL ? turns : "", ",", -1);

  for (; words[self->n] != NULL; self->n++)
    {
      guint64 percent;

      if (self->n == LLM_MAX_LEVELS
          || !g_ascii_string_to_unsigned (words[self->n], 10, 1, 100, &percent, NULL))
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "--turns %s: up to %d numbers of percent are needed, with commas between them",
                         turns, LLM_MAX_LEVELS);
      self->forwards[self->n] = tool_model_new_forward (model, (guint) percent, error);
      if (self->forwards[self->n] == NULL)
        return FALSE;
    }
  return TRUE;
}

static void
close_turns (Turns *self)
{
  for (guint i = 0; i < self->n; i++)
    llm_forward_free (self->forwards[i]);
}

/* For the call before which @n_left others are left. */
static void
take_turn (const Turns *self,
           ToolModel   *model,
           guint        n_left)
{
  if (self->n > 0)
    model->forward = self->forwards[self->n - 1 - n_left % self->n];
}

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
          const Turns    *levels,
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

      take_turn (levels, model, calls->len - i);
      if (end > seq->length
          && !llm_measure_call (model->forward, model->store, seq, tool_model_tokens (tokens), end,
                                LLM_MEASURE_PROMPT, 0, NULL, NULL, error))
        return FALSE;
    }
  take_turn (levels, model, 0);
  if (!tool_answer (model, seq, tokens, (guint) max_tokens, text, error))
    return FALSE;

  llm_task_score_add (score, task, text->str);
  return TRUE;
}

/* All tasks; the model's own forward pass is its own again behind them. */
static gboolean
run_tasks (ToolModel        *model,
           const GPtrArray  *tasks,
           LlmTaskScore     *score,
           GError          **error)
{
  LlmForward *own = model->forward;
  Turns levels = { 0 };
  gboolean is_done = open_turns (&levels, model, error);

  for (guint i = 0; is_done && i < tasks->len; i++)
    {
      is_done = run_task (model, &levels, g_ptr_array_index (tasks, i), score, error);
      tool_progress ("%u ", i + 1);
    }
  tool_progress (NULL);
  model->forward = own;
  close_turns (&levels);
  return is_done;
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
  if (turns != NULL && tool_model_options.sub_model == 0)
    tool_model_options.sub_model = 100;
  model = tasks != NULL ? tool_model_open (&error) : NULL;
  if (model == NULL || !run_tasks (model, tasks, &score, &error))
    return tool_fail (error);

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
