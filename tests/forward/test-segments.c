/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The forward pass with weights in segments from the real providers: every level is the smaller
 * model that its table says, and weights that are reclaimed under two steps change no bit. */

#include <math.h>
#include <string.h>

#include "forward-rig.h"
#include "naive-model.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"
#include "support/llm-test-levels.h"
#include "weights/llm-repacked-cache.h"

#define N_TOKENS 20
/* Root mean square where activations are rounded to integers; one level and the next are 0.9 and
 * more apart. */
#define ROUNDED 0.2
/* Of sums in another order. */
#define ORDER 2e-5

typedef struct
{
  const char *name;
  LlkType type;
  guint n_levels;
  gboolean is_packed;
} Case;

static const Case cases[] = {
  { "mapped-f32-2", LLK_F32, 2, FALSE },   { "mapped-f32-9", LLK_F32, 9, FALSE },
  { "mapped-q8-0-9", LLK_Q8_0, 9, FALSE }, { "packed-q8-0-2", LLK_Q8_0, 2, TRUE },
  { "packed-q8-0-9", LLK_Q8_0, 9, TRUE },  { "packed-q4-0-9", LLK_Q4_0, 9, TRUE },
  { "packed-f32-9", LLK_F32, 9, TRUE },
};

/* Files of each format. */
static const char *const formats[] = {
  "F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4",
  "Q2_K", "Q2_K-768", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS",
};

typedef struct
{
  char *folder;
  char *path;
  ExecRig *exec;
  LlmSubModels *table;
  LlmRepackedCache *cache;
} Rig;

/* Four groups of heads, so that of nine levels some add none. */
static void
begin (Rig        *rig,
       const Case *c)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  const LlmTestModel model = { .type = c->type, .n_embd = 128, .n_heads = 8, .n_kv_heads = 4,
                               .head_dim = 32, .n_ff = 640, .n_layers = 2, .seed = 11 };
  g_autofree char *cache = NULL;
  g_autoptr(GError) error = NULL;
  LlmWeights *weights;

  rig->folder = llm_test_folder_new ();
  rig->path = g_build_filename (rig->folder, "m.gguf", NULL);
  cache = g_build_filename (rig->folder, "cache", NULL);
  rig->cache = llm_repacked_cache_new (cache, FALSE, NULL, 0);
  llm_test_model_write (&model, rig->path);
  rig->exec = exec_rig_open (rig->path, &config);
  rig->table = llm_test_levels_new (&rig->exec->hparams, c->n_levels, 64, FALSE);
  weights = c->is_packed
              ? llm_weights_new_repacked (rig->exec->gguf, &rig->exec->hparams, rig->table,
                                          rig->cache, 2, NULL, &error)
              : llm_weights_new_mapped (rig->exec->gguf, &rig->exec->hparams, rig->table, NULL,
                                        &error);
  g_assert_no_error (error);
  llm_weights_free (rig->exec->weights);
  exec_rig_set_weights (rig->exec, weights, &config);
}

static void
end (Rig *rig)
{
  exec_rig_free (rig->exec);
  llm_repacked_wait_for_all ();
  llm_repacked_cache_free (rig->cache);
  llm_sub_models_free (rig->table);
  llm_test_folder_remove (rig->folder);
  g_free (rig->folder);
  g_free (rig->path);
}

static gint32
get_token (guint i)
{
  return (gint32) (i * 101 % 384);
}

/* All tokens at the level, one after the other. */
static void
run (Rig   *rig,
     guint  level,
     float *logits)
{
  gsize n_vocab = rig->exec->hparams.n_vocab;
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->exec->store, NULL, NULL);

  g_assert_true (llm_kv_seq_append (seq, N_TOKENS, NULL));
  for (guint i = 0; i < N_TOKENS; i++)
    {
      LlmRow row = exec_rig_row (get_token (i), 0, i);

      row.sub_model = rig->table->percent[level];
      exec_rig_step (rig->exec, &row, 1, &seq, 1);
      memcpy (logits + i * n_vocab, llm_forward_get_logits (rig->exec->forward, 0),
              n_vocab * sizeof (float));
    }
}

