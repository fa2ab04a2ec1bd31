/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products and attention on a device that finishes late, in another order, fails, or disappears: the
 * same bits, or a clear error and a next step without it. */

#include <string.h>

#include "common/llmsvc-error.h"
#include "fake-device.h"
#include "forward-rig.h"
#include "support/llm-test-gguf.h"

#define N_TOKENS 20
#define STEP 7

/* --- models --- */

static ExecRig *
new_dense (const ExecRigConfig *config)
{
  const LlmTestModel shape = { .type = LLK_Q8_0, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, config);
}

static ExecRig *
new_experts (const ExecRigConfig *config)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures",
                                            "llama-experts.gguf", NULL);

  return exec_rig_open (path, config);
}

typedef ExecRig *(*NewRig) (const ExecRigConfig *config);

static const NewRig models[] = { new_dense, new_experts };

static ExecRig *
new_rig (NewRig      model,
         LlmBackend *device,
         gboolean    is_split)
{
  const ExecRigConfig config = { .n_threads = 2, .device = device, .is_split = is_split };

  return model (&config);
}

static void
fill_tokens (gint32 *tokens,
             guint   n_vocab)
{
  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = (gint32) (i * 101 % n_vocab);
}

/* (transfer full): logits of all tokens, and the densities of the chunks behind. */
static float *
run (ExecRig *rig,
     gsize   *n)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_logits = (gsize) N_TOKENS * rig->hparams.n_vocab;
  float *found;
  gint32 tokens[N_TOKENS];

  fill_tokens (tokens, rig->hparams.n_vocab);
  *n = n_logits + (N_TOKENS + 15) / 16;
  found = g_new (float, *n);
  llm_forward_set_density (rig->forward, TRUE);
  exec_rig_prompt (rig, seq, tokens, N_TOKENS, STEP, found);
  for (guint i = 0; i < seq->holds->len; i++)
    found[n_logits + i] = llm_kv_seq_get_density (seq, i);
  return found;
}

static void
assert_runs (ExecRig     *rig,
             const float *expected,
             gsize        n)
{
  gsize n_found;
  g_autofree float *found = run (rig, &n_found);

  g_assert_cmpmem (found, n_found * sizeof (float), expected, n * sizeof (float));
}

/* --- late, and in another order --- */

typedef struct
{
  const char *name;
  FakeConfig config;
  gboolean is_split;
} LateCase;

static const LateCase late_cases[] = {
  { "at-once", { .n_polls = 0 }, FALSE },
  { "late", { .n_polls = 3 }, FALSE },
  { "reversed", { .n_polls = 1, .is_reversed = TRUE }, FALSE },
  { "split", { .n_polls = 2, .is_reversed = TRUE }, TRUE },
  { "products-only", { .n_polls = 2, .is_reversed = TRUE, .refuses_attention = TRUE }, FALSE },
};

/* Whatever is computed is computed once. */
static void
test_late (gconstpointer data)
{
  const LateCase *c = data;

  for (guint m = 0; m < G_N_ELEMENTS (models); m++)
    {
      FakeConfig immediate_config = c->config;
      FakeCounts counts = { 0 }, expected_counts = { 0 };
      g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &c->config, &counts);
      g_autoptr (LlmBackend) immediate = NULL;
      g_autoptr (ExecRig) plain = new_rig (models[m], NULL, FALSE);
      g_autoptr (ExecRig) rig = new_rig (models[m], device, c->is_split);
      g_autoptr (ExecRig) other = NULL;
      gsize n;
      g_autofree float *expected = run (plain, &n);

      immediate_config.n_polls = 0;
      immediate = fake_device_new (llk_ops_best (), &immediate_config, &expected_counts);
      other = new_rig (models[m], immediate, c->is_split);
      assert_runs (other, expected, n);
      assert_runs (rig, expected, n);
      g_assert_cmpuint (counts.n_submitted, ==, expected_counts.n_submitted);
      g_assert_cmpuint (counts.n_products, ==, expected_counts.n_products);
      g_assert_cmpuint (counts.n_queries, ==, expected_counts.n_queries);
      g_assert_cmpuint (counts.n_done, ==, counts.n_submitted);
      g_assert_cmpuint (counts.n_products, >, 0);
      g_assert_cmpint (counts.n_queries > 0, ==, !c->config.refuses_attention);
      /* experts have products of their own */
      g_assert_cmpint (counts.n_overtaken > 0, ==,
                       c->config.is_reversed && (!c->is_split || models[m] == new_experts));
    }
}

