/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of llmsvc-bench make-gguf: their weights are what was asked for, and the
 * engine runs them. */

#include <math.h>
#include <string.h>

#include <glib/gstdio.h>

#include "bench/bench-rig.h"
#include "forward/forward-rig.h"
#include "model/llm-model.h"
#include "support/llm-test-folder.h"

static char *folder;
static char *path;

static const LlkType types[] = {
  LLK_F32, LLK_F16, LLK_BF16, LLK_Q4_0, LLK_Q4_1, LLK_Q5_0, LLK_Q5_1, LLK_Q8_0, LLK_Q2_K,
  LLK_Q3_K, LLK_Q4_K, LLK_Q5_K, LLK_Q6_K, LLK_IQ4_NL, LLK_IQ4_XS, LLK_MXFP4,
  LLK_Q1_0, LLK_IQ2_XXS, LLK_IQ2_XS, LLK_IQ2_S, LLK_IQ3_XXS, LLK_IQ3_S,
};

static const char *const mixtures[] = { "Q3_K_M", "Q4_K_M", "Q5_K_M" };

static double
get_deviation (const float *values,
               gsize        n,
               double      *mean)
{
  double sum = 0, squares = 0;

  for (gsize i = 0; i < n; i++)
    {
      g_assert_true (isfinite (values[i]));
      sum += values[i];
    }
  *mean = sum / (double) n;
  for (gsize i = 0; i < n; i++)
    squares += (values[i] - *mean) * (values[i] - *mean);
  return sqrt (squares / (double) n);
}

/* --- files --- */

/* Logits depend on all tokens, and are of ordinary size. @scale: of the model's logits */
static void
check_runs (double scale)
{
  static const gint32 tokens[] = { 300, 411, 522, 633 }, others[] = { 301, 411, 522, 633 };
  const ExecRigConfig config = { .n_threads = 1 };
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  guint n_vocab = rig->hparams.n_vocab, n_tokens = G_N_ELEMENTS (tokens);
  LlmKvSeq *first = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmKvSeq *second = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autofree float *logits = g_new (float, n_tokens * n_vocab);
  g_autofree float *changed = g_new (float, n_tokens * n_vocab);
  double mean, deviation;

  exec_rig_prompt (rig, first, tokens, n_tokens, n_tokens, logits);
  exec_rig_prompt (rig, second, others, n_tokens, n_tokens, changed);
  deviation = get_deviation (logits, n_tokens * n_vocab, &mean);
  g_assert_cmpfloat (fabs (mean), <, 0.5 * scale);
  g_assert_cmpfloat (deviation, >, 1.5 * scale);
  g_assert_cmpfloat (deviation, <, 4 * scale);
  g_assert_cmpint (memcmp (logits + 3 * n_vocab, changed + 3 * n_vocab,
                           n_vocab * sizeof (float)), !=, 0);
  llm_kv_seq_free (first);
  llm_kv_seq_free (second);
}

/* Random weights of inputs of deviation 1 give outputs of deviation 1. */
static void
check_weights (LlkType type)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  const LlmGgufTensor *tensor;
  g_autofree char *file = NULL;
  g_autofree float *values = NULL;
  double mean, deviation, wanted;
  gsize n;

  g_assert_no_error (error);
  tensor = llm_gguf_find_tensor (gguf, "blk.1.ffn_gate.weight");
  g_assert_cmpuint (tensor->type, ==, type);
  g_file_get_contents (path, &file, NULL, &error);
  g_assert_no_error (error);
  n = tensor->dims[0] * tensor->dims[1];
  wanted = 1 / sqrt ((double) tensor->dims[0]);
  values = g_new (float, n);
  llk_ops_portable ()->vector->unpack (type, file + tensor->offset, values, n);
  deviation = get_deviation (values, n, &mean);
  g_assert_cmpfloat (fabs (mean), <, wanted / 30);
  g_assert_cmpfloat (deviation, >, wanted * 0.9);
  g_assert_cmpfloat (deviation, <, wanted * 1.15);
}

static void
check_model (void)
{
  const LlmTextPart part = { "Hello, world! ÄÖÜ", strlen ("Hello, world! ÄÖÜ"), FALSE };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (path, &error);
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GString) text = g_string_new (NULL);

  g_assert_no_error (error);
  g_assert_nonnull (llm_model_get_template (model, &error));
  g_assert_no_error (error);
  llm_tokenizer_encode (llm_model_get_tokenizer (model), &part, 1, FALSE, tokens);
  for (guint i = 0; i < tokens->len; i++)
    llm_tokenizer_decode_token (llm_model_get_tokenizer (model),
                                g_array_index (tokens, gint32, i), FALSE, text);
  g_assert_cmpstr (g_strchug (text->str), ==, part.text);
}

