/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A mixture of experts that streams: only what rows chose is read, once for all rows of a step, and
 * the logits are the bits of resident weights; with a disk that is late, in random order and at
 * times broken, with poisoned slots, with two steps at once, and with slots that go and come back
 * between their stages. */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "common/llmsvc-error.h"
#include "forward-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-source.h"
#include "weights/llm-weights-file-private.h"

#define N_TOKENS 24
#define CHUNK 6
#define N_LAYERS 2
#define N_EXPERTS 6

static const LlmOperator operators[] = { LLM_OP_EXPERT_GATE, LLM_OP_EXPERT_UP, LLM_OP_EXPERT_DOWN };

typedef struct
{
  char *folder;
  ExecRig *exec;
  LlmRepackedCache *cache;
  LlmTestSource *source;
  float *expected;       /* [N_TOKENS × n_vocab], of resident weights */
  gsize n_vocab;
} Rig;

/* What steps chose, and what was asked of the disk. */
static guint n_chosen[N_LAYERS][N_EXPERTS];
static guint64 asked_bytes;
static const LlmWeightProvider *inner_provider;
static LlmWeightProvider counting_provider;
static LlmWeightSource inner_source;

static gboolean
count_choice (LlmWeights  *self,
              guint        layer,
              const guint *n_rows)
{
  for (guint e = 0; n_rows != NULL && e < N_EXPERTS; e++)
    n_chosen[layer][e] += n_rows[e] > 0;
  return inner_provider->choose_experts (self, layer, n_rows);
}

static void
count_read (gpointer    data,
            int         fd,
            guint64     offset,
            gpointer    memory,
            gsize       length,
            LlmDiskDone done,
            gpointer    answer)
{
  asked_bytes += length;
  inner_source.read (data, fd, offset, memory, length, done, answer);
}

static gint32
get_token (guint i)
{
  return (gint32) (i * 37 % 61 + 1);
}

static LlmKvSeq *
new_sequence (Rig *rig)
{
  LlmKvSeq *seq = llm_kv_seq_new (rig->exec->store, NULL, NULL);

  g_assert_true (llm_kv_seq_append (seq, N_TOKENS, NULL));
  return seq;
}

/* @n rows from @first on. */
static void
fill_batch (guint      first,
            guint      n,
            LlmKvSeq **seq,
            LlmRow    *rows,
            LlmBatch  *batch)
{
  for (guint i = 0; i < n; i++)
    rows[i] = exec_rig_row (get_token (first + i), 0, first + i);
  *batch = (LlmBatch) { rows, n, seq, 1 };
}

static void
check_rows (Rig        *rig,
            LlmForward *forward,
            guint       first,
            guint       n)
{
  for (guint i = 0; i < n; i++)
    g_assert_cmpmem (llm_forward_get_logits (forward, i), rig->n_vocab * sizeof (float),
                     rig->expected + (first + i) * rig->n_vocab, rig->n_vocab * sizeof (float));
}

static void
run_and_check (Rig      *rig,
               LlmKvSeq *seq,
               guint     first,
               guint     n)
{
  LlmRow rows[N_TOKENS];
  LlmBatch batch;

  fill_batch (first, n, &seq, rows, &batch);
  exec_rig_step (rig->exec, rows, n, &seq, 1);
  check_rows (rig, rig->exec->forward, first, n);
}

static void
fill_expected (Rig *rig)
{
  g_autoptr(LlmKvSeq) seq = new_sequence (rig);

  rig->expected = g_new (float, N_TOKENS * rig->n_vocab);
  for (guint i = 0; i < N_TOKENS; i++)
    {
      LlmRow row = exec_rig_row (get_token (i), 0, i);

      exec_rig_step (rig->exec, &row, 1, &seq, 1);
      memcpy (rig->expected + i * rig->n_vocab, llm_forward_get_logits (rig->exec->forward, 0),
              rig->n_vocab * sizeof (float));
    }
}

static LlmFileWeights *
get_weights (Rig *rig)
{
  return (LlmFileWeights *) rig->exec->weights;
}

