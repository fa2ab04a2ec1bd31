/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files that are wrong somewhere: each must be refused with the right code and a
 * message that names the file, the field and what was found in it. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "weights/llm-weights.h"
#include "support/llm-test-gguf.h"

#define FILE_NAME "bad.gguf"
#define INVALID LLMSVC_ERROR_INVALID_MODEL
#define UNSUPPORTED LLMSVC_ERROR_UNSUPPORTED

/* All that is read of a file when it is opened and loaded, but for its tokenizer. */
static gboolean
load (GBytes  *bytes,
      GError **error)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, FILE_NAME, error);
  g_autoptr(LlmWeights) weights = NULL;
  LlmHparams hparams;

  if (gguf == NULL || !llm_hparams_read (gguf, &hparams, error))
    return FALSE;
  weights = llm_weights_new_mapped (gguf, &hparams, NULL, NULL, error);
  return weights != NULL;
}

static void
check_refused (GBytes     *bytes,
               int         code,
               const char *field,
               const char *found)
{
  const char *parts[] = { FILE_NAME, field, found };
  g_autoptr(GError) error = NULL;

  g_assert_false (load (bytes, &error));
  g_assert_error (error, LLMSVC_ERROR, code);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  g_assert_cmpuint (strlen (error->message), <, 600);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (strstr (error->message, parts[i]) == NULL)
      g_error ("“%s” is not in: %s", parts[i], error->message);
  g_test_message ("%s", error->message);
}

/* One key "k" (uint8) and one tensor "t" (8 × F32), with the places of its fields. */
enum
{
  AT_MAGIC = 0,
  AT_VERSION = 4,
  AT_N_TENSORS = 8,
  AT_N_KEYS = 16,
  AT_KEY_LENGTH = 24,
  AT_KEY = 32,
  AT_KEY_TYPE = 33,
  AT_NAME_LENGTH = 38,
  AT_NAME = 46,
  AT_N_DIMS = 47,
  AT_DIM = 51,
  AT_TYPE = 59,
  AT_OFFSET = 63,
  AT_DATA = 96,
  SMALL_SIZE = 128,
};

static GBytes *
build_small (void)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  const guint64 dims[] = { 8 };
  const float values[8] = { 1 };
  GBytes *bytes;

  llm_test_gguf_add_int (built, "k", LLM_GGUF_UINT8, 7);
  llm_test_gguf_add_tensor (built, "t", LLK_F32, 1, dims, values);
  bytes = llm_test_gguf_end (built);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, SMALL_SIZE);
  return bytes;
}

typedef struct
{
  const char *name;
  gsize offset;
  guint width;
  guint64 value;
  int code;
  const char *field;
  const char *found;
} Patch;

