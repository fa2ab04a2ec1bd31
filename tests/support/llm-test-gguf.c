/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-gguf.h"

#include <math.h>
#include <string.h>

struct _LlmTestGguf
{
  guint32 version;
  guint32 alignment;
  guint64 n_keys;
  guint64 n_tensors;
  GHashTable *skipped;  /* (element-type utf8) (owned) */
  GByteArray *out;      /* (unowned): where the value of the last key goes */
  GByteArray *keys;
  GByteArray *dropped;
  GByteArray *tensors;
  GByteArray *data;
};

static void
append_le (GByteArray *out,
           guint64     value,
           guint       width)
{
  for (guint i = 0; i < width; i++)
    {
      guint8 byte = (guint8) (value >> (8 * i));

      g_byte_array_append (out, &byte, 1);
    }
}

static void
append_bytes (GByteArray   *out,
              gconstpointer bytes,
              gsize         length)
{
  if (length > 0)
    g_byte_array_append (out, bytes, (guint) length);
}

static void
append_text (GByteArray *out,
             const char *text)
{
  append_le (out, strlen (text), 8);
  append_bytes (out, text, strlen (text));
}

static void
append_padding (GByteArray *out,
                guint32     alignment)
{
  while (alignment > 1 && out->len % alignment != 0)
    append_le (out, 0, 1);
}

static guint
get_width (LlmGgufType type)
{
  switch (type)
    {
    case LLM_GGUF_UINT8:
    case LLM_GGUF_INT8:
    case LLM_GGUF_BOOL:
      return 1;
    case LLM_GGUF_UINT16:
    case LLM_GGUF_INT16:
      return 2;
    case LLM_GGUF_UINT32:
    case LLM_GGUF_INT32:
    case LLM_GGUF_FLOAT32:
      return 4;
    case LLM_GGUF_UINT64:
    case LLM_GGUF_INT64:
    case LLM_GGUF_FLOAT64:
      return 8;
    case LLM_GGUF_STRING:
    case LLM_GGUF_ARRAY:
    case LLM_GGUF_N_TYPES:
    default:
      g_assert_not_reached ();
    }
}

static void
append_real (GByteArray *out,
             LlmGgufType type,
             double      value)
{
  float single = (float) value;
  guint32 bits32;
  guint64 bits64;

  g_assert (type == LLM_GGUF_FLOAT32 || type == LLM_GGUF_FLOAT64);
  memcpy (&bits32, &single, sizeof bits32);
  memcpy (&bits64, &value, sizeof bits64);
  append_le (out, type == LLM_GGUF_FLOAT32 ? bits32 : bits64, get_width (type));
}

static void
begin_key (LlmTestGguf *self,
           const char  *key,
           guint32      type)
{
  gboolean is_skipped = g_hash_table_contains (self->skipped, key);

  self->out = is_skipped ? self->dropped : self->keys;
  append_text (self->out, key);
  append_le (self->out, type, 4);
  self->n_keys += is_skipped ? 0 : 1;
}

static void
begin_array (LlmTestGguf *self,
             const char  *key,
             guint32      type,
             guint64      n_values)
{
  begin_key (self, key, LLM_GGUF_ARRAY);
  append_le (self->out, type, 4);
  append_le (self->out, n_values, 8);
}

LlmTestGguf *
llm_test_gguf_new (guint version)
{
  LlmTestGguf *self = g_new0 (LlmTestGguf, 1);

  self->version = version;
  self->alignment = 32;
  self->keys = g_byte_array_new ();
  self->dropped = g_byte_array_new ();
  self->skipped = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->tensors = g_byte_array_new ();
  self->data = g_byte_array_new ();
  return self;
}

void
llm_test_gguf_free (LlmTestGguf *self)
{
  g_hash_table_unref (self->skipped);
  g_byte_array_unref (self->keys);
  g_byte_array_unref (self->dropped);
  g_byte_array_unref (self->tensors);
  g_byte_array_unref (self->data);
  g_free (self);
}

void
llm_test_gguf_set_alignment (LlmTestGguf *self,
                             guint32      alignment)
{
  g_assert (self->n_tensors == 0);
  self->alignment = alignment;
  llm_test_gguf_add_int (self, "general.alignment", LLM_GGUF_UINT32, alignment);
}

void
llm_test_gguf_skip (LlmTestGguf *self,
                    const char  *name)
{
  g_hash_table_add (self->skipped, g_strdup (name));
}

void
llm_test_gguf_add_int (LlmTestGguf *self,
                       const char  *key,
                       LlmGgufType  type,
                       gint64       value)
{
  begin_key (self, key, type);
  append_le (self->out, (guint64) value, get_width (type));
}

