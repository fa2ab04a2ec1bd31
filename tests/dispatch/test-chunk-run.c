/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chunks of a prompt that overtake each other on two processors: the bits of chunks one after the
 * other, whichever rule chooses, whatever the device does (N1, N6). */

#include "dispatch/llm-chunk-run.h"
#include "forward/fake-device.h"
#include "forward/forward-rig.h"
#include "support/llm-test-gguf.h"

#include <string.h>

#define N_CHUNKS 4
#define CHUNK 8
#define LAST 5
#define N_ROWS ((N_CHUNKS - 1) * CHUNK + LAST)

/* How often a device was polled decides when it is done, and so in which order all goes. */
typedef struct
{
  FakeCounts counts;
  FakeConfig config;
  LlmBackend *device;
  ExecRig *rig;
  LlmChunkRun *run;
  LlmForward *cpu;         /* without the device */
} Fixture;

static void
fixture_init (Fixture          *self,
              const FakeConfig *config)
{
  const LlmTestModel shape = { .n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .seed = 7 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  ExecRigConfig rig = { 0 };
  const LlmPlanConfig plan = { .kernels = llk_ops_best () };
  g_autoptr (LlmPlan) of_cpu = NULL;

  memset (self, 0, sizeof *self);
  if (config != NULL)
    {
      self->config = *config;
      self->device = fake_device_new (llk_ops_best (), config, &self->counts);
      rig.device = self->device;
    }
  self->rig = exec_rig_new (model, &rig);
  self->run = llm_chunk_run_new (self->rig->plan, self->rig->pool, self->rig->ledger);
  of_cpu = llm_plan_new (&self->rig->hparams, self->rig->weights, &plan);
  self->cpu = llm_forward_new (of_cpu, self->rig->pool, self->rig->ledger);
}

static void
fixture_clear (Fixture *self)
{
  llm_chunk_run_free (self->run);
  llm_forward_free (self->cpu);
  exec_rig_free (self->rig);
  g_clear_pointer (&self->device, llm_backend_free);
}

static LlmRow
make_row (Fixture *self,
          guint    slot)
{
  LlmRow row = exec_rig_row ((gint32) (slot * 101 % self->rig->hparams.n_vocab), 0, slot);

  row.wants_logits = slot + 1 == N_ROWS;
  return row;
}

/* (transfer full): logits of the last row and a row of the next step, which reads what all chunks
 * wrote. */
static float *
read_result (Fixture     *self,
             LlmKvSeq    *seq,
             const float *logits)
{
  gsize n_vocab = self->rig->hparams.n_vocab;
  float *result = g_new (float, 2 * n_vocab);
  LlmRow row = make_row (self, N_ROWS);
  const LlmBatch batch = { &row, 1, &seq, 1 };

  g_assert_nonnull (logits);
  memcpy (result, logits, n_vocab * sizeof (float));
  g_assert_true (llm_kv_seq_append (seq, 1, NULL));
  row.wants_logits = TRUE;
  g_assert_true (llm_forward_begin (self->cpu, &batch, NULL));
  g_assert_cmpint (llm_forward_resume (self->cpu, NULL), ==, LLM_READY);
  memcpy (result + n_vocab, llm_forward_get_logits (self->cpu, 0),
          n_vocab * sizeof (float));
  return result;
}

static float *
run_plain (Fixture *self)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (self->rig->store, NULL, NULL);
  guint last = 0;

  for (guint first = 0; first < N_ROWS; first += CHUNK)
    {
      LlmRow rows[CHUNK];

      last = MIN (CHUNK, N_ROWS - first);
      g_assert_true (llm_kv_seq_append (seq, last, NULL));
      for (guint i = 0; i < last; i++)
        rows[i] = make_row (self, first + i);
      exec_rig_step (self->rig, rows, last, &seq, 1);
    }
  return read_result (self, seq, llm_forward_get_logits (self->rig->forward, last - 1));
}

