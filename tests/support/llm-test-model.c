/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-gguf.h"

#include <math.h>
#include <string.h>

#define N_SPECIAL 6
#define N_BYTES 256

static const char chatml[] =
  "{% for message in messages %}"
  "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
  "{% endfor %}"
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static const char *const special_tokens[N_SPECIAL] = {
  "<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<tool>",
};

/* Pieces in the order of their scores. Every longer one can be put together from
 * two others, as in a vocabulary that was learned. ▁ stands for a space. */
static const char *const pieces[] = {
  "▁", "e", "t", "a", "o", "n", "i", "h", "s", "r", "d", "l", "u", "m", "w", "c", "g", "f", "y",
  "p", ",", ".", "b", "v", "k", "I", "T", "A", "x", "j", "q", "z", "H", "W", "0", "1", "2", "3",
  "'", "?", "▁t", "▁a", "he", "in", "▁the", "re", "on", "er", "▁s", "or", "an", "▁w", "ou", "it",
  "is", "en", "at", "es", "ed", "▁to", "▁an", "▁and", "ing", "ll", "▁I", "▁you", "▁h", "el", "lo",
  "▁hel", "▁hello", "▁wor", "ld", "▁world", "▁y", "▁c", "▁ca", "▁cat", "▁is", "▁in", "▁i",
};

typedef struct
{
  guint64 state;
} Random;

/* splitmix64 */
static guint64
next_random (Random *random)
{
  guint64 z = random->state += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Even over ±√3, so that the standard deviation is 1. */
static float
next_float (Random *random)
{
  return (float) (((double) (next_random (random) >> 11) / 9007199254740992.0 * 2 - 1) * 1.7320508);
}

static LlmTestModel
fill_in (const LlmTestModel *shape)
{
  LlmTestModel full = *shape;

  full.architecture = full.architecture != NULL ? full.architecture : "llama";
  full.name = full.name != NULL ? full.name : "test";
  full.n_layers = full.n_layers != 0 ? full.n_layers : 2;
  full.n_embd = full.n_embd != 0 ? full.n_embd : 64;
  full.n_heads = full.n_heads != 0 ? full.n_heads : 4;
  full.n_kv_heads = full.n_kv_heads != 0 ? full.n_kv_heads : full.n_heads;
  full.head_dim = full.head_dim != 0 ? full.head_dim : full.n_embd / full.n_heads;
  full.n_ff = full.n_ff != 0 ? full.n_ff : 96;
  full.n_ctx = full.n_ctx != 0 ? full.n_ctx : 256;
  full.n_vocab = full.n_vocab != 0 ? full.n_vocab : 384;
  full.rope_base = full.rope_base != 0 ? full.rope_base : 10000;
  g_assert (full.n_vocab >= N_SPECIAL + 2);
  return full;
}

static void
add_vocabulary (const LlmTestModel *shape,
                LlmTestGguf        *gguf)
{
  static const char *const names[] = { "tool_use", "rag", "broken" };
  g_autoptr(GPtrArray) tokens = g_ptr_array_new_with_free_func (g_free);
  g_autofree float *scores = g_new0 (float, shape->n_vocab);
  g_autofree gint64 *types = g_new0 (gint64, shape->n_vocab);
  gboolean has_bytes = shape->n_vocab >= N_SPECIAL + N_BYTES;

  for (guint i = 0; i < shape->n_vocab; i++)
    {
      guint piece = i - N_SPECIAL - (has_bytes ? N_BYTES : 0);

      if (i < N_SPECIAL)
        {
          g_ptr_array_add (tokens, g_strdup (special_tokens[i]));
          types[i] = i == LLM_TEST_TOKEN_UNKNOWN ? 2 : i == LLM_TEST_TOKEN_TOOL ? 4 : 3;
        }
      else if (has_bytes && i < N_SPECIAL + N_BYTES)
        {
          g_ptr_array_add (tokens, g_strdup_printf ("<0x%02X>", i - N_SPECIAL));
          types[i] = 6;
        }
      else
        {
          g_ptr_array_add (tokens, piece < G_N_ELEMENTS (pieces) ? g_strdup (pieces[piece])
                                                                 : g_strdup_printf ("▁%u", piece));
          types[i] = 1;
          scores[i] = -(float) piece;
        }
    }

  llm_test_gguf_add_string (gguf, "tokenizer.ggml.model", "llama");
  llm_test_gguf_add_string (gguf, "tokenizer.ggml.pre", "default");
  llm_test_gguf_add_strings (gguf, "tokenizer.ggml.tokens", (const char *const *) tokens->pdata,
                             shape->n_vocab);
  llm_test_gguf_add_floats (gguf, "tokenizer.ggml.scores", LLM_GGUF_FLOAT32, scores,
                            shape->n_vocab);
  llm_test_gguf_add_ints (gguf, "tokenizer.ggml.token_type", LLM_GGUF_INT32, types,
                          shape->n_vocab);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.bos_token_id", LLM_GGUF_UINT32, LLM_TEST_TOKEN_BOS);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.eos_token_id", LLM_GGUF_UINT32, LLM_TEST_TOKEN_EOS);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.unknown_token_id", LLM_GGUF_UINT32,
                         LLM_TEST_TOKEN_UNKNOWN);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.eot_token_id", LLM_GGUF_UINT32,
                         LLM_TEST_TOKEN_IM_END);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.add_bos_token", LLM_GGUF_BOOL, 1);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.add_eos_token", LLM_GGUF_BOOL, shape->adds_eos);
  llm_test_gguf_add_string (gguf, shape->names_default ? "tokenizer.chat_template.default"
                                                       : "tokenizer.chat_template", chatml);
  for (guint i = 0; shape->has_templates && i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *key = g_strconcat ("tokenizer.chat_template.", names[i], NULL);
      g_autofree char *source = g_strdup_printf (
        "%s{%% for m in messages %%}{{ m.content }}{%% endfor %%}{{ %s | string | length }}%s", names[i],
        i == 0 ? "tools" : "messages", i == 2 ? "{% nothing %}" : "");

      llm_test_gguf_add_string (gguf, key, source);
    }
  if (shape->has_templates)
    llm_test_gguf_add_strings (gguf, "tokenizer.chat_templates", names, G_N_ELEMENTS (names));
}

