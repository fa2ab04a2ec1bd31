/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "tool-model.h"
#include "tool/llm-arithmetic.h"

/* Behind the tokens that were remembered. */
#define N_COMPARED 32
/* Ids below are control tokens and bytes in most vocabularies. */
#define FIRST_RANDOM 300

typedef struct
{
  guint n_vocab;
  guint first;           /* slot */
  float *reference;      /* [N_COMPARED × n_vocab] */
  gboolean is_reference; /* the logits are to be kept, not compared */
  double sum;
  double largest;
  guint n;
  guint n_same_top;
} Comparison;

static void
compare (guint        slot,
         const float *logits,
         gpointer     data)
{
  Comparison *self = data;
  float *reference = self->reference + (gsize) (slot - self->first) * self->n_vocab;
  gboolean is_same_top;
  double divergence;

  if (self->is_reference)
    {
      memcpy (reference, logits, self->n_vocab * sizeof (float));
      return;
    }

  divergence = llm_measure_divergence (reference, logits, self->n_vocab, &is_same_top);
  self->sum += divergence;
  self->largest = MAX (self->largest, divergence);
  self->n_same_top += is_same_top;
  self->n++;
}

/* The window in calls, then what is compared in one more. */
static gboolean
run_window (ToolModel     *model,
            LlmKvStore    *store,
            const gint32  *tokens,
            Comparison    *comparison,
            GError       **error)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  guint n_call = (guint) tool_model_options.n_call;
  guint length = comparison->first;

  for (guint first = 0; first < length; first += n_call)
    if (!llm_measure_call (model->forward, store, seq, tokens, MIN (first + n_call, length),
                           LLM_MEASURE_PROMPT, 0, NULL, NULL, error))
      return FALSE;

  return llm_measure_call (model->forward, store, seq, tokens, length + N_COMPARED,
                           LLM_MEASURE_ANSWER, length, compare, comparison, error);
}

/* The same ones each time. */
static GArray *
make_random (const LlmHparams *hparams,
             guint             n)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (1);
  GArray *tokens = g_array_sized_new (FALSE, FALSE, sizeof (gint32), n);
  gint32 least = hparams->n_vocab > 2 * FIRST_RANDOM ? FIRST_RANDOM : 0;

  for (guint i = 0; i < n; i++)
    {
      gint32 token = g_rand_int_range (random, least, (gint32) hparams->n_vocab);

      g_array_append_val (tokens, token);
    }
  return tokens;
}

static char *path;
static int n_tokens = 512, n_windows = 1;
/* Of the service's arithmetic instead, or of what is left out of the model. */
static gboolean is_arithmetic, is_by_operator, is_whole;

static const GOptionEntry entries[] = {
  TOOL_MODEL_ENTRIES,
  TOOL_MODEL_EXACT_ENTRY,
  TOOL_MODEL_SUB_MODEL_ENTRY,
  TOOL_MODEL_ACTIVE_ENTRIES,
  { "tokens", 0, 0, G_OPTION_ARG_INT, &n_tokens, N_("Tokens that are remembered (512)"), "N" },
  { "windows", 0, 0, G_OPTION_ARG_INT, &n_windows, N_("Pieces of the text at most (1)"), "N" },
  { "text", 0, 0, G_OPTION_ARG_FILENAME, &path, N_("A text, instead of random tokens"),
    N_("FILE") },
  { "arithmetic", 0, 0, G_OPTION_ARG_NONE, &is_arithmetic,
    N_("Compare the service's arithmetic with floats on the text, in windows of --tokens"), NULL },
  { "by-operator", 0, 0, G_OPTION_ARG_NONE, &is_by_operator,
    N_("With --arithmetic: also with all but one operator in floats, for each"), NULL },
  { "whole", 0, 0, G_OPTION_ARG_NONE, &is_whole,
    N_("Compare --sub-model or --active with the whole model on the text, in windows of --tokens"),
    NULL },
  TOOL_MODEL_KV_ENTRIES,
  { "call-tokens", 0, 0, G_OPTION_ARG_INT, &tool_model_options.n_call, N_("Tokens of a call (64)"),
    "N" },
  G_OPTION_ENTRY_NULL
};

/* Tokens of the text, or random ones; NULL with @error set. */
static GArray *
make_tokens (ToolModel  *model,
             GError    **error)
{
  guint n_ctx = model->hparams->n_ctx, n_needed = (guint) n_tokens + N_COMPARED;
  g_autofree char *text = path != NULL ? tool_read (path, error) : NULL;
  g_autoptr(GArray) tokens = NULL;

  if (path != NULL && text == NULL)
    return NULL;
  tokens = text != NULL ? tool_model_encode (model, text, TRUE)
                        : make_random (model->hparams, n_needed);
  if (n_needed > n_ctx)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 _("The model was made for %u tokens: --tokens is at most %u"), n_ctx,
                 n_ctx - MIN (n_ctx, N_COMPARED));
  else if (tokens->len < n_needed)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 _("The text has %u tokens: %u are needed"), tokens->len, n_needed);
  else
    return g_steal_pointer (&tokens);

  return NULL;
}

/* What is compared with: floats, or the model with nothing left out. */
static ToolModel *
open_reference (GError **error)
{
  ToolModelOptions options = tool_model_options;
  ToolModel *model;

  tool_model_options.is_exact = is_arithmetic || options.is_exact;
  tool_model_options.sub_model = tool_model_options.active = 0;
  model = tool_model_open (error);
  tool_model_options = options;
  return model;
}

