/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sparse rows (A1): what a row leaves out is decided by its own values. Its bits are those that it has
 * alone, whatever is computed beside it, in whatever order and pieces, on every set of kernels. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "forward-rig.h"
#include "naive-model.h"
#include "support/llm-test-gguf.h"

#define N_LAYERS 3
#define N_TOKENS 24

/* By input: what about a third, and about two thirds of the values are below. */
static const float limits[][LLM_N_INPUTS] = { { 0.4f, 0.02f, 0.4f, 0.01f },
                                              { 0.9f, 0.06f, 0.9f, 0.05f } };
static float values[G_N_ELEMENTS (limits) * N_LAYERS * LLM_N_INPUTS];
static const LlmThresholds thresholds = {
  .n_sparsities = 2, .percent = { 30, 60 }, .n_layers = N_LAYERS, .values = values,
};
static const guint8 sparsities[] = { 0, 30, 60 };

static ExecRig *
new_rig (LlkType     type,
         guint       n_threads,
         const char *kernels,
         gboolean    keeps_smallest)
{
  const LlmTestModel shape = {
    .type = type, .n_layers = N_LAYERS, .n_embd = 128, .n_heads = 4, .n_kv_heads = 2, .n_ff = 160,
    .seed = 5,
  };
  const ExecRigConfig config = {
    .n_threads = n_threads, .kernels = kernels, .thresholds = &thresholds,
    .keeps_smallest = keeps_smallest,
  };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, &config);
}

static gint32
get_token (guint i)
{
  return (gint32) (i * 101 % 384);
}

static LlmRow
make_row (guint  i,
          guint  sequence,
          guint8 sparsity)
{
  LlmRow row = exec_rig_row (get_token (i), sequence, i);

  row.sparsity = sparsity;
  return row;
}

/* A prompt is dense, the answer behind it sparse. */
static guint8
get_sparsity (guint  i,
              guint8 of_answer)
{
  return i < N_TOKENS / 2 ? 0 : of_answer;
}

/* (transfer full): logits of all rows, one at a time. */
static float *
run_alone (ExecRig *rig,
           guint8   of_answer)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, N_TOKENS *n_vocab);

  for (guint i = 0; i < N_TOKENS; i++)
    {
      LlmRow row = make_row (i, 0, get_sparsity (i, of_answer));

      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      exec_rig_step (rig, &row, 1, &seq, 1);
      memcpy (logits + i * n_vocab, llm_forward_get_logits (rig->forward, 0),
              n_vocab * sizeof *logits);
    }
  return logits;
}

static double
find_difference (const float *a,
                 const float *b,
                 gsize        n)
{
  double most = 0;

  for (gsize i = 0; i < n; i++)
    most = MAX (most, fabs ((double) a[i] - (double) b[i]));
  return most;
}

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return (x > y) - (x < y);
}

/* Moves a threshold by at most a quarter, to where magnitudes are furthest apart: what lies beside it
 * would be left out by one arithmetic and kept by the next. */
static void
move_into_gap (float  *threshold,
               GArray *magnitudes)
{
  const double given = (double) *threshold;
  double widest = 0;

  g_array_sort (magnitudes, compare_doubles);
  for (guint i = 0; i + 1 < magnitudes->len; i++)
    {
      double low = g_array_index (magnitudes, double, i);
      double high = g_array_index (magnitudes, double, i + 1);

      if (high - low > widest && fabs ((low + high) / 2 - given) < given / 4)
        {
          widest = high - low;
          *threshold = (float) ((low + high) / 2);
        }
    }
}

static void
set_limits (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (values); i++)
    values[i] = limits[i / (N_LAYERS * LLM_N_INPUTS)][i % LLM_N_INPUTS];
}

/* One after the other in the order of computation: each decides what the next ones see. */
static void
set_limits_in_gaps (NaiveModel *naive,
                    NaiveRun    run,
                    guint       s,
                    double     *logits)
{
  for (guint i = 0; i < N_LAYERS * LLM_N_INPUTS; i++)
    {
      g_autoptr (GArray) magnitudes = g_array_new (FALSE, FALSE, sizeof (double));

      run.inputs = magnitudes;
      run.inputs_layer = i / LLM_N_INPUTS;
      run.inputs_kind = i % LLM_N_INPUTS;
      naive_model_run (naive, &run, logits, NULL);
      move_into_gap (&values[s * N_LAYERS * LLM_N_INPUTS + i], magnitudes);
    }
}

