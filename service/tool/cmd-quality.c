/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How good a model's sub-models and its sparse answers are: into its companion. */

#include "tool.h"

#include <glib/gi18n.h>
#include <math.h>
#include <stdio.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "model/llm-quality.h"
#include "tool-answer.h"
#include "tool-companion.h"
#include "tool-draw.h"
#include "tool/llm-arithmetic.h"
#include "tool/llm-tasks.h"

#define N_CTX 512

static char *text_path;
static int n_windows = 16, n_tasks = 200, max_tokens = 128;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &tool_model_options.path, N_("The GGUF file"), N_("FILE") },
  { "threads", 0, 0, G_OPTION_ARG_INT, &tool_model_options.threads, N_("Threads that compute"), "N" },
  { "text", 0, 0, G_OPTION_ARG_FILENAME, &text_path,
    N_("What the divergence is measured on, instead of text that the model draws"), N_("FILE") },
  { "windows", 0, 0, G_OPTION_ARG_INT, &n_windows, N_("Pieces of 512 tokens of it (16)"), "N" },
  { "tasks", 'n', 0, G_OPTION_ARG_INT, &n_tasks, N_("The first tasks of each file, 0 for all (200)"), "N" },
  { "max-tokens", 0, 0, G_OPTION_ARG_INT, &max_tokens, N_("The longest answer (128)"), "N" },
  G_OPTION_ENTRY_NULL
};

/* What each level is tried with. */
typedef struct
{
  const GArray *tokens;      /* of the text */
  GPtrArray *tasks;          /* (element-type LlmTask) */
  ToolModel *whole;
} Trial;

/* --- tasks --- */

/* Sums over the tokens of answers. */
typedef struct
{
  const gint32 *tokens;
  guint n_tokens;
  guint n_vocab;
  double nll;
  guint n;
} Reply;

static void
add_token (guint        slot,
           const float *logits,
           gpointer     data)
{
  Reply *reply = data;

  if (slot + 1 >= reply->n_tokens)
    return;
  reply->nll += llm_measure_nll (logits, reply->n_vocab, reply->tokens[slot + 1]);
  reply->n++;
}

/* Adds what the model thinks of the answer that the task has. */
static gboolean
try_reply (ToolModel      *model,
           const LlmTask  *task,
           Reply          *reply,
           GError        **error)
{
  g_autofree char *both = g_strconcat (task->prompt, task->answer, NULL);
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (model->store, NULL, NULL);
  g_autoptr(GArray) prompt = tool_model_encode (model, task->prompt, TRUE);
  g_autoptr(GArray) tokens = tool_model_encode (model, both, TRUE);

  if (tokens->len <= prompt->len)
    return TRUE;
  reply->tokens = tool_model_tokens (tokens);
  reply->n_tokens = tokens->len;
  return llm_measure_call (model->forward, model->store, seq, reply->tokens, prompt->len, LLM_MEASURE_PROMPT,
                           prompt->len - 1, add_token, reply, error)
         && llm_measure_call (model->forward, model->store, seq, reply->tokens, tokens->len,
                              LLM_MEASURE_ANSWER, prompt->len, add_token, reply, error);
}

static gboolean
try_call (ToolModel      *model,
          const LlmTask  *task,
          LlmTaskScore   *score,
          GError        **error)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (model->store, NULL, NULL);
  g_autoptr(GArray) tokens = tool_model_encode (model, task->prompt, TRUE);
  g_autoptr(GString) text = g_string_new (NULL);

  if (!tool_answer (model, seq, tokens, (guint) max_tokens, text, error))
    return FALSE;
  llm_task_score_add (score, task, text->str);
  return TRUE;
}

static gboolean
try_tasks (const Trial      *trial,
           ToolModel        *model,
           LlmQuality       *quality,
           LlmLevelQuality  *level,
           GError          **error)
{
  LlmTaskScore score = { 0 };
  Reply reply = { .n_vocab = model->hparams->n_vocab };

  quality->n_replies = 0;
  for (guint i = 0; i < trial->tasks->len; i++)
    {
      const LlmTask *task = g_ptr_array_index (trial->tasks, i);

      if (task->call != NULL ? !try_call (model, task, &score, error)
                             : !try_reply (model, task, &reply, error))
        return FALSE;
      quality->n_replies += task->call == NULL;
    }
  quality->n_calls = score.n_wanted;
  level->valid_calls = (double) score.n_valid / (double) MAX (score.n_wanted, 1);
  level->exact_calls = (double) score.n_arguments / (double) MAX (score.n_wanted, 1);
  level->reply_nll = reply.nll / (double) MAX (reply.n, 1);
  return TRUE;
}

