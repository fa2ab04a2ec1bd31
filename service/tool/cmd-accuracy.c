/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "forward/llm-measured-call.h"
#include "decoding/llm-sampler.h"
#include "decoding/llm-text-stream.h"
#include "weights/llm-prepared-copy.h"
#include "tool-model.h"
#include "tool-task.h"

typedef struct
{
  LlmSampler *sampler;
  gint32 token;
} Choice;

static void
choose (guint        slot,
        const float *logits,
        gpointer     data)
{
  Choice *choice = data;

  choice->token = llm_sampler_sample (choice->sampler, logits);
}

/* Where the calls before the last one end, in tokens: a call begins with each @split in the
 * prompt. */
static GArray *
find_calls (ToolModel    *model,
            const char   *prompt,
            const char   *split,
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

static const gint32 *
get_tokens (const GArray *tokens)
{
  return (const gint32 *) (gpointer) tokens->data;
}

static gboolean
run_call (ToolModel    *model,
          LlmKvSeq     *seq,
          const GArray *tokens,
          guint         end,
          GError      **error)
{
  gboolean is_read;

  if (!llm_measured_call_begin (seq, end - llm_kv_seq_get_length (seq), error))
    return FALSE;

  is_read = llm_measured_call_read (model->forward, seq, get_tokens (tokens), end, LLK_ROWS_PROMPT,
                                    0, NULL, NULL, error);
  llm_measured_call_end (model->store, seq, get_tokens (tokens));
  return is_read;
}

/* Reads the rest of the prompt and answers in one call. @tokens gets the answer, too. */
static gboolean
answer (ToolModel *model,
        LlmKvSeq  *seq,
        GArray    *tokens,
        guint      max_tokens,
        GString   *text,
        GError   **error)
{
  const LlmSamplerConfig greedy = { .top_p = 1, .repeat_penalty = 1 };
  g_autoptr(LlmSampler) sampler = llm_sampler_new (&greedy, model->hparams->n_vocab);
  g_autoptr(LlmTextStream) stream = llm_text_stream_new (model->tokenizer, NULL, TRUE);
  Choice choice = { sampler, -1 };
  LlkRowKind kind = LLK_ROWS_PROMPT;
  gboolean is_read = TRUE;

  if (!llm_measured_call_begin (seq, tokens->len - llm_kv_seq_get_length (seq) + max_tokens, error))
    return FALSE;

  for (guint n = 0; n < max_tokens; n++)
    {
      is_read = llm_measured_call_read (model->forward, seq, get_tokens (tokens), tokens->len, kind,
                                        tokens->len - 1, choose, &choice, error);
      if (!is_read || choice.token < 0 ||
          llm_tokenizer_ends_answer (model->tokenizer, choice.token))
        break;

      llm_text_stream_push (stream, choice.token, text);
      g_array_append_val (tokens, choice.token);
      kind = LLK_ROWS_GENERATED;
    }
  llm_text_stream_finish (stream, text);
  llm_measured_call_end (model->store, seq, get_tokens (tokens));
  return is_read;
}

static gboolean
run_task (ToolModel      *model,
          const ToolTask *task,
          const char     *split,
          guint           max_tokens,
          ToolScore      *score,
          GError        **error)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (model->store, NULL, NULL);
  g_autoptr(GArray) tokens = tool_model_encode (model, task->prompt, TRUE);
  g_autoptr(GArray) calls = find_calls (model, task->prompt, split, tokens);
  g_autoptr(GString) text = g_string_new (NULL);

  for (guint i = 0; i < calls->len; i++)
    if (g_array_index (calls, guint, i) > llm_kv_seq_get_length (seq)
        && !run_call (model, seq, tokens, g_array_index (calls, guint, i), error))
      return FALSE;
  if (!answer (model, seq, tokens, max_tokens, text, error))
    return FALSE;

  tool_score_add (score, task->answer, text->str);
  return TRUE;
}

int
tool_accuracy (int    argc,
               char **argv)
{
  g_auto(ToolModelOptions) options = TOOL_MODEL_OPTIONS;
  g_autofree char *split = NULL;
  int n_tasks = 100;
  int max_tokens = 128;
  const GOptionEntry entries[] = {
    TOOL_MODEL_ENTRIES (&options),
    { "tasks", 'n', 0, G_OPTION_ARG_INT, &n_tasks,
      N_("The first tasks of the file, 0 for all (100)"), "N" },
    { "max-tokens", 0, 0, G_OPTION_ARG_INT, &max_tokens, N_("The longest answer (128)"), "N" },
    { "split", 0, 0, G_OPTION_ARG_STRING, &split,
      N_("A call begins with each of these in the prompt (<|im_start|>user)"), N_("TEXT") },
    { "exact", 0, 0, G_OPTION_ARG_NONE, &options.is_exact,
      N_("Compute in floats with the weights as the file has them"), NULL },
    TOOL_MODEL_KV_ENTRIES (&options),
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(GPtrArray) tasks = NULL;
  g_autofree char *text = NULL;
  ToolScore score = { 0 };
  const char *fault;

  if (!tool_parse (&argc, &argv, entries, N_("TASKS"),
                   N_("Scores a model's likeliest answers to the tasks of a file: lines of JSON "
                      "with “prompt” and “answer”."), 1))
    return TOOL_USAGE;
  fault = n_tasks < 0 || max_tokens < 1 ? _("--tasks is 0 or more, --max-tokens 1 or more")
                                        : tool_model_options_check (&options);
  if (fault != NULL)
    {
      g_printerr ("llmsvc-tool: %s\n", fault);
      return TOOL_USAGE;
    }
  if (split == NULL || *split == '\0')
    {
      g_free (split);
      split = g_strdup ("<|im_start|>user");
    }

  text = tool_read (argv[1], &error);
  tasks = text != NULL ? tool_task_read (text, (guint) n_tasks, &error) : NULL;
  model = tasks != NULL ? tool_model_open (&options, &error) : NULL;
  if (model == NULL)
    return tool_fail (error);

  for (guint i = 0; i < tasks->len; i++)
    {
      if (!run_task (model, g_ptr_array_index (tasks, i), split, (guint) max_tokens, &score,
                     &error))
        return tool_fail (error);
      if (isatty (STDERR_FILENO))
        fprintf (stderr, "\r%u ", i + 1);
    }

  if (isatty (STDERR_FILENO))
    fputc ('\n', stderr);
  printf ("tasks: %u\ncalls: %u\nvalid calls: %u\nright functions: %u\nexact arguments: %u\n"
          "right arguments: %u of %u\nwrong calls: %u\nexact answers: %u\n",
          score.n, score.n_calls, score.n_valid, score.n_names, score.n_arguments,
          score.n_right_slots, score.n_slots, score.n_wrong_calls, score.n_exact);
  fflush (stdout);
  llm_prepared_copy_wait_for_all ();
  return TOOL_OK;
}
