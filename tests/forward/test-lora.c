/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The numbers of adapters: against another program, and against weights that they were added to. */

#include "lora-rig.h"

#include <math.h>
#include <string.h>

#include "naive-model.h"
#include "weights/llm-repacked-cache.h"

#define STEP 11
/* Of logits of another program. */
#define PEER_TOLERANCE 1e-3
/* Relative to the largest logit: sums of floats in another order. */
#define MERGED_TOLERANCE 1e-4
/* How far the model without the adapter must be from it, in tolerances. */
#define MISSED 1000

/* --- weights that an adapter was added to --- */

/* (transfer full) */
static float *
read_tensor (LlmGguf    *file,
             const char *base,
             const char *suffix,
             guint64    *dims)
{
  g_autofree char *name = g_strconcat (base, suffix, NULL);
  const LlmGgufTensor *tensor = llm_gguf_find_tensor (file, name);
  float *values;

  if (tensor == NULL)
    return NULL;
  memcpy (dims, tensor->dims, 2 * sizeof *dims);
  values = g_new (float, dims[0] * dims[1]);
  llm_test_dequantize (tensor->type, llm_file_map_get_data (file->map) + tensor->offset,
                       dims[0] * dims[1], values);
  return values;
}

/* (transfer full): the file of @model, F32, with @adapter added to its matrices. */
static GBytes *
merge (LlmGguf *model,
       LlmGguf *adapter)
{
  gsize size = llm_file_map_get_size (model->map);
  guint8 *bytes = g_memdup2 (llm_file_map_get_data (model->map), size);
  guint n_merged = 0;
  double alpha;

  g_assert_true (llm_gguf_get_double (adapter, "adapter.lora.alpha", 0, 1e3, NULL, &alpha, NULL));
  for (guint t = 0; t < model->tensors->len; t++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (model, t);
      guint64 a_dims[2], b_dims[2];
      g_autofree float *a = read_tensor (adapter, tensor->name, ".lora_a", a_dims);
      g_autofree float *b = read_tensor (adapter, tensor->name, ".lora_b", b_dims);
      float *w = (float *) (gpointer) (bytes + tensor->offset);

      if (a == NULL)
        continue;
      g_assert_cmpint (tensor->type, ==, LLK_F32);
      for (gsize o = 0; o < b_dims[1]; o++)
        for (gsize i = 0; i < a_dims[0]; i++)
          {
            double sum = 0;

            for (gsize r = 0; r < b_dims[0]; r++)
              sum += (double) b[o * b_dims[0] + r] * (double) a[r * a_dims[0] + i];
            w[o * a_dims[0] + i] += (float) (sum * alpha / (double) b_dims[0]);
          }
      n_merged += 2;
    }
  g_assert_cmpuint (n_merged, ==, adapter->tensors->len);
  return g_bytes_new_take (bytes, size);
}

/* The largest difference; @largest: (out): the largest of @expected. */
static double
compare (ExecRig     *rig,
         const float *found,
         const float *expected,
         double      *largest)
{
  double worst = 0;

  *largest = 0;
  for (gsize i = 0; i < (gsize) LORA_N_TOKENS * rig->hparams.n_vocab; i++)
    {
      if (!isfinite (found[i]))
        return INFINITY;
      worst = MAX (worst, fabs ((double) found[i] - (double) expected[i]));
      *largest = MAX (*largest, fabs ((double) expected[i]));
    }
  return worst;
}

/* How far from those in double the rig's logits may be: of @merged, at a level of the rig's. */
static double
get_tolerance (ExecRig *rig,
               GBytes  *merged,
               guint    level)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (merged, "merged", &error);
  g_autoptr(NaiveModel) naive = naive_model_new (gguf, &rig->hparams);
  g_autofree double *logits = g_new (double, LORA_N_TOKENS * rig->hparams.n_vocab);
  gint32 tokens[LORA_N_TOKENS];
  guint positions[LORA_N_TOKENS];
  const NaiveRun run = {
    .tokens = tokens, .positions = positions, .n_rows = LORA_N_TOKENS, .sees = naive_sees_causal,
    .sub_models = rig->weights->sub_models, .level = level,
  };

  g_assert_no_error (error);
  lora_rig_fill_tokens (tokens);
  for (guint i = 0; i < LORA_N_TOKENS; i++)
    positions[i] = i;
  naive_model_run (naive, &run, logits, NULL);
  return naive_model_get_tolerance (naive, &run, rig->plan->config.kernels, logits);
}