/* Against arithmetic in double that leaves out the same inputs. */
static void
test_naive (void)
{
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 1, NULL, FALSE);
  g_autoptr (NaiveModel) naive = naive_model_new (rig->gguf, &rig->hparams);
  gsize n_vocab = rig->hparams.n_vocab, n = N_TOKENS * n_vocab;
  g_autofree float *dense = run_alone (rig, 0);
  g_autofree double *expected = g_new (double, n);

  for (guint s = 1; s < G_N_ELEMENTS (sparsities); s++)
    {
      g_autofree float *found = NULL;
      double tolerance;
      gint32 tokens[N_TOKENS];
      guint positions[N_TOKENS];
      guint8 of_rows[N_TOKENS];
      const NaiveRun run = {
        tokens, positions, N_TOKENS, naive_sees_causal,
        .thresholds = &thresholds, .sparsities = of_rows,
      };

      for (guint i = 0; i < N_TOKENS; i++)
        {
          tokens[i] = get_token (i);
          positions[i] = i;
          of_rows[i] = get_sparsity (i, sparsities[s]);
        }
      set_limits_in_gaps (naive, run, s - 1, expected);
      found = run_alone (rig, sparsities[s]);
      naive_model_run (naive, &run, expected, NULL);
      tolerance = naive_model_get_tolerance (naive, &run, llk_ops_best (), expected);
      g_assert_cmpfloat (tolerance, <, 0.02);
      for (gsize i = 0; i < n; i++)
        g_assert_cmpfloat_with_epsilon ((double) found[i], expected[i], tolerance);
      /* the prompt is dense, and the answer is not */
      g_assert_cmpfloat (find_difference (found, dense, n / 2), ==, 0);
      g_assert_cmpfloat (find_difference (found + n / 2, dense + n / 2, n / 2), >, 0.05);
    }
}

/* Sequences of all sparsities in one step, rows in any order, steps of any length: the bits that
 * each has alone. */
static void
check_company (ExecRig *rig)
{
  gsize bytes = rig->hparams.n_vocab * sizeof (float);
  const guint n_sequences = G_N_ELEMENTS (sparsities);
  float *expected[G_N_ELEMENTS (sparsities)];

  for (guint s = 0; s < n_sequences; s++)
    expected[s] = run_alone (rig, sparsities[s]);
  for (guint n_step = 1; n_step <= N_TOKENS; n_step = n_step * 2 + 1)
    {
      LlmKvSeq *sequences[G_N_ELEMENTS (sparsities)];

      for (guint s = 0; s < n_sequences; s++)
        sequences[s] = llm_kv_seq_new (rig->store, NULL, NULL);
      for (guint first = 0, n; first < N_TOKENS; first += n)
        {
          LlmRow rows[N_TOKENS * G_N_ELEMENTS (sparsities)];
          guint n_rows;

          n = MIN (n_step, N_TOKENS - first);
          n_rows = n * n_sequences;
          for (guint s = 0; s < n_sequences; s++)
            g_assert_true (llm_kv_seq_append (sequences[s], n, NULL));
          for (guint i = 0; i < n_rows; i++)
            {
              guint s = (i + n_step) % n_sequences, at = first + i / n_sequences;

              rows[i] = make_row (at, s, get_sparsity (at, sparsities[s]));
            }
          exec_rig_step (rig, rows, n_rows, sequences, n_sequences);
          for (guint i = 0; i < n_rows; i++)
            g_assert_cmpmem (llm_forward_get_logits (rig->forward, i), bytes,
                             (char *) expected[rows[i].sequence] + rows[i].slot * bytes, bytes);
        }
      for (guint s = 0; s < n_sequences; s++)
        llm_kv_seq_free (sequences[s]);
    }
  for (guint s = 0; s < n_sequences; s++)
    g_free (expected[s]);
}

static void
test_company (void)
{
  static const LlkType types[] = { LLK_F32, LLK_Q8_0, LLK_Q4_0 };
  const char *const *names = llk_ops_list ();

  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (guint i = 0; names[i] != NULL; i++)
      {
        g_autoptr (ExecRig) rig = NULL;

        if (llk_ops_find (names[i]) == NULL)
          continue;
        rig = new_rig (types[t], 1 + (i + t) % 3, names[i], FALSE);
        check_company (rig);
      }
}

/* What the tool compares with: as many inputs, but the wrong ones. */
static void
test_smallest (void)
{
  g_autoptr (ExecRig) right = new_rig (LLK_F32, 1, NULL, FALSE);
  g_autoptr (ExecRig) wrong = new_rig (LLK_F32, 1, NULL, TRUE);
  gsize n = N_TOKENS * right->hparams.n_vocab;
  g_autofree float *dense = run_alone (right, 0);
  g_autofree float *largest = run_alone (right, 30);
  g_autofree float *smallest = run_alone (wrong, 30);
  g_autofree float *unchanged = run_alone (wrong, 0);

  g_assert_cmpfloat (find_difference (dense, unchanged, n), ==, 0);
  g_assert_cmpfloat (find_difference (dense, smallest, n), >,
                     2 * find_difference (dense, largest, n));
}

static void
test_unknown (void)
{
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 1, NULL, FALSE);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (GError) error = NULL;
  LlmRow row = make_row (0, 0, 40);
  LlmBatch batch = { &row, 1, &seq, 1 };

  g_assert_true (llm_kv_seq_append (seq, 1, NULL));
  g_assert_false (llm_forward_begin (rig->forward, &batch, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "40 percent"));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  set_limits ();
  g_test_add_func ("/active-text/naive", test_naive);
  g_test_add_func ("/active-text/company", test_company);
  g_test_add_func ("/active-text/smallest", test_smallest);
  g_test_add_func ("/active-text/unknown", test_unknown);
  return g_test_run ();
}