static void
stream (Rig *rig)
{
  const LlmStreamConfig config = { .poisons = TRUE };
  LlmWeightSource source = rig->source->source;

  inner_source = source;
  source.read = count_read;
  g_assert_true (llm_weights_stream (rig->exec->weights, &source, &config));
}

/* Resident weights give what is expected; nothing streams yet. */
static void
begin (Rig *rig)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  g_autofree char *path =
    g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures", "qwen3moe.gguf", NULL);
  g_autofree char *cache = NULL;
  g_autoptr(GError) error = NULL;
  LlmWeights *weights;

  rig->folder = llm_test_folder_new ();
  cache = g_build_filename (rig->folder, "cache", NULL);
  rig->cache = llm_repacked_cache_new (cache, FALSE, NULL, 0);
  rig->source = llm_test_source_new ();
  rig->source->n_late = 5;
  rig->exec = exec_rig_open (path, &config);
  rig->n_vocab = rig->exec->hparams.n_vocab;
  g_assert_cmpuint (rig->exec->hparams.n_layers, ==, N_LAYERS);
  g_assert_cmpuint (rig->exec->hparams.experts.n, ==, N_EXPERTS);
  weights = llm_weights_new_repacked (rig->exec->gguf, &rig->exec->hparams, NULL, rig->cache, 2,
                                      rig->exec->ledger, &error);
  g_assert_no_error (error);
  llm_weights_free (rig->exec->weights);
  exec_rig_set_weights (rig->exec, weights, &config);
  llm_repacked_wait_for_all ();

  inner_provider = weights->provider;
  counting_provider = *inner_provider;
  counting_provider.choose_experts = count_choice;
  weights->provider = &counting_provider;
  memset (n_chosen, 0, sizeof n_chosen);
  asked_bytes = 0;
  fill_expected (rig);
}

static void
end (Rig *rig)
{
  exec_rig_free (rig->exec);
  llm_test_source_free (rig->source);
  llm_repacked_wait_for_all ();
  llm_repacked_cache_free (rig->cache);
  llm_test_folder_remove (rig->folder);
  g_free (rig->folder);
  g_free (rig->expected);
}