/* Both sides round, each on its own. */
static void
assert_merged (ExecRig     *rig,
               GBytes      *merged,
               guint        level,
               const float *found,
               const float *expected,
               const float *without)
{
  double largest;
  double difference = compare (rig, found, expected, &largest);
  double tolerance = 2 * get_tolerance (rig, merged, level);

  g_test_message ("%g of %g, %g on tiles", difference, largest, tolerance);
  g_assert_cmpfloat (difference, <=, MAX (MERGED_TOLERANCE * largest, tolerance));
  g_assert_cmpfloat (compare (rig, without, expected, &largest), >,
                     MISSED * MERGED_TOLERANCE * largest);
}

/* --- against others --- */

/* Logits of llama.cpp: data/lora/README.md. */
static void
test_peer (gconstpointer data)
{
  g_autofree char *model_path = lora_rig_get_path ("architectures", data, ".gguf");
  g_autofree char *adapter_path = lora_rig_get_path ("lora", data, ".gguf");
  g_autofree char *logits_path = lora_rig_get_path ("lora", data, ".logits");

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      ExecRigConfig config = { .n_threads = 2, .kernels = *kernels };
      g_autoptr(ExecRig) rig = exec_rig_open (model_path, &config);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmGguf) adapter = llm_gguf_open (adapter_path, &error);
      g_autoptr(GBytes) merged = merge (rig->gguf, adapter);
      g_autofree float *without = lora_rig_run (rig, 0, 0, STEP);
      g_autofree float *found = NULL;
      g_autofree float *expected = NULL;
      g_autofree char *bytes = NULL;
      double difference, largest;
      gsize length;

      g_assert_no_error (error);
      g_file_get_contents (logits_path, &bytes, &length, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (length, ==, lora_rig_count_bytes (rig));
      expected = g_memdup2 (bytes, length);
      lora_rig_set (rig, &config, &adapter, 1);
      found = lora_rig_run (rig, 1, 0, STEP);
      difference = compare (rig, found, expected, &largest);
      g_test_message ("%s: %g, the largest logit is %g", *kernels, difference, largest);
      g_assert_cmpfloat (difference, <=, MAX (PEER_TOLERANCE, get_tolerance (rig, merged, 0)));
      g_assert_cmpfloat (compare (rig, without, expected, &largest), >, MISSED * PEER_TOLERANCE);
    }
}

/* Norms behind the products, matrices in one tensor, experts, for which there are no adapters; also
 * of a rank above all that the model has. */
static void
test_merged (gconstpointer data)
{
  g_autofree char *path = lora_rig_get_path ("architectures", data, ".gguf");

  for (guint rank = 3; rank <= 203; rank += 200)
    {
      ExecRigConfig config = { .n_threads = 2 };
      g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
      g_autoptr(LlmGguf) adapter = lora_rig_new_file (rig, rank, 1);
      g_autoptr(GBytes) merged = merge (rig->gguf, adapter);
      g_autoptr(ExecRig) other = exec_rig_new (merged, &config);
      gsize bytes = lora_rig_count_bytes (rig);
      g_autofree float *expected = lora_rig_run (other, 0, 0, STEP);
      g_autofree float *without = lora_rig_run (rig, 0, 0, STEP);
      g_autofree float *found = NULL;
      g_autofree float *still_without = NULL;

      lora_rig_set (rig, &config, &adapter, 1);
      found = lora_rig_run (rig, 1, 0, STEP);
      assert_merged (rig, merged, 0, found, expected, without);
      still_without = lora_rig_run (rig, 0, 0, STEP);
      g_assert_cmpmem (still_without, bytes, without, bytes);
    }
}

