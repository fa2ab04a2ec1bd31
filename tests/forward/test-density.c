/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Density (L3) of a real model: a sample of the prompt's rows puts the chunks in nearly the
 * same order as all rows do, and as exact attention does; a step cut differently counts the same
 * rows.
 */

#include <math.h>

#include "forward-rig.h"
#include "forward/llm-attention.h"
#include "naive-model.h"
#include "tool/llm-measure.h"
#include "tokenizer/llm-tokenizer.h"
#include "weights/llm-repacked-cache.h"

#define N_TOKENS 768
#define N_CHUNKS (N_TOKENS / 16)
#define N_WINDOWS 4
/* That the naive model reads. */
#define N_NAIVE 400

static GArray *
read_tokens (ExecRig *rig)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "golden", "heldout_sgd_chatml.txt", NULL);
  g_autoptr(LlmTokenizer) tokenizer = llm_tokenizer_new (rig->gguf, NULL);
  GArray *tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autofree char *text = NULL;
  LlmTextPart part = { .is_markup = TRUE };

  g_assert_true (g_file_get_contents (path, &text, &part.length, NULL));
  part.text = text;
  llm_tokenizer_encode (tokenizer, &part, 1, TRUE, tokens);
  g_assert_cmpuint (tokens->len, >, N_WINDOWS * N_TOKENS);
  return tokens;
}

/* Generated rows are all counted. */
static void
find_densities (ExecRig        *rig,
                const gint32   *tokens,
                LlmMeasureKind  kind,
                guint           n_call,
                float          *densities)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);

  for (guint end = n_call; end <= N_TOKENS; end += n_call)
    g_assert_true (llm_measure_rows (rig->forward, seq, tokens, end, kind, 0, NULL,
                                    NULL, NULL));
  for (guint i = 0; i < N_CHUNKS; i++)
    densities[i] = llm_kv_seq_get_density (seq, i);
}

static guint
get_rank (const float *values,
          guint        n,
          guint        index)
{
  guint rank = 0;

  for (guint i = 0; i < n; i++)
    rank += values[i] < values[index] || (values[i] == values[index] && i < index);

  return rank;
}

/* Spearman's. */
static double
correlate (const float *a,
           const float *b,
           guint        n)
{
  double sum = 0;

  for (guint i = 0; i < n; i++)
    sum += pow ((double) get_rank (a, n, i) - (double) get_rank (b, n, i), 2);

  return 1 - 6 * sum / ((double) n * ((double) n * n - 1));
}

static void
test_sample (void)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F16 };
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  g_autoptr(GArray) tokens = read_tokens (rig);

  llm_forward_set_density (rig->forward, TRUE);
  for (guint w = 0; w < N_WINDOWS; w++)
    {
      const gint32 *window = (const gint32 *) (gpointer) tokens->data + w * N_TOKENS;
      float all[N_CHUNKS], sampled[N_CHUNKS], cut[N_CHUNKS];
      double correlation, sum = 0;

      find_densities (rig, window, LLM_MEASURE_ANSWER, N_TOKENS, all);
      find_densities (rig, window, LLM_MEASURE_PROMPT, N_TOKENS, sampled);
      find_densities (rig, window, LLM_MEASURE_PROMPT, 64, cut);
      correlation = correlate (all, sampled, N_CHUNKS);
      g_test_message ("window %u: correlation %.4f", w, correlation);
      g_assert_cmpfloat (correlation, >=, 0.95);

      for (guint i = 0; i < N_CHUNKS; i++)
        {
          g_assert_cmpmem (&cut[i], sizeof cut[i], &sampled[i], sizeof sampled[i]);
          sum += sampled[i];
        }
      g_assert_cmpfloat (sum, >, 0.5);
      /* What everybody looks at. */
      g_assert_cmpuint (get_rank (sampled, N_CHUNKS, 0), >=, N_CHUNKS / 2);
    }
}

/* Equation 1 in double, from the file's own weights: of each chunk what all rows that see it gave it
 * on the mean, those that see a part of it for that part. */
static void
find_exact (ExecRig      *rig,
            const gint32 *tokens,
            float        *densities)
{
  g_autoptr(NaiveModel) model = naive_model_new (rig->gguf, &rig->hparams);
  g_autofree double *logits = g_new (double, (gsize) N_NAIVE * rig->hparams.n_vocab);
  g_autofree double *given = g_new0 (double, (gsize) N_NAIVE * N_NAIVE);
  guint positions[N_NAIVE];
  const NaiveRun run = { .tokens = tokens, .positions = positions, .n_rows = N_NAIVE,
                         .sees = naive_sees_causal, .given = given };

  for (guint i = 0; i < N_NAIVE; i++)
    positions[i] = i;
  naive_model_run (model, &run, logits, NULL);
  for (guint chunk = 0; chunk < N_NAIVE / 16; chunk++)
    {
      double received = 0, n_slots = 0;

      for (guint row = chunk * 16; row < N_NAIVE; row++)
        for (guint slot = chunk * 16; slot < chunk * 16 + 16 && slot <= row; slot++)
          {
            received += given[(gsize) row * N_NAIVE + slot];
            n_slots++;
          }
      densities[chunk] = (float) (received / n_slots * 16);
    }
}

/* The service's weights, KV cache and sample of rows against none of them. */
static void
test_exact (gconstpointer data)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F16 };
  g_autoptr(ExecRig) rig = exec_rig_open (data, &config);
  g_autoptr(GArray) tokens = read_tokens (rig);
  g_autoptr(GError) error = NULL;
  LlmWeights *weights = llm_weights_new_repacked (rig->gguf, &rig->hparams, NULL, NULL, 2,
                                                  rig->ledger, &error);

  g_assert_no_error (error);
  llm_weights_free (rig->weights);
  exec_rig_set_weights (rig, weights, &config);
  llm_forward_set_density (rig->forward, TRUE);
  for (guint w = 0; w < 2; w++)
    {
      const gint32 *window = (const gint32 *) (gpointer) tokens->data + (2 * w + 1) * N_TOKENS;
      g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      float exact[N_NAIVE / 16], found[N_NAIVE / 16];
      double correlation;

      find_exact (rig, window, exact);
      g_assert_true (llm_measure_rows (rig->forward, seq, window, N_NAIVE, LLM_MEASURE_PROMPT, 0, NULL, NULL,
                                       NULL));
      for (guint i = 0; i < N_NAIVE / 16; i++)
        found[i] = llm_kv_seq_get_density (seq, i);
      correlation = correlate (exact, found, N_NAIVE / 16);
      g_test_message ("window %u: correlation with exact attention %.4f", w, correlation);
      g_assert_cmpfloat (correlation, >=, 0.95);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_autofree char *shipped = NULL;
  g_autofree char *other = NULL;

  g_test_init (&argc, &argv, NULL);
  shipped = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  other = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", "llmsvc-demo-7M-Q4_0.gguf", NULL);

  g_test_add_func ("/density/sample", test_sample);
  g_test_add_data_func ("/density/exact/8M", shipped, test_exact);
  g_test_add_data_func ("/density/exact/7M", other, test_exact);

  return g_test_run ();
}
