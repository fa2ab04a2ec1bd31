/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-mock-model.h"

#include <string.h>

#include "kernels/llk-types.h"
#include "gguf/llm-gguf.h"

#define GGUF_VERSION 3
#define ALIGNMENT 32
#define N_BYTES 256
#define ID_IM_START 256
#define ID_IM_END 257
#define N_TOKENS 258
/* As small as the service takes a model, in all directions. */
#define WIDTH 8
#define EPSILON_BITS 0x3727c5ac /* 1e-5f */
/* Those of put_shape() and put_vocabulary(). */
#define N_KEYS 14

/* Kinds of tokens in a file. */
#define NORMAL 1
#define CONTROL 3

static const char chatml[] =
  "{% for message in messages %}"
  "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
  "{% endfor %}"
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

static const struct
{
  const char *name;
  guint n_dims;
  guint64 dims[2];
} tensors[] = {
  { "token_embd.weight", 2, { WIDTH, N_TOKENS } },
  { "blk.0.attn_norm.weight", 1, { WIDTH, 1 } },
  { "blk.0.attn_q.weight", 2, { WIDTH, WIDTH } },
  { "blk.0.attn_k.weight", 2, { WIDTH, WIDTH } },
  { "blk.0.attn_v.weight", 2, { WIDTH, WIDTH } },
  { "blk.0.attn_output.weight", 2, { WIDTH, WIDTH } },
  { "blk.0.ffn_norm.weight", 1, { WIDTH, 1 } },
  { "blk.0.ffn_gate.weight", 2, { WIDTH, WIDTH } },
  { "blk.0.ffn_up.weight", 2, { WIDTH, WIDTH } },
  { "blk.0.ffn_down.weight", 2, { WIDTH, WIDTH } },
  { "output_norm.weight", 1, { WIDTH, 1 } },
};

static void
put_number (GByteArray *bytes,
            guint64     value,
            guint       width)
{
  guint64 little = GUINT64_TO_LE (value);

  g_byte_array_append (bytes, (const guint8 *) &little, width);
}

static void
put_text (GByteArray *bytes,
          const char *text)
{
  put_number (bytes, strlen (text), 8);
  g_byte_array_append (bytes, (const guint8 *) text, (guint) strlen (text));
}

static void
put_key (GByteArray *bytes,
         const char *key,
         LlmGgufType type)
{
  put_text (bytes, key);
  put_number (bytes, type, 4);
}

static void
put_array_key (GByteArray *bytes,
               const char *key,
               LlmGgufType type,
               guint64     length)
{
  put_key (bytes, key, LLM_GGUF_ARRAY);
  put_number (bytes, type, 4);
  put_number (bytes, length, 8);
}

static void
put_text_key (GByteArray *bytes,
              const char *key,
              const char *text)
{
  put_key (bytes, key, LLM_GGUF_STRING);
  put_text (bytes, text);
}

static void
put_uint_key (GByteArray *bytes,
              const char *key,
              guint32     value)
{
  put_key (bytes, key, LLM_GGUF_UINT32);
  put_number (bytes, value, 4);
}

/* Byte-level vocabularies write each byte as a character that can be seen. */
static void
put_byte_token (GByteArray *bytes,
                guint       byte,
                gunichar   *next)
{
  gboolean is_visible = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
  char text[7] = { 0 };

  g_unichar_to_utf8 (is_visible ? byte : (*next)++, text);
  put_text (bytes, text);
}

/* No merges, so that every byte stays a token of its own. */
static void
put_vocabulary (GByteArray *bytes)
{
  gunichar next = 0x100;

  put_text_key (bytes, "tokenizer.ggml.model", "gpt2");
  put_text_key (bytes, "tokenizer.ggml.pre", "gpt-2");
  put_array_key (bytes, "tokenizer.ggml.tokens", LLM_GGUF_STRING, N_TOKENS);
  for (guint byte = 0; byte < N_BYTES; byte++)
    put_byte_token (bytes, byte, &next);
  put_text (bytes, "<|im_start|>");
  put_text (bytes, "<|im_end|>");
  put_array_key (bytes, "tokenizer.ggml.token_type", LLM_GGUF_INT32, N_TOKENS);
  for (guint i = 0; i < N_TOKENS; i++)
    put_number (bytes, i < N_BYTES ? NORMAL : CONTROL, 4);
  put_array_key (bytes, "tokenizer.ggml.merges", LLM_GGUF_STRING, 0);
  put_uint_key (bytes, "tokenizer.ggml.eos_token_id", ID_IM_END);
  put_text_key (bytes, "tokenizer.chat_template", chatml);
}

static void
put_shape (GByteArray *bytes,
           guint       n_ctx)
{
  put_text_key (bytes, "general.architecture", "llama");
  put_uint_key (bytes, "llama.block_count", 1);
  put_uint_key (bytes, "llama.context_length", n_ctx);
  put_uint_key (bytes, "llama.embedding_length", WIDTH);
  put_uint_key (bytes, "llama.feed_forward_length", WIDTH);
  put_uint_key (bytes, "llama.attention.head_count", 1);
  put_key (bytes, "llama.attention.layer_norm_rms_epsilon", LLM_GGUF_FLOAT32);
  put_number (bytes, EPSILON_BITS, 4);
}

/* Returns the bytes of all tensors. */
static guint64
put_tensor_table (GByteArray *bytes)
{
  guint64 offset = 0;

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++)
    {
      guint64 size = tensors[i].dims[0] * tensors[i].dims[1] * sizeof (float);

      put_text (bytes, tensors[i].name);
      put_number (bytes, tensors[i].n_dims, 4);
      for (guint d = 0; d < tensors[i].n_dims; d++)
        put_number (bytes, tensors[i].dims[d], 8);
      put_number (bytes, LLK_F32, 4);
      put_number (bytes, offset, 8);
      offset += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
  return offset;
}

GBytes *
llm_mock_model_new (guint n_ctx)
{
  GByteArray *file = g_byte_array_new ();
  guint64 n_data;
  guint n_head;

  g_byte_array_append (file, (const guint8 *) "GGUF", 4);
  put_number (file, GGUF_VERSION, 4);
  put_number (file, G_N_ELEMENTS (tensors), 8);
  put_number (file, N_KEYS, 8);
  put_shape (file, n_ctx);
  put_vocabulary (file);
  n_data = put_tensor_table (file);
  while (file->len % ALIGNMENT != 0)
    put_number (file, 0, 1);

  n_head = file->len;
  g_byte_array_set_size (file, (guint) (n_head + n_data));
  memset (file->data + n_head, 0, n_data);
  return g_byte_array_free_to_bytes (file);
}