static const Patch patches[] = {
  { "magic", AT_MAGIC, 4, 0x46464747, INVALID, "no GGUF file", "GGFF" },
  { "version-0", AT_VERSION, 4, 0, UNSUPPORTED, "version 0", "2 and 3" },
  { "version-1", AT_VERSION, 4, 1, UNSUPPORTED, "version 1", "2 and 3" },
  { "version-4", AT_VERSION, 4, 4, UNSUPPORTED, "version 4", "2 and 3" },
  { "big-endian", AT_VERSION, 4, 0x03000000, UNSUPPORTED, "version", "big-endian" },
  { "keys-huge", AT_N_KEYS, 8, G_MAXUINT64, INVALID, "number of keys", "18446744073709551615" },
  { "keys-many", AT_N_KEYS, 8, 100, INVALID, "number of keys", "100" },
  { "keys-more", AT_N_KEYS, 8, 2, INVALID, "tensor 0", "length of 0" },
  { "tensors-huge", AT_N_TENSORS, 8, G_MAXINT64, INVALID, "number of tensors",
    "9223372036854775807" },
  { "tensors-many", AT_N_TENSORS, 8, 50, INVALID, "number of tensors", "50" },
  { "tensors-more", AT_N_TENSORS, 8, 2, INVALID, "tensor 1", "length of 0" },
  { "key-length-0", AT_KEY_LENGTH, 8, 0, INVALID, "key 0", "length of 0" },
  { "key-length-huge", AT_KEY_LENGTH, 8, G_MAXUINT64, INVALID, "key 0", "18446744073709551615" },
  { "key-length-end", AT_KEY_LENGTH, 8, SMALL_SIZE, INVALID, "key 0", "128" },
  { "key-not-utf8", AT_KEY, 1, 0xff, INVALID, "key 0", "UTF-8" },
  { "key-nul", AT_KEY, 1, 0, INVALID, "key 0", "UTF-8" },
  { "key-type-13", AT_KEY_TYPE, 4, 13, INVALID, "key “k”", "type 13" },
  { "key-type-huge", AT_KEY_TYPE, 4, G_MAXUINT32, INVALID, "key “k”", "type 4294967295" },
  { "name-length-0", AT_NAME_LENGTH, 8, 0, INVALID, "tensor 0", "length of 0" },
  { "name-length-huge", AT_NAME_LENGTH, 8, G_MAXUINT64 - 7, INVALID, "tensor 0",
    "18446744073709551608" },
  { "name-not-utf8", AT_NAME, 1, 0xc0, INVALID, "tensor 0", "UTF-8" },
  { "dims-0", AT_N_DIMS, 4, 0, INVALID, "tensor “t”", "0 dimensions" },
  { "dims-5", AT_N_DIMS, 4, 5, INVALID, "tensor “t”", "5 dimensions" },
  { "dims-huge", AT_N_DIMS, 4, G_MAXUINT32, INVALID, "tensor “t”", "4294967295 dimensions" },
  { "dim-0", AT_DIM, 8, 0, INVALID, "tensor “t”", "dimension 0 is 0" },
  { "dim-9", AT_DIM, 8, 9, INVALID, "tensor “t”", "36 bytes" },
  { "dim-huge", AT_DIM, 8, G_MAXUINT64, INVALID, "tensor “t”", "18446744073709551615" },
  { "dim-bytes-overflow", AT_DIM, 8, G_GUINT64_CONSTANT (1) << 62, INVALID, "tensor “t”",
    "4611686018427387904" },
  { "type-iq1-m", AT_TYPE, 4, 29, UNSUPPORTED, "tensor “t”", "IQ1_M (29)" },
  { "type-q4-k", AT_TYPE, 4, 12, INVALID, "tensor “t”", "256 in a block of Q4_K" },
  { "type-iq1-s", AT_TYPE, 4, 19, UNSUPPORTED, "supported are F32, F16, Q4_0, Q4_1, Q5_0, Q5_1",
    "IQ1_S (19)" },
  { "type-gone", AT_TYPE, 4, 4, UNSUPPORTED, "tensor “t”", "Q4_2 (4)" },
  { "type-unknown", AT_TYPE, 4, 250, UNSUPPORTED, "tensor “t”", "250, which is unknown" },
  { "type-huge", AT_TYPE, 4, G_MAXUINT32, UNSUPPORTED, "tensor “t”", "4294967295" },
  { "type-blocks", AT_TYPE, 4, 8, INVALID, "tensor “t”", "rows of 8 values" },
  { "offset-odd", AT_OFFSET, 8, 8, INVALID, "tensor “t”", "offset 8" },
  { "offset-end", AT_OFFSET, 8, 32, INVALID, "tensor “t”", "offset 32" },
  { "offset-huge", AT_OFFSET, 8, G_MAXUINT64 - 31, INVALID, "tensor “t”",
    "offset 18446744073709551584" },
};

static void
test_patch (gconstpointer data)
{
  const Patch *patch = data;
  g_autoptr(GBytes) small = build_small ();
  gsize size;
  guint8 *bytes = g_bytes_unref_to_data (g_steal_pointer (&small), &size);

  for (guint i = 0; i < patch->width; i++)
    bytes[patch->offset + i] = (guint8) (patch->value >> (8 * i));
  small = g_bytes_new_take (bytes, size);
  check_refused (small, patch->code, patch->field, patch->found);
}

/* Structures that one patch can't make. */
typedef struct
{
  const char *name;
  void (*build) (LlmTestGguf *built);
  int code;
  const char *field;
  const char *found;
} Shape;

static const float zeros[4096];

static void
build_nested (LlmTestGguf *built)
{
  llm_test_gguf_add_raw (built, "nested", LLM_GGUF_ARRAY,
                         "\x09\0\0\0" "\1\0\0\0\0\0\0\0" "\0\0\0\0" "\0\0\0\0\0\0\0\0", 24);
}

