/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/gguf/llm-gguf-private.h"

#include <glib/gi18n.h>
#include <string.h>
#include <xxhash.h>

#include "common/llmsvc-error.h"

#define DEFAULT_ALIGNMENT 32
#define MIN_ALIGNMENT 8
#define MAX_ALIGNMENT (1024 * 1024)

/* Far above what models have, and low enough to keep tables of hostile files small. */
#define MAX_KEYS 65536
#define MAX_TENSORS 65536
#define MAX_KEY_LENGTH 1024
#define MAX_TENSOR_NAME_LENGTH 256

#define MIN_KEY_BYTES (8 + 1 + 4 + 1)
#define MIN_TENSOR_BYTES (8 + 1 + 4 + 8 + 4 + 8)

typedef struct
{
  LlmGguf *gguf;
  const guint8 *data;
  guint64 size;
  guint64 at;
} Reader;

/* Says where the file ends too early. */
static gboolean
fail_truncated (Reader     *reader,
                const char *what,
                GError    **error)
{
  return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                        "the file ends within %s at byte %ju: it is damaged or not complete",
                        what, reader->size);
}

static gboolean
read_uint (Reader     *reader,
           guint       width,
           const char *what,
           guint64    *value,
           GError    **error)
{
  *value = 0;
  if (reader->size - reader->at < width)
    return fail_truncated (reader, what, error);

  *value = llm_gguf_load (reader->data + reader->at, width);
  reader->at += width;
  return TRUE;
}

/* Passes over a string and says where it is. */
static gboolean
read_string (Reader      *reader,
             const char  *what,
             const char **text,
             guint64     *length,
             GError     **error)
{
  if (!read_uint (reader, 8, what, length, error))
    return FALSE;

  if (*length > reader->size - reader->at)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has a length of %ju bytes, but only %ju are left in the file",
                          what, *length, reader->size - reader->at);

  *text = (const char *) reader->data + reader->at;
  reader->at += *length;
  return TRUE;
}

/* A name of limited length that is text and not empty. */
static char *
read_name (Reader     *reader,
           const char *what,
           guint64     max_length,
           GError    **error)
{
  const char *text = NULL;
  guint64 length = 0;

  if (!read_string (reader, what, &text, &length, error))
    return NULL;

  if (length == 0 || length > max_length)
    {
      llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s has a length of %ju, from 1 to %ju is allowed", what, length, max_length);
      return NULL;
    }
  if (!g_utf8_validate_len (text, length, NULL))
    {
      g_autofree char *quoted = llm_gguf_quote (text, length);

      llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s is %s, which is no valid UTF-8 text", what, quoted);
      return NULL;
    }
  return g_strndup (text, length);
}

static gboolean
read_header (Reader   *reader,
             guint64  *n_tensors,
             guint64  *n_keys,
             GError  **error)
{
  guint64 version;

  if (reader->size < 4 || memcmp (reader->data, "GGUF", 4) != 0)
    {
      g_autofree char *found = llm_gguf_quote ((const char *) reader->data, MIN (reader->size, 4));

      return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                            "this is no GGUF file: it begins with %s, not with “GGUF”", found);
    }
  reader->at = 4;

  if (!read_uint (reader, 4, N_("the version"), &version, error))
    return FALSE;
  /* A small number seen from the wrong end. */
  if (version != 0 && (version & 0xffff) == 0)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "version: the file is big-endian (0x%08x), only little-endian files are "
                          "supported",
                          (guint) version);
  if (version != 2 && version != 3)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "version: GGUF version %u is not supported, versions 2 and 3 are",
                          (guint) version);
  reader->gguf->version = (guint) version;

  if (!read_uint (reader, 8, N_("the number of tensors"), n_tensors, error) ||
      !read_uint (reader, 8, N_("the number of keys"), n_keys, error))
    return FALSE;

  if (*n_keys > MAX_KEYS || *n_keys > (reader->size - reader->at) / MIN_KEY_BYTES)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "number of keys: %ju is more than the file has room for or than the "
                          "limit of %d",
                          *n_keys, MAX_KEYS);
  if (*n_tensors > MAX_TENSORS || *n_tensors > (reader->size - reader->at) / MIN_TENSOR_BYTES)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "number of tensors: %ju is more than the file has room for or than the "
                          "limit of %d",
                          *n_tensors, MAX_TENSORS);
  return TRUE;
}