/* Each level is the model with the first heads and channels alone. */
static void
test_levels (gconstpointer data)
{
  const Case *c = data;
  Rig rig;
  guint positions[N_TOKENS];
  gint32 tokens[N_TOKENS];
  gsize n;

  begin (&rig, c);
  n = (gsize) N_TOKENS * rig.exec->hparams.n_vocab;
  for (guint i = 0; i < N_TOKENS; i++)
    {
      positions[i] = i;
      tokens[i] = get_token (i);
    }
  for (guint level = 0; level < c->n_levels; level++)
    {
      const LlmHparams *h = &rig.exec->hparams;
      g_autoptr(NaiveModel) naive = naive_model_new (rig.exec->gguf, h);
      g_autofree double *expected = g_new (double, n);
      g_autofree float *found = g_new (float, n);
      guint n_groups = llm_sub_models_get_groups (rig.table, 0, level);
      NaiveRun naive_run = { .tokens = tokens, .positions = positions, .n_rows = N_TOKENS,
                             .sees = naive_sees_causal,
                             .sub_models = rig.table, .level = level };
      double sum = 0, most = 0;

      run (&rig, level, found);
      naive_model_run (naive, &naive_run, expected, NULL);
      for (gsize i = 0; i < n; i++)
        {
          double difference = ABS (found[i] - expected[i]);

          sum += difference * difference;
          most = MAX (most, difference);
        }
      g_test_message ("level %u, %u groups, %u channels: at most %g, root mean square %g", level,
                      n_groups, llm_sub_models_get_channels (rig.table, 0, level), most, sqrt (sum / (double) n));
      if (c->is_packed && c->type != LLK_F32)
        g_assert_cmpfloat (sqrt (sum / (double) n), <, ROUNDED);
      else
        g_assert_cmpfloat (most, <, 2 * naive_model_get_tolerance (naive, &naive_run, llk_ops_best (),
                                                                   expected));
    }
  end (&rig);
}

/* Two steps at once, of two levels, stage by stage and in turn; before each stage weights go, now a
 * tail, now all: the bits that each has alone. */
static void
test_reclaimed (gconstpointer data)
{
  const Case *c = data;
  Rig rig;
  ExecRig *exec;
  LlmForward *forwards[2];
  LlmKvSeq *sequences[2];
  const guint levels[2] = { c->n_levels - 1, 0 };
  float *expected[2];
  gsize n_vocab;

  begin (&rig, c);
  exec = rig.exec;
  n_vocab = exec->hparams.n_vocab;
  forwards[0] = exec->forward;
  forwards[1] = llm_forward_new (exec->plan, exec->pool, NULL);
  for (guint f = 0; f < 2; f++)
    {
      expected[f] = g_new (float, N_TOKENS * n_vocab);
      run (&rig, levels[f], expected[f]);
      sequences[f] = llm_kv_seq_new (exec->store, NULL, NULL);
      g_assert_true (llm_kv_seq_append (sequences[f], N_TOKENS, NULL));
    }
  for (guint i = 0; i < N_TOKENS; i++)
    {
      LlmStatus status[2] = { LLM_PENDING, LLM_PENDING };
      LlmRow rows[2];
      LlmBatch batches[2];
      g_autoptr(GError) error = NULL;

      for (guint f = 0; f < 2; f++)
        {
          rows[f] = exec_rig_row (get_token (i), 0, i);
          rows[f].sub_model = rig.table->percent[levels[f]];
          batches[f] = (LlmBatch) { &rows[f], 1, &sequences[f], 1 };
          g_assert_true (llm_forward_begin (forwards[f], &batches[f], &error));
        }
      while (status[0] == LLM_PENDING || status[1] == LLM_PENDING)
        {
          guint f = (guint) g_test_rand_int_range (0, 2);
          gboolean waits;

          if (status[f] != LLM_PENDING)
            continue;
          switch (g_test_rand_int_range (0, 6))
            {
            case 0:
              llm_weights_drop (exec->weights, G_MAXUINT64);
              break;
            case 1:
              llm_weights_drop (exec->weights, exec->weights->bytes / 3);
              break;
            case 2:
              llm_weights_take (exec->weights, G_MAXUINT64);
              break;
            case 3:
              llm_weights_keep (exec->weights, exec->weights->bytes / 2);
              break;
            case 4:
              llm_weights_keep (exec->weights, G_MAXUINT64);
              break;
            default:
              break;
            }
          status[f] = llm_forward_step (forwards[f], &waits, &error);
          g_assert_no_error (error);
        }
      for (guint f = 0; f < 2; f++)
        g_assert_cmpmem (llm_forward_get_logits (forwards[f], 0), n_vocab * sizeof (float),
                         expected[f] + i * n_vocab, n_vocab * sizeof (float));
    }
  for (guint f = 0; f < 2; f++)
    {
      llm_kv_seq_free (sequences[f]);
      g_free (expected[f]);
    }
  llm_forward_free (forwards[1]);
  end (&rig);
}

