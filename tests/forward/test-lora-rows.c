/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of several adapters in one step: their bits, and what is computed for them. */

#include "lora-rig.h"

#include <string.h>

#include "fake-device.h"

#define STEP 11
#define N_ADAPTERS 3
#define N_KINDS (9 * (N_ADAPTERS + 1))

/* Rows of all adapters and none, and of all levels, in one step: the bits that each has alone. */
static void
test_mixed (void)
{
  static const LlkType types[] = { LLK_F32, LLK_Q8_0 };

  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      ExecRigConfig config = { .n_threads = 1 + t };
      SplitCounts counts = { 0 };
      g_autoptr(ExecRig) rig = lora_rig_new_split (types[t], &config, &counts);
      const guint8 *percent = rig->weights->sub_models->percent;
      gsize bytes = rig->hparams.n_vocab * sizeof (float);
      float *expected[N_KINDS];
      LlmKvSeq *sequences[N_KINDS];
      LlmGguf *files[N_ADAPTERS];
      gint32 tokens[LORA_N_TOKENS];

      lora_rig_fill_tokens (tokens);
      for (guint i = 0; i < N_ADAPTERS; i++)
        files[i] = lora_rig_new_file (rig, 2 + 3 * i, i);
      lora_rig_set (rig, &config, files, N_ADAPTERS);
      for (guint i = 0; i < N_KINDS; i++)
        {
          expected[i] = lora_rig_run (rig, (guint8) (i % 4), i / 4, 1);
          sequences[i] = llm_kv_seq_new (rig->store, NULL, NULL);
          for (guint j = 0; j < i; j++)
            g_assert_cmpint (memcmp (expected[i], expected[j], bytes), !=, 0);
        }
      for (guint first = 0; first < LORA_N_TOKENS; first += 5)
        {
          /* in every second step those of one adapter and all levels are for themselves */
          guint n_steps = 1 + first / 5 % 2;

          for (guint i = 0; i < N_KINDS; i++)
            g_assert_true (llm_kv_seq_append (sequences[i], 5, NULL));
          for (guint step = 0; step < n_steps; step++)
            {
              LlmRow rows[N_KINDS * 5];
              guint n = 0;

              for (guint i = 0; i < N_KINDS * 5; i++)
                {
                  guint kind = i * 7 % N_KINDS;

                  if (n_steps > 1 && (kind % 4 == 1) != (step == 0))
                    continue;
                  rows[n] = exec_rig_row (tokens[first + i / N_KINDS], kind, first + i / N_KINDS);
                  rows[n].adapter = (guint8) (kind % 4);
                  rows[n].sub_model = percent[kind / 4];
                  rows[n++].wants_logits = (i + first) % 3 > 0;
                }
              exec_rig_step (rig, rows, n, sequences, N_KINDS);
              for (guint i = 0; i < n; i++)
                if (rows[i].wants_logits)
                  g_assert_cmpmem (llm_forward_get_logits (rig->forward, i), bytes,
                                   (char *) expected[rows[i].sequence] + rows[i].slot * bytes,
                                   bytes);
            }
        }
      for (guint i = 0; i < N_KINDS; i++)
        {
          llm_kv_seq_free (sequences[i]);
          g_free (expected[i]);
        }
      for (guint i = 0; i < N_ADAPTERS; i++)
        llm_gguf_unref (files[i]);
      g_assert_cmpuint (counts.n_held, ==, 0);
    }
}