/* Bytes of whole blocks that the file has of an expert. */
static guint64
count_blocks (Rig   *rig,
              guint  layer,
              guint  expert)
{
  const LlmRepackedPlan *plan = get_weights (rig)->repacked->plan;
  guint64 sum = 0;

  for (guint p = 0; p < G_N_ELEMENTS (operators); p++)
    {
      const LlmRepackedMatrix *matrix = llm_repacked_plan_find (plan, operators[p], layer, 0);
      guint64 length = matrix->n_panels * matrix->panel_bytes / N_EXPERTS;
      guint64 first = plan->data_offset + matrix->offset + expert * length;

      sum += (first + length + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK
             - first / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
    }
  return sum;
}

/* With slots for all, what is read is each chosen expert, once; token by token there are some that no
 * token chose. */
static void
test_bytes (void)
{
  g_autoptr(LlmKvSeq) seq = NULL;
  LlmStreamFigures figures;
  guint64 expected = 0;
  guint n_experts = 0, n_uses = 0;
  Rig rig;

  begin (&rig);
  g_assert_cmpuint (n_chosen[0][0] + n_chosen[1][0], >, 0);
  memset (n_chosen, 0, sizeof n_chosen);
  stream (&rig);
  llm_weights_keep (rig.exec->weights, get_weights (&rig)->first_expert);
  /* of experts as small as these, slots are larger */
  llm_expert_cache_set_limit (get_weights (&rig)->experts, TRUE, G_MAXUINT64);
  seq = new_sequence (&rig);
  for (guint i = 0; i < 3; i++)
    run_and_check (&rig, seq, i, 1);
  for (guint layer = 0; layer < N_LAYERS; layer++)
    for (guint e = 0; e < N_EXPERTS; e++)
      if (n_chosen[layer][e] > 0)
        {
          expected += count_blocks (&rig, layer, e);
          n_uses += n_chosen[layer][e];
          n_experts++;
        }
  g_assert_cmpuint (n_uses, ==, 3 * N_LAYERS * 3);
  g_assert_cmpuint (n_experts, <, N_LAYERS * N_EXPERTS);
  g_assert_cmpuint (asked_bytes, ==, expected);
  llm_weights_get_stream_figures (rig.exec->weights, &figures);
  g_assert_cmpuint (figures.read_bytes, <=, expected);
  g_assert_cmpuint (figures.n_expert_reads, ==, n_experts);
  g_assert_cmpuint (figures.n_expert_uses, ==, n_uses);
  g_assert_cmpuint (figures.n_expert_hits, ==, n_uses - n_experts);
  g_assert_cmpuint (figures.n_mapped, ==, 0);
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

/* With slots for the experts of one row only, a chunk of a prompt reads each once; and all reads of a
 * layer that there are slots for are under way at once. */
static void
test_chunks (void)
{
  g_autoptr(LlmKvSeq) seq = NULL;
  LlmStreamFigures before, after;
  Rig rig;

  begin (&rig);
  stream (&rig);
  llm_weights_keep (rig.exec->weights, get_weights (&rig)->first_expert);
  seq = new_sequence (&rig);
  for (guint first = 0; first < N_TOKENS; first += CHUNK)
    {
      guint n_used = 0;

      memset (n_chosen, 0, sizeof n_chosen);
      llm_weights_get_stream_figures (rig.exec->weights, &before);
      run_and_check (&rig, seq, first, CHUNK);
      llm_weights_get_stream_figures (rig.exec->weights, &after);
      for (guint i = 0; i < N_LAYERS * N_EXPERTS; i++)
        n_used += n_chosen[i / N_EXPERTS][i % N_EXPERTS];
      g_assert_cmpuint (n_used, >, N_LAYERS * 3);
      g_assert_cmpuint (after.n_expert_reads - before.n_expert_reads, <=, n_used);
      g_assert_cmpuint (after.n_expert_reads - before.n_expert_reads, >, 0);
      g_assert_cmpuint (after.n_mapped, ==, 0);
    }
  g_assert_cmpuint (rig.source->n_most_waiting, ==, 3 * LLM_EXPERT_PARTS);
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

/* The cache has what the budget leaves beside the rest of the model, the ledger counts it, a
 * reclaimer takes of it at once, and it grows again. */
static void
test_room (void)
{
  g_autoptr(LlmKvSeq) seq = NULL;
  LlmStreamFigures figures;
  guint64 held, all, freed;
  LlmWeights *weights;
  Rig rig;

  begin (&rig);
  weights = rig.exec->weights;
  all = weights->bytes;
  stream (&rig);
  seq = new_sequence (&rig);
  for (guint i = 0; i < N_TOKENS; i++)
    {
      guint64 keep = i % 8 < 4 ? all - 1 : get_weights (&rig)->first_expert;

      llm_weights_keep (weights, keep);
      llm_weights_get_stream_figures (weights, &figures);
      held = figures.expert_bytes;
      if (i % 8 >= 4)
        g_assert_cmpfloat (figures.expert_share, ==, 3.0 / (N_LAYERS * N_EXPERTS));
      run_and_check (&rig, seq, i, 1);
      llm_weights_get_stream_figures (weights, &figures);
      if (i % 8 == 0)
        g_assert_cmpuint (figures.expert_bytes, >, held);
      g_assert_cmpuint (llm_ledger_get (rig.exec->ledger, LLM_HOLDER_WEIGHTS), ==,
                        weights->held + figures.ring_bytes + figures.expert_bytes);
    }
  llm_weights_keep (weights, all - 1);
  freed = llm_weights_drop_experts (weights, 1);
  g_assert_cmpuint (freed, >, 0);
  held = figures.expert_bytes;
  llm_weights_get_stream_figures (weights, &figures);
  g_assert_cmpuint (figures.expert_bytes, ==, held - freed);
  llm_weights_keep (weights, G_MAXUINT64);
  llm_weights_get_stream_figures (weights, &figures);
  g_assert_cmpuint (figures.expert_bytes, ==, 0);
  g_assert_cmpuint (llm_ledger_get (rig.exec->ledger, LLM_HOLDER_WEIGHTS), ==, weights->held);
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

/* Two steps at any distance, one of single rows and one of chunks, stage by stage; before each stage
 * memory may go or come back, or a step is cancelled. */
static void
test_two_steps (void)
{
  static const guint sizes[2] = { 1, CHUNK };
  LlmForward *forwards[2];
  LlmKvSeq *sequences[2];
  guint n_done[2] = { 0 };
  LlmStatus status[2] = { LLM_READY, LLM_READY };
  LlmRow rows[2][CHUNK];
  LlmBatch batches[2];
  LlmWeights *weights;
  guint n_idle = 0;
  Rig rig;

  begin (&rig);
  stream (&rig);
  weights = rig.exec->weights;
  llm_weights_keep (weights, 0);
  forwards[0] = rig.exec->forward;
  forwards[1] = llm_forward_new (rig.exec->plan, rig.exec->pool, NULL);
  for (guint f = 0; f < 2; f++)
    sequences[f] = new_sequence (&rig);
  while (n_done[0] < N_TOKENS || n_done[1] < N_TOKENS)
    {
      guint f = (guint) g_test_rand_int_range (0, 2);
      g_autoptr(GError) error = NULL;
      gboolean waits = FALSE;

      if (n_done[f] == N_TOKENS)
        continue;
      if (status[f] != LLM_PENDING)
        {
          fill_batch (n_done[f], sizes[f], &sequences[f], rows[f], &batches[f]);
          g_assert_true (llm_forward_begin (forwards[f], &batches[f], &error));
        }
      switch (g_test_rand_int_range (0, 200))
        {
        case 0:
          llm_weights_drop (weights, G_MAXUINT64);
          break;
        case 1:
          llm_weights_take (weights, G_MAXUINT64);
          break;
        case 2:
        case 3:
          llm_weights_keep (weights, (guint64) g_test_rand_int_range (0, (gint32) weights->bytes));
          break;
        case 4:
          llm_weights_keep (weights, G_MAXUINT64);
          break;
        case 5:
          llm_weights_keep (weights, 0);
          break;
        case 6:
        case 7:
          llm_weights_drop_experts (weights, (guint64) g_test_rand_int_range (1, 100000));
          break;
        case 8:
          llm_forward_abandon (forwards[f]);
          status[f] = LLM_READY;
          continue;
        default:
          break;
        }
      status[f] = llm_forward_step (forwards[f], &waits, &error);
      g_assert_no_error (error);
      n_idle = waits ? n_idle + 1 : 0;
      g_assert_cmpuint (n_idle, <, 100000);
      if (status[f] == LLM_READY)
        {
          check_rows (&rig, forwards[f], n_done[f], sizes[f]);
          n_done[f] += sizes[f];
        }
    }
  for (guint f = 0; f < 2; f++)
    llm_kv_seq_free (sequences[f]);
  llm_forward_free (forwards[1]);
  end (&rig);
}

/* Some request of each step fails, or gives less than was asked for: the step fails with the reason,
 * and the same step after it gives the same bits. */
static void
test_errors (void)
{
  g_autoptr(LlmKvSeq) seq = NULL;
  guint n_failed = 0;
  Rig rig;

  begin (&rig);
  stream (&rig);
  llm_weights_keep (rig.exec->weights, get_weights (&rig)->first_expert);
  seq = new_sequence (&rig);
  for (guint i = 0; i < N_TOKENS; i++)
    {
      g_autoptr(GError) error = NULL;
      LlmStatus status = LLM_PENDING;
      LlmBatch batch;
      LlmRow row;

      rig.source->failure = i % 2 == 0 ? -EIO : 100;
      rig.source->fails_in = 2;
      fill_batch (i, 1, &seq, &row, &batch);
      g_assert_true (llm_forward_begin (rig.exec->forward, &batch, &error));
      while (status == LLM_PENDING)
        status = llm_forward_resume (rig.exec->forward, &error);
      if (status == LLM_FAILED)
        {
          g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
          g_assert_nonnull (strstr (error->message, ".prepared"));
          g_assert_nonnull (strstr (error->message,
                                    i % 2 == 0 ? g_strerror (EIO) : "shorter than it was"));
          n_failed++;
          rig.source->fails_in = 0;
          exec_rig_step (rig.exec, &row, 1, &seq, 1);
        }
      check_rows (&rig, rig.exec->forward, i, 1);
    }
  g_assert_cmpuint (n_failed, >, N_TOKENS / 2);
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

/* Overwrites a byte of each expert of a layer, without a trace. */
static void
damage_experts (Rig *rig)
{
  const LlmRepackedPlan *plan = get_weights (rig)->repacked->plan;
  const LlmRepackedMatrix *matrix = llm_repacked_plan_find (plan, LLM_OP_EXPERT_UP, 1, 0);
  int fd = open (get_weights (rig)->repacked->path, O_RDWR | O_CLOEXEC);
  struct timespec times[2];
  struct stat info;

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (fstat (fd, &info), ==, 0);
  for (guint e = 0; e < N_EXPERTS; e++)
    {
      guint64 at = plan->data_offset + matrix->offset
                   + e * (matrix->n_panels * matrix->panel_bytes / N_EXPERTS) + 5;

      g_assert_cmpint (pwrite (fd, "x", 1, (off_t) at), ==, 1);
    }
  times[0] = info.st_atim;
  times[1] = info.st_mtim;
  g_assert_cmpint (futimens (fd, times), ==, 0);
  close (fd);
}

/* An expert that is damaged on the disk fails the step that chose it, before it is used. */
static void
test_damage (gconstpointer data)
{
  gboolean is_damaged = GPOINTER_TO_INT (data);
  g_autoptr(LlmKvSeq) seq = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *bytes = NULL;
  LlmStatus status = LLM_PENDING;
  LlmFileWeights *weights;
  LlmRepackedHead head;
  const char *reason;
  LlmBatch batch;
  LlmRow row;
  gsize size;
  Rig rig;

  begin (&rig);
  weights = get_weights (&rig);
  g_assert_true (g_file_get_contents (weights->repacked->path, &bytes, &size, NULL));
  g_assert_true (llm_repacked_head_check (weights->repacked->plan, (const guint8 *) bytes, size,
                                          &head, &reason));
  g_assert_null (weights->repacked->checksums);
  weights->repacked->checksums =
    g_memdup2 (head.checksums, weights->repacked->plan->n_pieces * sizeof (guint64));
  if (is_damaged)
    damage_experts (&rig);
  stream (&rig);
  llm_weights_keep (rig.exec->weights, weights->first_expert);
  seq = new_sequence (&rig);
  fill_batch (0, 1, &seq, &row, &batch);
  g_assert_true (llm_forward_begin (rig.exec->forward, &batch, &error));
  while (status == LLM_PENDING)
    status = llm_forward_resume (rig.exec->forward, &error);
  if (is_damaged)
    {
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
      g_assert_nonnull (strstr (error->message, "damaged"));
      g_assert_false (llm_weights_check (rig.exec->weights, NULL));
    }
  else
    {
      g_assert_no_error (error);
      check_rows (&rig, rig.exec->forward, 0, 1);
      g_assert_cmpuint (llm_stream_sums_count (weights->sums), ==, 0);
    }
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/experts/bytes", test_bytes);
  g_test_add_func ("/experts/chunks", test_chunks);
  g_test_add_func ("/experts/room", test_room);
  g_test_add_func ("/experts/two-steps", test_two_steps);
  g_test_add_func ("/experts/errors", test_errors);
  g_test_add_data_func ("/experts/sums", GINT_TO_POINTER (FALSE), test_damage);
  g_test_add_data_func ("/experts/damage", GINT_TO_POINTER (TRUE), test_damage);
  return g_test_run ();
}