/* @rule: LLM_N_DISPATCH_RULES for the run's own choice. (transfer full) (nullable): NULL where it
 * failed. */
static float *
run_chunks (Fixture *self,
            guint    rule,
            GError **error)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (self->rig->store, NULL, NULL);
  LlmKvSeq *sequences[] = { seq };
  LlmRow rows[N_ROWS];
  LlmBatch chunks[N_CHUNKS];
  LlmStatus status = LLM_PENDING;

  g_assert_true (llm_kv_seq_append (seq, N_ROWS, NULL));
  for (guint i = 0; i < N_ROWS; i++)
    rows[i] = make_row (self, i);
  for (guint i = 0; i < N_CHUNKS; i++)
    chunks[i] = (LlmBatch) { rows + i * CHUNK, i + 1 < N_CHUNKS ? CHUNK : LAST, sequences, 1 };
  g_assert_true (rule == LLM_N_DISPATCH_RULES
                   ? llm_chunk_run_begin (self->run, chunks, N_CHUNKS, error)
                   : llm_chunk_run_begin_by (self->run, chunks, N_CHUNKS, rule, error));
  while (status == LLM_PENDING)
    status = llm_chunk_run_resume (self->run, error);
  if (status == LLM_FAILED)
    return NULL;
  return read_result (self, seq, llm_chunk_run_get_logits (self->run, N_CHUNKS - 1, LAST - 1));
}

static const FakeConfig devices[] = {
  { .n_polls = 1, .refuses_attention = TRUE },
  { .n_polls = 3, .refuses_attention = TRUE },
  { .n_polls = 40, .refuses_attention = TRUE },
  { .n_polls = 2 },
};

static void
test_same_bits (void)
{
  g_autofree float *expected = NULL;
  gsize bytes;
  Fixture plain;

  fixture_init (&plain, NULL);
  expected = run_plain (&plain);
  bytes = 2 * plain.rig->hparams.n_vocab * sizeof (float);
  fixture_clear (&plain);

  for (guint i = 0; i < G_N_ELEMENTS (devices); i++)
    {
      Fixture fixture;

      fixture_init (&fixture, &devices[i]);
      for (guint rule = 0; rule <= LLM_N_DISPATCH_RULES; rule++)
        for (guint again = 0; again < 3; again++)
          {
            g_autoptr (GError) error = NULL;
            g_autofree float *found = run_chunks (&fixture, rule, &error);

            g_assert_no_error (error);
            g_assert_cmpmem (found, bytes, expected, bytes);
          }
      g_assert_cmpuint (fixture.counts.n_done, ==, fixture.counts.n_submitted);
      g_assert_cmpuint (fixture.counts.n_done, >, 0);
      fixture_clear (&fixture);
    }
}

/* What the first run found: products are the device's, all else the CPU's, and attention waits for
 * earlier chunks. */
static void
test_learns (void)
{
  const FakeConfig config = { .n_polls = 2, .refuses_attention = TRUE };
  Fixture fixture;
  LlmDispatchGraph graph;
  guint n_device = 0, n_waiting = 0;
  g_autofree float *found = NULL;

  fixture_init (&fixture, &config);
  g_assert_false (llm_chunk_run_get_graph (fixture.run, 2, &graph));
  found = run_chunks (&fixture, LLM_N_DISPATCH_RULES, NULL);
  g_assert_true (llm_chunk_run_get_graph (fixture.run, N_CHUNKS + 1, &graph));
  for (guint i = 0; i < graph.n_stages; i++)
    {
      const LlmStage *stage = fixture.rig->plan->nodes[i].stage;
      gboolean is_product = stage->acquires == LLM_ACQUIRE_SEGMENTS;

      if (g_str_equal (stage->name, "logits"))
        continue;
      g_assert_cmpint (graph.stages[i].processor, ==,
                       is_product ? LLM_PROCESSOR_DEVICE : LLM_PROCESSOR_CPU);
      n_device += is_product;
      n_waiting += graph.stages[i].needs_earlier;
    }
  g_assert_cmpuint (n_device, ==, 4 * 3);
  g_assert_cmpuint (n_waiting, ==, 3);
  fixture_clear (&fixture);
}

