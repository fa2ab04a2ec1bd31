/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The forward pass with weights that stream from a packed file, of every format: the bits that
 * resident weights give, with a disk that is late, in random order and at times broken, with
 * buffers that are poisoned after use, with two steps at once, and with memory that comes and
 * goes. Likewise with rows that leave inputs out, whose weights are read by channel. */

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "forward-rig.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-levels.h"
#include "support/llm-test-source.h"
#include "weights/llm-channels.h"

#define N_TOKENS 12
#define MAX_LAYERS 8
#define SPARSITY 50

static float limits[MAX_LAYERS * LLM_N_INPUTS];
static LlmThresholds thresholds = {
  .n_sparsities = 1, .percent = { SPARSITY }, .values = limits,
};

/* Files of each format. */
static const char *const formats[] = {
  "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4",
  "Q2_K", "Q2_K-768", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS",
};

static const char *const by_channel[] = { "Q8_0", "Q4_0", "Q4_1", "IQ4_NL", "MXFP4", "Q4_K", "IQ4_XS" };

typedef struct
{
  char *folder;
  ExecRig *exec;
  LlmSubModels *table;
  LlmRepackedCache *cache;
  LlmTestSource *source;
  float *expected;       /* [N_TOKENS × n_vocab], of resident weights */
  gsize n_vocab;
  gboolean is_sparse;    /* rows behind the first few */
  char *whole_copy;      /* (nullable): path of the prepared weights, where there are those by channel */
} Rig;

static gint32
get_token (Rig   *rig,
           guint  i)
{
  return (gint32) (i * 101 % rig->n_vocab);
}

static LlmRow
make_row (Rig   *rig,
          guint  i)
{
  LlmRow row = exec_rig_row (get_token (rig, i), 0, i);

  row.sparsity = rig->is_sparse && i > 2 ? SPARSITY : 0;
  return row;
}

/* One row each, as decoding does. */
static void
begin_row (Rig        *rig,
           LlmForward *forward,
           LlmKvSeq  **seq,
           guint       i,
           LlmRow     *row,
           LlmBatch   *batch)
{
  g_autoptr(GError) error = NULL;

  *row = make_row (rig, i);
  *batch = (LlmBatch) { row, 1, seq, 1 };
  g_assert_true (llm_forward_begin (forward, batch, &error));
  g_assert_no_error (error);
}

static void
check_row (Rig        *rig,
           LlmForward *forward,
           guint       i)
{
  g_assert_cmpmem (llm_forward_get_logits (forward, 0), rig->n_vocab * sizeof (float),
                   rig->expected + i * rig->n_vocab, rig->n_vocab * sizeof (float));
}

static LlmKvSeq *
new_sequence (Rig *rig)
{
  LlmKvSeq *seq = llm_kv_seq_new (rig->exec->store, NULL, NULL);

  g_assert_true (llm_kv_seq_append (seq, N_TOKENS, NULL));
  return seq;
}

/* (transfer full): that is not called @other (nullable). */
static char *
find_copy (Rig        *rig,
           const char *other)
{
  g_autofree char *cache = g_build_filename (rig->folder, "cache", "weights", NULL);
  g_autoptr(GDir) dir = g_dir_open (cache, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (cache, name, NULL);

      if (g_str_has_suffix (name, ".prepared") && g_strcmp0 (path, other) != 0)
        return g_steal_pointer (&path);
    }
  return NULL;
}