/* --- levels --- */

static gboolean
try_text (const Trial      *trial,
          ToolModel        *model,
          LlmQuality       *quality,
          LlmLevelQuality  *level,
          GError          **error)
{
  const LlmArithmetic pair = {
    .hparams = model->hparams, .tokenizer = model->tokenizer,
    .reference_forward = trial->whole->forward, .reference_store = trial->whole->store,
    .forward = model->forward, .store = model->store,
  };
  LlmArithmeticLoss loss;

  if (!llm_arithmetic_measure (&pair, LLM_N_OPS, trial->tokens, MIN (N_CTX, model->hparams->n_ctx),
                               (guint) n_windows, &loss, error))
    return FALSE;
  quality->n_scored = loss.n_scored;
  level->divergence = loss.mean;
  level->nll = log (loss.perplexity);
  return TRUE;
}

static ToolModel *
open_level (guint     percent,
            guint     active,
            GError  **error)
{
  tool_model_options.sub_model = (int) percent;
  tool_model_options.active = (int) active;
  return tool_model_open (error);
}

/* The level at @place of @quality. */
static gboolean
try_level (const Trial  *trial,
           guint         percent,
           guint         active,
           LlmQuality   *quality,
           guint         place,
           GError      **error)
{
  g_autoptr(ToolModel) model = open_level (percent, active, error);

  if (active > 0)
    tool_progress (_("without %u %% of the weights"), active);
  else
    tool_progress (_("level %u %%"), percent);
  return model != NULL && try_text (trial, model, quality, &quality->levels[place], error)
         && try_tasks (trial, model, quality, &quality->levels[place], error);
}

/* Each sparsity once, of the text all rows, of tasks those of answers; then the whole model. */
static gboolean
try_sparsities (const Trial          *trial,
                const LlmThresholds  *thresholds,
                LlmQuality           *quality,
                GError              **error)
{
  const guint n = thresholds->n_sparsities;

  quality->n_levels = n + 1;
  for (guint i = 0; i <= n; i++)
    if (!try_level (trial, 100, i < n ? thresholds->percent[n - 1 - i] : 0, quality, i, error))
      return FALSE;
  return TRUE;
}

static gboolean
try_levels (const Trial         *trial,
            const LlmSubModels  *table,
            LlmQuality          *quality,
            GError             **error)
{
  quality->n_levels = table->n_levels;
  for (guint i = 0; i < table->n_levels; i++)
    if (!try_level (trial, table->percent[i], 0, quality, i, error))
      return FALSE;
  return TRUE;
}

static void
print_counts (const LlmQuality *quality)
{
  printf ("tokens scored: %u\ncalls: %u\nreplies: %u\n", (guint) quality->n_scored,
          (guint) quality->n_calls, (guint) quality->n_replies);
}

static void
print_level (const LlmQuality *quality,
             guint             i,
             guint             percent)
{
  const LlmLevelQuality *level = &quality->levels[i];

  printf ("%4u %%  %5.1f %%    %8.5f  %10.4f  %9.1f %%  %9.1f %%  %12.4f\n", percent,
          llm_quality_get (quality, quality->n_levels, i), level->divergence, exp (level->nll),
          100 * level->valid_calls, 100 * level->exact_calls, level->reply_nll);
}

static void
print_quality (const LlmQuality   *quality,
               const LlmSubModels *table)
{
  print_counts (quality);
  printf ("level  quality  divergence  perplexity  valid calls  exact calls  replies' nll\n");
  for (guint i = 0; i < table->n_levels; i++)
    print_level (quality, i, table->percent[i]);
}

static void
print_sparse_quality (const LlmQuality    *quality,
                      const LlmThresholds *thresholds,
                      gboolean             is_alone)
{
  if (is_alone)
    print_counts (quality);
  printf ("active quality  divergence  perplexity  valid calls  exact calls  replies' nll\n");
  for (guint i = 0; i < thresholds->n_sparsities; i++)
    print_level (quality, thresholds->n_sparsities - 1 - i, thresholds->percent[i]);
}

/* --- the command --- */

/* (transfer full): of all files. */
static GPtrArray *
read_tasks (char   **paths,
            GError **error)
{
  g_autoptr(GPtrArray) all = NULL;

  for (guint i = 0; paths[i] != NULL; i++)
    {
      g_autofree char *text = tool_read (paths[i], error);
      g_autoptr(GPtrArray) tasks = text != NULL ? llm_tasks_read (text, (guint) n_tasks, error) : NULL;

      if (tasks == NULL)
        {
          if (text != NULL)
            g_prefix_error (error, "%s: ", paths[i]);
          return NULL;
        }
      if (all == NULL)
        all = g_steal_pointer (&tasks);
      else
        g_ptr_array_extend_and_steal (all, g_steal_pointer (&tasks));
    }
  return all != NULL ? g_steal_pointer (&all) : g_ptr_array_new ();
}