static gboolean
measure_operators (const LlmArithmetic  *arithmetic,
                   const GArray         *tokens,
                   GError              **error)
{
  LlmArithmeticLoss loss;

  for (guint op = 0; op < LLM_N_OPS; op++)
    {
      if (!llm_operator_is_matrix (op) || llm_operator_is_looked_up (op)
          || op == LLM_OP_EXPERT_ROUTER || llm_operator_is_of_experts (op)
          || (op != LLM_OP_OUTPUT && !llm_operator_is_used (arithmetic->hparams, op)))
        continue;
      if (!llm_arithmetic_measure (arithmetic, op, tokens, (guint) n_tokens, (guint) n_windows,
                                   &loss, error))
        return FALSE;
      printf ("%s: mean divergence %.6f, same top %.2f %%\n", llm_operator_get_name (op),
              loss.mean, 100 * loss.same_top);
    }
  return TRUE;
}

static int
run_text (void)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *text = tool_read (path, &error);
  g_autoptr(ToolModel) reference = text != NULL ? open_reference (&error) : NULL;
  g_autoptr(ToolModel) model = reference != NULL ? tool_model_open (&error) : NULL;
  g_autoptr(GArray) tokens = NULL;
  LlmArithmetic arithmetic;
  LlmArithmeticLoss loss;

  if (model == NULL)
    return tool_fail (error);
  arithmetic = (LlmArithmetic) {
    .hparams = model->hparams, .tokenizer = model->tokenizer, .pool = model->pool,
    .reference_forward = reference->forward, .reference_store = reference->store,
    .reference_weights = reference->weights,
    .forward = model->forward, .store = model->store, .weights = model->weights,
  };
  tokens = tool_model_encode (model, text, TRUE);
  if (!llm_arithmetic_measure (&arithmetic, LLM_N_OPS, tokens, (guint) n_tokens, (guint) n_windows,
                               &loss, &error)
      || (is_by_operator && !measure_operators (&arithmetic, tokens, &error)))
    return tool_fail (error);

  printf ("scored: %u\nperplexity %s: %.4f\nperplexity: %.4f (%+.2f %%)\n"
          "mean divergence: %.6f\n99th percentile: %.6f\nlargest divergence: %.6f\n"
          "same top: %.2f %%\n",
          loss.n_scored, is_arithmetic ? "in floats" : "of the whole model", loss.reference_perplexity,
          loss.perplexity, llm_arithmetic_get_growth (&loss), loss.mean, loss.p99, loss.largest, 100 * loss.same_top);
  return TOOL_OK;
}

/* A sentence about what is wrong with the options, or NULL. */
static const char *
find_fault (void)
{
  const ToolModelOptions *options = &tool_model_options;
  gboolean leaves_out = options->sub_model != 0 || options->active != 0;

  if (n_tokens < 1 || n_windows < 1)
    return _("--tokens and --windows are 1 or more");
  if (n_tokens > G_MAXINT - N_COMPARED)
    return _("--tokens is too large");
  if (is_by_operator && !is_arithmetic)
    return _("--by-operator is for --arithmetic");
  if (is_arithmetic
      && (path == NULL || tool_model_has_policy () || options->is_exact || leaves_out || is_whole))
    return _("--arithmetic compares on a --text, without --exact, --sub-model, --active, --whole and --kv");
  if (is_whole && (path == NULL || tool_model_has_policy () || !leaves_out))
    return _("--whole compares --sub-model or --active on a --text, without --kv");
  if (!is_whole && options->active != 0)
    return _("--active is for --whole");
  if ((is_arithmetic || is_whole) && n_tokens < 4)
    return _("--tokens is 4 or more");
  return tool_model_options_check ();
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(LlmKvStore) plain = NULL;
  g_autoptr(GArray) tokens = NULL;
  g_autofree float *reference = NULL;
  const char *fault = find_fault ();
  gsize length = (gsize) n_tokens + N_COMPARED;
  Comparison comparison;

  if (fault != NULL)
    return tool_fail_usage (fault);
  if (is_arithmetic || is_whole)
    return run_text ();
  if (!tool_model_has_policy ())
    tool_model_options.kv = g_strdup ("llms");

  model = tool_model_open (&error);
  plain = model != NULL ? tool_model_new_store (model, NULL, &error) : NULL;
  tokens = plain != NULL ? make_tokens (model, &error) : NULL;
  if (tokens == NULL)
    return tool_fail (error);

  reference = g_new (float, (gsize) N_COMPARED * model->hparams->n_vocab);
  comparison = (Comparison) {
    .n_vocab = model->hparams->n_vocab, .first = (guint) n_tokens, .reference = reference
  };
  for (gsize w = 0; w < (gsize) n_windows && (w + 1) * length <= tokens->len; w++)
    {
      const gint32 *window = tool_model_tokens (tokens) + w * length;

      comparison.is_reference = TRUE;
      if (!run_window (model, plain, window, &comparison, &error))
        return tool_fail (error);
      comparison.is_reference = FALSE;
      if (!run_window (model, model->store, window, &comparison, &error))
        return tool_fail (error);
    }

  printf ("compared: %u\nmean divergence: %.6f\nlargest divergence: %.6f\nsame top: %.2f %%\n",
          comparison.n, comparison.sum / comparison.n, comparison.largest,
          100.0 * comparison.n_same_top / comparison.n);
  return TOOL_OK;
}

const ToolCommand tool_divergence = {
  "divergence",
  N_("Measure what packing context memory changes, or the arithmetic, or what is left out"), NULL,
  N_("How the logits of the next 32 tokens differ when what is remembered was "
     "packed between calls; or, with --arithmetic, how those of a text differ from what floats "
     "give, or, with --whole, from the whole model's. The last line is “same top: X %”."),
  0, entries, run,
};