/* What adapters add comes behind what a device computes, which finishes in any order. */
static void
test_device (void)
{
  const LlmTestModel shape = { .n_kv_heads = 2, .is_untied = TRUE, .seed = 3 };
  const FakeConfig fake = { .n_polls = 2, .is_reversed = TRUE };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  ExecRigConfig config = { .n_threads = 2 };
  g_autoptr(ExecRig) plain = exec_rig_new (model, &config);
  g_autoptr(LlmGguf) adapter = lora_rig_new_file (plain, 4, 1);
  g_autofree float *expected = NULL;
  guint64 n_without = 0;

  lora_rig_set (plain, &config, &adapter, 1);
  expected = lora_rig_run (plain, 1, 0, STEP);
  for (guint is_split = 0; is_split < 2; is_split++)
    for (guint8 used = 0; used < 2; used++)
      {
        FakeCounts counts = { 0 };
        g_autoptr(LlmBackend) device = fake_device_new (llk_ops_best (), &fake, &counts);
        g_autoptr(ExecRig) rig = NULL;
        g_autofree float *found = NULL;

        config.device = device;
        config.is_split = is_split > 0;
        rig = exec_rig_new (model, &config);
        lora_rig_set (rig, &config, &adapter, 1);
        found = lora_rig_run (rig, used, 0, STEP);
        if (used == 0)
          n_without = counts.n_products;
        else
          g_assert_cmpmem (found, lora_rig_count_bytes (rig), expected,
                           lora_rig_count_bytes (rig));
        g_assert_cmpuint (counts.n_products, ==, n_without);
        g_assert_cmpuint (n_without, >, 0);
      }
}

/* Products of two numbers that a row of @level and @adapter takes. */
static guint64
count_products (ExecRig *rig,
                guint    level,
                guint8   adapter)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmRow row = exec_rig_row (1, 0, 0);
  guint64 before = llm_forward_get_n_multiplied (rig->forward);

  row.sub_model = rig->weights->sub_models->percent[level];
  row.adapter = adapter;
  g_assert_true (llm_kv_seq_append (seq, 1, NULL));
  exec_rig_step (rig, &row, 1, &seq, 1);
  return llm_forward_get_n_multiplied (rig->forward) - before;
}

/* Two small products for each that is adapted, of no other heads and channels than the level's. */
static void
test_work (void)
{
  SplitCounts counts = { 0 };
  ExecRigConfig config = { .n_threads = 1 };
  g_autoptr(ExecRig) rig = lora_rig_new_split (LLK_F32, &config, &counts);
  g_autoptr(LlmGguf) adapter = lora_rig_new_file (rig, 4, 1);
  const LlmHparams *h = &rig->hparams;

  lora_rig_set (rig, &config, &adapter, 1);
  for (guint level = 0; level < 9; level++)
    {
      const LlmSubModels *table = rig->weights->sub_models;
      guint64 expected = count_products (rig, level, 0);

      for (guint i = 0; i < G_N_ELEMENTS (lora_rig_ops); i++)
        for (guint layer = 0; layer < llm_operator_count_layers (h, lora_rig_ops[i]); layer++)
          {
            LlmOperator op = lora_rig_ops[i];
            LlmTensorPart part;
            guint64 dims[2];
            g_autofree char *name = NULL;
            const LlmGgufTensor *a;
            guint n_heads = llm_sub_models_get_groups (table, layer, level)
                            * (h->n_heads / h->n_kv_heads);
            guint n_channels = llm_sub_models_get_channels (table, layer, level);

            g_assert_true (llm_operator_find (rig->gguf, h, op, layer, &part, NULL));
            name = g_strconcat (part.tensor->name, ".lora_a", NULL);
            a = llm_gguf_find_tensor (adapter, name);
            dims[0] = op == LLM_OP_ATTENTION_OUT ? n_heads * h->head_dim
                      : op == LLM_OP_FFN_DOWN ? n_channels : part.n_in;
            dims[1] = op == LLM_OP_QUERY ? n_heads * h->head_dim
                      : op == LLM_OP_FFN_GATE || op == LLM_OP_FFN_UP ? n_channels
                      : part.n_out;
            expected += a != NULL ? a->dims[1] * (dims[0] + dims[1]) : 0;
          }
      g_assert_cmpuint (count_products (rig, level, 1), ==, expected);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/lora-rows/mixed", test_mixed);
  g_test_add_func ("/lora-rows/device", test_device);
  g_test_add_func ("/lora-rows/work", test_work);
  return g_test_run ();
}
