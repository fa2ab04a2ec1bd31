/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "model/architectures/llm-architecture.h"
#include "support/llm-test-gguf.h"

static void
read_built (LlmTestGguf *built,
            LlmHparams  *hparams)
{
  g_autoptr(GBytes) bytes = llm_test_gguf_end (built);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", &error);

  g_assert_no_error (error);
  g_assert_true (llm_hparams_read (gguf, hparams, &error));
  g_assert_no_error (error);
}

static void
test_all (void)
{
  const LlmTestModel model = { .n_layers = 3, .n_embd = 96, .n_heads = 6, .n_kv_heads = 2,
                               .head_dim = 32, .n_ff = 160, .n_ctx = 77, .n_vocab = 20,
                               .rope_base = 500000, .is_untied = TRUE };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  LlmHparams hparams;

  llm_test_model_add_keys (&model, built);
  llm_test_model_add_tensors (&model, built);
  read_built (built, &hparams);

  g_assert_cmpstr (hparams.architecture, ==, "llama");
  g_assert_cmpuint (hparams.n_layers, ==, 3);
  g_assert_cmpuint (hparams.n_embd, ==, 96);
  g_assert_cmpuint (hparams.n_heads, ==, 6);
  g_assert_cmpuint (hparams.n_kv_heads, ==, 2);
  g_assert_cmpuint (hparams.head_dim, ==, 32);
  g_assert_cmpuint (hparams.n_ff, ==, 160);
  g_assert_cmpuint (hparams.n_vocab, ==, 20);
  g_assert_cmpuint (hparams.n_ctx, ==, 77);
  g_assert_cmpfloat (hparams.norms.eps, ==, 1e-5f);
  g_assert_cmpint (hparams.rope_kind, ==, LLM_ROPE_NORM);
  g_assert_cmpuint (hparams.rope_dim, ==, 32);
  g_assert_cmpuint (hparams.n_ropes, ==, 1);
  g_assert_cmpfloat (hparams.ropes[0].base, ==, 500000);
  g_assert_cmpint (hparams.ropes[0].scaling, ==, LLM_ROPE_SCALING_NONE);
  g_assert_cmpfloat (hparams.ropes[0].scale, ==, 1);
  g_assert_cmpfloat (hparams.ropes[0].magnitude, ==, 1);
  g_assert_cmpint (hparams.ropes[0].factors, ==, -1);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpint (hparams.layers[i].rope, ==, 0);
      g_assert_cmpuint (hparams.layers[i].window, ==, 0);
    }
  g_assert_cmpfloat (hparams.scales.attention, ==, 1 / sqrtf (32));
  g_assert_cmpfloat (hparams.scales.attention_softcap, ==, 0);
  g_assert_cmpfloat (hparams.scales.logit_softcap, ==, 0);
  g_assert_cmpfloat (hparams.scales.embedding, ==, 1);
  g_assert_cmpfloat (hparams.scales.temperature, ==, 0);
  g_assert_cmpint (hparams.gate, ==, LLM_GATE_SILU);
  g_assert_cmpuint (hparams.operators, ==, LLM_OPS_COMMON | LLM_OP_BIT (LLM_OP_OUTPUT));
  g_assert_false (hparams.has_tied_output);
}

/* Only what every file must have. */
static void
add_required (LlmTestGguf *built)
{
  llm_test_gguf_add_string (built, "general.architecture", "llama");
  llm_test_gguf_add_int (built, "llama.block_count", LLM_GGUF_UINT32, 2);
  llm_test_gguf_add_int (built, "llama.context_length", LLM_GGUF_UINT64, 100);
  llm_test_gguf_add_int (built, "llama.embedding_length", LLM_GGUF_INT32, 64);
  llm_test_gguf_add_int (built, "llama.feed_forward_length", LLM_GGUF_UINT16, 32);
  llm_test_gguf_add_int (built, "llama.attention.head_count", LLM_GGUF_UINT8, 4);
  llm_test_gguf_add_double (built, "llama.attention.layer_norm_rms_epsilon", LLM_GGUF_FLOAT64,
                            1e-6);
}