/* It would take longer there. */
static void
test_costly (void)
{
  const FakeConfig config = { .n_polls = 1, .is_costly = TRUE };
  FakeCounts counts = { 0 };
  g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &config, &counts);
  g_autoptr (ExecRig) plain = new_rig (new_dense, NULL, FALSE);
  g_autoptr (ExecRig) rig = new_rig (new_dense, device, FALSE);
  gsize n;
  g_autofree float *expected = run (plain, &n);

  assert_runs (rig, expected, n);
  g_assert_cmpuint (counts.n_submitted, ==, 0);
}

/* What it made for the shapes of operations is in the ledger as long as it has it. */
static void
test_bytes (void)
{
  const FakeConfig config = { .n_polls = 1, .shape_bytes = 5000 };
  FakeCounts counts = { 0 };
  LlmBackend *device = fake_device_new (llk_ops_best (), &config, &counts);
  ExecRig *rig = new_rig (new_dense, device, FALSE);
  g_autoptr (LlmLedger) ledger = llm_ledger_ref (rig->ledger);
  guint64 bytes = 0;
  gsize n;

  for (guint i = 0; i < 2; i++)
    {
      g_autofree float *logits = run (rig, &n);

      if (i > 0)
        g_assert_cmpuint (device->class->bytes (device), ==, bytes);
      bytes = device->class->bytes (device);
      g_assert_cmpuint (bytes, >, 0);
      g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_SCRATCH), ==,
                        llm_forward_get_scratch (rig->forward) + bytes);
    }
  exec_rig_free (rig);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_SCRATCH), ==, bytes);
  llm_backend_free (device);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_SCRATCH), ==, 0);
}

/* --- failing --- */

/* The operations of a run: those of the steps, one after the other. */
static guint
count_operations (NewRig model)
{
  const FakeConfig config = { 0 };
  FakeCounts counts = { 0 };
  g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &config, &counts);
  g_autoptr (ExecRig) rig = new_rig (model, device, FALSE);
  gsize n;
  g_autofree float *logits = run (rig, &n);

  return counts.n_submitted;
}

/* In the middle of a step the CPU takes over, where its bits are the same: at any operation. */
static void
test_taken_over (void)
{
  for (guint m = 0; m < G_N_ELEMENTS (models); m++)
    {
      g_autoptr (ExecRig) plain = new_rig (models[m], NULL, FALSE);
      guint n_operations = count_operations (models[m]);
      gsize n;
      g_autofree float *expected = run (plain, &n);

      g_assert_cmpuint (n_operations, >, 20);
      for (guint at = 1; at <= n_operations; at += 3)
        for (guint how = 0; how < 3; how++)
          {
            const FakeConfig config = {
              .n_polls = 1 + at % 3,
              .is_reversed = at % 2 == 0,
              .fails_at = how == 0 ? at : 0,
              .lost_at = how == 1 ? at : 0,
              .refused_at = how == 2 ? at : 0,
              .has_cpu_bits = TRUE,
            };
            FakeCounts counts = { 0 };
            g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &config, &counts);
            g_autoptr (ExecRig) rig = new_rig (models[m], device, FALSE);

            assert_runs (rig, expected, n);
            g_assert_true (device->is_lost);
            g_assert_cmpuint (counts.n_submitted, <, n_operations + 4);
            g_assert_cmpint (counts.n_done < counts.n_submitted, ==, how < 2);
            g_assert_cmpuint (counts.n_refused, ==, 0);
          }
    }
}

/* A step of the tokens from the sequence's end on; what it came to. */
static LlmStatus
try_step (ExecRig  *rig,
          LlmKvSeq *seq,
          guint     n_rows,
          GError  **error)
{
  LlmRow rows[N_TOKENS];
  LlmBatch batch = { rows, n_rows, &seq, 1 };
  LlmStatus status = LLM_PENDING;
  gint32 tokens[N_TOKENS];
  guint first = seq->length;

  fill_tokens (tokens, rig->hparams.n_vocab);
  g_assert_true (llm_kv_seq_append (seq, n_rows, NULL));
  for (guint i = 0; i < n_rows; i++)
    rows[i] = exec_rig_row (tokens[first + i], 0, first + i);
  g_assert_true (llm_forward_begin (rig->forward, &batch, NULL));
  while (status == LLM_PENDING)
    status = llm_forward_resume (rig->forward, error);
  return status;
}