static void
build_item_type (LlmTestGguf *built)
{
  llm_test_gguf_add_raw (built, "items", LLM_GGUF_ARRAY, "\x20\0\0\0" "\1\0\0\0\0\0\0\0" "\0", 13);
}

static void
build_many_items (LlmTestGguf *built)
{
  llm_test_gguf_add_raw (built, "items", LLM_GGUF_ARRAY,
                         "\x0a\0\0\0" "\0\0\0\0\0\0\0\x20" "\0\0\0\0\0\0\0\0", 20);
}

static void
build_many_strings (LlmTestGguf *built)
{
  llm_test_gguf_add_raw (built, "strings", LLM_GGUF_ARRAY,
                         "\x08\0\0\0" "\xff\xff\xff\xff\xff\xff\xff\xff", 12);
}

static void
build_long_item (LlmTestGguf *built)
{
  llm_test_gguf_add_raw (built, "strings", LLM_GGUF_ARRAY,
                         "\x08\0\0\0" "\1\0\0\0\0\0\0\0" "\xff\xff\xff\xff\0\0\0\0", 20);
}

static void
build_long_string (LlmTestGguf *built)
{
  llm_test_gguf_add_raw (built, "string", LLM_GGUF_STRING, "\xf8\xff\xff\xff\xff\xff\xff\xff", 8);
}

static void
build_long_key (LlmTestGguf *built)
{
  g_autofree char *key = g_strnfill (1025, 'k');

  llm_test_gguf_add_int (built, key, LLM_GGUF_UINT8, 0);
}

static void
build_two_keys (LlmTestGguf *built)
{
  llm_test_gguf_add_int (built, "twice", LLM_GGUF_UINT8, 0);
  llm_test_gguf_add_int (built, "twice", LLM_GGUF_UINT8, 0);
}

static void
build_two_tensors (LlmTestGguf *built)
{
  const guint64 dims[] = { 1 };

  llm_test_gguf_add_tensor (built, "double", LLK_F32, 1, dims, zeros);
  llm_test_gguf_add_tensor (built, "double", LLK_F32, 1, dims, zeros);
}

static void
build_alignment_0 (LlmTestGguf *built)
{
  llm_test_gguf_add_int (built, "general.alignment", LLM_GGUF_UINT32, 0);
}

static void
build_alignment_4 (LlmTestGguf *built)
{
  llm_test_gguf_add_int (built, "general.alignment", LLM_GGUF_UINT32, 4);
}

static void
build_alignment_24 (LlmTestGguf *built)
{
  llm_test_gguf_add_int (built, "general.alignment", LLM_GGUF_UINT32, 24);
}

static void
build_alignment_huge (LlmTestGguf *built)
{
  llm_test_gguf_add_int (built, "general.alignment", LLM_GGUF_UINT32, 1 << 21);
}

static void
build_alignment_text (LlmTestGguf *built)
{
  llm_test_gguf_add_string (built, "general.alignment", "32");
}

static void
build_dims_overflow (LlmTestGguf *built)
{
  const guint64 dims[] = { 1 << 20, 1 << 20, 1 << 20, 1 << 20 };

  llm_test_gguf_add_raw_tensor (built, "big", LLK_F32, 4, dims, -1, zeros, 32);
}

static void
build_dims_wrap (LlmTestGguf *built)
{
  const guint64 dims[] = { G_GUINT64_CONSTANT (1) << 32, G_GUINT64_CONSTANT (1) << 32 };

  llm_test_gguf_add_raw_tensor (built, "big", LLK_F32, 2, dims, -1, zeros, 32);
}

static void
build_long_name (LlmTestGguf *built)
{
  g_autofree char *name = g_strnfill (257, 'n');
  const guint64 dims[] = { 1 };

  llm_test_gguf_add_tensor (built, name, LLK_F32, 1, dims, zeros);
}

static void
build_no_architecture (LlmTestGguf *built)
{
  llm_test_gguf_add_int (built, "k", LLM_GGUF_UINT8, 0);
}