static void
test_shape (gconstpointer data)
{
  const char *shape = data;

  for (guint i = 0; i < G_N_ELEMENTS (types) + G_N_ELEMENTS (mixtures); i++)
    {
      const char *type = i < G_N_ELEMENTS (types) ? llk_type_name (types[i])
                                                  : mixtures[i - G_N_ELEMENTS (types)];

      g_test_message ("%s", type);
      bench_rig_make_gguf (path, shape, type, "0");
      check_runs (1);
      if (strcmp (shape, "tiny-llama") == 0 && i < G_N_ELEMENTS (types))
        check_weights (types[i]);
    }
  check_model ();
}

static const LlmGgufTensor *
find_tensor (LlmGguf    *gguf,
             const char *tensor,
             int         layer)
{
  g_autofree char *name = layer < 0 ? g_strdup (tensor)
                                    : g_strdup_printf ("blk.%d.%s", layer, tensor);
  const LlmGgufTensor *found = llm_gguf_find_tensor (gguf, name);

  g_assert_nonnull (found);
  return found;
}

static void
check_type (LlmGguf    *gguf,
            const char *tensor,
            int         layer,
            LlkType     type)
{
  g_assert_cmpstr (llk_type_name (find_tensor (gguf, tensor, layer)->type), ==,
                   llk_type_name (type));
}

/* Which tensors of a mixture get which type. */
static void
test_mixtures (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) q4_k_m = NULL;
  g_autoptr(LlmGguf) q3_k_m = NULL;
  g_autoptr(LlmGguf) q4_0 = NULL;
  g_autoptr(LlmGguf) narrow = NULL;

  bench_rig_make_gguf (path, "tiny-llama", "Q4_K_M", "16");
  q4_k_m = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  for (int layer = 0; layer < 16; layer++)
    {
      /* The first and last two; of those between every third. */
      gboolean has_more = layer < 2 || layer >= 14 || layer == 4 || layer == 7 || layer == 10 ||
                          layer == 13;

      check_type (q4_k_m, "attn_v.weight", layer, has_more ? LLK_Q6_K : LLK_Q4_K);
      check_type (q4_k_m, "ffn_down.weight", layer, has_more ? LLK_Q6_K : LLK_Q4_K);
      check_type (q4_k_m, "attn_q.weight", layer, LLK_Q4_K);
      check_type (q4_k_m, "attn_norm.weight", layer, LLK_F32);
    }
  check_type (q4_k_m, "output.weight", -1, LLK_Q6_K);
  check_type (q4_k_m, "token_embd.weight", -1, LLK_Q4_K);

  g_remove (path);
  bench_rig_make_gguf (path, "tiny-llama", "Q3_K_M", "32");
  q3_k_m = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  check_type (q3_k_m, "attn_v.weight", 1, LLK_Q5_K);
  check_type (q3_k_m, "attn_v.weight", 2, LLK_Q4_K);
  check_type (q3_k_m, "ffn_down.weight", 1, LLK_Q5_K);
  check_type (q3_k_m, "ffn_down.weight", 2, LLK_Q4_K);
  check_type (q3_k_m, "attn_output.weight", 5, LLK_Q4_K);
  check_type (q3_k_m, "ffn_up.weight", 5, LLK_Q3_K);

  g_remove (path);
  bench_rig_make_gguf (path, "tiny-llama", "Q4_0", "2");
  q4_0 = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  check_type (q4_0, "output.weight", -1, LLK_Q6_K);
  check_type (q4_0, "attn_v.weight", 0, LLK_Q4_0);

  /* 384 inputs are no whole blocks of 256, 512 are. */
  g_remove (path);
  bench_rig_make_gguf (path, "tiny-qwen2", "Q4_K_M", "16");
  narrow = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  check_type (narrow, "token_embd.weight", -1, LLK_Q8_0);
  check_type (narrow, "attn_q.weight", 0, LLK_Q5_0);
  check_type (narrow, "attn_v.weight", 0, LLK_Q8_0);
  check_type (narrow, "ffn_down.weight", 2, LLK_Q4_K);
}

