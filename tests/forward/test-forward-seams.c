/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The forward pass and its neighbours: weights in segments, late or by channel,
 * drivers that stop, wrong input, memory. */

#include <string.h>

#include "common/llmsvc-error.h"
#include "forward-rig.h"
#include "split-weights.h"
#include "support/llm-test-gguf.h"

#define TOLERANCE 1e-4
#define N_TOKENS 30

static ExecRig *
new_rig (LlkType type,
         guint   n_threads)
{
  ExecRigConfig config = { .n_threads = n_threads };
  LlmTestModel shape = { .type = type, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, &config);
}

/* The same with a provider between. */
static ExecRig *
new_split_rig (LlkType            type,
               guint              n_threads,
               const SplitConfig *split,
               SplitCounts       *counts)
{
  ExecRigConfig config = { .n_threads = n_threads };
  ExecRig *rig = new_rig (type, n_threads);
  LlmWeights *weights = split_weights_new (rig->weights, &rig->hparams, split, counts);

  exec_rig_set_weights (rig, weights, &config);
  return rig;
}

static void
fill_tokens (gint32 *tokens,
             guint   n)
{
  for (guint i = 0; i < n; i++)
    tokens[i] = (gint32) (i * 101 % 384);
}

static void
assert_near (const float *found,
             const float *expected,
             gsize        n,
             double       tolerance)
{
  if (tolerance == 0)
    g_assert_cmpmem (found, n * sizeof *found, expected, n * sizeof *expected);
  else
    for (gsize i = 0; i < n; i++)
      g_assert_cmpfloat_with_epsilon (found[i], expected[i], tolerance);
}

typedef struct
{
  const char *name;
  SplitConfig config;
  LlkType type;
  double tolerance;
} SplitCase;

/* Cutting outputs changes nothing; sums that are cut round elsewhere. */
static const SplitCase split_cases[] = {
  { "whole", { 1, FALSE, FALSE }, LLK_Q8_0, 0 },
  { "late", { 1, TRUE, FALSE }, LLK_Q8_0, 0 },
  { "segments-f32", { 2, FALSE, FALSE }, LLK_F32, TOLERANCE },
  { "segments-q8-0", { 2, FALSE, FALSE }, LLK_Q8_0, TOLERANCE },
  { "segments-q4-0", { 2, FALSE, FALSE }, LLK_Q4_0, TOLERANCE },
  { "segments-nine", { 9, FALSE, FALSE }, LLK_Q8_0, TOLERANCE },
  { "segments-late", { 2, TRUE, FALSE }, LLK_BF16, TOLERANCE },
  { "channels", { 1, FALSE, TRUE }, LLK_Q8_0, TOLERANCE },
  { "channels-segments-late", { 2, TRUE, TRUE }, LLK_F16, TOLERANCE },
};

static void
test_split (gconstpointer data)
{
  const SplitCase *c = data;
  SplitCounts counts = { 0 };
  gint32 tokens[N_TOKENS];
  g_autoptr (ExecRig) plain = new_rig (c->type, 2);
  g_autoptr (ExecRig) split = new_split_rig (c->type, 2, &c->config, &counts);
  g_autoptr (LlmKvSeq) plain_seq = llm_kv_seq_new (plain->store, NULL, NULL);
  g_autoptr (LlmKvSeq) split_seq = llm_kv_seq_new (split->store, NULL, NULL);
  gsize n = (gsize) N_TOKENS * plain->hparams.n_vocab;
  g_autofree float *expected = g_new (float, n);
  g_autofree float *found = g_new (float, n);

  fill_tokens (tokens, N_TOKENS);
  exec_rig_prompt (plain, plain_seq, tokens, N_TOKENS, 9, expected);
  exec_rig_prompt (split, split_seq, tokens, N_TOKENS, 9, found);
  assert_near (found, expected, n, c->tolerance);

  g_assert_cmpuint (counts.n_acquired, >, 0);
  g_assert_cmpuint (counts.n_held, ==, 0);
  g_assert_cmpuint (counts.n_most_held, <=, 3 * c->config.n_levels);
  g_assert_cmpint (counts.n_pending > 0, ==, c->config.is_pending);
}

/* Products of panels would read past their end: an error, not a guess. */
static void
test_channels_in_panels (void)
{
  SplitConfig config = { .n_levels = 1, .has_channels = TRUE, .claims_panels = TRUE };
  SplitCounts counts = { 0 };
  g_autoptr (ExecRig) rig = new_split_rig (LLK_F32, 1, &config, &counts);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (GError) error = NULL;
  LlmRow row = exec_rig_row (17, 0, 0);
  LlmBatch batch = { &row, 1, &seq, 1 };

  g_assert_true (llm_kv_seq_append (seq, 1, &error));
  g_assert_true (llm_forward_begin (rig->forward, &batch, &error));
  g_assert_cmpint (llm_forward_resume (rig->forward, &error), ==, LLM_FAILED);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, "by channel but in panels"));
  g_assert_nonnull (strstr (error->message, "ffn-down"));
  g_assert_cmpuint (counts.n_held, ==, 0);
}