void
llm_test_gguf_add_double (LlmTestGguf *self,
                          const char  *key,
                          LlmGgufType  type,
                          double       value)
{
  begin_key (self, key, type);
  append_real (self->out, type, value);
}

void
llm_test_gguf_add_string (LlmTestGguf *self,
                          const char  *key,
                          const char  *value)
{
  begin_key (self, key, LLM_GGUF_STRING);
  append_text (self->out, value);
}

void
llm_test_gguf_add_strings (LlmTestGguf       *self,
                           const char        *key,
                           const char *const *values,
                           gsize              n_values)
{
  begin_array (self, key, LLM_GGUF_STRING, n_values);
  for (gsize i = 0; i < n_values; i++)
    append_text (self->out, values[i]);
}

void
llm_test_gguf_add_ints (LlmTestGguf  *self,
                        const char   *key,
                        LlmGgufType   type,
                        const gint64 *values,
                        gsize         n_values)
{
  begin_array (self, key, type, n_values);
  for (gsize i = 0; i < n_values; i++)
    append_le (self->out, (guint64) values[i], get_width (type));
}

void
llm_test_gguf_add_floats (LlmTestGguf *self,
                          const char  *key,
                          LlmGgufType  type,
                          const float *values,
                          gsize        n_values)
{
  begin_array (self, key, type, n_values);
  for (gsize i = 0; i < n_values; i++)
    append_real (self->out, type, values[i]);
}

void
llm_test_gguf_add_raw (LlmTestGguf  *self,
                       const char   *key,
                       guint32       type,
                       gconstpointer bytes,
                       gsize         length)
{
  begin_key (self, key, type);
  append_bytes (self->out, bytes, length);
}

void
llm_test_gguf_add_tensor (LlmTestGguf   *self,
                          const char    *name,
                          LlkType        type,
                          guint          n_dims,
                          const guint64 *dims,
                          const float   *values)
{
  g_autofree guint8 *data = NULL;
  gsize n_values = 1, bytes;

  for (guint i = 0; i < n_dims; i++)
    n_values *= dims[i];
  g_assert (dims[0] % llk_type_block_size (type) == 0);

  bytes = llm_test_row_bytes (type, n_values);
  data = g_malloc (bytes);
  llm_test_quantize (type, values, n_values, data);
  llm_test_gguf_add_raw_tensor (self, name, type, n_dims, dims, -1, data, bytes);
}

void
llm_test_gguf_add_raw_tensor (LlmTestGguf   *self,
                              const char    *name,
                              guint32        type,
                              guint          n_dims,
                              const guint64 *dims,
                              gint64         offset,
                              gconstpointer  bytes,
                              gsize          length)
{
  if (g_hash_table_contains (self->skipped, name))
    return;

  append_padding (self->data, self->alignment);
  append_text (self->tensors, name);
  append_le (self->tensors, n_dims, 4);
  for (guint i = 0; i < n_dims; i++)
    append_le (self->tensors, dims[i], 8);
  append_le (self->tensors, type, 4);
  append_le (self->tensors, offset >= 0 ? (guint64) offset : self->data->len, 8);
  self->n_tensors++;

  append_bytes (self->data, bytes, length);
}

GBytes *
llm_test_gguf_end (LlmTestGguf *self)
{
  GByteArray *out = g_byte_array_new ();

  append_bytes (out, "GGUF", 4);
  append_le (out, self->version, 4);
  append_le (out, self->n_tensors, 8);
  append_le (out, self->n_keys, 8);
  append_bytes (out, self->keys->data, self->keys->len);
  append_bytes (out, self->tensors->data, self->tensors->len);
  if (self->data->len > 0)
    {
      append_padding (out, self->alignment);
      append_bytes (out, self->data->data, self->data->len);
    }
  return g_byte_array_free_to_bytes (out);
}

/* Nearest, ties to even; what is too large becomes infinite. */
static guint16
half_from_float (float value)
{
  guint32 bits, sign, mantissa, shift, rest, half;
  gint32 exponent;

  memcpy (&bits, &value, sizeof bits);
  sign = (bits >> 16) & 0x8000;
  exponent = (gint32) ((bits >> 23) & 0xff) - 127 + 15;
  mantissa = (bits & 0x7fffff) | 0x800000;

  if (((bits >> 23) & 0xff) == 0xff)
    return (guint16) (sign | 0x7c00 | ((bits & 0x7fffff) != 0 ? 0x200 : 0));
  if (exponent >= 31)
    return (guint16) (sign | 0x7c00);
  if (exponent < -10)
    return (guint16) sign;

  shift = exponent > 0 ? 13 : (guint32) (14 - exponent);
  half = mantissa >> shift;
  rest = mantissa & ((1u << shift) - 1);
  if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (half & 1) != 0))
    half++;
  /* The leading bit of a normal number adds one to the exponent below it. */
  if (exponent > 0)
    half += (guint32) (exponent - 1) << 10;
  return (guint16) (sign | half);
}