/* Leaves out tasks whose prompt and answer don't fit into the model's context. Fails if none is left. */
static gboolean
leave_out_long (GPtrArray  *tasks,
                ToolModel  *model,
                GError    **error)
{
  guint n = tasks->len;

  for (guint i = n; i-- > 0;)
    {
      const LlmTask *task = g_ptr_array_index (tasks, i);
      g_autofree char *both = g_strconcat (task->prompt, task->answer, NULL);
      g_autoptr(GArray) tokens = tool_model_encode (model, both, TRUE);

      if (tokens->len > model->hparams->n_ctx)
        g_ptr_array_remove_index (tasks, i);
    }
  if (n > 0 && tasks->len == 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "All tasks are longer than the model's context of %u tokens", model->hparams->n_ctx);
  if (tasks->len < n)
    g_printerr (_("Left out, as they are longer than the model's context of %u tokens: %u of %u tasks\n"),
                model->hparams->n_ctx, n - tasks->len, n);
  return TRUE;
}

static gboolean
run_on (char   **paths,
        GError **error)
{
  g_autoptr(LlmCompanion) companion = NULL;
  g_autoptr(GPtrArray) tasks = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GArray) tokens = NULL;
  g_autoptr(ToolModel) whole = NULL;
  g_autoptr(LlmGgufWriter) writer = NULL;
  static const char *const prefixes[] = { LLM_QUALITY_OF_LEVELS, LLM_QUALITY_OF_SPARSITIES, NULL };
  LlmQuality quality = { 0 }, sparse = { 0 };
  Trial trial;

  if (!tool_companion_open (&companion, error) || (tasks = read_tasks (paths, error)) == NULL)
    return FALSE;
  if (companion == NULL || (!companion->has_sub_models && companion->thresholds == NULL))
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s has no sub-models and no thresholds in a companion beside it; make them with "
                     "llmsvc-elastic, or with llmsvc-active", tool_model_options.path);
  if (text_path == NULL)
    tokens = tool_draw ((guint) n_windows, N_CTX, error);
  else if ((text = tool_read (text_path, error)) == NULL)
    return FALSE;
  if (text == NULL && tokens == NULL)
    return FALSE;
  whole = open_level (100, 0, error);
  if (whole == NULL || !leave_out_long (tasks, whole, error))
    return FALSE;
  if (tokens == NULL)
    tokens = tool_model_encode (whole, text, TRUE);
  trial = (Trial) { tokens, tasks, whole };
  if ((companion->has_sub_models && !try_levels (&trial, companion->sub_models, &quality, error))
      || (companion->thresholds != NULL
          && !try_sparsities (&trial, companion->thresholds, &sparse, error)))
    return FALSE;
  tool_progress (NULL);
  writer = tool_companion_begin (whole->model, companion, prefixes);
  if (companion->has_sub_models)
    {
      print_quality (&quality, companion->sub_models);
      llm_quality_write (&quality, LLM_QUALITY_OF_LEVELS, writer);
    }
  if (companion->thresholds != NULL)
    {
      print_sparse_quality (&sparse, companion->thresholds, !companion->has_sub_models);
      llm_quality_write (&sparse, LLM_QUALITY_OF_SPARSITIES, writer);
    }
  return tool_companion_save (whole->model, writer, error);
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  const char *fault = tool_model_options_check ();

  if (fault != NULL)
    return tool_fail_usage (fault);
  if (n_windows < 1 || n_tasks < 0 || max_tokens < 1)
    return tool_fail_usage (_("--windows and --max-tokens are 1 or more, --tasks 0 or more"));
  return run_on (arguments, &error) ? TOOL_OK : tool_fail (error);
}

const ToolCommand tool_quality = {
  "quality", N_("Measure how good a model's sub-models and sparse answers are"), N_("[TASKS…]"),
  N_("Measures of each sub-model, and of answers that leave out weights (“active”), how far they are from the "
     "whole model and how many tasks they solve, and writes that into the model's companion: when memory or "
     "time is short the service takes only sub-models that are good enough. TASKS are files with lines of JSON with “prompt” and “answer”: calls of tools, or text."),
  TOOL_ANY, entries, run,
};