/* --- drivers --- */

/* Stage by stage, with a step of another forward pass between any two. */
static void
test_stages (void)
{
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 1);
  g_autoptr (LlmForward) other = llm_forward_new (rig->plan, rig->pool, rig->ledger);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (LlmKvSeq) again = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autofree float *expected = g_new (float, rig->hparams.n_vocab);
  g_autoptr (GError) error = NULL;
  LlmRow row = exec_rig_row (17, 0, 0);
  LlmRow other_row = exec_rig_row (18, 0, 0);
  LlmBatch batch = { &row, 1, &again, 1 };
  LlmStatus status = LLM_PENDING;
  guint n_stages = 0;

  exec_rig_prompt (rig, seq, &row.token, 1, 1, expected);
  g_assert_true (llm_kv_seq_append (again, 1, &error));
  g_assert_true (llm_forward_begin (rig->forward, &batch, &error));
  while (status == LLM_PENDING)
    {
      g_autoptr (LlmKvSeq) between = llm_kv_seq_new (rig->store, NULL, NULL);
      LlmBatch other_batch = { &other_row, 1, &between, 1 };
      gboolean waits;

      g_assert_null (llm_forward_get_logits (rig->forward, 0));
      status = llm_forward_step (rig->forward, &waits, &error);
      g_assert_no_error (error);
      g_assert_false (waits);
      n_stages++;
      g_assert_true (llm_kv_seq_append (between, 1, &error));
      g_assert_true (llm_forward_begin (other, &other_batch, &error));
      g_assert_cmpint (llm_forward_resume (other, &error), ==, LLM_READY);
    }
  g_assert_cmpint (status, ==, LLM_READY);
  g_assert_cmpuint (n_stages, >, 5 * rig->hparams.n_layers);
  g_assert_cmpmem (llm_forward_get_logits (rig->forward, 0), rig->hparams.n_vocab * sizeof (float),
                   expected, rig->hparams.n_vocab * sizeof (float));
  g_assert_null (llm_forward_get_logits (rig->forward, 1));
}

/* Left at any stage, the sequence is cut back and the same step runs whole. */
static void
test_abandon (void)
{
  SplitConfig config = { 2, TRUE, TRUE };
  SplitCounts counts = { 0 };
  g_autoptr (ExecRig) rig = new_split_rig (LLK_F32, 1, &config, &counts);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autofree float *expected = g_new (float, rig->hparams.n_vocab);
  g_autoptr (GError) error = NULL;
  LlmRow row = exec_rig_row (17, 0, 0);

  exec_rig_prompt (rig, seq, &row.token, 1, 1, expected);
  for (guint n_stages = 0; n_stages < 40; n_stages++)
    {
      g_autoptr (LlmKvSeq) again = llm_kv_seq_new (rig->store, NULL, NULL);
      g_autofree float *found = g_new (float, rig->hparams.n_vocab);
      LlmBatch batch = { &row, 1, &again, 1 };
      LlmStatus status = LLM_PENDING;
      gboolean waits;

      g_assert_true (llm_kv_seq_append (again, 1, &error));
      g_assert_true (llm_forward_begin (rig->forward, &batch, &error));
      for (guint i = 0; i < n_stages && status == LLM_PENDING; i++)
        status = llm_forward_step (rig->forward, &waits, &error);
      llm_forward_abandon (rig->forward);
      g_assert_cmpuint (counts.n_held, ==, 0);
      llm_kv_seq_truncate (again, 0);
      exec_rig_prompt (rig, again, &row.token, 1, 1, found);
      g_assert_cmpmem (found, rig->hparams.n_vocab * sizeof (float), expected,
                       rig->hparams.n_vocab * sizeof (float));
    }
}

/* --- wrong input, memory --- */