static void
add_arch_int (const LlmTestModel *shape,
              LlmTestGguf        *gguf,
              const char         *key,
              guint               value)
{
  g_autofree char *full = g_strdup_printf ("%s.%s", shape->architecture, key);

  llm_test_gguf_add_int (gguf, full, LLM_GGUF_UINT32, value);
}

static void
add_arch_double (const LlmTestModel *shape,
                 LlmTestGguf        *gguf,
                 const char         *key,
                 double              value)
{
  g_autofree char *full = g_strdup_printf ("%s.%s", shape->architecture, key);

  llm_test_gguf_add_double (gguf, full, LLM_GGUF_FLOAT32, value);
}

void
llm_test_model_add_keys (const LlmTestModel *shape,
                         LlmTestGguf        *gguf)
{
  LlmTestModel full = fill_in (shape);

  llm_test_gguf_add_string (gguf, "general.architecture", full.architecture);
  llm_test_gguf_add_string (gguf, "general.name", full.name);
  llm_test_gguf_add_string (gguf, "general.license", "cc0-1.0");
  add_arch_int (&full, gguf, "block_count", full.n_layers);
  add_arch_int (&full, gguf, "context_length", full.n_ctx);
  add_arch_int (&full, gguf, "embedding_length", full.n_embd);
  add_arch_int (&full, gguf, "feed_forward_length", full.n_ff);
  add_arch_int (&full, gguf, "attention.head_count", full.n_heads);
  add_arch_int (&full, gguf, "attention.head_count_kv", full.n_kv_heads);
  if (full.head_dim * full.n_heads != full.n_embd)
    {
      add_arch_int (&full, gguf, "attention.key_length", full.head_dim);
      add_arch_int (&full, gguf, "attention.value_length", full.head_dim);
    }
  add_arch_int (&full, gguf, "rope.dimension_count", full.head_dim);
  add_arch_double (&full, gguf, "rope.freq_base", full.rope_base);
  add_arch_double (&full, gguf, "attention.layer_norm_rms_epsilon", 1e-5);
  if (full.n_experts > 0)
    {
      add_arch_int (&full, gguf, "expert_count", full.n_experts);
      add_arch_int (&full, gguf, "expert_used_count", 2);
    }
  add_arch_int (&full, gguf, "vocab_size", full.n_vocab);
  add_vocabulary (&full, gguf);
}

