/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The paced device: real numbers in memory of its own, static shapes, and no more memory after the
 * first prompt. What its clock says, no test knows. */

#include "dispatch/llm-chunk-run.h"
#include "dispatch/llm-paced.h"
#include "forward/forward-rig.h"
#include "support/llm-test-gguf.h"

#define N_CHUNKS 3
#define CHUNK 8

static ExecRig *
new_rig (LlmBackend *device)
{
  const LlmTestModel shape = { .n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .seed = 5 };
  const ExecRigConfig config = { .device = device };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, &config);
}

static LlmBackend *
new_device (void)
{
  /* less than the CPU's estimate, so that it is chosen */
  const LlmPacedConfig config = { .n_rows = CHUNK, .operations_per_us = 1e9 };

  return llm_paced_new (llk_ops_best (), &config);
}

/* A prompt of whole chunks and @n_more rows, in chunks. @n_resumes: leave it after so many; 0: don't.
 * (transfer full) (nullable) */
static float *
run (ExecRig     *rig,
     LlmChunkRun *chunk_run,
     LlmBackend  *device,
     guint        n_more,
     guint        n_resumes)
{
  guint n_rows = N_CHUNKS * CHUNK + n_more, n_chunks = N_CHUNKS + (n_more > 0 ? 1 : 0);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmKvSeq *sequences[] = { seq };
  LlmRow rows[(N_CHUNKS + 1) * CHUNK];
  LlmBatch chunks[N_CHUNKS + 1];
  g_autoptr (GError) error = NULL;
  LlmStatus status = LLM_PENDING;
  const float *logits;

  g_assert_true (llm_kv_seq_append (seq, n_rows, NULL));
  for (guint i = 0; i < n_rows; i++)
    {
      rows[i] = exec_rig_row ((gint32) (i * 37 % rig->hparams.n_vocab), 0, i);
      rows[i].wants_logits = i + 1 == n_rows;
    }
  for (guint i = 0; i < n_chunks; i++)
    chunks[i] = (LlmBatch) { rows + i * CHUNK, i < N_CHUNKS ? CHUNK : n_more, sequences, 1 };
  g_assert_true (llm_chunk_run_begin (chunk_run, chunks, n_chunks, &error));
  for (guint i = 0; status == LLM_PENDING && (n_resumes == 0 || i < n_resumes); i++)
    {
      status = llm_chunk_run_resume (chunk_run, &error);
      g_assert_no_error (error);
      if (status == LLM_PENDING && device != NULL)
        llm_paced_wait (device);
    }
  if (status == LLM_PENDING)
    {
      llm_chunk_run_abandon (chunk_run);
      return NULL;
    }
  logits = llm_chunk_run_get_logits (chunk_run, n_chunks - 1, n_rows - 1 - (n_chunks - 1) * CHUNK);
  g_assert_nonnull (logits);
  return g_memdup2 (logits, rig->hparams.n_vocab * sizeof (float));
}

static void
test_same_bits (void)
{
  g_autoptr (LlmBackend) device = new_device ();
  ExecRig *plain = new_rig (NULL), *paced = new_rig (device);
  LlmChunkRun *in_order = llm_chunk_run_new (plain->plan, plain->pool, plain->ledger);
  LlmChunkRun *chunk_run = llm_chunk_run_new (paced->plan, paced->pool, paced->ledger);
  gsize bytes = plain->hparams.n_vocab * sizeof (float);
  LlmPacedFigures before = { 0 }, after;

  for (guint i = 0; i < 3 * CHUNK; i++)
    {
      g_autofree float *expected = run (plain, in_order, NULL, i % CHUNK, 0);
      g_autofree float *found = run (paced, chunk_run, device, i % CHUNK, 0);

      g_assert_cmpmem (found, bytes, expected, bytes);
      if (i == 1)
        before = llm_paced_get_figures (device);
    }
  after = llm_paced_get_figures (device);
  /* prompts of other lengths prepare nothing: the rows of a chunk that is not whole are the CPU's */
  g_assert_cmpuint (after.n_prepared, ==, before.n_prepared);
  g_assert_cmpuint (after.n_done, >, before.n_done);
  g_assert_cmpuint (after.n_done % (N_CHUNKS * 2), ==, 0);
  g_assert_cmpuint (device->counted_bytes, >, 0);

  llm_chunk_run_free (in_order);
  llm_chunk_run_free (chunk_run);
  exec_rig_free (plain);
  exec_rig_free (paced);
}

/* It has its own memory: what is left in the middle can go at once. */
static void
test_abandon (void)
{
  g_autoptr (LlmBackend) device = new_device ();
  ExecRig *rig = new_rig (device);
  LlmChunkRun *chunk_run = llm_chunk_run_new (rig->plan, rig->pool, rig->ledger);
  g_autofree float *expected = run (rig, chunk_run, device, 0, 0);

  for (guint n = 1; n < 12; n++)
    {
      g_autofree float *left = run (rig, chunk_run, device, 0, n);
      g_autofree float *found = run (rig, chunk_run, device, 0, 0);

      g_assert_cmpmem (found, rig->hparams.n_vocab * sizeof (float), expected,
                       rig->hparams.n_vocab * sizeof (float));
    }
  llm_chunk_run_free (chunk_run);
  exec_rig_free (rig);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/backends/paced/same-bits", test_same_bits);
  g_test_add_func ("/backends/paced/abandon", test_abandon);

  return g_test_run ();
}
