/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Each format of weights against llama.cpp, by the logits of small models that it
 * quantized (tests/data/formats). The exact path has to meet what the file means. The
 * fast path may differ by its rounding of activations and weights; of Q2_K and Q3_K,
 * whose weights it does not round, it has to meet the peer's kernels. A file with some
 * values of its blocks in the wrong order must miss by far. Differences are in standard
 * deviations of logits. */

#include "forward-rig.h"

#include <math.h>
#include <string.h>

#include "weights/llm-repacked-cache.h"

#define N_TOKENS 24

/* Greatest difference of the exact path. */
#define EXACT 2e-4
/* Root mean square of differences where activations and weights are rounded to integers
 * with one scale for 256 inputs: 0.022 to 0.033, of IQ2 and IQ3 to 0.041; the peer's, with
 * scales for 32 or 256 and the file's weights, are 0.015 to 0.031. */
#define ROUNDED 0.045
/* Of broken variants, at least. */
#define BROKEN 0.2

static const char *const names[] = {
  "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4",
  "Q2_K", "Q2_K-768", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS",
  "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S",
};

static char *
get_path (const char *name,
          const char *suffix)
{
  g_autofree char *file = g_strconcat (name, suffix, NULL);

  return g_build_filename (g_getenv ("LLM_TEST_DATA"), "formats", file, NULL);
}

/* Whether the peer computes with the same integers, but for the values that lie apart here. */
static gboolean
is_alike (const char *name)
{
  return g_str_has_prefix (name, "Q2_K") || g_str_has_prefix (name, "Q3_K");
}

static float *
read_logits (const char *name,
             const char *suffix,
             gsize       n)
{
  g_autofree char *path = get_path (name, suffix);
  g_autoptr (GError) error = NULL;
  char *contents;
  gsize length;

  g_file_get_contents (path, &contents, &length, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (length, ==, n * sizeof (float));
  return (float *) (gpointer) contents;
}

static void
read_tokens (gint32 tokens[N_TOKENS])
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "formats", "tokens.txt",
                                            NULL);
  g_autofree char *contents = NULL;
  g_auto (GStrv) words = NULL;
  g_autoptr (GError) error = NULL;

  g_file_get_contents (path, &contents, NULL, &error);
  g_assert_no_error (error);
  words = g_strsplit (g_strstrip (contents), " ", -1);
  g_assert_cmpuint (g_strv_length (words), ==, N_TOKENS);
  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = (gint32) g_ascii_strtoll (words[i], NULL, 10);
}

static ExecRig *
open_rig (const char *name,
          const char *kernels,
          gboolean    is_packed)
{
  const ExecRigConfig config = { .n_threads = 2, .kernels = kernels, .format = LLK_KV_F32 };
  g_autofree char *path = get_path (name, ".gguf");
  ExecRig *rig = exec_rig_open (path, &config);
  g_autoptr (GError) error = NULL;

  if (is_packed)
    {
      LlmWeights *weights = llm_weights_new_repacked (rig->gguf, &rig->hparams, NULL, NULL, 2,
                                                      rig->ledger, &error);

      g_assert_no_error (error);
      llm_weights_free (rig->weights);
      exec_rig_set_weights (rig, weights, &config);
    }
  return rig;
}

/* Logits of all tokens, in steps of @n_step rows. */
static float *
run (ExecRig *rig,
     guint    n_step)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, N_TOKENS * n_vocab);
  gint32 tokens[N_TOKENS];
  LlmRow rows[N_TOKENS];
  g_autoptr (GError) error = NULL;

  read_tokens (tokens);
  for (guint first = 0; first < N_TOKENS; first += n_step)
    {
      guint n = MIN (n_step, N_TOKENS - first);

      g_assert_true (llm_kv_seq_append (seq, n, &error));
      for (guint i = 0; i < n; i++)
        rows[i] = exec_rig_row (tokens[first + i], 0, first + i);
      exec_rig_step (rig, rows, n, &seq, 1);
      for (guint i = 0; i < n; i++)
        memcpy (logits + (first + i) * n_vocab, llm_forward_get_logits (rig->forward, i),
                n_vocab * sizeof (float));
    }
  return logits;
}

static double
get_deviation (const float *values,
               gsize        n)
{
  double sum = 0, squares = 0;

  for (gsize i = 0; i < n; i++)
    {
      sum += values[i];
      squares += (double) values[i] * values[i];
    }
  return sqrt (squares / n - sum / n * (sum / n));
}

typedef struct
{
  double greatest;
  double mean_square;  /* its root */
} Difference;