static void
test_defaults (void)
{
  static const float zeros[64 * 9];
  const guint64 dims[] = { 64, 9 };
  const char *const tokens[] = { "a", "b", "c" };

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (2);
      LlmHparams hparams;

      /* The vocabulary counts before the embedding, and the key before both. */
      add_required (built);
      llm_test_gguf_add_tensor (built, "token_embd.weight", LLK_F32, 2, dims, zeros);
      if (i >= 1)
        llm_test_gguf_add_strings (built, "tokenizer.ggml.tokens", tokens, 3);
      if (i >= 2)
        llm_test_gguf_add_int (built, "llama.vocab_size", LLM_GGUF_UINT32, 5);
      read_built (built, &hparams);

      g_assert_cmpuint (hparams.n_vocab, ==, i == 0 ? 9 : i == 1 ? 3 : 5);
      g_assert_cmpuint (hparams.n_kv_heads, ==, 4);
      g_assert_cmpuint (hparams.head_dim, ==, 16);
      g_assert_cmpuint (hparams.rope_dim, ==, 16);
      g_assert_cmpfloat (hparams.ropes[0].base, ==, 10000);
      g_assert_cmpfloat (hparams.norms.eps, ==, 1e-6f);
      g_assert_true (hparams.has_tied_output);
    }
}

static void
test_no_vocabulary (void)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  LlmHparams hparams;

  add_required (built);
  bytes = llm_test_gguf_end (built);
  gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
  g_assert_no_error (error);
  g_assert_false (llm_hparams_read (gguf, &hparams, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, "llama.vocab_size"));
}

static void
test_neox (void)
{
  const LlmTestModel model = { .architecture = "exaone" };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  LlmHparams hparams;

  llm_test_model_add_keys (&model, built);
  read_built (built, &hparams);
  g_assert_cmpstr (hparams.architecture, ==, "exaone");
  g_assert_cmpint (hparams.rope_kind, ==, LLM_ROPE_NEOX);
}