static gboolean
read_array (Reader      *reader,
            GgufKey     *key,
            const char  *what,
            GError     **error)
{
  guint64 item_type;
  guint width;

  if (!read_uint (reader, 4, what, &item_type, error) ||
      !read_uint (reader, 8, what, &key->n_items, error))
    return FALSE;

  if (item_type == LLM_GGUF_ARRAY)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s is an array of arrays, which is not supported", what);
  if (item_type >= LLM_GGUF_N_TYPES)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is an array of type %u, types 0 to %d are known", what,
                          (guint) item_type, LLM_GGUF_N_TYPES - 1);
  key->item_type = (LlmGgufType) item_type;
  key->offset = reader->at;

  width = llm_gguf_type_width (key->item_type);
  /* An empty string takes 8 bytes. */
  if (key->n_items > (reader->size - reader->at) / (width != 0 ? width : 8))
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is an array of %ju items, more than the file has room for", what,
                          key->n_items);

  if (width != 0)
    {
      reader->at += key->n_items * width;
      return TRUE;
    }
  for (guint64 i = 0; i < key->n_items; i++)
    {
      const char *text;
      guint64 length;

      if (!read_string (reader, what, &text, &length, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_value (Reader   *reader,
            GgufKey  *key,
            GError  **error)
{
  g_autofree char *quoted = llm_gguf_quote (key->name, strlen (key->name));
  g_autofree char *what = g_strdup_printf (N_("key %s"), quoted);
  const char *text;
  guint64 type;
  guint width;

  if (!read_uint (reader, 4, what, &type, error))
    return FALSE;
  if (type >= LLM_GGUF_N_TYPES)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has type %u, types 0 to %d are known", what, (guint) type,
                          LLM_GGUF_N_TYPES - 1);
  key->type = (LlmGgufType) type;

  if (key->type == LLM_GGUF_ARRAY)
    return read_array (reader, key, what, error);
  if (key->type == LLM_GGUF_STRING)
    {
      key->offset = reader->at + 8;
      return read_string (reader, what, &text, &key->n_items, error);
    }

  width = llm_gguf_type_width (key->type);
  if (reader->size - reader->at < width)
    return fail_truncated (reader, what, error);
  key->offset = reader->at;
  reader->at += width;
  return TRUE;
}

static gboolean
read_keys (Reader   *reader,
           guint64   n_keys,
           GError  **error)
{
  LlmGguf *gguf = reader->gguf;

  for (guint64 i = 0; i < n_keys; i++)
    {
      g_autofree char *what = g_strdup_printf (N_("the name of key %ju"), i);
      GgufKey key = { NULL };

      key.name = read_name (reader, what, MAX_KEY_LENGTH, error);
      if (key.name == NULL)
        return FALSE;

      /* The table owns the name from here on, whatever follows. */
      g_array_append_val (gguf->keys, key);
      if (!g_hash_table_insert (gguf->key_index, key.name, GUINT_TO_POINTER (gguf->keys->len)))
        {
          g_autofree char *quoted = llm_gguf_quote (key.name, strlen (key.name));

          return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                "key %s is there twice", quoted);
        }
      if (!read_value (reader, &g_array_index (gguf->keys, GgufKey, i), error))
        return FALSE;
    }
  return TRUE;
}

static char *
describe_type (guint32 type)
{
  static const char *const names[] = {
    "F32",    "F16",   "Q4_0",   "Q4_1",     "Q4_2",     "Q4_3",     "Q5_0",    "Q5_1",
    "Q8_0",   "Q8_1",  "Q2_K",   "Q3_K",     "Q4_K",     "Q5_K",     "Q6_K",    "Q8_K",
    "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL",   "IQ3_S",    "IQ2_S",   "IQ4_XS",
    "I8",     "I16",   "I32",    "I64",      "F64",      "IQ1_M",    "BF16",    "Q4_0_4_4",
    "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0", "IQ4_NL_4_4", "IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4",
  };

  if (type < G_N_ELEMENTS (names))
    return g_strdup_printf ("%s (%u)", names[type], type);
  return g_strdup_printf ("%u, which is unknown", type);
}

static char *
list_supported_types (void)
{
  GString *list = g_string_new (NULL);

  for (guint32 type = 0; type < 64; type++)
    if (llk_type_is_known (type))
      g_string_append_printf (list, "%s%s", list->len > 0 ? ", " : "", llk_type_name (type));
  return g_string_free (list, FALSE);
}

static gboolean
read_dims (Reader         *reader,
           LlmGgufTensor  *tensor,
           guint64        *n_values,
           const char     *what,
           GError        **error)
{
  guint64 n_dims;

  *n_values = 1;
  if (!read_uint (reader, 4, what, &n_dims, error))
    return FALSE;
  if (n_dims == 0 || n_dims > LLM_GGUF_MAX_DIMS)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has %u dimensions, from 1 to %d are allowed", what, (guint) n_dims,
                          LLM_GGUF_MAX_DIMS);
  tensor->n_dims = (guint) n_dims;

  for (guint i = 0; i < LLM_GGUF_MAX_DIMS; i++)
    {
      tensor->dims[i] = 1;
      if (i < n_dims && !read_uint (reader, 8, what, &tensor->dims[i], error))
        return FALSE;
      if (tensor->dims[i] == 0 || tensor->dims[i] > G_MAXINT64 / *n_values)
        return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "%s: dimension %u is %ju, which is none or too many", what, i,
                              tensor->dims[i]);
      *n_values *= tensor->dims[i];
    }
  return TRUE;
}

/* Reads all of an entry that can be checked on its own. The offset still counts
 * from the start of the data. */