/* All that is packed streams; in a ring that has room for what a stage needs and a little more. */
static void
begin (Rig        *rig,
       const char *format,
       guint       n_levels,
       gboolean    is_sparse)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32, .thresholds = &thresholds };
  LlmStreamConfig stream = { .poisons = TRUE, .by_channel = TRUE };
  g_autofree char *file = g_strconcat (format, ".gguf", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "formats", file, NULL);
  g_autofree char *cache = NULL;
  g_autoptr(LlmKvSeq) seq = NULL;
  g_autoptr(GError) error = NULL;
  LlmWeights *weights;

  rig->is_sparse = is_sparse;
  rig->folder = llm_test_folder_new ();
  cache = g_build_filename (rig->folder, "cache", NULL);
  rig->cache = llm_repacked_cache_new (cache, FALSE, NULL, 0);
  rig->source = llm_test_source_new ();
  rig->source->n_late = 5;
  rig->exec = exec_rig_open (path, &config);
  rig->n_vocab = rig->exec->hparams.n_vocab;
  thresholds.n_layers = rig->exec->hparams.n_layers;
  g_assert_cmpuint (thresholds.n_layers, <=, MAX_LAYERS);
  rig->table = llm_test_levels_new (&rig->exec->hparams, n_levels, 64, FALSE);
  weights = llm_weights_new_repacked (rig->exec->gguf, &rig->exec->hparams, rig->table, rig->cache,
                                      2, rig->exec->ledger, &error);
  g_assert_no_error (error);
  llm_weights_free (rig->exec->weights);
  exec_rig_set_weights (rig->exec, weights, &config);

  rig->expected = g_new (float, N_TOKENS * rig->n_vocab);
  seq = new_sequence (rig);
  for (guint i = 0; i < N_TOKENS; i++)
    {
      LlmRow row = make_row (rig, i);

      exec_rig_step (rig->exec, &row, 1, &seq, 1);
      memcpy (rig->expected + i * rig->n_vocab, llm_forward_get_logits (rig->exec->forward, 0),
              rig->n_vocab * sizeof (float));
    }
  stream.bytes = weights->bytes / 2;
  g_assert_true (llm_weights_stream (weights, &rig->source->source, &stream));
  llm_weights_keep (weights, 0);
  rig->whole_copy = NULL;
  if (!is_sparse)
    return;
  llm_repacked_wait_for_all ();
  rig->whole_copy = find_copy (rig, NULL);
  llm_weights_set_channels (weights,
                            llm_channels_new (rig->exec->gguf, &rig->exec->hparams, rig->table,
                                              rig->cache, 2, rig->exec->ledger, &error));
  g_assert_no_error (error);
}

static void
end (Rig *rig)
{
  exec_rig_free (rig->exec);
  llm_test_source_free (rig->source);
  llm_repacked_wait_for_all ();
  llm_repacked_cache_free (rig->cache);
  llm_sub_models_free (rig->table);
  llm_test_folder_remove (rig->folder);
  g_free (rig->folder);
  g_free (rig->expected);
  g_free (rig->whole_copy);
}

static void
test_format (gconstpointer data)
{
  const char *format = data;

  for (guint n_levels = 1; n_levels <= 9; n_levels += 8)
    {
      g_autoptr(LlmKvSeq) seq = NULL;
      LlmStreamFigures figures;
      Rig rig;

      begin (&rig, format, n_levels, FALSE);
      seq = new_sequence (&rig);
      for (guint i = 0; i < N_TOKENS; i++)
        {
          LlmRow row = make_row (&rig, i);

          exec_rig_step (rig.exec, &row, 1, &seq, 1);
          check_row (&rig, rig.exec->forward, i);
        }
      llm_weights_get_stream_figures (rig.exec->weights, &figures);
      g_test_message ("%ju of %ju bytes read in %u passes, %ju from the mapping",
                      figures.read_bytes, rig.exec->weights->bytes, N_TOKENS, figures.n_mapped);
      g_assert_cmpuint (figures.read_bytes, >, 0);
      g_assert_cmpuint (rig.source->n_answered, >, 0);
      g_clear_pointer (&seq, llm_kv_seq_free);
      end (&rig);
    }
}

/* Two steps at any distance, stage by stage; before each stage weights may go, come back, stay or
 * stream. */
static void
check_two_steps (gboolean is_sparse)
{
  LlmForward *forwards[2];
  LlmKvSeq *sequences[2];
  guint n_done[2] = { 0 };
  LlmStatus status[2] = { LLM_READY, LLM_READY };
  LlmRow rows[2];
  LlmBatch batches[2];
  LlmWeights *weights;
  guint n_idle = 0;
  Rig rig;

  begin (&rig, "Q8_0", 9, is_sparse);
  weights = rig.exec->weights;
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
        begin_row (&rig, forwards[f], &sequences[f], n_done[f], &rows[f], &batches[f]);
      switch (g_test_rand_int_range (0, 300))
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
        case 6:
          llm_weights_keep (weights, 0);
          break;
        case 7:
          /* cancelled: it begins again */
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
        check_row (&rig, forwards[f], n_done[f]++);
    }
  for (guint f = 0; f < 2; f++)
    llm_kv_seq_free (sequences[f]);
  llm_forward_free (forwards[1]);
  if (is_sparse)
    {
      LlmStreamFigures figures;

      llm_weights_get_stream_figures (weights, &figures);
      g_assert_cmpuint (figures.channel_bytes, >, 0);
    }
  end (&rig);
}