static void
test_experts (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  const LlmGgufTensor *experts;

  bench_rig_make_gguf (path, "tiny-moe", "Q4_K_M", "0");
  gguf = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  experts = find_tensor (gguf, "ffn_down_exps.weight", 1);
  g_assert_cmpuint (experts->n_dims, ==, 3);
  g_assert_cmpuint (experts->dims[2], ==, 8);
  check_type (gguf, "attn_v.weight", 1, LLK_Q8_0);
  check_type (gguf, "attn_output.weight", 1, LLK_Q5_K);
  check_type (gguf, "ffn_gate_inp.weight", 1, LLK_F32);
  bench_rig_make_gguf (path, "tiny-qwen3moe", "Q4_0", "0");
  check_runs (1);
}

/* Each architecture has a shape that runs; what its tensors and keys are is shown by the forward pass
 * of the files of tests/data/architectures. */
static void
test_architectures (void)
{
  static const struct
  {
    const char *shape;
    double scale;        /* of its logits */
  } cases[] = {
    { "tiny-granite", 1.0 / 8 }, { "tiny-exaone4", 1 }, { "tiny-glm4", 1 }, { "tiny-minicpm", 1 },
    { "tiny-olmo2", 1 }, { "tiny-qwen2vl", 1 }, { "tiny-qwen3vl", 1 }, { "tiny-cohere2", 1.0 / 4 },
    { "tiny-gpt-oss", 1 }, { "tiny-gemma3n", 1 }, { "tiny-gemma4", 1 }, { "tiny-deepseek2", 1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      bench_rig_make_gguf (path, cases[i].shape, "Q4_K_M", "0");
      check_runs (cases[i].scale);
    }
}

static char *
read_made (const char *seed,
           const char *threads,
           gsize      *length)
{
  g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--shape", "tiny-llama", "--type", "F32",
                                           "--seed", seed, "--threads", threads, path, NULL);
  g_autoptr(GError) error = NULL;
  char *bytes;

  g_assert_cmpint (run.status, ==, 0);
  g_file_get_contents (path, &bytes, length, &error);
  g_assert_no_error (error);
  return bytes;
}

/* The same arguments give the same bytes, whoever wrote them. */
static void
test_same_bytes (void)
{
  gsize length, again_length, other_length;
  g_autofree char *first = read_made ("5", "1", &length);
  g_autofree char *again = read_made ("5", "3", &again_length);
  g_autofree char *other = read_made ("6", "3", &other_length);

  g_assert_cmpmem (first, length, again, again_length);
  g_assert_cmpuint (length, ==, other_length);
  g_assert_cmpint (memcmp (first, other, length), !=, 0);
}

static void
test_bad_arguments (void)
{
  static const char *const wrong[][2] = { { "nothing", "Q4_0" }, { "tiny-llama", "Q9" } };
  g_autofree char *nowhere = g_build_filename (folder, "missing", "file.gguf", NULL);
  g_auto(BenchRigRun) list = bench_rig_run ("make-gguf", "--list", NULL);
  g_auto(BenchRigRun) unwritable = bench_rig_run ("make-gguf", "--shape", "tiny-llama", "--type",
                                                  "Q4_0", nowhere, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--shape", wrong[i][0], "--type",
                                               wrong[i][1], path, NULL);

      g_assert_cmpint (run.status, ==, 2);
      g_assert_nonnull (strstr (run.err, "--list"));
    }
  g_assert_cmpint (unwritable.status, ==, 1);
  g_assert_nonnull (strstr (unwritable.err, nowhere));
  g_assert_cmpint (list.status, ==, 0);
  g_assert_nonnull (strstr (list.out, "1.3b-mha"));
  g_assert_nonnull (strstr (list.out, "MXFP4"));
}

int
main (int    argc,
      char **argv)
{
  int status;

  g_test_init (&argc, &argv, NULL);
  folder = llm_test_folder_new ();
  path = g_build_filename (folder, "model.gguf", NULL);
  g_test_add_data_func ("/bench/make-gguf/llama", "tiny-llama", test_shape);
  g_test_add_data_func ("/bench/make-gguf/qwen2", "tiny-qwen2", test_shape);
  g_test_add_data_func ("/bench/make-gguf/qwen3", "tiny-qwen3", test_shape);
  g_test_add_data_func ("/bench/make-gguf/moe", "tiny-moe", test_shape);
  g_test_add_func ("/bench/make-gguf/mixtures", test_mixtures);
  g_test_add_func ("/bench/make-gguf/experts", test_experts);
  g_test_add_func ("/bench/make-gguf/architectures", test_architectures);
  g_test_add_func ("/bench/make-gguf/same-bytes", test_same_bytes);
  g_test_add_func ("/bench/make-gguf/bad-arguments", test_bad_arguments);
  status = g_test_run ();
  llm_test_folder_remove (folder);
  g_free (folder);
  g_free (path);
  return status;
}