static const Shape shapes[] = {
  { "nested-array", build_nested, UNSUPPORTED, "nested", "array of arrays" },
  { "item-type", build_item_type, INVALID, "items", "type 32" },
  { "many-items", build_many_items, INVALID, "items", "2305843009213693952" },
  { "many-strings", build_many_strings, INVALID, "strings", "18446744073709551615" },
  { "long-item", build_long_item, INVALID, "strings", "4294967295" },
  { "long-string", build_long_string, INVALID, "string", "18446744073709551608" },
  { "long-key", build_long_key, INVALID, "key 0", "1025" },
  { "two-keys", build_two_keys, INVALID, "twice", "is there twice" },
  { "two-tensors", build_two_tensors, INVALID, "double", "is there twice" },
  { "alignment-0", build_alignment_0, INVALID, "general.alignment", "is 0" },
  { "alignment-4", build_alignment_4, INVALID, "general.alignment", "is 4" },
  { "alignment-24", build_alignment_24, INVALID, "general.alignment", "is 24" },
  { "alignment-huge", build_alignment_huge, INVALID, "general.alignment", "is 2097152" },
  { "alignment-text", build_alignment_text, INVALID, "general.alignment", "string" },
  { "dims-overflow", build_dims_overflow, INVALID, "tensor “big”", "dimension 3 is 1048576" },
  { "dims-wrap", build_dims_wrap, INVALID, "tensor “big”", "dimension 1 is 4294967296" },
  { "long-name", build_long_name, INVALID, "tensor 0", "257" },
  { "no-architecture", build_no_architecture, INVALID, "general.architecture", "missing" },
};

static void
test_shape (gconstpointer data)
{
  const Shape *shape = data;
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;

  shape->build (built);
  bytes = llm_test_gguf_end (built);
  check_refused (bytes, shape->code, shape->field, shape->found);
}

/* Models with one wrong key. */
typedef enum
{
  REMOVED,
  INT,
  SIGNED,
  REAL,
  TEXT,
  INTS,
} Kind;

typedef struct
{
  const char *key;
  Kind kind;
  double number;
  const char *text;
  int code;
  const char *found;
} Key;

