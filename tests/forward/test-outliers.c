/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Outliers cost the arithmetic next to nothing, on every set of kernels: a few channels, of all
 * layers or of some, that are many times as large as the others, while what multiplies them is as
 * much smaller.
 */

#include "w8/llm-backend-q8.h"
#include "forward-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"
#include "w8/bench-outliers.h"

#define N_TOKENS 48
/* Logits' errors at most, beside those of the model without outliers. Weights that are so much smaller
 * than others of their block lose digits when they are made Q8_0, which is part of it: errors are
 * 1.4, 2.9 and 7 times as large. With one scale for all values of a run they are 7, 15 and 22 times. */
typedef struct
{
  double factor;
  guint n_layers;
  double most;
} Injected;

static float *
run (const char *path,
     const char *kernels,
     LlmBackend *device,
     gsize      *n)
{
  const ExecRigConfig config = { .n_threads = 2, .kernels = kernels, .device = device,
                                 .format = LLK_KV_F32 };
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gint32 tokens[N_TOKENS];
  float *logits;

  *n = (gsize) N_TOKENS * rig->hparams.n_vocab;
  logits = g_new (float, *n);
  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = (gint32) (i * 101 % rig->hparams.n_vocab);
  exec_rig_prompt (rig, seq, tokens, N_TOKENS, 20, logits);
  return logits;
}

static void
test_injected (gconstpointer data)
{
  const Injected *injected = data;
  const LlmTestModel shape = { .n_layers = 4, .n_embd = 256, .n_heads = 4, .n_kv_heads = 2,
                               .n_ff = 512, .seed = 3 };
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "plain.gguf", NULL);
  g_autofree char *copy = g_build_filename (folder, "outliers.gguf", NULL);
  g_autofree float *plain = NULL, *exact = NULL;
  g_autoptr(GError) error = NULL;
  gsize n;

  llm_test_model_write (&shape, path);
  g_assert_true (bench_outliers_inject (path, injected->factor, injected->n_layers, copy, &error));
  plain = run (path, NULL, NULL, &n);
  exact = run (copy, NULL, NULL, &n);
  g_assert_cmpfloat (exec_rig_get_distance (exact, plain, n), <, 1e-4);

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autoptr(ExecRig) rig = exec_rig_open (copy, &(ExecRigConfig) { .n_threads = 1 });
      g_autoptr(LlmBackend) q8 = llm_backend_q8_new (llk_ops_find (*kernels), &rig->hparams);
      g_autoptr(LlmBackend) other = llm_backend_q8_new (llk_ops_find (*kernels), &rig->hparams);
      g_autofree float *with = run (copy, *kernels, q8, &n);
      g_autofree float *without = run (path, *kernels, other, &n);
      double expected = exec_rig_get_distance (without, plain, n);

      g_test_message ("%s: %g, without outliers %g", *kernels, exec_rig_get_distance (with, exact, n),
                      expected);
      g_assert_cmpfloat (exec_rig_get_distance (with, exact, n), <=, injected->most * expected);
    }
  llm_test_folder_remove (folder);
}

int
main (int    argc,
      char **argv)
{
  static const Injected even_30 = { 30, 0, 2 }, even_100 = { 100, 0, 4 },
                        even_1000 = { 1000, 0, 9 }, uneven_30 = { 30, 1, 2 },
                        uneven_100 = { 100, 1, 4 };

  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/outliers/30", &even_30, test_injected);
  g_test_add_data_func ("/outliers/100", &even_100, test_injected);
  g_test_add_data_func ("/outliers/1000", &even_1000, test_injected);
  g_test_add_data_func ("/outliers/30/uneven", &uneven_30, test_injected);
  g_test_add_data_func ("/outliers/100/uneven", &uneven_100, test_injected);
  return g_test_run ();
}