static void
test_rope_scaling (void)
{
  const struct
  {
    const char *type;   /* (nullable) */
    double factor;      /* -1: none */
    double old_factor;  /* -1: none */
    LlmRopeScaling scaling;
    float scale;
  } cases[] = {
    { NULL, -1, -1, LLM_ROPE_SCALING_NONE, 1 },
    { "none", -1, -1, LLM_ROPE_SCALING_NONE, 1 },
    { "none", 4, -1, LLM_ROPE_SCALING_NONE, 1 },
    { "linear", 4, -1, LLM_ROPE_SCALING_LINEAR, 4 },
    { "linear", 1, -1, LLM_ROPE_SCALING_NONE, 1 },
    { "linear", 0, -1, LLM_ROPE_SCALING_NONE, 1 },
    { NULL, 2, -1, LLM_ROPE_SCALING_LINEAR, 2 },
    { NULL, -1, 8, LLM_ROPE_SCALING_LINEAR, 8 },
    { "linear", 2, 8, LLM_ROPE_SCALING_LINEAR, 2 },
    { "yarn", 4, -1, LLM_ROPE_SCALING_YARN, 4 },
    { "yarn", -1, -1, LLM_ROPE_SCALING_NONE, 1 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
      LlmHparams hparams;

      add_required (built);
      llm_test_gguf_add_int (built, "llama.vocab_size", LLM_GGUF_UINT32, 5);
      if (cases[i].type != NULL)
        llm_test_gguf_add_string (built, "llama.rope.scaling.type", cases[i].type);
      if (cases[i].factor >= 0)
        llm_test_gguf_add_double (built, "llama.rope.scaling.factor", LLM_GGUF_FLOAT32,
                                  cases[i].factor);
      if (cases[i].old_factor >= 0)
        llm_test_gguf_add_double (built, "llama.rope.scale_linear", LLM_GGUF_FLOAT32,
                                  cases[i].old_factor);
      read_built (built, &hparams);
      g_assert_cmpint (hparams.ropes[0].scaling, ==, cases[i].scaling);
      g_assert_cmpfloat (hparams.ropes[0].scale, ==, cases[i].scale);
    }
}

/* --- what architectures add --- */

/* Numbers of keys; NULL for no more. */
typedef struct
{
  const char *key;
  double value;    /* whole numbers are written as integers, but for is_real */
  gboolean is_real;
} Number;

/* A model of the architecture with @numbers beside the usual keys, and nothing
 * but vectors of one value as @tensors. */
static gboolean
read_numbers (const char         *architecture,
              guint               n_layers,
              const Number       *numbers,
              const char *const  *tensors,
              const char         *scaling,
              LlmHparams         *hparams,
              GError            **error)
{
  const LlmTestModel model = { .architecture = architecture, .n_layers = n_layers,
                               .n_embd = 128, .n_heads = 4, .head_dim = 16, .n_vocab = 20,
                               .n_ctx = 1000 };
  const guint64 dims[] = { 1 };
  const float one = 1;
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;

  for (; numbers != NULL && numbers->key != NULL; numbers++)
    {
      g_autofree char *key = g_strdup_printf ("%s.%s", architecture, numbers->key);

      if (numbers->is_real)
        llm_test_gguf_add_double (built, key, LLM_GGUF_FLOAT32, numbers->value);
      else
        llm_test_gguf_add_int (built, key, LLM_GGUF_UINT32, (gint64) numbers->value);
      llm_test_gguf_skip (built, key);
    }
  if (scaling != NULL)
    {
      g_autofree char *key = g_strdup_printf ("%s.rope.scaling.type", architecture);

      llm_test_gguf_add_string (built, key, scaling);
    }
  llm_test_model_add_keys (&model, built);
  for (; tensors != NULL && *tensors != NULL; tensors++)
    llm_test_gguf_add_tensor (built, *tensors, LLK_F32, 1, dims, &one);

  bytes = llm_test_gguf_end (built);
  gguf = llm_gguf_new_for_bytes (bytes, "built", error);
  g_assert_nonnull (gguf);
  return llm_hparams_read (gguf, hparams, error);
}

static void
read_good (const char         *architecture,
           guint               n_layers,
           const Number       *numbers,
           const char *const  *tensors,
           const char         *scaling,
           LlmHparams         *hparams)
{
  g_autoptr(GError) error = NULL;
  gboolean is_read = read_numbers (architecture, n_layers, numbers, tensors, scaling, hparams,
                                   &error);

  g_assert_no_error (error);
  g_assert_true (is_read);
}

static void
test_gemma (void)
{
  const Number numbers[] = { { "attention.sliding_window", 512 },
                             { "rope.freq_base", 1e6, TRUE },
                             { "rope.scaling.factor", 8, TRUE },
                             { NULL } };
  LlmHparams hparams;

  read_good ("gemma3", 13, numbers, NULL, "linear", &hparams);
  for (guint i = 0; i < 13; i++)
    {
      gboolean is_global = i == 5 || i == 11;

      g_assert_cmpuint (hparams.layers[i].window, ==, is_global ? 0 : 512);
      g_assert_cmpint (hparams.layers[i].rope, ==, is_global ? 0 : 1);
    }
  g_assert_cmpuint (hparams.n_ropes, ==, 2);
  g_assert_cmpfloat (hparams.ropes[0].base, ==, 1e6f);
  g_assert_cmpfloat (hparams.ropes[0].scale, ==, 8);
  g_assert_cmpfloat (hparams.ropes[1].base, ==, 1e4f);
  g_assert_cmpfloat (hparams.ropes[1].scale, ==, 1);
  g_assert_cmpint (hparams.ropes[1].scaling, ==, LLM_ROPE_SCALING_NONE);
  g_assert_cmpfloat (hparams.scales.embedding, ==, sqrtf (128));
  g_assert_cmpfloat (hparams.scales.attention, ==, 1 / sqrtf (16));
  g_assert_cmpint (hparams.gate, ==, LLM_GATE_GELU);
  g_assert_cmpuint (hparams.operators & LLM_OPS_POST_NORM, ==, LLM_OPS_POST_NORM);
  g_assert_cmpuint (hparams.operators & LLM_OPS_QK_NORM, ==, LLM_OPS_QK_NORM);

  /* The 27 B models. */
  read_good ("gemma3", 62, numbers, NULL, NULL, &hparams);
  g_assert_cmpfloat (hparams.scales.attention, ==, 1 / sqrtf (32));
  read_good ("gemma2", 46, NULL, NULL, NULL, &hparams);
  g_assert_cmpfloat (hparams.scales.attention, ==, 1 / sqrtf (32));

  /* What no key says. */
  g_assert_cmpuint (hparams.layers[0].window, ==, 4096);
  g_assert_cmpuint (hparams.layers[1].window, ==, 0);
  g_assert_cmpuint (hparams.n_ropes, ==, 1);
  g_assert_cmpint (hparams.layers[0].rope, ==, 0);
  g_assert_cmpfloat (hparams.scales.attention_softcap, ==, 50);
  g_assert_cmpfloat (hparams.scales.logit_softcap, ==, 30);
}

static void
test_windows (void)
{
  const Number every[] = { { "attention.sliding_window", 7 }, { NULL } };
  const Number third[] = { { "attention.sliding_window", 7 },
                           { "attention.sliding_window_pattern", 3 }, { NULL } };
  const Number own_base[] = { { "attention.sliding_window", 7 },
                              { "attention.sliding_window_pattern", 2 },
                              { "rope.freq_base_swa", 500, TRUE }, { NULL } };
  LlmHparams hparams;

  read_good ("llama", 4, every, NULL, NULL, &hparams);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpuint (hparams.layers[i].window, ==, 7);
  g_assert_cmpuint (hparams.n_ropes, ==, 1);

  read_good ("phi3", 4, third, NULL, NULL, &hparams);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpuint (hparams.layers[i].window, ==, i == 2 ? 0 : 7);

  read_good ("llama", 4, own_base, NULL, NULL, &hparams);
  for (guint i = 0; i < 4; i++)
    g_assert_cmpint (hparams.layers[i].rope, ==, i % 2 == 0 ? 1 : 0);
  g_assert_cmpfloat (hparams.ropes[1].base, ==, 500);
}

static void
test_no_rope (void)
{
  LlmHparams hparams;

  read_good ("smollm3", 9, NULL, NULL, NULL, &hparams);
  for (guint i = 0; i < 9; i++)
    g_assert_cmpint (hparams.layers[i].rope, ==, i == 3 || i == 7 ? LLM_NO_ROPE : 0);
}

static void
test_yarn (void)
{
  const Number plain[] = { { "rope.scaling.factor", 4, TRUE }, { NULL } };
  const Number all[] = { { "rope.scaling.factor", 16, TRUE },
                         { "rope.scaling.original_context_length", 100 },
                         { "rope.scaling.attn_factor", 2, TRUE },
                         { "rope.scaling.yarn_beta_fast", 4, TRUE },
                         { "rope.scaling.yarn_beta_slow", 0.5, TRUE },
                         { "rope.scaling.yarn_log_multiplier", 1, TRUE },
                         { "attention.temperature_scale", 0.25, TRUE },
                         { NULL } };
  LlmHparams hparams;

  read_good ("qwen3", 1, plain, NULL, "yarn", &hparams);
  g_assert_cmpfloat_with_epsilon (hparams.ropes[0].magnitude, 0.1 * log (4) + 1, 1e-6);
  g_assert_cmpuint (hparams.ropes[0].n_ctx, ==, 1000);
  g_assert_cmpfloat (hparams.ropes[0].beta_fast, ==, 32);
  g_assert_cmpfloat (hparams.ropes[0].beta_slow, ==, 1);

  /* The multiplier takes the magnitude back. */
  read_good ("mistral3", 1, all, NULL, "yarn", &hparams);
  g_assert_cmpint (hparams.ropes[0].scaling, ==, LLM_ROPE_SCALING_YARN);
  g_assert_cmpfloat_with_epsilon (hparams.ropes[0].magnitude, 2, 1e-6);
  g_assert_cmpuint (hparams.ropes[0].n_ctx, ==, 100);
  g_assert_cmpfloat (hparams.ropes[0].beta_fast, ==, 4);
  g_assert_cmpfloat (hparams.ropes[0].beta_slow, ==, 0.5f);
  g_assert_cmpfloat (hparams.scales.temperature, ==, 0.25f);
  g_assert_cmpuint (hparams.scales.temperature_length, ==, 100);
}

static void
test_longrope (void)
{
  const char *const both[] = { "rope_factors_long.weight", "rope_factors_short.weight", NULL };
  const Number shorter[] = { { "rope.scaling.original_context_length", 999 }, { NULL } };
  const Number scaled[] = { { "rope.scaling.factor", 4, TRUE }, { NULL } };
  LlmHparams hparams;

  read_good ("phi3", 1, NULL, both, NULL, &hparams);
  g_assert_cmpint (hparams.ropes[0].factors, ==, LLM_OP_ROPE_FACTORS_SHORT);
  read_good ("phi3", 1, shorter, both, "longrope", &hparams);
  g_assert_cmpint (hparams.ropes[0].factors, ==, LLM_OP_ROPE_FACTORS_LONG);

  for (guint i = 0; i < 4; i++)
    {
      const char *const *tensors[] = { both + 1, (const char *const[]) { both[0], NULL }, NULL,
                                       both };
      g_autoptr(GError) error = NULL;

      g_assert_false (read_numbers ("phi3", 1, i == 3 ? scaled : NULL, tensors[i], "longrope",
                                    &hparams, &error));
      if (i == 3)
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      else
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
      g_assert_nonnull (strstr (error->message, i == 3 ? "rope.scaling.factor is 4"
                                                : i == 1 ? "rope_factors_short.weight is missing"
                                                         : "rope_factors_long.weight is missing"));
    }
}

static void
test_experts (void)
{
  const Number numbers[] = { { "expert_count", 4 }, { "expert_used_count", 2 }, { NULL } };
  const Number bad[][4] = {
    { { "expert_count", 4 } },
    { { "expert_count", 4 }, { "expert_used_count", 5 } },
    { { "expert_count", 4 }, { "expert_used_count", 0 } },
    { { "expert_count", 4 }, { "expert_used_count", 2 }, { "feed_forward_length", 40 } },
  };
  const char *const found[] = { "expert_used_count", "is 5", "is 0", "is 40" };
  LlmHparams hparams;

  read_good ("llama", 1, numbers, NULL, NULL, &hparams);
  g_assert_cmpuint (hparams.experts.n, ==, 4);
  g_assert_cmpuint (hparams.experts.n_used, ==, 2);
  g_assert_cmpuint (hparams.operators & LLM_OPS_EXPERTS, ==, LLM_OPS_EXPERTS);
  g_assert_cmpuint (hparams.operators & LLM_OPS_FFN, ==, 0);

  for (guint i = 0; i <= G_N_ELEMENTS (bad); i++)
    {
      gboolean is_other = i == G_N_ELEMENTS (bad);
      g_autoptr(GError) error = NULL;

      g_assert_false (read_numbers (is_other ? "qwen3" : "llama", 1, is_other ? numbers : bad[i],
                                    NULL, NULL, &hparams, &error));
      g_assert_nonnull (error);
      g_assert_nonnull (strstr (error->message, is_other ? "mixtures of experts" : found[i]));
    }
}

/* Of Qwen's, the networks' width has a key of its own; without it, those of a row are together as wide
 * as the one that they stand for. */
static void
test_expert_width (void)
{
  const Number own[] = {
    { "expert_count", 4 }, { "expert_used_count", 2 }, { "feed_forward_length", 96 },
    { "expert_feed_forward_length", 16 }, { NULL },
  };
  const Number shared[] = {
    { "expert_count", 4 }, { "expert_used_count", 2 }, { "feed_forward_length", 96 }, { NULL },
  };
  const Number bad[] = {
    { "expert_count", 4 }, { "expert_used_count", 2 }, { "expert_feed_forward_length", 24 },
    { NULL },
  };
  g_autoptr(GError) error = NULL;
  LlmHparams hparams;

  read_good ("qwen3moe", 1, own, NULL, NULL, &hparams);
  g_assert_cmpuint (hparams.n_ff, ==, 16);
  g_assert_cmpuint (hparams.operators & LLM_OPS_QK_NORM, ==, LLM_OPS_QK_NORM);
  read_good ("qwen3moe", 1, shared, NULL, NULL, &hparams);
  g_assert_cmpuint (hparams.n_ff, ==, 48);
  g_assert_false (read_numbers ("qwen3moe", 1, bad, NULL, NULL, &hparams, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "expert_feed_forward_length is 24"));
}

/* The scales of Granite and MiniCPM, by keys and without. */
static void
test_scales (void)
{
  const Number granite[] = {
    { "embedding_scale", 12, TRUE }, { "residual_scale", 0.25, TRUE },
    { "attention.scale", 0.015625, TRUE }, { "logit_scale", 8, TRUE },
    { "expert_shared_feed_forward_length", 96 }, { NULL },
  };
  LlmHparams hparams;

  read_good ("granite", 2, granite, NULL, NULL, &hparams);
  g_assert_cmpfloat (hparams.scales.embedding, ==, 12);
  g_assert_cmpfloat (hparams.scales.residual, ==, 0.25f);
  g_assert_cmpfloat (hparams.scales.attention, ==, 0.015625f);
  g_assert_cmpfloat (hparams.scales.logits, ==, 0.125f);
  g_assert_cmpint (hparams.layers[1].rope, ==, 0);

  read_good ("granite", 2, NULL, NULL, NULL, &hparams);
  g_assert_cmpfloat (hparams.scales.embedding, ==, 1);
  g_assert_cmpfloat (hparams.scales.residual, ==, 1);
  g_assert_cmpfloat (hparams.scales.logits, ==, 1);
  g_assert_cmpfloat (hparams.scales.attention, ==, 1 / sqrtf (16));

  read_good ("minicpm", 4, NULL, NULL, NULL, &hparams);
  g_assert_cmpfloat (hparams.scales.embedding, ==, 12);
  g_assert_cmpfloat (hparams.scales.residual, ==, 0.7f);
  g_assert_cmpfloat (hparams.scales.logits, ==, 2);
}

/* The 32 B model of EXAONE 4 has windows and layers without rotation, others have neither. */
static void
test_exaone (void)
{
  LlmHparams hparams;

  read_good ("exaone4", 64, NULL, NULL, NULL, &hparams);
  for (guint i = 0; i < 64; i++)
    {
      gboolean is_global = i % 4 == 3;

      g_assert_cmpuint (hparams.layers[i].window, ==, is_global ? 0 : 4096);
      g_assert_cmpint (hparams.layers[i].rope, ==, is_global ? LLM_NO_ROPE : 0);
    }
  read_good ("exaone4", 30, NULL, NULL, NULL, &hparams);
  for (guint i = 0; i < 30; i++)
    {
      g_assert_cmpuint (hparams.layers[i].window, ==, 0);
      g_assert_cmpint (hparams.layers[i].rope, ==, 0);
    }
  g_assert_cmpuint (hparams.operators & LLM_OPS_PRE_NORM, ==, 0);
}

/* A rotation by several positions is one by one for text, unless it has a part that no position of
 * text turns. */
static void
test_sections (void)
{
  const gint64 sections[][4] = { { 2, 3, 3, 0 }, { 2, 3, 2, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (sections); i++)
    {
      const LlmTestModel model = { .architecture = "qwen2vl", .n_layers = 1, .n_vocab = 20 };
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmGguf) gguf = NULL;
      g_autoptr(GError) error = NULL;
      LlmHparams hparams;

      llm_test_gguf_add_ints (built, "qwen2vl.rope.dimension_sections", LLM_GGUF_INT32, sections[i],
                              4);
      llm_test_model_add_keys (&model, built);
      bytes = llm_test_gguf_end (built);
      gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
      g_assert_no_error (error);
      g_assert_cmpint (llm_hparams_read (gguf, &hparams, &error), ==, i == 0);
      if (i == 1)
        {
          g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
          g_assert_nonnull (strstr (error->message, "dimension_sections has the part 1"));
        }
    }
}

/* One number for all layers, or one for each; more items are for layers that predict. */
static void
test_arrays (void)
{
  const gint64 items[] = { 4, 2, 4 };
  const char *const keys[] = { "llama.attention.head_count", "llama.attention.head_count_kv",
                               "llama.feed_forward_length" };

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    for (guint n_items = 1; n_items <= 3; n_items++)
      {
        const LlmTestModel model = { .n_layers = 2, .n_vocab = 20,
                                     .n_kv_heads = i == 0 ? 2 : 4 };
        g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
        g_autoptr(GBytes) bytes = NULL;
        g_autoptr(LlmGguf) gguf = NULL;
        g_autoptr(GError) error = NULL;
        gboolean is_read;
        LlmHparams hparams;

        llm_test_gguf_add_ints (built, keys[i], LLM_GGUF_INT32, items, n_items);
        llm_test_gguf_skip (built, keys[i]);
        llm_test_model_add_keys (&model, built);
        bytes = llm_test_gguf_end (built);
        gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
        g_assert_no_error (error);
        if (n_items >= 2)
          {
            is_read = llm_hparams_read (gguf, &hparams, &error);
            g_assert_no_error (error);
            g_assert_true (is_read);
            for (guint layer = 0; layer < 2; layer++)
              {
                const LlmLayer *l = &hparams.layers[layer];
                const guint found[] = { l->n_heads, l->n_kv_heads, l->n_ff };

                g_assert_cmpuint (found[i], ==, items[layer]);
              }
            g_assert_cmpuint (i == 2 ? hparams.n_ff : i == 1 ? hparams.n_kv_heads : hparams.n_heads,
                              ==, 4);
          }
        else
          {
            g_assert_false (llm_hparams_read (gguf, &hparams, &error));
            g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
            g_assert_nonnull (strstr (error->message, keys[i]));
          }
      }
}

/* Windows by layer, as newer files have them; one item more than layers is for what predicts. */
static void
test_window_flags (void)
{
  static const gint64 flags[] = { 0, 1, 1, 0 };
  LlmTestModel model = { .n_layers = 3, .architecture = "llama" };
  static const char key[] = "llama.attention.sliding_window_pattern";

  for (gsize n_items = 2; n_items <= 4; n_items++)
    {
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmGguf) gguf = NULL;
      g_autoptr(GError) error = NULL;
      LlmHparams hparams;

      llm_test_gguf_add_int (built, "llama.attention.sliding_window", LLM_GGUF_UINT32, 9);
      llm_test_gguf_add_ints (built, key, n_items == 3 ? LLM_GGUF_BOOL : LLM_GGUF_INT32, flags,
                              n_items);
      llm_test_model_add_keys (&model, built);
      bytes = llm_test_gguf_end (built);
      gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
      g_assert_no_error (error);
      if (n_items < 3)
        {
          g_assert_false (llm_hparams_read (gguf, &hparams, &error));
          g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
          g_assert_nonnull (strstr (error->message, "2 items for 3 layers"));
          continue;
        }
      g_assert_true (llm_hparams_read (gguf, &hparams, &error));
      for (guint i = 0; i < 3; i++)
        g_assert_cmpuint (hparams.layers[i].window, ==, flags[i] != 0 ? 9 : 0);
    }
}

