/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What packing context memory between calls costs in accuracy (L13): the divergence of a real
 * model's logits from those with context memory as floats. With half the bytes of 8 bits, given
 * to chunks by density, little; given to the wrong ones, much.
 */

#include <string.h>

#include "forward-rig.h"
#include "forward/llm-feedback.h"
#include "tool/llm-measure.h"
#include "tokenizer/llm-tokenizer.h"

#define N_TOKENS 768
#define N_CALL 64
#define N_WINDOWS 3
#define FIRST_COMPARED (N_TOKENS / 2)

typedef struct
{
  guint n_vocab;
  float *reference;       /* [compared × n_vocab] */
  gboolean is_reference;
  double sum;
  guint n;
} Comparison;

static void
compare (guint        slot,
         const float *logits,
         gpointer     data)
{
  Comparison *self = data;
  float *reference = self->reference + (gsize) (slot - FIRST_COMPARED) * self->n_vocab;

  if (self->is_reference)
    {
      memcpy (reference, logits, self->n_vocab * sizeof (float));
      return;
    }

  self->sum += llm_measure_divergence (reference, logits, self->n_vocab, NULL);
  self->n++;
}

static void
run_window (ExecRig      *rig,
            LlmKvStore   *store,
            const gint32 *tokens,
            Comparison   *comparison)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);

  for (guint first = 0; first < N_TOKENS; first += N_CALL)
    g_assert_true (llm_measure_call (rig->forward, store, seq, tokens, first + N_CALL,
                                     LLM_MEASURE_TEXT, FIRST_COMPARED, compare, comparison, NULL));
}

static GArray *
read_tokens (ExecRig *rig)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "golden",
                                            "heldout_sgd_chatml.txt", NULL);
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

static LlmKvPolicy
make_policy (LlmKvCompression compression,
             LlkKvFormat      uniform)
{
  LlmKvPolicy policy = llm_kv_policy_llms;

  policy.compression = compression;
  policy.uniform = uniform;
  return policy;
}

/* Mean divergence with @policy. */
static double
measure (ExecRig           *rig,
         const LlmKvPolicy *policy,
         const GArray      *tokens,
         Comparison        *comparisons)
{
  g_autofree float *feedback = llm_feedback_new (rig->gguf, &rig->hparams, llk_ops_best ());
  LlmKvLayout layout = rig->store->layout;
  LlmKvStore *store;
  double sum = 0;

  layout.feedback = feedback;
  store = llm_kv_store_new (&layout, policy, NULL, NULL);

  g_assert_nonnull (store);
  for (guint w = 0; w < N_WINDOWS; w++)
    {
      comparisons[w].sum = 0;
      comparisons[w].n = 0;
      run_window (rig, store, (const gint32 *) (gpointer) tokens->data + w * N_TOKENS,
                  &comparisons[w]);
      sum += comparisons[w].sum / comparisons[w].n;
    }
  g_assert_cmpuint (store->counters.n_packed, >, 0);
  llm_kv_store_free (store);
  return sum / N_WINDOWS;
}

/* The squared error of what comes out of a layer where values of KV head @head have the errors
 * @errors, each of @n times a head's. */
static double
get_output_error (ExecRig     *rig,
                  guint        layer,
                  guint        head,
                  const float *errors,
                  guint        n)
{
  guint dim = rig->hparams.head_dim, group = rig->hparams.n_heads / rig->hparams.n_kv_heads;
  LlmTensorPart part;
  g_autofree float *row = NULL;
  double sum = 0;

  g_assert_true (llm_operator_find (rig->gguf, &rig->hparams, LLM_OP_ATTENTION_OUT, layer, &part,
                                    NULL));
  row = g_new (float, part.n_in);
  for (guint out = 0; out < part.n_out; out++)
    {
      llk_ops_best ()->vector->unpack (part.type, llm_file_map_get_data (rig->gguf->map)
                                                    + part.offset + out * part.row_bytes,
                                       row, part.n_in);
      for (guint h = head * group; h < (head + 1) * group; h++)
        for (guint i = 0; i < n; i++)
          {
            double y = 0;

            for (guint d = 0; d < dim; d++)
              y += (double) row[h * dim + d] * errors[i * dim + d];
            sum += y * y;
          }
    }
  return sum;
}

/* Errors of values cancel out behind the layer's matrix: so each layer's output is off by less, by
 * much less in all but the first one. */