static float
float_from_half (guint16 half)
{
  int exponent = (half >> 10) & 31;
  float mantissa = half & 0x3ff;
  float value;

  if (exponent == 31)
    value = mantissa != 0 ? NAN : INFINITY;
  else if (exponent == 0)
    value = ldexpf (mantissa, -24);
  else
    value = ldexpf (mantissa + 1024, exponent - 25);
  return (half & 0x8000) != 0 ? -value : value;
}

static guint16
bfloat_from_float (float value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  return (guint16) ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float
float_from_bfloat (guint16 bfloat)
{
  guint32 bits = (guint32) bfloat << 16;
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

static void
quantize_q8_0 (const float *values,
               guint8      *out)
{
  float largest = 0, scale;
  guint16 half;

  for (guint i = 0; i < 32; i++)
    largest = MAX (largest, fabsf (values[i]));

  scale = largest / 127;
  half = half_from_float (scale);
  memcpy (out, &half, 2);
  for (guint i = 0; i < 32; i++)
    out[2 + i] = (guint8) (gint8) (scale > 0 ? lrintf (values[i] / scale) : 0);
}

/* Value i of a block is in the low half of byte i, value 16 + i in its high half. */
static void
quantize_q4_0 (const float *values,
               guint8      *out)
{
  float extreme = 0, scale;
  guint16 half;
  guint8 q[32];

  for (guint i = 0; i < 32; i++)
    if (fabsf (values[i]) > fabsf (extreme))
      extreme = values[i];

  scale = extreme / -8;
  half = half_from_float (scale);
  memcpy (out, &half, 2);
  for (guint i = 0; i < 32; i++)
    q[i] = (guint8) CLAMP (lrintf (scale != 0 ? values[i] / scale : 0) + 8, 0, 15);
  for (guint i = 0; i < 16; i++)
    out[2 + i] = (guint8) (q[i] | q[16 + i] << 4);
}

gsize
llm_test_row_bytes (LlkType type,
                    gsize   n)
{
  return n / llk_type_block_size (type) * llk_type_block_bytes (type);
}

void
llm_test_quantize (LlkType      type,
                   const float *values,
                   gsize        n,
                   void        *out)
{
  guint8 *bytes = out;
  guint16 *halves = out;

  switch (type)
    {
    case LLK_F32:
      memcpy (out, values, n * sizeof *values);
      break;
    case LLK_F16:
      for (gsize i = 0; i < n; i++)
        halves[i] = half_from_float (values[i]);
      break;
    case LLK_BF16:
      for (gsize i = 0; i < n; i++)
        halves[i] = bfloat_from_float (values[i]);
      break;
    case LLK_Q8_0:
      for (gsize i = 0; i < n / 32; i++)
        quantize_q8_0 (values + 32 * i, bytes + 34 * i);
      break;
    case LLK_Q4_0:
      for (gsize i = 0; i < n / 32; i++)
        quantize_q4_0 (values + 32 * i, bytes + 18 * i);
      break;
    default:
      g_assert_not_reached ();
    }
}

void
llm_test_dequantize (LlkType     type,
                     const void *data,
                     gsize       n,
                     float      *values)
{
  const guint8 *bytes = data;

  for (gsize i = 0; i < n; i++)
    {
      const guint8 *block = bytes + i / 32 * llk_type_block_bytes (type);
      guint16 half;

      switch (type)
        {
        case LLK_F32:
          memcpy (&values[i], bytes + 4 * i, 4);
          break;
        case LLK_F16:
          memcpy (&half, bytes + 2 * i, 2);
          values[i] = float_from_half (half);
          break;
        case LLK_BF16:
          memcpy (&half, bytes + 2 * i, 2);
          values[i] = float_from_bfloat (half);
          break;
        case LLK_Q8_0:
          memcpy (&half, block, 2);
          values[i] = float_from_half (half) * (gint8) block[2 + i % 32];
          break;
        case LLK_Q4_0:
          memcpy (&half, block, 2);
          values[i] = float_from_half (half) *
                      ((i % 32 < 16 ? block[2 + i % 32] & 15 : block[2 + i % 32 - 16] >> 4) - 8);
          break;
        default:
          g_assert_not_reached ();
        }
    }
}