static const Key keys[] = {
  { "general.architecture", TEXT, 0, "gptj", UNSUPPORTED, "“gptj”" },
  { "general.architecture", TEXT, 0, "", UNSUPPORTED, "supported are llama, cohere2" },
  { "general.architecture", INT, 1, NULL, INVALID, "uint32" },
  { "general.architecture", TEXT, 0, "\x1b[2J\xe2\x80\xae", UNSUPPORTED, "\xef\xbf\xbd[2J" },
  { "llama.block_count", REMOVED, 0, NULL, INVALID, "missing" },
  { "llama.block_count", INT, 0, NULL, INVALID, "is 0" },
  { "llama.block_count", INT, 4294967295, NULL, INVALID, "is 4294967295" },
  { "llama.block_count", SIGNED, -1, NULL, INVALID, "is -1" },
  { "llama.block_count", REAL, 2, NULL, INVALID, "float32" },
  { "llama.block_count", INTS, 2, NULL, UNSUPPORTED, "is an array" },
  { "llama.context_length", INT, 0, NULL, INVALID, "is 0" },
  { "llama.context_length", INT, 4e9, NULL, INVALID, "is 4000000000" },
  { "llama.embedding_length", INT, 0, NULL, INVALID, "is 0" },
  { "llama.embedding_length", INT, 1e6, NULL, INVALID, "is 1000000" },
  { "llama.feed_forward_length", INT, 0, NULL, INVALID, "is 0" },
  { "llama.feed_forward_length", INTS, 0, NULL, INVALID, "is 0 for layer 0" },
  { "llama.attention.head_count", INT, 0, NULL, INVALID, "is 0" },
  { "llama.attention.head_count", INT, 128, NULL, INVALID, "is 128" },
  { "llama.attention.head_count", INTS, 4, NULL, INVALID, "does not divide the 5" },
  { "llama.attention.head_count", INTS, -1, NULL, INVALID, "is -1 for layer 0" },
  { "llama.attention.head_count_kv", INT, 3, NULL, INVALID, "is 3" },
  { "llama.attention.head_count_kv", INT, 8, NULL, INVALID, "is 8" },
  { "llama.attention.key_length", INT, 8, NULL, UNSUPPORTED, "8" },
  { "llama.attention.value_length", INT, 8, NULL, UNSUPPORTED, "is 8" },
  { "llama.attention.key_length", INT, 100000, NULL, INVALID, "is 100000" },
  { "llama.attention.layer_norm_rms_epsilon", REMOVED, 0, NULL, INVALID, "missing" },
  { "llama.attention.layer_norm_rms_epsilon", REAL, NAN, NULL, INVALID, "nan" },
  { "llama.attention.layer_norm_rms_epsilon", REAL, -1, NULL, INVALID, "is -1" },
  { "llama.rope.dimension_count", INT, 15, NULL, INVALID, "is 15" },
  { "llama.rope.dimension_count", INT, 18, NULL, INVALID, "is 18" },
  { "llama.rope.freq_base", REAL, INFINITY, NULL, INVALID, "inf" },
  { "llama.rope.freq_base", REAL, 0, NULL, INVALID, "is 0" },
  { "llama.rope.scaling.type", TEXT, 0, "dynamic", UNSUPPORTED, "“dynamic”" },
  { "llama.rope.scaling.type", TEXT, 0, "", UNSUPPORTED, "none, linear, yarn, longrope" },
  { "llama.rope.scaling.type", INT, 2, NULL, INVALID, "uint32" },
  { "llama.rope.scaling.factor", REAL, -2, NULL, INVALID, "is -2" },
  { "llama.rope.scaling.factor", REAL, 1e-9, NULL, INVALID, "1e-09" },
  { "llama.rope.scaling.attn_factor", REAL, -1, NULL, INVALID, "is -1" },
  { "llama.rope.scaling.attn_factor", REAL, NAN, NULL, INVALID, "nan" },
  { "llama.rope.scaling.original_context_length", INT, 0, NULL, INVALID, "is 0" },
  { "llama.rope.scaling.yarn_ext_factor", REAL, 0.5, NULL, UNSUPPORTED, "0.5" },
  { "llama.rope.freq_base_swa", REAL, 0, NULL, INVALID, "is 0" },
  { "llama.rope.dimension_count_swa", INT, 8, NULL, UNSUPPORTED, "is 8" },
  { "llama.attention.key_length_swa", INT, 8, NULL, UNSUPPORTED, "is 8" },
  { "llama.attention.value_length_swa", INT, 32, NULL, UNSUPPORTED, "is 32" },
  { "llama.rope.dimension_sections", INTS, 8, NULL, UNSUPPORTED, "nan" },
  { "llama.expert_count", INT, 5000, NULL, INVALID, "is 5000" },
  { "llama.expert_weights_scale", REAL, 2, NULL, UNSUPPORTED, "is 2" },
  { "llama.attention.sliding_window", INT, 4294967295, NULL, INVALID, "is 4294967295" },
  { "llama.attention.sliding_window", INTS, 4096, NULL, INVALID, "an array" },
  { "llama.attention.sliding_window_pattern", INT, 2000, NULL, INVALID, "is 2000" },
  { "llama.attention.temperature_scale", REAL, 0.5, NULL, UNSUPPORTED, "is 0.5" },
  { "llama.attn_logit_softcapping", REAL, 50, NULL, UNSUPPORTED, "is 50" },
  { "llama.final_logit_softcapping", REAL, 30, NULL, UNSUPPORTED, "is 30" },
  { "llama.attention.scale", REAL, 0.25, NULL, UNSUPPORTED, "is 0.25" },
  { "llama.logit_scale", REAL, 8, NULL, UNSUPPORTED, "is 8" },
  { "llama.vocab_size", INT, 0, NULL, INVALID, "is 0" },
  { "llama.vocab_size", INT, 4294967295, NULL, INVALID, "is 4294967295" },
};

static void
add_wrong_key (LlmTestGguf *built,
               const Key   *key)
{
  gint64 item = isfinite (key->number) ? (gint64) key->number : 0;
  const gint64 items[] = { item, item + 1 };

  switch (key->kind)
    {
    case REMOVED:
      break;
    case INT:
      llm_test_gguf_add_int (built, key->key, LLM_GGUF_UINT32, item);
      break;
    case SIGNED:
      llm_test_gguf_add_int (built, key->key, LLM_GGUF_INT32, item);
      break;
    case REAL:
      llm_test_gguf_add_double (built, key->key, LLM_GGUF_FLOAT32, key->number);
      break;
    case TEXT:
      llm_test_gguf_add_string (built, key->key, key->text);
      break;
    case INTS:
      llm_test_gguf_add_ints (built, key->key, LLM_GGUF_INT32, items, 2);
      break;
    default:
      g_assert_not_reached ();
    }
  llm_test_gguf_skip (built, key->key);
}

