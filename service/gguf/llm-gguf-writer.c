/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gguf/llm-gguf-writer.h"

#include <string.h>

#define VERSION 3
#define ALIGNMENT 32

struct _LlmGgufWriter
{
  GByteArray *keys;      /* (owned): as they are written */
  GByteArray *tensors;   /* (owned): the table */
  GByteArray *data;      /* (owned) */
  guint64 n_keys, n_tensors;
};

LlmGgufWriter *
llm_gguf_writer_new (void)
{
  LlmGgufWriter *self = g_new0 (LlmGgufWriter, 1);

  self->keys = g_byte_array_new ();
  self->tensors = g_byte_array_new ();
  self->data = g_byte_array_new ();
  return self;
}

void
llm_gguf_writer_free (LlmGgufWriter *self)
{
  if (self == NULL)
    return;

  g_byte_array_unref (self->keys);
  g_byte_array_unref (self->tensors);
  g_byte_array_unref (self->data);
  g_free (self);
}

static void
add_uint (GByteArray *to,
          guint64     value,
          guint       width)
{
  guint64 bytes = GUINT64_TO_LE (value);

  g_byte_array_append (to, (const guint8 *) &bytes, width);
}

static void
add_string (GByteArray *to,
            const char *text)
{
  add_uint (to, strlen (text), 8);
  g_byte_array_append (to, (const guint8 *) text, (guint) strlen (text));
}

static void
align (GByteArray *bytes,
       gsize       before)
{
  while ((before + bytes->len) % ALIGNMENT != 0)
    add_uint (bytes, 0, 1);
}

/* --- keys --- */

static void
begin_key (LlmGgufWriter *self,
           const char    *key,
           LlmGgufType    type)
{
  add_string (self->keys, key);
  add_uint (self->keys, type, 4);
  self->n_keys++;
}

static void
begin_array (LlmGgufWriter *self,
             const char    *key,
             LlmGgufType    item_type,
             gsize          n)
{
  begin_key (self, key, LLM_GGUF_ARRAY);
  add_uint (self->keys, item_type, 4);
  add_uint (self->keys, n, 8);
}

void
llm_gguf_writer_add_string (LlmGgufWriter *self,
                            const char    *key,
                            const char    *text)
{
  begin_key (self, key, LLM_GGUF_STRING);
  add_string (self->keys, text);
}

void
llm_gguf_writer_add_uint (LlmGgufWriter *self,
                          const char    *key,
                          guint32        value)
{
  begin_key (self, key, LLM_GGUF_UINT32);
  add_uint (self->keys, value, 4);
}

void
llm_gguf_writer_add_uints (LlmGgufWriter *self,
                           const char    *key,
                           const guint32 *items,
                           gsize          n)
{
  begin_array (self, key, LLM_GGUF_UINT32, n);
  for (gsize i = 0; i < n; i++)
    add_uint (self->keys, items[i], 4);
}

void
llm_gguf_writer_add_floats (LlmGgufWriter *self,
                            const char    *key,
                            const float   *items,
                            gsize          n)
{
  begin_array (self, key, LLM_GGUF_FLOAT32, n);
  for (gsize i = 0; i < n; i++)
    {
      guint32 bits;

      memcpy (&bits, &items[i], sizeof bits);
      add_uint (self->keys, bits, 4);
    }
}

/* Bytes of @n strings at @bytes. */
static gsize
measure_strings (const guint8 *bytes,
                 guint64       n)
{
  gsize at = 0;

  for (guint64 i = 0; i < n; i++)
    at += 8 + llm_gguf_load (bytes + at, 8);
  return at;
}

static void
copy_key (LlmGgufWriter    *self,
          LlmGguf          *from,
          const LlmGgufKey *key)
{
  const guint8 *data = (const guint8 *) llm_file_map_get_data (from->map) + key->offset;
  gsize size = llm_gguf_type_width (key->type);

  if (key->type == LLM_GGUF_ARRAY)
    {
      begin_array (self, key->name, key->item_type, key->n_items);
      size = key->item_type == LLM_GGUF_STRING
               ? measure_strings (data, key->n_items)
               : key->n_items * llm_gguf_type_width (key->item_type);
    }
  else
    begin_key (self, key->name, key->type);
  if (key->type == LLM_GGUF_STRING)
    {
      add_uint (self->keys, key->n_items, 8);
      size = key->n_items;
    }
  g_byte_array_append (self->keys, data, (guint) size);
}

static void
copy_tensor (LlmGgufWriter       *self,
             LlmGguf             *from,
             const LlmGgufTensor *tensor)
{
  align (self->data, 0);
  add_string (self->tensors, tensor->name);
  add_uint (self->tensors, tensor->n_dims, 4);
  for (guint i = 0; i < tensor->n_dims; i++)
    add_uint (self->tensors, tensor->dims[i], 8);
  add_uint (self->tensors, tensor->type, 4);
  add_uint (self->tensors, self->data->len, 8);
  g_byte_array_append (self->data,
                       (const guint8 *) llm_file_map_get_data (from->map) + tensor->offset,
                       (guint) tensor->bytes);
  self->n_tensors++;
}

static gboolean
has_any_prefix (const char        *name,
                const char *const *prefixes)
{
  for (guint i = 0; prefixes[i] != NULL; i++)
    if (g_str_has_prefix (name, prefixes[i]))
      return TRUE;
  return FALSE;
}

void
llm_gguf_writer_copy (LlmGgufWriter     *self,
                      LlmGguf           *from,
                      const char *const *except)
{
  for (guint i = 0; i < from->keys->len; i++)
    {
      const LlmGgufKey *key = &g_array_index (from->keys, LlmGgufKey, i);

      /* what is written has the default */
      if (!has_any_prefix (key->name, except) && !g_str_equal (key->name, "general.alignment"))
        copy_key (self, from, key);
    }
  for (guint i = 0; i < from->tensors->len; i++)
    copy_tensor (self, from, llm_gguf_get_tensor (from, i));
}

gboolean
llm_gguf_writer_save (LlmGgufWriter  *self,
                      const char     *path,
                      GError        **error)
{
  g_autoptr(GByteArray) file = g_byte_array_new ();

  g_byte_array_append (file, (const guint8 *) "GGUF", 4);
  add_uint (file, VERSION, 4);
  add_uint (file, self->n_tensors, 8);
  add_uint (file, self->n_keys, 8);
  g_byte_array_append (file, self->keys->data, self->keys->len);
  g_byte_array_append (file, self->tensors->data, self->tensors->len);
  align (file, 0);
  g_byte_array_append (file, self->data->data, self->data->len);
  return g_file_set_contents_full (path, (const char *) file->data, file->len,
                                   G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE,
                                   0644, error);
}