static void
assert_refused (ExecRig     *rig,
                LlmRow       row,
                guint        n_rows,
                LlmKvSeq    *seq,
                const char  *pattern)
{
  g_autofree LlmRow *rows = g_new (LlmRow, MAX (n_rows, 1));
  g_autoptr (GError) error = NULL;
  LlmBatch batch = { rows, n_rows, &seq, 1 };

  for (guint i = 0; i < n_rows; i++)
    rows[i] = row;
  g_assert_false (llm_forward_begin (rig->forward, &batch, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_assert_true (g_pattern_match_simple (pattern, error->message));
}

static void
test_refused (void)
{
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 1);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmRow good = exec_rig_row (5, 0, 1);
  LlmRow row;
  LlmKvLayout layout = rig->store->layout;
  g_autoptr (LlmKvStore) other_store = NULL;
  g_autoptr (LlmKvSeq) other = NULL;

  g_assert_true (llm_kv_seq_append (seq, 2, NULL));
  row = good;
  row.token = -1;
  assert_refused (rig, row, 1, seq, "*-1*384*");
  row.token = 384;
  assert_refused (rig, row, 1, seq, "*384*384*");
  row = good;
  row.sub_model = 50;
  assert_refused (rig, row, 1, seq, "*50 percent*");
  row = good;
  row.slot = 2;
  assert_refused (rig, row, 1, seq, "*slot 2*");
  row = good;
  row.visibility = (LlmVisibility) { .kind = LLM_VISIBLE_TREE, .base = 0, .ancestors = 1 };
  assert_refused (rig, row, 1, seq, "*Row 0*tree behind slot 0*");
  row.visibility.ancestors = 6;
  assert_refused (rig, row, 1, seq, "*Row 0*tree*");
  row.visibility.base = 2;
  assert_refused (rig, row, 1, seq, "*Row 0*tree behind slot 2*");
  row = good;
  row.sequence = 1;
  assert_refused (rig, row, 1, seq, "*sequence 1*");
  assert_refused (rig, good, 0, seq, "*0 rows*");
  assert_refused (rig, good, LLM_BATCH_MAX_ROWS + 1, seq, "*513 rows*");

  layout.head_dim++;
  layout.layers = NULL;
  other_store = llm_kv_store_new (&layout, NULL, NULL, NULL);
  other = llm_kv_seq_new (other_store, NULL, NULL);
  g_assert_true (llm_kv_seq_append (other, 2, NULL));
  assert_refused (rig, good, 1, other, "*another model*");

  exec_rig_step (rig, &good, 1, &seq, 1);
}

static void
test_scratch (void)
{
  g_autoptr (ExecRig) rig = new_rig (LLK_F32, 2);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (GError) error = NULL;
  LlmRow rows[100];
  LlmBatch batch = { rows, 100, &seq, 1 };
  guint64 small, held;

  g_assert_true (llm_kv_seq_append (seq, 100, NULL));
  for (guint i = 0; i < 100; i++)
    rows[i] = exec_rig_row (5, 0, i);

  g_assert_cmpuint (llm_forward_get_scratch (rig->forward), ==, 0);
  exec_rig_step (rig, rows, 1, &seq, 1);
  small = llm_forward_get_scratch (rig->forward);
  g_assert_cmpuint (small, >, 0);
  g_assert_cmpuint (llm_ledger_get (rig->ledger, LLM_HOLDER_SCRATCH), ==, small);

  /* No room for more: what was there stays and serves. */
  llm_ledger_set_budget (rig->ledger, llm_ledger_get_total (rig->ledger));
  g_assert_false (llm_forward_begin (rig->forward, &batch, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_assert_cmpuint (llm_forward_get_scratch (rig->forward), ==, small);
  exec_rig_step (rig, rows, 1, &seq, 1);

  llm_ledger_set_budget (rig->ledger, 0);
  exec_rig_step (rig, rows, 100, &seq, 1);
  held = llm_forward_get_scratch (rig->forward);
  g_assert_cmpuint (held, >, small);
  exec_rig_step (rig, rows, 1, &seq, 1);
  g_assert_cmpuint (llm_forward_get_scratch (rig->forward), ==, held);
  g_assert_nonnull (llm_forward_get_logits (rig->forward, 0));

  g_assert_cmpuint (llm_forward_trim (rig->forward), ==, held);
  g_assert_cmpuint (llm_forward_trim (rig->forward), ==, 0);
  g_assert_cmpuint (llm_ledger_get (rig->ledger, LLM_HOLDER_SCRATCH), ==, 0);
  g_assert_null (llm_forward_get_logits (rig->forward, 0));
  exec_rig_step (rig, rows, 1, &seq, 1);
  g_assert_nonnull (llm_forward_get_logits (rig->forward, 0));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (split_cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/seams/weights/%s", split_cases[i].name);

      g_test_add_data_func (path, &split_cases[i], test_split);
    }
  g_test_add_func ("/seams/channels-in-panels", test_channels_in_panels);
  g_test_add_func ("/seams/stages", test_stages);
  g_test_add_func ("/seams/abandon", test_abandon);
  g_test_add_func ("/seams/refused", test_refused);
  g_test_add_func ("/seams/scratch", test_scratch);

  return g_test_run ();
}