/* Heads and channels that a level lacks, the adapter lacks, too. */
static void
test_levels (void)
{
  ExecRigConfig config = { .n_threads = 2 };
  const SplitConfig split = { .n_levels = 9 };
  SplitCounts counts = { 0 };

  for (guint rank = 5; rank <= 255; rank += 250)
    {
      g_autoptr(ExecRig) rig = lora_rig_new_split (LLK_F32, &config, &counts);
      g_autoptr(ExecRig) plain = lora_rig_new_split (LLK_F32, &config, &counts);
      g_autoptr(LlmGguf) adapter = lora_rig_new_file (rig, rank, 2);
      g_autoptr(GBytes) merged = merge (rig->gguf, adapter);
      g_autoptr(ExecRig) other = exec_rig_new (merged, &config);

      exec_rig_set_weights (other,
                            split_weights_new (other->weights, &other->hparams, &split, &counts),
                            &config);
      lora_rig_set (rig, &config, &adapter, 1);
      for (guint level = 0; level < 9; level++)
        {
          g_autofree float *found = lora_rig_run (rig, 1, level, STEP);
          g_autofree float *expected = lora_rig_run (other, 0, level, STEP);
          g_autofree float *without = lora_rig_run (plain, 0, level, STEP);

          assert_merged (rig, merged, level, found, expected, without);
        }
    }
}

/* Repacked weights, of F32 also sums of floats; and a row's bits in steps of any size. */
static void
test_packed (gconstpointer data)
{
  const LlkType type = GPOINTER_TO_UINT (data);
  const LlmTestModel shape = { .type = type, .n_kv_heads = 2, .is_untied = TRUE, .seed = 3 };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  ExecRigConfig config = { .n_threads = 2 };
  g_autoptr(ExecRig) rig = exec_rig_new (model, &config);
  g_autoptr(LlmGguf) adapter = lora_rig_new_file (rig, 4, 1);
  g_autoptr(GError) error = NULL;
  g_autofree float *exact = NULL;
  g_autofree float *single = NULL;
  g_autofree float *together = NULL;
  double largest;

  lora_rig_set (rig, &config, &adapter, 1);
  exact = lora_rig_run (rig, 1, 0, STEP);
  llm_weights_free (rig->weights);
  rig->weights = llm_weights_new_repacked (rig->gguf, &rig->hparams, NULL, NULL, 2, rig->ledger,
                                           &error);
  g_assert_no_error (error);
  lora_rig_set (rig, &config, &adapter, 1);
  single = lora_rig_run (rig, 1, 0, 1);
  together = lora_rig_run (rig, 1, 0, LORA_N_TOKENS);
  g_assert_cmpmem (single, lora_rig_count_bytes (rig), together, lora_rig_count_bytes (rig));
  if (type == LLK_F32)
    {
      g_autoptr(GBytes) merged = merge (rig->gguf, adapter);
      double difference = compare (rig, single, exact, &largest);

      g_assert_cmpfloat (difference, <=, MAX (MERGED_TOLERANCE * largest,
                                              2 * get_tolerance (rig, merged, 0)));
    }
}

int
main (int   argc,
      char *argv[])
{
  static const char *const peers[] = { "llama-llama3", "phi3", "qwen3" };
  static const char *const models[] = { "llama-llama3", "llama-biases", "llama-experts", "gemma2",
                                        "phi3-long", "qwen3", "smollm3" };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (peers); i++)
    {
      g_autofree char *path = g_strdup_printf ("/lora/peer/%s", peers[i]);

      g_test_add_data_func (path, peers[i], test_peer);
    }
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree char *path = g_strdup_printf ("/lora/merged/%s", models[i]);

      g_test_add_data_func (path, models[i], test_merged);
    }
  g_test_add_func ("/lora/levels", test_levels);
  g_test_add_data_func ("/lora/packed/F32", GUINT_TO_POINTER (LLK_F32), test_packed);
  g_test_add_data_func ("/lora/packed/Q8_0", GUINT_TO_POINTER (LLK_Q8_0), test_packed);
  return g_test_run ();
}
