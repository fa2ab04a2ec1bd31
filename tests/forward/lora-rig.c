/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "lora-rig.h"

#include <string.h>

const LlmOperator lora_rig_ops[LORA_RIG_N_OPS] = {
  LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE, LLM_OP_ATTENTION_OUT, LLM_OP_FFN_GATE, LLM_OP_FFN_UP,
  LLM_OP_FFN_DOWN, LLM_OP_OUTPUT,
};

void
lora_rig_add_keys (LlmTestGguf *gguf,
                   const char  *architecture,
                   double       alpha)
{
  llm_test_gguf_add_string (gguf, "general.architecture", architecture);
  llm_test_gguf_add_string (gguf, "general.type", "adapter");
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, alpha);
}

void
lora_rig_add_half (LlmTestGguf *gguf,
                   GRand       *random,
                   const char  *base,
                   const char  *suffix,
                   LlkType      type,
                   guint64      n_in,
                   guint64      n_out)
{
  const guint64 dims[] = { n_in, n_out };
  g_autofree float *values = g_new (float, n_in * n_out);
  g_autofree char *name = g_strconcat (base, suffix, NULL);

  for (gsize i = 0; i < n_in * n_out; i++)
    values[i] = (float) g_rand_double_range (random, -0.5, 0.5);
  llm_test_gguf_add_tensor (gguf, name, type, 2, dims, values);
}

void
lora_rig_add_tensors (LlmTestGguf      *gguf,
                      LlmGguf          *model,
                      const LlmHparams *hparams,
                      guint             rank,
                      guint             seed)
{
  static const LlkType types[] = { LLK_F32, LLK_F16, LLK_BF16 };
  GRand *random = g_rand_new_with_seed (seed);
  g_autoptr(GHashTable) done = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (lora_rig_ops); i++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, lora_rig_ops[i]); layer++)
      {
        LlmTensorPart part;
        guint at = i + layer + seed;
        guint n = rank + at % 2;

        g_assert_true (llm_operator_find (model, hparams, lora_rig_ops[i], layer, &part, NULL));
        if (part.tensor == NULL || !g_hash_table_add (done, (gpointer) part.tensor)
            || g_str_has_prefix (part.tensor->name, "token_embd") || at % 7 == 3)
          continue;
        lora_rig_add_half (gguf, random, part.tensor->name, ".lora_a",
                           part.n_in % 32 == 0 && at % 5 == 1 ? LLK_Q8_0 : types[at % 3],
                           part.n_in, n);
        lora_rig_add_half (gguf, random, part.tensor->name, ".lora_b", types[(at + 1) % 3], n,
                           part.tensor->dims[1]);
      }
  g_rand_free (random);
}

LlmGguf *
lora_rig_new_file (ExecRig *rig,
                   guint    rank,
                   guint    seed)
{
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(GError) error = NULL;
  LlmGguf *file;

  lora_rig_add_keys (gguf, rig->hparams.architecture, rank * 0.75 + seed);
  lora_rig_add_tensors (gguf, rig->gguf, &rig->hparams, rank, seed);
  bytes = llm_test_gguf_end (gguf);
  file = llm_gguf_new_for_bytes (bytes, "adapter", &error);
  g_assert_no_error (error);
  return file;
}

void
lora_rig_set (ExecRig       *rig,
              ExecRigConfig *config,
              LlmGguf      **files,
              guint          n_files)
{
  g_autofree LlmLora **adapters = g_new (LlmLora *, n_files);
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < n_files; i++)
    {
      adapters[i] = llm_lora_new_for_gguf (files[i], rig->gguf, &rig->hparams, rig->ledger, &error);
      g_assert_no_error (error);
    }
  config->adapters = adapters;
  config->n_adapters = n_files;
  exec_rig_set_weights (rig, rig->weights, config);
  for (guint i = 0; i < n_files; i++)
    llm_lora_unref (adapters[i]);
  config->adapters = NULL;
  config->n_adapters = 0;
}

void
lora_rig_fill_tokens (gint32 tokens[LORA_N_TOKENS])
{
  tokens[0] = 1;
  for (guint i = 1; i < LORA_N_TOKENS; i++)
    tokens[i] = (5 * tokens[i - 1] + 17) % 64;
}

float *
lora_rig_run (ExecRig *rig,
              guint8   adapter,
              guint    level,
              guint    step)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, LORA_N_TOKENS * n_vocab);
  gint32 tokens[LORA_N_TOKENS];

  lora_rig_fill_tokens (tokens);
  for (guint first = 0; first < LORA_N_TOKENS; first += step)
    {
      guint n = MIN (step, LORA_N_TOKENS - first);
      LlmRow rows[LORA_N_TOKENS];

      g_assert_true (llm_kv_seq_append (seq, n, NULL));
      for (guint i = 0; i < n; i++)
        {
          rows[i] = exec_rig_row (tokens[first + i], 0, first + i);
          rows[i].sub_model = rig->weights->sub_models->percent[level];
          rows[i].adapter = adapter;
        }
      exec_rig_step (rig, rows, n, &seq, 1);
      for (guint i = 0; i < n; i++)
        memcpy (logits + (first + i) * n_vocab, llm_forward_get_logits (rig->forward, i),
                n_vocab * sizeof (float));
    }
  return logits;
}

ExecRig *
lora_rig_new_split (LlkType              type,
                    const ExecRigConfig *config,
                    SplitCounts         *counts)
{
  const SplitConfig split = { .n_levels = 9 };
  const LlmTestModel shape = {
    .type = type, .n_layers = 3, .n_embd = 128, .n_heads = 8, .n_kv_heads = 4, .n_ff = 288,
    .is_untied = TRUE, .seed = 7,
  };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);
  ExecRig *rig = exec_rig_new (model, config);

  exec_rig_set_weights (rig, split_weights_new (rig->weights, &rig->hparams, &split, counts),
                        config);
  return rig;
}

char *
lora_rig_get_path (const char *folder,
                   const char *file,
                   const char *ending)
{
  g_autofree char *name = g_strconcat (file, ending, NULL);

  return g_build_filename (g_getenv ("LLM_TEST_DATA"), folder, name, NULL);
}

gsize
lora_rig_count_bytes (ExecRig *rig)
{
  return LORA_N_TOKENS * rig->hparams.n_vocab * sizeof (float);
}
