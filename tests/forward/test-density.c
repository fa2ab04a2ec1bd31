/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Density (L3) of a real model: a sample of the prompt's rows puts the chunks in nearly the
 * same order as all rows do; a step cut differently counts the same rows.
 */

#include <math.h>
#include <string.h>

#include "forward-rig.h"
#include "forward/llm-attention.h"
#include "tool/llm-measure.h"
#include "model/tokenizer/llm-tokenizer.h"

#define N_TOKENS 768
#define N_CHUNKS (N_TOKENS / 16)
#define N_WINDOWS 4

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
find_densities (ExecRig      *rig,
                const gint32 *tokens,
                gboolean      is_generated,
                guint         n_call,
                float        *densities)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);

  for (guint end = n_call; end <= N_TOKENS; end += n_call)
    g_assert_true (llm_measure_rows (rig->forward, seq, tokens, end, is_generated, 0, NULL,
                                    NULL, NULL));
  for (guint i = 0; i < N_CHUNKS; i++)
    densities[i] = llm_kv_seq_get_density (seq, i);
}

static guint
get_rank (const float *values,
          guint        index)
{
  guint rank = 0;

  for (guint i = 0; i < N_CHUNKS; i++)
    rank += values[i] < values[index] || (values[i] == values[index] && i < index);

  return rank;
}

/* Spearman's. */
static double
correlate (const float *a,
           const float *b)
{
  const double n = N_CHUNKS;
  double sum = 0;

  for (guint i = 0; i < N_CHUNKS; i++)
    sum += pow ((double) get_rank (a, i) - (double) get_rank (b, i), 2);

  return 1 - 6 * sum / (n * (n * n - 1));
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

      find_densities (rig, window, TRUE, N_TOKENS, all);
      find_densities (rig, window, FALSE, N_TOKENS, sampled);
      find_densities (rig, window, FALSE, 64, cut);
      correlation = correlate (all, sampled);
      g_test_message ("window %u: correlation %.4f", w, correlation);
      g_assert_cmpfloat (correlation, >=, 0.95);

      for (guint i = 0; i < N_CHUNKS; i++)
        {
          g_assert_cmpmem (&cut[i], sizeof cut[i], &sampled[i], sizeof sampled[i]);
          sum += sampled[i];
        }
      g_assert_cmpfloat (sum, >, 0.5);
      /* What everybody looks at. */
      g_assert_cmpuint (get_rank (sampled, 0), >=, N_CHUNKS / 2);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/density/sample", test_sample);

  return g_test_run ();
}