static void
test_two_steps (void)
{
  check_two_steps (FALSE);
}

/* Some request fails in every second pass: the step fails with the reason, and the same step after
 * it gives the same bits. */
static void
test_errors (void)
{
  g_autoptr(LlmKvSeq) seq = NULL;
  guint n_failed = 0;
  Rig rig;

  begin (&rig, "Q4_0", 1, FALSE);
  seq = new_sequence (&rig);
  for (guint i = 0; i < N_TOKENS; i++)
    {
      g_autoptr(GError) error = NULL;
      LlmStatus status = LLM_PENDING;
      LlmBatch batch;
      LlmRow row;

      rig.source->failure = -EIO;
      rig.source->fails_in = 1;
      begin_row (&rig, rig.exec->forward, &seq, i, &row, &batch);
      while (status == LLM_PENDING)
        status = llm_forward_resume (rig.exec->forward, &error);
      rig.source->fails_in = 0;
      if (status == LLM_FAILED)
        {
          g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
          g_assert_nonnull (strstr (error->message, ".prepared"));
          n_failed++;
          exec_rig_step (rig.exec, &row, 1, &seq, 1);
        }
      check_row (&rig, rig.exec->forward, i);
    }
  g_assert_cmpuint (n_failed, >, N_TOKENS / 2);
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

static void
run_rows (Rig      *rig,
          LlmKvSeq *seq,
          guint     first,
          guint     end_row)
{
  for (guint i = first; i < end_row; i++)
    {
      LlmRow row = make_row (rig, i);

      exec_rig_step (rig->exec, &row, 1, &seq, 1);
      check_row (rig, rig->exec->forward, i);
    }
}

/* Sparse rows read less than whole ones, and of inputs that they leave out nothing. */
static void
test_channels (gconstpointer data)
{
  const char *format = data;

  for (guint n_levels = 1; n_levels <= 9; n_levels += 8)
    {
      g_autoptr(LlmKvSeq) seq = NULL;
      LlmStreamFigures before, after;
      Rig rig;

      begin (&rig, format, n_levels, TRUE);
      seq = new_sequence (&rig);
      run_rows (&rig, seq, 0, 3);
      llm_weights_get_stream_figures (rig.exec->weights, &before);
      g_assert_cmpuint (before.channel_bytes, ==, 0);
      run_rows (&rig, seq, 3, N_TOKENS);
      llm_weights_get_stream_figures (rig.exec->weights, &after);
      g_test_message ("%ju inputs read, %ju left out; %ju of %ju bytes",
                      after.n_channels_read, after.n_channels_left, after.channel_bytes,
                      after.read_bytes);
      g_assert_cmpuint (after.n_channels_read, >, 0);
      g_assert_cmpuint (after.n_channels_left, >, after.n_channels_read / 2);
      /* what stays in memory is used from there */
      llm_weights_keep (rig.exec->weights, G_MAXUINT64);
      llm_weights_get_stream_figures (rig.exec->weights, &before);
      run_rows (&rig, seq, N_TOKENS - 1, N_TOKENS);
      llm_weights_get_stream_figures (rig.exec->weights, &after);
      g_assert_cmpuint (after.read_bytes, ==, before.read_bytes);
      g_clear_pointer (&seq, llm_kv_seq_free);
      end (&rig);
    }
}

/* A model some of whose weights have no such codes. */
static void
test_channels_none (void)
{
  g_autoptr(GError) error = NULL;
  Rig rig;

  begin (&rig, "Q6_K", 1, FALSE);
  g_assert_null (llm_channels_new (rig.exec->gguf, &rig.exec->hparams, rig.table, rig.cache, 1,
                                   NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  end (&rig);
}

static void
test_channels_two_steps (void)
{
  check_two_steps (TRUE);
}

/* Bytes that are not what was written are not used, and their file goes. */
static void
test_channels_damage (void)
{
  g_autoptr(LlmKvSeq) seq = NULL;
  g_autofree char *copy = NULL;
  LlmStreamFigures before, after;
  GStatBuf status;
  Rig rig;
  int fd;

  begin (&rig, "Q4_0", 1, TRUE);
  llm_repacked_wait_for_all ();
  copy = find_copy (&rig, rig.whole_copy);
  g_assert_nonnull (copy);
  g_assert_cmpint (g_stat (copy, &status), ==, 0);
  fd = g_open (copy, O_WRONLY | O_CLOEXEC, 0);
  for (off_t at = status.st_size / 4 * 3; at + 7 <= status.st_size; at += 16)
    g_assert_cmpint (pwrite (fd, "damaged", 7, at), ==, 7);
  g_assert_cmpint (fsync (fd), ==, 0);
  close (fd);
  seq = new_sequence (&rig);
  run_rows (&rig, seq, 0, N_TOKENS - 1);
  g_assert_false (g_file_test (copy, G_FILE_TEST_EXISTS));
  llm_weights_get_stream_figures (rig.exec->weights, &before);
  run_rows (&rig, seq, N_TOKENS - 1, N_TOKENS);
  llm_weights_get_stream_figures (rig.exec->weights, &after);
  g_assert_cmpuint (after.n_channels_read, ==, before.n_channels_read);
  g_clear_pointer (&seq, llm_kv_seq_free);
  end (&rig);
}

/* What can't be read by channel, whole weights give, from then on. A step that fails because those
 * can't be read has the same bits when it succeeds. */
static void
test_channels_errors (void)
{
  static const gssize failures[] = { -EIO, 100 };

  for (guint f = 0; f < G_N_ELEMENTS (failures); f++)
    {
      g_autoptr(LlmKvSeq) seq = NULL;
      LlmStreamFigures before, after;
      Rig rig;

      begin (&rig, "Q8_0", 1, TRUE);
      seq = new_sequence (&rig);
      run_rows (&rig, seq, 0, 4);
      llm_weights_get_stream_figures (rig.exec->weights, &before);
      g_assert_cmpuint (before.channel_bytes, >, 0);
      for (guint i = 4; i + 1 < N_TOKENS; i++)
        {
          gboolean is_broken = TRUE;
          LlmStatus status;

          rig.source->failure = failures[f];
          /* what was read ahead may have failed as well, each range by itself */
          do
            {
              LlmBatch batch;
              LlmRow row;

              begin_row (&rig, rig.exec->forward, &seq, i, &row, &batch);
              do
                {
                  rig.source->fails_in = is_broken;
                  status = llm_forward_resume (rig.exec->forward, NULL);
                }
              while (status == LLM_PENDING);
              rig.source->fails_in = is_broken = FALSE;
            }
          while (status == LLM_FAILED);
          check_row (&rig, rig.exec->forward, i);
        }
      llm_weights_get_stream_figures (rig.exec->weights, &before);
      run_rows (&rig, seq, N_TOKENS - 1, N_TOKENS);
      llm_weights_get_stream_figures (rig.exec->weights, &after);
      g_assert_cmpuint (after.n_channels_read, ==, before.n_channels_read);
      g_clear_pointer (&seq, llm_kv_seq_free);
      end (&rig);
    }
}

int
main (int   argc,
      char *argv[])
{
  static const float of_inputs[LLM_N_INPUTS] = { 0.7f, 0.1f, 0.7f, 0.1f };

  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    limits[i] = of_inputs[i % LLM_N_INPUTS];

  for (guint f = 0; f < G_N_ELEMENTS (formats); f++)
    {
      g_autofree char *path = g_strdup_printf ("/stream/formats/%s", formats[f]);

      g_test_add_data_func (path, formats[f], test_format);
    }
  for (guint f = 0; f < G_N_ELEMENTS (by_channel); f++)
    {
      g_autofree char *path = g_strdup_printf ("/stream/channels/%s", by_channel[f]);

      g_test_add_data_func (path, by_channel[f], test_channels);
    }
  g_test_add_func ("/stream/channels/none", test_channels_none);
  g_test_add_func ("/stream/channels/two-steps", test_channels_two_steps);
  g_test_add_func ("/stream/channels/errors", test_channels_errors);
  g_test_add_func ("/stream/channels/damage", test_channels_damage);
  g_test_add_func ("/stream/two-steps", test_two_steps);
  g_test_add_func ("/stream/errors", test_errors);
  return g_test_run ();
}