/* Every architecture can be found by its name, and what it needs is of its kind. */
static void
test_architectures (void)
{
  g_autofree char *list = llm_architecture_list_names ();
  g_auto(GStrv) names = g_strsplit (list, ", ", 0);

  g_assert_cmpuint (g_strv_length (names), ==, 22);
  for (char **name = names; *name != NULL; name++)
    {
      const LlmArchitecture *architecture = llm_architecture_find (*name);

      g_assert_nonnull (architecture);
      g_assert_cmpstr (architecture->name, ==, *name);
      g_assert_cmpuint (architecture->needed & LLM_OPS_COMMON, ==, 0);
      g_assert_cmpuint (architecture->optional & (LLM_OPS_COMMON | architecture->needed), ==, 0);
    }
  g_assert_null (llm_architecture_find ("llam"));
}

/* Keys of things we do not have, with values that ask for nothing. */
static void
test_neutral_extras (void)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  LlmHparams hparams;

  add_required (built);
  llm_test_gguf_add_int (built, "llama.vocab_size", LLM_GGUF_UINT32, 5);
  llm_test_gguf_add_int (built, "llama.expert_count", LLM_GGUF_UINT32, 0);
  llm_test_gguf_add_int (built, "llama.attention.causal", LLM_GGUF_BOOL, 1);
  llm_test_gguf_add_double (built, "llama.logit_scale", LLM_GGUF_FLOAT32, 1);
  llm_test_gguf_add_double (built, "llama.embedding_scale", LLM_GGUF_FLOAT32, 0);
  llm_test_gguf_add_double (built, "llama.rope.scaling.attn_factor", LLM_GGUF_FLOAT32, 1);
  read_built (built, &hparams);
  g_assert_cmpuint (hparams.n_vocab, ==, 5);
}

