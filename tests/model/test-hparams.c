/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <string.h>

#include "common/llmsvc-error.h"
#include "model/llm-hparams.h"
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
  g_assert_cmpfloat (hparams.rms_eps, ==, 1e-5f);
  g_assert_cmpint (hparams.rope_kind, ==, LLM_ROPE_NORM);
  g_assert_cmpuint (hparams.rope_dim, ==, 32);
  g_assert_cmpfloat (hparams.rope_base, ==, 500000);
  g_assert_cmpint (hparams.rope_scaling, ==, LLM_ROPE_SCALING_NONE);
  g_assert_cmpfloat (hparams.rope_scale, ==, 1);
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
      g_assert_cmpfloat (hparams.rope_base, ==, 10000);
      g_assert_cmpfloat (hparams.rms_eps, ==, 1e-6f);
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
      g_assert_cmpint (hparams.rope_scaling, ==, cases[i].scaling);
      g_assert_cmpfloat (hparams.rope_scale, ==, cases[i].scale);
    }
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
  g_test_add_func ("/hparams/neutral-extras", test_neutral_extras);
  g_test_add_func ("/hparams/demo", test_demo);
  return g_test_run ();
}