/* It disappears in the middle of a prompt: the CPU goes on with the same bits where the device had
 * its; elsewhere that is an error, and the next prompt runs. */
static void
test_lost (void)
{
  g_autofree float *expected = NULL;
  gsize bytes;
  Fixture plain;

  fixture_init (&plain, NULL);
  expected = run_plain (&plain);
  bytes = 2 * plain.rig->hparams.n_vocab * sizeof (float);
  fixture_clear (&plain);

  for (guint at = 1; at < 200; at += 13)
    for (guint kind = 0; kind < 3; kind++)
      {
        const FakeConfig config = {
          .n_polls = 2, .refuses_attention = TRUE, .has_cpu_bits = kind != 2,
          .lost_at = kind == 1 ? 0 : at, .refused_at = kind == 1 ? at : 0,
        };
        guint n_failed = 0;
        Fixture fixture;

        fixture_init (&fixture, &config);
        for (guint again = 0; again < 3; again++)
          {
            g_autoptr (GError) error = NULL;
            g_autofree float *found = NULL;

            found = run_chunks (&fixture, LLM_N_DISPATCH_RULES, &error);
            if (found != NULL)
              g_assert_cmpmem (found, bytes, expected, bytes);
            n_failed += found == NULL;
            g_assert_true ((found == NULL) == (error != NULL));
          }
        g_assert_cmpuint (n_failed, <=, config.has_cpu_bits ? 0 : 1);
        fixture_clear (&fixture);
      }
}

/* Left in the middle, at any place: another run begins anew. */
static void
test_abandon (void)
{
  const FakeConfig config = { .n_polls = 3, .refuses_attention = TRUE };
  Fixture fixture;
  g_autofree float *expected = NULL;
  gsize bytes;
  guint n_left = 0;

  fixture_init (&fixture, &config);
  expected = run_chunks (&fixture, LLM_N_DISPATCH_RULES, NULL);
  bytes = 2 * fixture.rig->hparams.n_vocab * sizeof (float);
  for (guint n = 0; n < 30; n += 3)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (fixture.rig->store, NULL, NULL);
      LlmKvSeq *sequences[] = { seq };
      LlmRow rows[2 * CHUNK];
      LlmBatch chunks[] = { { rows, CHUNK, sequences, 1 }, { rows + CHUNK, CHUNK, sequences, 1 } };
      LlmStatus status = LLM_PENDING;
      g_autoptr (GError) error = NULL;
      g_autofree float *found = NULL;

      g_assert_true (llm_kv_seq_append (seq, 2 * CHUNK, NULL));
      for (guint i = 0; i < 2 * CHUNK; i++)
        rows[i] = make_row (&fixture, i);
      g_assert_true (llm_chunk_run_begin (fixture.run, chunks, 2, &error));
      for (guint i = 0; i < n && status == LLM_PENDING; i++)
        status = llm_chunk_run_resume (fixture.run, &error);
      g_assert_cmpint (status, !=, LLM_FAILED);
      n_left += status == LLM_PENDING;
      llm_chunk_run_abandon (fixture.run);
      found = run_chunks (&fixture, LLM_N_DISPATCH_RULES, &error);
      g_assert_no_error (error);
      g_assert_cmpmem (found, bytes, expected, bytes);
    }
  g_assert_cmpuint (n_left, >, 3);
  g_assert_cmpuint (fixture.counts.n_cancelled, >, 0);
  fixture_clear (&fixture);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/backends/chunk-run/same-bits", test_same_bits);
  g_test_add_func ("/backends/chunk-run/learns", test_learns);
  g_test_add_func ("/backends/chunk-run/lost", test_lost);
  g_test_add_func ("/backends/chunk-run/abandon", test_abandon);

  return g_test_run ();
}