static void
test_key (gconstpointer data)
{
  const Key *key = data;
  const LlmTestModel model = { .n_vocab = 16 };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;

  add_wrong_key (built, key);
  llm_test_model_add_keys (&model, built);
  llm_test_model_add_tensors (&model, built);
  bytes = llm_test_gguf_end (built);
  check_refused (bytes, key->code, key->key, key->found);
}

/* Models with one tensor wrong, missing or too much. */
typedef struct
{
  const char *name;
  LlkType type;
  guint64 dims[3];   /* all 0: the tensor is missing */
  float value;
  int code;
  const char *found;
} Tensor;

static const Tensor tensors[] = {
  { "token_embd.weight", LLK_F32, { 0 }, 0, INVALID, "missing" },
  { "output_norm.weight", LLK_F32, { 0 }, 0, INVALID, "missing" },
  { "blk.1.ffn_down.weight", LLK_F32, { 0 }, 0, INVALID, "missing" },
  { "token_embd.weight", LLK_F32, { 64, 17 }, 0, INVALID, "64 × 17" },
  { "token_embd.weight", LLK_F32, { 16, 64 }, 0, INVALID, "64 × 16 is needed" },
  { "output.weight", LLK_F32, { 64, 15 }, 0, INVALID, "64 × 15" },
  { "blk.0.attn_q.weight", LLK_F32, { 64, 32 }, 0, INVALID, "64 × 32" },
  { "blk.0.attn_k.weight", LLK_F32, { 64, 64, 1 }, 0, INVALID, "64 × 64 × 1" },
  { "blk.1.attn_v.weight", LLK_F32, { 64, 32, 2 }, 0, INVALID, "64 × 32 × 2" },
  { "blk.1.attn_output.weight", LLK_F32, { 32, 64 }, 0, INVALID, "32 × 64" },
  { "blk.0.attn_norm.weight", LLK_F32, { 32, 2 }, 0, INVALID, "32 × 2" },
  { "blk.0.attn_norm.weight", LLK_F16, { 64 }, 0, UNSUPPORTED, "F16" },
  { "output_norm.weight", LLK_BF16, { 64 }, 0, UNSUPPORTED, "BF16" },
  { "rope_freqs.weight", LLK_F32, { 16 }, 0, INVALID, "16 × 1" },
  { "rope_freqs.weight", LLK_F32, { 8 }, 0, INVALID, "0 as its item 0" },
  { "rope_freqs.weight", LLK_F32, { 8 }, NAN, INVALID, "nan as its item 0" },
  { "rope_freqs.weight", LLK_F16, { 8 }, 1, UNSUPPORTED, "F16" },
  { "blk.0.attn_q.bias", LLK_F32, { 32 }, 0, INVALID, "32 × 1" },
  { "blk.0.attn_q.bias", LLK_F16, { 64 }, 0, UNSUPPORTED, "F16" },
  { "blk.1.attn_q.bias", LLK_F32, { 64 }, 0, UNSUPPORTED, "is none" },
  { "blk.0.attn_qkv.weight", LLK_F32, { 64, 60 }, 0, INVALID, "64 × 128 is needed" },
  { "blk.1.attn_q_norm.weight", LLK_F32, { 16 }, 0, UNSUPPORTED, "is none" },
  { "blk.2.attn_q.weight", LLK_F32, { 64, 64 }, 0, UNSUPPORTED, "with 2 layers" },
  { "blk.x.attn_q.weight", LLK_F32, { 64, 64 }, 0, UNSUPPORTED, "is none" },
  { "blk.01.attn_q.weight", LLK_F32, { 64, 64 }, 0, UNSUPPORTED, "is none" },
  { "blk.0.output.weight", LLK_F32, { 64, 16 }, 0, UNSUPPORTED, "is none" },
  { "output.bias", LLK_F32, { 16 }, 0, UNSUPPORTED, "is none" },
  { "blk.0.post_ffw_norm.weight", LLK_F32, { 64 }, 1, UNSUPPORTED, "is none" },
};