/* @gain: the standard deviation of the product with inputs of deviation 1. */
static void
add_matrix (LlmTestGguf *gguf,
            Random      *random,
            const char  *name,
            LlkType      type,
            guint        n_in,
            guint        n_out,
            guint        n_experts,
            float        gain)
{
  guint64 dims[] = { n_in, n_out, n_experts };
  gsize n_values = (gsize) n_in * n_out * MAX (n_experts, 1);
  g_autofree float *values = g_new (float, n_values);

  for (gsize i = 0; i < n_values; i++)
    values[i] = next_float (random) * gain / sqrtf ((float) n_in);
  llm_test_gguf_add_tensor (gguf, name, type, n_experts > 0 ? 3 : 2, dims, values);
}

static void
add_vector (LlmTestGguf *gguf,
            Random      *random,
            const char  *name,
            guint        n,
            float        mean,
            float        deviation)
{
  guint64 dims[] = { n };
  g_autofree float *values = g_new (float, n);

  for (guint i = 0; i < n; i++)
    values[i] = mean + deviation * next_float (random);
  llm_test_gguf_add_tensor (gguf, name, LLK_F32, 1, dims, values);
}

/* The layers weigh more than the embedding, so that an answer depends on all of
 * the text and not just on its last token. */
static void
add_layer (const LlmTestModel *shape,
           LlmTestGguf        *gguf,
           Random             *random,
           guint               layer)
{
  guint n_q = shape->n_heads * shape->head_dim, n_kv = shape->n_kv_heads * shape->head_dim;
  const char *suffix = shape->n_experts > 0 ? "_exps" : "";
  const struct
  {
    const char *name;
    guint n_in, n_out;
    float gain;
    gboolean is_of_experts;
  } tensors[] = {
    { "attn_norm", shape->n_embd, 0, 0 },
    { "attn_q", shape->n_embd, n_q, 1.5f },
    { "attn_k", shape->n_embd, n_kv, 1.5f },
    { "attn_v", shape->n_embd, n_kv, 1.5f },
    { "attn_output", n_q, shape->n_embd, 1.5f },
    { "ffn_norm", shape->n_embd, 0, 0 },
    { "ffn_gate", shape->n_embd, shape->n_ff, 1.5f, TRUE },
    { "ffn_up", shape->n_embd, shape->n_ff, 1.5f, TRUE },
    { "ffn_down", shape->n_ff, shape->n_embd, 1, TRUE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++)
    {
      g_autofree char *name = g_strdup_printf ("blk.%u.%s%s.weight", layer, tensors[i].name,
                                               tensors[i].is_of_experts ? suffix : "");

      if (tensors[i].n_out == 0)
        add_vector (gguf, random, name, tensors[i].n_in, 1, 0.1f);
      else
        add_matrix (gguf, random, name, shape->type, tensors[i].n_in, tensors[i].n_out,
                    tensors[i].is_of_experts ? shape->n_experts : 0, tensors[i].gain);
    }
  if (shape->n_experts > 0)
    {
      g_autofree char *name = g_strdup_printf ("blk.%u.ffn_gate_inp.weight", layer);

      add_matrix (gguf, random, name, LLK_F32, shape->n_embd, shape->n_experts, 0, 1);
    }
}

void
llm_test_model_add_tensors (const LlmTestModel *shape,
                            LlmTestGguf        *gguf)
{
  LlmTestModel full = fill_in (shape);
  Random random = { full.seed };

  add_matrix (gguf, &random, "token_embd.weight", full.type, full.n_embd, full.n_vocab, 0, 2.5f);
  if (full.has_rope_factors)
    add_vector (gguf, &random, "rope_freqs.weight", full.head_dim / 2, 3, 1);
  for (guint i = 0; i < full.n_layers; i++)
    add_layer (&full, gguf, &random, i);
  add_vector (gguf, &random, "output_norm.weight", full.n_embd, 1, 0.1f);
  if (full.is_untied)
    add_matrix (gguf, &random, "output.weight", full.type, full.n_embd, full.n_vocab, 0, 2.5f);
}

GBytes *
llm_test_model_new (const LlmTestModel *shape)
{
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);

  llm_test_model_add_keys (shape, gguf);
  llm_test_model_add_tensors (shape, gguf);
  return llm_test_gguf_end (gguf);
}

void
llm_test_model_write (const LlmTestModel *shape,
                      const char         *path)
{
  g_autoptr(GBytes) bytes = llm_test_model_new (shape);
  g_autoptr(GError) error = NULL;

  g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes),
                       &error);
  g_assert_no_error (error);
}