static gboolean
read_tensor (Reader         *reader,
             LlmGgufTensor  *tensor,
             guint64         alignment,
             GError        **error)
{
  g_autofree char *quoted = llm_gguf_quote (tensor->name, strlen (tensor->name));
  g_autofree char *what = g_strdup_printf (N_("tensor %s"), quoted);
  guint64 n_values, type, block_size, block_bytes;

  if (!read_dims (reader, tensor, &n_values, what, error) ||
      !read_uint (reader, 4, what, &type, error) ||
      !read_uint (reader, 8, what, &tensor->offset, error))
    return FALSE;

  if (!llk_type_is_known ((guint32) type))
    {
      g_autofree char *found = describe_type ((guint32) type);
      g_autofree char *supported = list_supported_types ();

      return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                            "%s is of type %s, which is not supported; supported are %s", what,
                            found, supported);
    }
  tensor->type = (LlkType) type;

  block_size = llk_type_block_size (tensor->type);
  block_bytes = llk_type_block_bytes (tensor->type);
  if (tensor->dims[0] % block_size != 0)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has rows of %ju values, which is no multiple of the %ju in a block "
                          "of %s",
                          what, tensor->dims[0], block_size, llk_type_name (tensor->type));
  if (n_values / block_size > G_MAXINT64 / block_bytes)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has %ju values, which is too many", what, n_values);
  tensor->bytes = n_values / block_size * block_bytes;

  if (tensor->offset % alignment != 0)
    return llm_gguf_fail (reader->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is at offset %ju, which is no multiple of the alignment %ju",
                          what, tensor->offset, alignment);
  return TRUE;
}

static gboolean
read_tensors (Reader   *reader,
              guint64   n_tensors,
              guint64   alignment,
              GError  **error)
{
  LlmGguf *gguf = reader->gguf;

  for (guint64 i = 0; i < n_tensors; i++)
    {
      g_autofree char *what = g_strdup_printf (N_("the name of tensor %ju"), i);
      char *name = read_name (reader, what, MAX_TENSOR_NAME_LENGTH, error);
      LlmGgufTensor tensor = { .name = name };

      if (name == NULL)
        return FALSE;

      g_array_append_val (gguf->tensors, tensor);
      if (!g_hash_table_insert (gguf->tensor_index, name, GUINT_TO_POINTER (gguf->tensors->len)))
        {
          g_autofree char *quoted = llm_gguf_quote (name, strlen (name));

          return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                "tensor %s is there twice", quoted);
        }
      if (!read_tensor (reader, &g_array_index (gguf->tensors, LlmGgufTensor, i), alignment,
                        error))
        return FALSE;
    }
  return TRUE;
}

/* Makes offsets count from the start of the file and keeps the tensors within it. */
static gboolean
place_tensors (Reader   *reader,
               guint64   alignment,
               GError  **error)
{
  LlmGguf *gguf = reader->gguf;
  guint64 start = (reader->at + alignment - 1) / alignment * alignment;
  guint64 room = start < reader->size ? reader->size - start : 0;

  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      LlmGgufTensor *tensor = &g_array_index (gguf->tensors, LlmGgufTensor, i);

      if (tensor->offset > room || tensor->bytes > room - tensor->offset)
        {
          g_autofree char *quoted = llm_gguf_quote (tensor->name, strlen (tensor->name));

          return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                "tensor %s takes %ju bytes from offset %ju, but the file has only "
                                "%ju bytes of tensor data: it is damaged or not complete",
                                quoted, tensor->bytes, tensor->offset, room);
        }
      tensor->offset += start;
    }
  return TRUE;
}

static gboolean
read_alignment (LlmGguf  *gguf,
                guint64  *alignment,
                GError  **error)
{
  const guint64 fallback = DEFAULT_ALIGNMENT;

  if (!llm_gguf_get_uint (gguf, "general.alignment", MIN_ALIGNMENT, MAX_ALIGNMENT, &fallback,
                          alignment, error))
    return FALSE;
  if ((*alignment & (*alignment - 1)) != 0)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "general.alignment is %ju, a power of two from %d to %d is needed",
                          *alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
  return TRUE;
}

static gboolean
check_is_whole (LlmGguf  *gguf,
                GError  **error)
{
  const guint64 one = 1;
  guint64 n_parts;

  if (!llm_gguf_get_uint (gguf, "split.count", 0, G_MAXUINT16, &one, &n_parts, error))
    return FALSE;
  if (n_parts > 1)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "split.count is %ju: models split into several files are not supported, "
                          "join the parts into one file",
                          n_parts);
  return TRUE;
}

gboolean
llm_gguf_read (LlmGguf  *self,
               GError  **error)
{
  Reader reader = { .gguf = self,
                    .data = llm_file_map_get_data (self->map),
                    .size = llm_file_map_get_size (self->map) };
  guint64 n_tensors = 0, n_keys = 0, alignment = 0;

  if (!read_header (&reader, &n_tensors, &n_keys, error) ||
      !read_keys (&reader, n_keys, error) ||
      !check_is_whole (self, error) ||
      !read_alignment (self, &alignment, error) ||
      !read_tensors (&reader, n_tensors, alignment, error) ||
      !place_tensors (&reader, alignment, error))
    return FALSE;

  self->header_hash = XXH3_64bits (reader.data, reader.at);

  if (llm_file_map_is_damaged (self->map))
    return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was read");
  return TRUE;
}