static float *
run_whole (ExecRig            *rig,
           const LlmSubModels *table,
           gboolean            is_packed)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  float *logits = g_new (float, (gsize) N_TOKENS * rig->hparams.n_vocab);
  g_autoptr(LlmKvSeq) seq = NULL;
  g_autoptr(GError) error = NULL;
  gint32 tokens[N_TOKENS];
  LlmWeights *weights;

  weights = is_packed ? llm_weights_new_repacked (rig->gguf, &rig->hparams, table, NULL, 2, NULL,
                                                  &error)
                      : llm_weights_new_mapped (rig->gguf, &rig->hparams, table, NULL, &error);
  g_assert_no_error (error);
  llm_weights_free (rig->weights);
  exec_rig_set_weights (rig, weights, &config);
  for (guint i = 0; i < N_TOKENS; i++)
    tokens[i] = (gint32) (i * 101 % rig->hparams.n_vocab);
  seq = llm_kv_seq_new (rig->store, NULL, NULL);
  exec_rig_prompt (rig, seq, tokens, N_TOKENS, 7, logits);
  return logits;
}

/* The last of nine levels is the whole model, also where segments begin inside a block. */
static void
test_format (gconstpointer data)
{
  guint f = GPOINTER_TO_UINT (data);
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  g_autofree char *file = g_strconcat (formats[f], ".gguf", NULL);
  g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "formats", file, NULL);
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);

  for (gboolean is_packed = FALSE; is_packed <= TRUE; is_packed++)
    {
      g_autoptr(LlmSubModels) table =
        llm_test_levels_new (&rig->hparams, 9, 64, TRUE);
      gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
      g_autofree float *expected = run_whole (rig, NULL, is_packed);
      g_autofree float *found = run_whole (rig, table, is_packed);

      /* Packed products go on with one accumulator, those of rows add up. */
      if (is_packed)
        g_assert_cmpmem (found, n * sizeof (float), expected, n * sizeof (float));
      for (gsize i = 0; i < n; i++)
        g_assert_cmpfloat_with_epsilon (found[i], expected[i], ORDER);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *levels = g_strdup_printf ("/segments/levels/%s", cases[i].name);
      g_autofree char *reclaimed = g_strdup_printf ("/segments/reclaimed/%s", cases[i].name);

      g_test_add_data_func (levels, &cases[i], test_levels);
      g_test_add_data_func (reclaimed, &cases[i], test_reclaimed);
    }
  for (guint f = 0; f < G_N_ELEMENTS (formats); f++)
    {
      g_autofree char *path = g_strdup_printf ("/segments/formats/%s", formats[f]);

      g_test_add_data_func (path, GUINT_TO_POINTER (f), test_format);
    }
  return g_test_run ();
}
