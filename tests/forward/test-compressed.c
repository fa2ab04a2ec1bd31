/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What packing context memory between calls costs in accuracy (L13): the divergence of a real
 * model's logits from those with context memory as floats. With half the bytes of 8 bits, given
 * to chunks by density, little; given to the wrong ones, much.
 */

#include <string.h>

#include "forward-rig.h"
#include "tool/llm-measure.h"
#include "model/tokenizer/llm-tokenizer.h"

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
                                     FALSE, FIRST_COMPARED, compare, comparison, NULL));
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
  LlmKvPolicy policy = *llm_kv_policy_find ("llms");

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
  LlmKvStore *store = llm_kv_store_new (&rig->store->layout, policy, NULL, NULL);
  double sum = 0;

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
  const LlmKvPolicy inverted = make_policy (LLM_KV_INVERTED, LLK_KV_Q8);
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  g_autoptr(GArray) tokens = read_tokens (rig);
  Comparison comparisons[N_WINDOWS];
  double d8, d4, d2, d_mixed, d_inverted;

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
  d_inverted = measure (rig, &inverted, tokens, comparisons);
  for (guint w = 0; w < N_WINDOWS; w++)
    g_free (comparisons[w].reference);

  g_test_message ("8 bits %.6f, 4 bits %.6f, 2 bits %.6f, mixed %.6f, inverted %.6f", d8, d4, d2,
                  d_mixed, d_inverted);
  g_assert_cmpfloat (d8, <, 0.0005);
  g_assert_cmpfloat (d4, <, 0.002);
  g_assert_cmpfloat (d2, <, 0.06);
  g_assert_cmpfloat (d2, >, 4 * d4);
  g_assert_cmpfloat (d_mixed, <, 0.007);
  g_assert_cmpfloat (d_inverted, >, 2 * d_mixed);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/compressed/divergence", test_divergence);

  return g_test_run ();
}