static void
test_feedback (gconstpointer data)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"), data, NULL);
  const ExecRigConfig config = { .format = LLK_KV_F16 };
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  const LlkOps *ops = llk_ops_best ();
  g_autofree float *feedback = llm_feedback_new (rig->gguf, &rig->hparams, ops);
  g_autofree float *again = llm_feedback_new (rig->gguf, &rig->hparams, llk_ops_portable ());
  guint dim = rig->hparams.head_dim, n_heads = rig->hparams.n_kv_heads;
  gsize head_size = (gsize) dim * LLK_KV_FEEDBACK, n = 16 * (gsize) dim;
  g_autofree float *x = g_new (float, n);
  g_autofree float *y = g_new (float, n);
  guint8 packed[16 * LLK_MAX_HEAD_DIM];

  g_assert_nonnull (feedback);
  g_assert_cmpmem (feedback, rig->hparams.n_layers * n_heads * head_size * sizeof (float), again,
                   rig->hparams.n_layers * n_heads * head_size * sizeof (float));
  for (LlkKvFormat format = LLK_KV_Q4; format <= LLK_KV_Q2; format++)
    for (guint layer = 0; layer < rig->hparams.n_layers; layer++)
      {
        double errors[2] = { 0 };

        for (guint head = 0; head < n_heads; head++)
          {
            const float *shares = feedback + (layer * n_heads + head) * head_size;

            for (gsize i = 0; i < n; i++)
              x[i] = (float) (g_test_rand_double () + g_test_rand_double () - 1);
            for (guint is_fed = 0; is_fed < 2; is_fed++)
              {
                ops->kv->pack (format, LLK_KV_VALUES, dim, 16, x, is_fed ? shares : NULL, packed);
                ops->kv->unpack (format, LLK_KV_VALUES, dim, 16, packed, y, false);
                for (gsize i = 0; i < n; i++)
                  y[i] -= x[i];
                errors[is_fed] += get_output_error (rig, layer, head, y, 16);
              }
          }
        g_test_message ("format %d layer %u: %.3f", (int) format, layer, errors[1] / errors[0]);
        g_assert_cmpfloat (errors[1], <, (layer == 0 ? 0.98 : 0.75) * errors[0]);
      }
}

static void
test_divergence (void)
{
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F16 };
  const LlmKvPolicy eight = make_policy (LLM_KV_UNIFORM, LLK_KV_Q8);
  const LlmKvPolicy four = make_policy (LLM_KV_UNIFORM, LLK_KV_Q4);
  const LlmKvPolicy two = make_policy (LLM_KV_UNIFORM, LLK_KV_Q2);
  const LlmKvPolicy mixed = make_policy (LLM_KV_TOLERANCE, LLK_KV_Q8);
  LlmKvPolicy scarce = mixed, inverted = mixed;
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  g_autoptr(GArray) tokens = read_tokens (rig);
  Comparison comparisons[N_WINDOWS];
  double d8, d4, d2, d_mixed, d_scarce, d_inverted;

  for (guint w = 0; w < N_WINDOWS; w++)
    {
      comparisons[w] = (Comparison) {
        .n_vocab = rig->hparams.n_vocab,
        .reference = g_new (float, (gsize) (N_TOKENS - FIRST_COMPARED) * rig->hparams.n_vocab),
        .is_reference = TRUE,
      };
      run_window (rig, rig->store, (const gint32 *) (gpointer) tokens->data + w * N_TOKENS,
                  &comparisons[w]);
      comparisons[w].is_reference = FALSE;
    }
  llm_forward_set_density (rig->forward, TRUE);
  d8 = measure (rig, &eight, tokens, comparisons);
  d4 = measure (rig, &four, tokens, comparisons);
  d2 = measure (rig, &two, tokens, comparisons);
  d_mixed = measure (rig, &mixed, tokens, comparisons);
  /* where there is more to choose than 4 bits for nearly all */
  scarce.ratio = inverted.ratio = 0.38;
  inverted.density = -1;
  d_scarce = measure (rig, &scarce, tokens, comparisons);
  d_inverted = measure (rig, &inverted, tokens, comparisons);
  for (guint w = 0; w < N_WINDOWS; w++)
    g_free (comparisons[w].reference);

  g_test_message ("8 bits %.6f, 4 bits %.6f, 2 bits %.6f, 50 percent %.6f, 38 percent %.6f, "
                  "inverted %.6f", d8, d4, d2, d_mixed, d_scarce, d_inverted);
  g_assert_cmpfloat (d8, <, 0.0005);
  g_assert_cmpfloat (d4, <, 0.001);
  g_assert_cmpfloat (d2, <, 0.06);
  g_assert_cmpfloat (d2, >, 4 * d4);
  g_assert_cmpfloat (d_mixed, <, 0.0018);
  g_assert_cmpfloat (d_scarce, <, 0.4 * d2);
  g_assert_cmpfloat (d_inverted, >, 1.5 * d_scarce);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/compressed/divergence", test_divergence);

  g_test_add_data_func ("/compressed/feedback", "llmsvc-demo-8M-Q8_0.gguf", test_feedback);

  return g_test_run ();
}