/* Where its bits are others, the step fails and says what to do; the next one runs without. */
static void
test_failed (void)
{
  g_autoptr (ExecRig) plain = new_rig (new_dense, NULL, FALSE);
  guint n_operations = count_operations (new_dense) / 3;
  gsize n;
  g_autofree float *expected = run (plain, &n);

  for (guint at = 1; at <= n_operations; at++)
    {
      const gboolean fails = at % 3 == 0;
      const FakeConfig config = {
        .n_polls = 2,
        .is_reversed = at % 4 < 2,
        .fails_at = fails ? at : 0,
        .lost_at = at % 3 == 1 ? at : 0,
        .refused_at = at % 3 == 2 ? at : 0,
      };
      FakeCounts counts = { 0 };
      g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &config, &counts);
      g_autoptr (ExecRig) rig = new_rig (new_dense, device, FALSE);
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      g_autoptr (GError) error = NULL;
      guint n_submitted;

      llm_forward_set_density (rig->forward, TRUE);
      g_assert_cmpint (try_step (rig, seq, STEP, &error), ==, LLM_FAILED);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
      g_assert_true (g_pattern_match_simple (fails ? "*Fake NPU failed: it is out of*call again*"
                                                   : "*Fake NPU failed: it was unplugged*call again*",
                                             error->message));
      g_assert_null (llm_forward_get_logits (rig->forward, 0));
      n_submitted = counts.n_submitted;
      g_assert_cmpint (counts.n_done + counts.n_cancelled < n_submitted, ==, at % 3 < 2);

      llm_kv_seq_truncate (seq, 0);
      g_clear_error (&error);
      g_assert_cmpint (try_step (rig, seq, STEP, &error), ==, LLM_READY);
      for (guint i = 0; i < STEP; i++)
        g_assert_cmpmem (llm_forward_get_logits (rig->forward, i),
                         rig->hparams.n_vocab * sizeof (float),
                         expected + (gsize) i * rig->hparams.n_vocab,
                         rig->hparams.n_vocab * sizeof (float));
      g_assert_cmpuint (counts.n_submitted, ==, n_submitted);
    }
}

/* Left while the device works: nothing of the step is written any more. */
static void
test_abandoned (void)
{
  const FakeConfig config = { .n_polls = 2 };
  g_autoptr (ExecRig) plain = new_rig (new_dense, NULL, FALSE);
  gsize n;
  g_autofree float *expected = run (plain, &n);

  for (guint n_stages = 0; n_stages < 60; n_stages++)
    {
      FakeCounts counts = { 0 };
      g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &config, &counts);
      g_autoptr (ExecRig) rig = new_rig (new_dense, device, FALSE);
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      LlmRow row = exec_rig_row (0, 0, 0);
      LlmBatch batch = { &row, 1, &seq, 1 };
      gboolean waits;

      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      g_assert_true (llm_forward_begin (rig->forward, &batch, NULL));
      for (guint i = 0; i < n_stages; i++)
        if (llm_forward_step (rig->forward, &waits, NULL) == LLM_READY)
          break;
      llm_forward_abandon (rig->forward);
      g_assert_cmpuint (counts.n_done + counts.n_cancelled, ==, counts.n_submitted);
      llm_kv_seq_truncate (seq, 0);
      assert_runs (rig, expected, n);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (late_cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/backend/late/%s", late_cases[i].name);

      g_test_add_data_func (path, &late_cases[i], test_late);
    }
  g_test_add_func ("/backend/costly", test_costly);
  g_test_add_func ("/backend/bytes", test_bytes);
  g_test_add_func ("/backend/taken-over", test_taken_over);
  g_test_add_func ("/backend/failed", test_failed);
  g_test_add_func ("/backend/abandoned", test_abandoned);

  return g_test_run ();
}