static Difference
compare (const float *found,
         const float *expected,
         gsize        n)
{
  double deviation = get_deviation (expected, n);
  Difference result = { 0, 0 };

  for (gsize i = 0; i < n; i++)
    {
      double difference = fabs ((double) found[i] - expected[i]) / deviation;

      if (!isfinite (found[i]))
        return (Difference) { INFINITY, INFINITY };
      result.greatest = MAX (result.greatest, difference);
      result.mean_square += difference * difference / n;
    }
  result.mean_square = sqrt (result.mean_square);
  return result;
}

static void
test_exact (gconstpointer data)
{
  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autoptr (ExecRig) rig = open_rig (data, *kernels, FALSE);
      gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
      g_autofree float *expected = read_logits (data, ".exact.logits", n);
      g_autofree float *found = run (rig, N_TOKENS);
      Difference difference = compare (found, expected, n);

      g_test_message ("%s: %g", *kernels, difference.greatest);
      g_assert_cmpfloat (difference.greatest, <=, EXACT);
    }
}

static void
test_fast (gconstpointer data)
{
  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autoptr (ExecRig) rig = open_rig (data, *kernels, TRUE);
      gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
      g_autofree float *exact = read_logits (data, ".exact.logits", n);
      g_autofree float *peer = read_logits (data, ".logits", n);
      g_autofree float *found = run (rig, N_TOKENS);
      g_autofree float *alone = run (rig, 1);
      g_autofree float *in_parts = run (rig, 5);

      g_test_message ("%s: %g, llama.cpp %g, from it %g", *kernels,
                      compare (found, exact, n).mean_square, compare (peer, exact, n).mean_square,
                      compare (found, peer, n).mean_square);
      g_assert_cmpfloat (compare (found, exact, n).mean_square, <=, ROUNDED);
      if (is_alike (data))
        g_assert_cmpfloat (compare (found, exact, n).mean_square, <=,
                           compare (peer, exact, n).mean_square);
      g_assert_cmpmem (alone, n * sizeof (float), found, n * sizeof (float));
      g_assert_cmpmem (in_parts, n * sizeof (float), found, n * sizeof (float));
    }
}

/* Bytes that hold values of a block, after its scales or before them. */
static gsize
get_broken_start (LlkType type)
{
  switch (type)
    {
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
    case LLK_Q6_K:
    case LLK_Q3_K:
      return 0;
    case LLK_Q2_K:
      return 16;
    default:
      return llk_type_block_bytes (type) - 13;
    }
}

static gsize
get_broken_bytes (LlkType type)
{
  return llk_type_block_size (type) == 1 ? llk_type_block_bytes (type) : 12;
}

static void
swap_bytes (char *bytes,
            gsize distance)
{
  char byte = bytes[0];

  bytes[0] = bytes[distance];
  bytes[distance] = byte;
}

/* Every other block has some of its values in the wrong order; plain numbers trade
 * places with their neighbours. */
static GBytes *
break_file (const char *name)
{
  g_autofree char *path = get_path (name, ".gguf");
  g_autoptr (LlmGguf) gguf = NULL;
  g_autoptr (GError) error = NULL;
  char *contents;
  gsize length;

  g_file_get_contents (path, &contents, &length, &error);
  g_assert_no_error (error);
  gguf = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);
      gsize block = llk_type_block_bytes (tensor->type);

      if (tensor->dims[1] == 1)
        continue;
      for (guint64 at = tensor->offset; at + 2 * block <= tensor->offset + tensor->bytes;
           at += 2 * block)
        for (gsize b = 0; b < get_broken_bytes (tensor->type); b++)
          swap_bytes (contents + at + get_broken_start (tensor->type) + b,
                      llk_type_block_size (tensor->type) == 1 ? block : 1);
    }
  return g_bytes_new_take (contents, length);
}

static void
test_broken (gconstpointer data)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  g_autoptr (GBytes) bytes = break_file (data);
  g_autoptr (ExecRig) rig = exec_rig_new (bytes, &config);
  gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
  g_autofree float *expected = read_logits (data, ".exact.logits", n);
  g_autofree float *found = run (rig, N_TOKENS);
  Difference difference = compare (found, expected, n);

  g_test_message ("root mean square %g, greatest %g", difference.mean_square, difference.greatest);
  g_assert_cmpfloat (difference.mean_square, >=, BROKEN);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *exact = g_strdup_printf ("/formats/%s/exact", names[i]);
      g_autofree char *fast = g_strdup_printf ("/formats/%s/fast", names[i]);
      g_autofree char *broken = g_strdup_printf ("/formats/%s/broken", names[i]);

      g_test_add_data_func (exact, names[i], test_exact);
      g_test_add_data_func (fast, names[i], test_fast);
      g_test_add_data_func (broken, names[i], test_broken);
    }
  return g_test_run ();
}