static void
test_tensor (gconstpointer data)
{
  const Tensor *tensor = data;
  const LlmTestModel model = { .n_vocab = 16, .n_kv_heads = 2 };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autofree float *values = g_new (float, G_N_ELEMENTS (zeros));
  guint n_dims = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (zeros); i++)
    values[i] = tensor->value;
  while (n_dims < G_N_ELEMENTS (tensor->dims) && tensor->dims[n_dims] != 0)
    n_dims++;

  llm_test_model_add_keys (&model, built);
  if (n_dims > 0)
    llm_test_gguf_add_tensor (built, tensor->name, tensor->type, n_dims, tensor->dims, values);
  llm_test_gguf_skip (built, tensor->name);
  llm_test_model_add_tensors (&model, built);
  bytes = llm_test_gguf_end (built);
  check_refused (bytes, tensor->code, tensor->name, tensor->found);
}

/* However much of a file is there: less than all of it is an error, never more. */
static void
test_truncated (void)
{
  const LlmTestModel model = { .n_layers = 1, .n_embd = 32, .n_heads = 2, .n_ff = 32,
                               .n_vocab = 16, .type = LLK_Q8_0, .has_rope_factors = TRUE };
  g_autoptr(GBytes) bytes = llm_test_model_new (&model);
  gsize size = g_bytes_get_size (bytes);
  g_autoptr(GError) error = NULL;

  g_assert_true (load (bytes, &error));
  g_assert_no_error (error);
  for (gsize length = 0; length < size; length++)
    {
      /* A copy of its own, so that a checker sees every byte read behind it. */
      g_autoptr(GBytes) prefix = g_bytes_new (g_bytes_get_data (bytes, NULL), length);

      g_assert_false (load (prefix, &error));
      g_assert_error (error, LLMSVC_ERROR, INVALID);
      g_assert_nonnull (strstr (error->message, FILE_NAME));
      g_clear_error (&error);
    }
}

/* Any byte of the header may have any value: there is an answer, good or bad. */
static void
test_changed_bytes (void)
{
  const LlmTestModel model = { .n_layers = 1, .n_embd = 32, .n_heads = 2, .n_ff = 32,
                               .n_vocab = 16 };
  static const guint8 values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
  g_autoptr(GBytes) bytes = llm_test_model_new (&model);
  gsize size;
  g_autofree guint8 *copy = g_bytes_unref_to_data (g_steal_pointer (&bytes), &size);
  guint n_good = 0, n_bad = 0;

  for (gsize i = 0; i < MIN (size, 3000); i++)
    for (guint j = 0; j < G_N_ELEMENTS (values); j++)
      {
        guint8 saved = copy[i];
        g_autoptr(GBytes) changed = NULL;
        g_autoptr(GError) error = NULL;

        copy[i] = values[j];
        changed = g_bytes_new (copy, size);
        copy[i] = saved;
        if (load (changed, &error))
          n_good++;
        else
          n_bad++;
        g_assert_true (error == NULL || error->domain == LLMSVC_ERROR);
      }
  g_assert_cmpuint (n_good, >, 0);
  g_assert_cmpuint (n_bad, >, 0);
}

static void
add_case (const char    *group,
          guint          index,
          const char    *name,
          gconstpointer  data,
          void         (*test) (gconstpointer data))
{
  g_autofree char *path = g_strdup_printf ("/gguf-bad/%s/%u-%s", group, index, name);

  g_test_add_data_func (path, data, test);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (patches); i++)
    add_case ("patch", i, patches[i].name, &patches[i], test_patch);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    add_case ("shape", i, shapes[i].name, &shapes[i], test_shape);
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    add_case ("key", i, keys[i].key, &keys[i], test_key);
  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++)
    add_case ("tensor", i, tensors[i].name, &tensors[i], test_tensor);
  g_test_add_func ("/gguf-bad/truncated", test_truncated);
  g_test_add_func ("/gguf-bad/changed-bytes", test_changed_bytes);
  return g_test_run ();
}
