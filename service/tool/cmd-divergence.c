/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "forward/llm-measured-call.h"
#include "weights/llm-prepared-copy.h"
#include "tool-model.h"

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
            guint          n_tokens,
            guint          n_call,
            Comparison    *comparison,
            GError       **error)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  gboolean is_read = TRUE;

  for (guint first = 0; is_read && first < n_tokens; first += n_call)
    {
      guint end = MIN (first + n_call, n_tokens);

      if (!llm_measured_call_begin (seq, end - first, error))
        return FALSE;
      is_read = llm_measured_call_read (model->forward, seq, tokens, end, LLK_ROWS_PROMPT, 0, NULL,
                                        NULL, error);
      llm_measured_call_end (store, seq, tokens);
    }
  if (!is_read || !llm_measured_call_begin (seq, N_COMPARED, error))
    return FALSE;

  is_read = llm_measured_call_read (model->forward, seq, tokens, n_tokens + N_COMPARED,
                                    LLK_ROWS_GENERATED, n_tokens, compare, comparison, error);
  llm_measured_call_end (store, seq, tokens);
  return is_read;
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

static gboolean
check_tokens (GArray            *tokens,
              const LlmHparams  *hparams,
              guint              n_tokens,
              GError           **error)
{
  if (n_tokens + N_COMPARED > hparams->n_ctx)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 _("The model was made for %u tokens: --tokens is at most %u"), hparams->n_ctx,
                 hparams->n_ctx - MIN (hparams->n_ctx, N_COMPARED));
  else if (tokens->len < n_tokens + N_COMPARED)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                 _("The text has %u tokens: %u are needed"), tokens->len, n_tokens + N_COMPARED);
  else
    return TRUE;

  return FALSE;
}

int
tool_divergence (int    argc,
                 char **argv)
{
  g_auto(ToolModelOptions) options = TOOL_MODEL_OPTIONS;
  g_autofree char *path = NULL;
  int n_tokens = 512;
  int n_windows = 1;
  const GOptionEntry entries[] = {
    TOOL_MODEL_ENTRIES (&options),
    { "tokens", 0, 0, G_OPTION_ARG_INT, &n_tokens, N_("Tokens that are remembered (512)"), "N" },
    { "windows", 0, 0, G_OPTION_ARG_INT, &n_windows, N_("Pieces of the text at most (1)"), "N" },
    { "text", 0, 0, G_OPTION_ARG_FILENAME, &path, N_("A text, instead of random tokens"),
      N_("FILE") },
    TOOL_MODEL_KV_ENTRIES (&options),
    { "call-tokens", 0, 0, G_OPTION_ARG_INT, &options.n_call, N_("Tokens of a call (64)"), "N" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(LlmKvStore) plain = NULL;
  g_autoptr(GArray) tokens = NULL;
  g_autofree float *reference = NULL;
  const char *fault;
  Comparison comparison;
  guint length;

  if (!tool_parse (&argc, &argv, entries, NULL,
                   N_("How the logits of the next 32 tokens differ when what is remembered was "
                      "packed between calls. The last line is “same top: X %”."), 0))
    return TOOL_USAGE;
  fault = n_tokens < 1 || n_windows < 1 ? _("--tokens and --windows are 1 or more")
                                        : tool_model_options_check (&options);
  if (fault == NULL && n_tokens > G_MAXINT - N_COMPARED)
    fault = _("--tokens is too large");
  if (fault != NULL)
    {
      g_printerr ("llmsvc-tool: %s\n", fault);
      return TOOL_USAGE;
    }
  if (!tool_model_has_policy (&options))
    options.kv = g_strdup ("llms");

  model = tool_model_open (&options, &error);
  plain = model != NULL ? tool_model_new_store (model, &options, &error) : NULL;
  if (plain == NULL)
    return tool_fail (error);

  length = (guint) n_tokens;
  if (path != NULL)
    {
      g_autofree char *text = tool_read (path, &error);

      if (text == NULL)
        return tool_fail (error);
      tokens = tool_model_encode (model, text, TRUE);
    }
  else
    {
      tokens = make_random (model->hparams, length + N_COMPARED);
    }
  if (!check_tokens (tokens, model->hparams, length, &error))
    return tool_fail (error);

  reference = g_new (float, (gsize) N_COMPARED * model->hparams->n_vocab);
  comparison =
    (Comparison) { .n_vocab = model->hparams->n_vocab, .first = length, .reference = reference };
  for (guint w = 0; w < (guint) n_windows && (gsize) (w + 1) * (length + N_COMPARED) <= tokens->len;
       w++)
    {
      const gint32 *window =
        (const gint32 *) (gpointer) tokens->data + (gsize) w * (length + N_COMPARED);

      comparison.is_reference = TRUE;
      if (!run_window (model, plain, window, length, (guint) options.n_call, &comparison, &error))
        return tool_fail (error);
      comparison.is_reference = FALSE;
      if (!run_window (model, model->store, window, length, (guint) options.n_call, &comparison,
                       &error))
        return tool_fail (error);
    }

  printf ("compared: %u\nmean divergence: %.6f\nlargest divergence: %.6f\nsame top: %.2f %%\n",
          comparison.n, comparison.sum / comparison.n, comparison.largest,
          100.0 * comparison.n_same_top / comparison.n);
  fflush (stdout);
  llm_prepared_copy_wait_for_all ();
  return TOOL_OK;
}
