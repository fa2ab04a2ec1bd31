/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-gguf.h"

#include <string.h>

#define MAGIC "GGUF"
#define VERSION 3

BenchGguf *
bench_gguf_new (void)
{
  BenchGguf *self = g_new0 (BenchGguf, 1);

  self->bytes = g_byte_array_new ();
  return self;
}

void
bench_gguf_free (BenchGguf *self)
{
  if (self == NULL)
    return;
  g_byte_array_unref (self->bytes);
  g_free (self);
}

/* --- values; files are little-endian --- */

static void
put_u32 (GByteArray *bytes,
         guint32     value)
{
  value = GUINT32_TO_LE (value);
  g_byte_array_append (bytes, (const guint8 *) &value, sizeof value);
}

static void
put_u64 (GByteArray *bytes,
         guint64     value)
{
  value = GUINT64_TO_LE (value);
  g_byte_array_append (bytes, (const guint8 *) &value, sizeof value);
}

static void
put_float (GByteArray *bytes,
           float       value)
{
  guint32 bits;

  memcpy (&bits, &value, sizeof bits);
  put_u32 (bytes, bits);
}

static void
put_string (GByteArray *bytes,
            const char *text)
{
  gsize length = strlen (text);

  put_u64 (bytes, length);
  g_byte_array_append (bytes, (const guint8 *) text, (guint) length);
}

static void
put_key (BenchGguf   *self,
         const char  *key,
         LlmGgufType  type)
{
  put_string (self->bytes, key);
  put_u32 (self->bytes, type);
  self->n_keys++;
}

static void
put_array_key (BenchGguf   *self,
               const char  *key,
               LlmGgufType  type,
               gsize        n_values)
{
  put_key (self, key, LLM_GGUF_ARRAY);
  put_u32 (self->bytes, type);
  put_u64 (self->bytes, n_values);
}

void
bench_gguf_add_uint (BenchGguf  *self,
                     const char *key,
                     guint32     value)
{
  put_key (self, key, LLM_GGUF_UINT32);
  put_u32 (self->bytes, value);
}

void
bench_gguf_add_float (BenchGguf  *self,
                      const char *key,
                      float       value)
{
  put_key (self, key, LLM_GGUF_FLOAT32);
  put_float (self->bytes, value);
}

void
bench_gguf_add_bool (BenchGguf  *self,
                     const char *key,
                     gboolean    value)
{
  const guint8 byte = value ? 1 : 0;

  put_key (self, key, LLM_GGUF_BOOL);
  g_byte_array_append (self->bytes, &byte, 1);
}

void
bench_gguf_add_string (BenchGguf  *self,
                       const char *key,
                       const char *value)
{
  put_key (self, key, LLM_GGUF_STRING);
  put_string (self->bytes, value);
}

void
bench_gguf_add_strings (BenchGguf       *self,
                        const char      *key,
                        const GPtrArray *values)
{
  put_array_key (self, key, LLM_GGUF_STRING, values->len);
  for (guint i = 0; i < values->len; i++)
    put_string (self->bytes, g_ptr_array_index (values, i));
}

void
bench_gguf_add_ints (BenchGguf    *self,
                     const char   *key,
                     const gint32 *values,
                     gsize         n_values)
{
  put_array_key (self, key, LLM_GGUF_INT32, n_values);
  for (gsize i = 0; i < n_values; i++)
    put_u32 (self->bytes, (guint32) values[i]);
}

void
bench_gguf_add_floats (BenchGguf   *self,
                       const char  *key,
                       const float *values,
                       gsize        n_values)
{
  put_array_key (self, key, LLM_GGUF_FLOAT32, n_values);
  for (gsize i = 0; i < n_values; i++)
    put_float (self->bytes, values[i]);
}

/* --- the head --- */

guint64
bench_tensor_get_bytes (const BenchTensor *self)
{
  guint64 n_values = self->dims[0] * self->dims[1] * self->dims[2];

  return n_values / llk_type_block_size (self->type) * llk_type_block_bytes (self->type);
}

static guint64
align (guint64 offset)
{
  return (offset + BENCH_GGUF_ALIGNMENT - 1) / BENCH_GGUF_ALIGNMENT * BENCH_GGUF_ALIGNMENT;
}

GBytes *
bench_gguf_end (BenchGguf    *self,
                const GArray *tensors,
                guint64      *offsets,
                guint64      *file_bytes)
{
  GByteArray *head = g_byte_array_new ();
  guint64 at = 0;

  g_byte_array_append (head, (const guint8 *) MAGIC, strlen (MAGIC));
  put_u32 (head, VERSION);
  put_u64 (head, tensors->len);
  put_u64 (head, self->n_keys);
  g_byte_array_append (head, self->bytes->data, self->bytes->len);

  for (guint i = 0; i < tensors->len; i++)
    {
      const BenchTensor *tensor = &g_array_index (tensors, BenchTensor, i);

      put_string (head, tensor->name);
      put_u32 (head, tensor->n_dims);
      for (guint d = 0; d < tensor->n_dims; d++)
        put_u64 (head, tensor->dims[d]);
      put_u32 (head, tensor->type);
      put_u64 (head, at);
      offsets[i] = at;
      at = align (at + bench_tensor_get_bytes (tensor));
    }
  while (head->len % BENCH_GGUF_ALIGNMENT != 0)
    g_byte_array_append (head, (const guint8 *) "", 1);

  for (guint i = 0; i < tensors->len; i++)
    offsets[i] += head->len;
  *file_bytes = head->len + at;
  return g_byte_array_free_to_bytes (head);
}
