/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-mock"

#include "decoding/llm-mock-model.h"

#include <string.h>

#include "kernels/llk-types.h"
#include "model/gguf/llm-gguf.h"

#define GGUF_VERSION 3
#define ALIGNMENT 32
#define N_BYTES 256
#define ID_IM_START 256
#define ID_IM_END 257
#define N_TOKENS 258
/* As small as the service takes a model, in all directions. */
#define WIDTH 8

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

typedef struct
{
  GByteArray *bytes;
  guint64 n_keys;
} Keys;

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
put_padding (GByteArray *bytes)
{
  while (bytes->len % ALIGNMENT != 0)
    put_number (bytes, 0, 1);
}

static void
begin_key (Keys       *keys,
           const char *key,
           LlmGgufType type)
{
  put_text (keys->bytes, key);
  put_number (keys->bytes, type, 4);
  keys->n_keys++;
}

static void
begin_array (Keys       *keys,
             const char *key,
             LlmGgufType type,
             guint64     length)
{
  begin_key (keys, key, LLM_GGUF_ARRAY);
  put_number (keys->bytes, type, 4);
  put_number (keys->bytes, length, 8);
}

static void
add_text (Keys       *keys,
          const char *key,
          const char *text)
{
  begin_key (keys, key, LLM_GGUF_STRING);
  put_text (keys->bytes, text);
}

static void
add_uint (Keys       *keys,
          const char *key,
          guint32     value)
{
  begin_key (keys, key, LLM_GGUF_UINT32);
  put_number (keys->bytes, value, 4);
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
add_vocabulary (Keys *keys)
{
  gunichar next = 0x100;

  add_text (keys, "tokenizer.ggml.model", "gpt2");
  add_text (keys, "tokenizer.ggml.pre", "gpt-2");
  begin_array (keys, "tokenizer.ggml.tokens", LLM_GGUF_STRING, N_TOKENS);
  for (guint byte = 0; byte < N_BYTES; byte++)
    put_byte_token (keys->bytes, byte, &next);
  put_text (keys->bytes, "<|im_start|>");
  put_text (keys->bytes, "<|im_end|>");
  begin_array (keys, "tokenizer.ggml.token_type", LLM_GGUF_INT32, N_TOKENS);
  for (guint i = 0; i < N_TOKENS; i++)
    put_number (keys->bytes, i < N_BYTES ? NORMAL : CONTROL, 4);
  begin_array (keys, "tokenizer.ggml.merges", LLM_GGUF_STRING, 0);
  add_uint (keys, "tokenizer.ggml.eos_token_id", ID_IM_END);
  add_text (keys, "tokenizer.chat_template", chatml);
}

static void
add_shape (Keys *keys,
           guint n_ctx)
{
  const float epsilon = 1e-5f;
  guint32 bits;

  add_text (keys, "general.architecture", "llama");
  add_uint (keys, "llama.block_count", 1);
  add_uint (keys, "llama.context_length", n_ctx);
  add_uint (keys, "llama.embedding_length", WIDTH);
  add_uint (keys, "llama.feed_forward_length", WIDTH);
  add_uint (keys, "llama.attention.head_count", 1);
  memcpy (&bits, &epsilon, sizeof bits);
  begin_key (keys, "llama.attention.layer_norm_rms_epsilon", LLM_GGUF_FLOAT32);
  put_number (keys->bytes, bits, 4);
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
  g_autoptr(GByteArray) key_bytes = g_byte_array_new ();
  Keys keys = { .bytes = key_bytes };
  guint64 n_data;
  guint n_head;

  add_shape (&keys, n_ctx);
  add_vocabulary (&keys);

  g_byte_array_append (file, (const guint8 *) "GGUF", 4);
  put_number (file, GGUF_VERSION, 4);
  put_number (file, G_N_ELEMENTS (tensors), 8);
  put_number (file, keys.n_keys, 8);
  g_byte_array_append (file, key_bytes->data, key_bytes->len);
  n_data = put_tensor_table (file);
  put_padding (file);

  n_head = file->len;
  g_byte_array_set_size (file, (guint) (n_head + n_data));
  memset (file->data + n_head, 0, n_data);
  return g_byte_array_free_to_bytes (file);
}