static void
test_demo (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  LlmHparams hparams;

  g_assert_no_error (error);
  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (hparams.n_layers, ==, 8);
  g_assert_cmpuint (hparams.n_embd, ==, 256);
  g_assert_cmpuint (hparams.n_heads, ==, 8);
  g_assert_cmpuint (hparams.n_kv_heads, ==, 8);
  g_assert_cmpuint (hparams.head_dim, ==, 32);
  g_assert_cmpuint (hparams.n_ff, ==, 768);
  g_assert_cmpuint (hparams.n_vocab, ==, 4096);
  g_assert_cmpuint (hparams.n_ctx, ==, 1024);
  g_assert_true (hparams.has_tied_output);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/hparams/all", test_all);
  g_test_add_func ("/hparams/defaults", test_defaults);
  g_test_add_func ("/hparams/no-vocabulary", test_no_vocabulary);
  g_test_add_func ("/hparams/neox", test_neox);
  g_test_add_func ("/hparams/rope-scaling", test_rope_scaling);
  g_test_add_func ("/hparams/gemma", test_gemma);
  g_test_add_func ("/hparams/windows", test_windows);
  g_test_add_func ("/hparams/no-rope", test_no_rope);
  g_test_add_func ("/hparams/yarn", test_yarn);
  g_test_add_func ("/hparams/longrope", test_longrope);
  g_test_add_func ("/hparams/experts", test_experts);
  g_test_add_func ("/hparams/expert-width", test_expert_width);
  g_test_add_func ("/hparams/scales", test_scales);
  g_test_add_func ("/hparams/exaone", test_exaone);
  g_test_add_func ("/hparams/sections", test_sections);
  g_test_add_func ("/hparams/arrays", test_arrays);
  g_test_add_func ("/hparams/window-flags", test_window_flags);
  g_test_add_func ("/hparams/architectures", test_architectures);
  g_test_add_func ("/hparams/neutral-extras", test_neutral_extras);
  g_test_add_func ("/hparams/demo", test_demo);
  return g_test_run ();
}
