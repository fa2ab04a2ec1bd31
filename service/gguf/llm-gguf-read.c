/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "gguf/llm-gguf.h"

#include <string.h>
#include <xxhash.h>

#include "common/llmsvc-error-private.h"

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

/* Where in the file the reader is. The first error stays, and all that is read behind it is 0. */
typedef struct
{
  LlmGguf *gguf;
  const guint8 *data;
  guint64 size;
  guint64 at;
  GError *what;    /* its message tells what is being read */
  GError *error;   /* (nullable) */
} Reader;

/* Says what is read from now on. */
static void G_GNUC_PRINTF (2, 3)
begin_reading (Reader     *reader,
               const char *format,
               ...)
{
  va_list args;

  g_clear_error (&reader->what);
  va_start (args, format);
  reader->what = llmsvc_error_new_valist (LLMSVC_ERROR_INVALID_MODEL, NULL, format, args);
  va_end (args);
}

/* Sets an error that may have the message of what is being read. Returns FALSE. */
static gboolean G_GNUC_PRINTF (3, 4)
fail_reading (Reader     *reader,
              int         code,
              const char *format,
              ...)
{
  va_list args;
  GError *cause;

  va_start (args, format);
  cause = llmsvc_error_new_valist (code, reader->what, format, args);
  va_end (args);
  return llm_gguf_fail_of (reader->gguf, &reader->error, cause);
}

/* Skips @n_bytes; NULL when the file ends before. */
static const guint8 *
take (Reader     *reader,
      guint64     n_bytes)
{
  const guint8 *bytes = reader->data + reader->at;

  if (reader->error != NULL)
    return NULL;
  if (reader->size - reader->at < n_bytes)
    {
      fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                    "the file ends within %s at byte %ju: it is damaged or not complete",
                    reader->what->message, reader->size);
      return NULL;
    }
  reader->at += n_bytes;
  return bytes;
}

static guint64
read_uint (Reader     *reader,
           guint       width)
{
  const guint8 *bytes = take (reader, width);

  return bytes != NULL ? llm_gguf_load (bytes, width) : 0;
}

/* Passes over a string and says where it is; NULL after an error. */
static const char *
read_string (Reader     *reader,
             guint64    *length)
{
  *length = read_uint (reader, 8);
  if (reader->error == NULL && *length > reader->size - reader->at)
    fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                  "%s has a length of %ju bytes, but only %ju are left in the file",
                  reader->what->message, *length, reader->size - reader->at);
  return (const char *) take (reader, *length);
}

/* A name of limited length that is text and not empty; NULL after an error. */
static char *
read_name (Reader     *reader,
           guint64     max_length)
{
  guint64 length;
  const char *text = read_string (reader, &length);

  if (text == NULL)
    return NULL;
  if (length == 0 || length > max_length)
    {
      fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                    "%s has a length of %ju, from 1 to %ju is allowed",
                    reader->what->message, length, max_length);
      return NULL;
    }
  if (!g_utf8_validate_len (text, length, NULL))
    {
      g_autofree char *quoted = llm_gguf_quote (text, length);

      fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                    "%s is %s, which is no valid UTF-8 text", reader->what->message, quoted);
      return NULL;
    }
  return g_strndup (text, length);
}

static gboolean
read_header (Reader   *reader,
             guint64  *n_tensors,
             guint64  *n_keys)
{
  LlmGguf *gguf = reader->gguf;
  GError **error = &reader->error;
  guint version;

  if (reader->size < 4 || memcmp (reader->data, "GGUF", 4) != 0)
    {
      g_autofree char *found = llm_gguf_quote ((const char *) reader->data, MIN (reader->size, 4));

      return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                           "this is no GGUF file: it begins with %s, not with “GGUF”", found);
    }
  reader->at = 4;

  begin_reading (reader, "the version");
  version = gguf->version = (guint) read_uint (reader, 4);
  /* A small number seen from the wrong end. */
  if (version != 0 && (version & 0xffff) == 0)
    return fail_reading (reader, LLMSVC_ERROR_UNSUPPORTED,
                         "version: the file is big-endian (0x%08x), only little-endian files are "
                         "supported", version);
  if (*error == NULL && version != 2 && version != 3)
    return fail_reading (reader, LLMSVC_ERROR_UNSUPPORTED,
                         "version: GGUF version %u is not supported, versions 2 and 3 are",
                         version);

  begin_reading (reader, "the number of tensors");
  *n_tensors = read_uint (reader, 8);
  begin_reading (reader, "the number of keys");
  *n_keys = read_uint (reader, 8);
  if (*n_keys > MAX_KEYS || *n_keys > (reader->size - reader->at) / MIN_KEY_BYTES)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "number of keys: %ju is more than the file has room for or than the "
                         "limit of %d", *n_keys, MAX_KEYS);
  if (*error == NULL &&
      (*n_tensors > MAX_TENSORS || *n_tensors > (reader->size - reader->at) / MIN_TENSOR_BYTES))
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "number of tensors: %ju is more than the file has room for or than the "
                         "limit of %d", *n_tensors, MAX_TENSORS);
  return *error == NULL;
}

static gboolean
read_array (Reader     *reader,
            LlmGgufKey *key)
{
  GError **error = &reader->error;
  guint64 item_type = read_uint (reader, 4);
  guint64 length;
  guint width;

  key->n_items = read_uint (reader, 8);
  if (*error != NULL)
    return FALSE;
  if (item_type == LLM_GGUF_ARRAY)
    return fail_reading (reader, LLMSVC_ERROR_UNSUPPORTED,
                         "%s is an array of arrays, which is not supported", reader->what->message);
  if (item_type >= LLM_GGUF_N_TYPES)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s is an array of type %u, types 0 to %d are known",
                         reader->what->message, (guint) item_type, LLM_GGUF_N_TYPES - 1);
  key->item_type = (LlmGgufType) item_type;
  key->offset = reader->at;

  width = llm_gguf_type_width (key->item_type);
  /* An empty string takes 8 bytes. */
  if (key->n_items > (reader->size - reader->at) / (width != 0 ? width : 8))
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s is an array of %ju items, more than the file has room for",
                         reader->what->message, key->n_items);

  if (width != 0)
    return take (reader, key->n_items * width) != NULL;
  for (guint64 i = 0; i < key->n_items && *error == NULL; i++)
    read_string (reader, &length);
  return *error == NULL;
}

static gboolean
read_value (Reader     *reader,
            LlmGgufKey *key)
{
  g_autofree char *quoted = llm_gguf_quote (key->name, strlen (key->name));
  guint64 type;

  begin_reading (reader, "key %s", quoted);
  type = read_uint (reader, 4);
  if (type >= LLM_GGUF_N_TYPES)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s has type %u, types 0 to %d are known",
                         reader->what->message, (guint) type, LLM_GGUF_N_TYPES - 1);
  if (reader->error != NULL)
    return FALSE;
  key->type = (LlmGgufType) type;

  if (key->type == LLM_GGUF_ARRAY)
    return read_array (reader, key);
  key->offset = reader->at;
  if (key->type != LLM_GGUF_STRING)
    return take (reader, llm_gguf_type_width (key->type)) != NULL;
  key->offset += 8;
  return read_string (reader, &key->n_items) != NULL;
}

static gboolean
read_keys (Reader  *reader,
           guint64  n_keys)
{
  LlmGguf *gguf = reader->gguf;

  for (guint64 i = 0; i < n_keys; i++)
    {
      LlmGgufKey key = { 0 };

      begin_reading (reader, "the name of key %ju", i);
      key.name = read_name (reader, MAX_KEY_LENGTH);
      if (key.name == NULL)
        return FALSE;

      /* The table owns the name from here on, whatever follows. */
      g_array_append_val (gguf->keys, key);
      if (!g_hash_table_insert (gguf->key_index, key.name, GUINT_TO_POINTER (gguf->keys->len)))
        {
          g_autofree char *quoted = llm_gguf_quote (key.name, strlen (key.name));

          return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL, "key %s is there twice", quoted);
        }
      if (!read_value (reader, &g_array_index (gguf->keys, LlmGgufKey, i)))
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
    "NVFP4",
  };

  if (type < G_N_ELEMENTS (names))
    return g_strdup_printf ("%s (%u)", names[type], type);
  return g_strdup_printf ("%u, which is unknown", type);
}

char *
llm_gguf_list_types (void)
{
  GString *list = g_string_new (NULL);

  for (guint32 type = 0; type < LLK_TYPE_LIMIT; type++)
    if (llk_type_is_known (type))
      g_string_append_printf (list, "%s%s", list->len > 0 ? ", " : "", llk_type_name (type));
  return g_string_free (list, FALSE);
}

static gboolean
read_dims (Reader        *reader,
           LlmGgufTensor *tensor,
           guint64       *n_values)
{
  guint64 n_dims = read_uint (reader, 4);

  if (reader->error != NULL)
    return FALSE;
  if (n_dims == 0 || n_dims > LLM_GGUF_MAX_DIMS)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s has %u dimensions, from 1 to %d are allowed",
                         reader->what->message, (guint) n_dims, LLM_GGUF_MAX_DIMS);
  tensor->n_dims = (guint) n_dims;

  for (guint i = 0; i < LLM_GGUF_MAX_DIMS; i++)
    {
      tensor->dims[i] = i < n_dims ? read_uint (reader, 8) : 1;
      if (reader->error != NULL)
        return FALSE;
      if (tensor->dims[i] == 0 || tensor->dims[i] > G_MAXINT64 / *n_values)
        return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                             "%s: dimension %u is %ju, which is none or too many",
                             reader->what->message, i, tensor->dims[i]);
      *n_values *= tensor->dims[i];
    }
  return TRUE;
}

/* Reads all of an entry that can be checked on its own. The offset still counts
 * from the start of the data. */
static gboolean
read_tensor (Reader        *reader,
             LlmGgufTensor *tensor,
             guint64        alignment)
{
  g_autofree char *quoted = llm_gguf_quote (tensor->name, strlen (tensor->name));
  GError **error = &reader->error;
  guint64 n_values = 1, block_size, block_bytes;
  guint32 type;

  begin_reading (reader, "tensor %s", quoted);
  if (!read_dims (reader, tensor, &n_values))
    return FALSE;
  type = (guint32) read_uint (reader, 4);
  tensor->offset = read_uint (reader, 8);
  if (*error != NULL)
    return FALSE;

  if (!llk_type_is_known (type))
    {
      g_autofree char *found = describe_type (type);
      g_autofree char *supported = llm_gguf_list_types ();

      return fail_reading (reader, LLMSVC_ERROR_UNSUPPORTED,
                           "%s is of type %s, which is not supported; supported are %s",
                           reader->what->message, found, supported);
    }
  tensor->type = (LlkType) type;

  block_size = llk_type_block_size (tensor->type);
  block_bytes = llk_type_block_bytes (tensor->type);
  if (tensor->dims[0] % block_size != 0)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s has rows of %ju values, which is no multiple of the %ju in a block "
                         "of %s",
                         reader->what->message, tensor->dims[0], block_size,
                         llk_type_name (tensor->type));
  if (n_values / block_size > G_MAXINT64 / block_bytes)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s has %ju values, which is too many", reader->what->message, n_values);
  tensor->bytes = n_values / block_size * block_bytes;

  if (tensor->offset % alignment != 0)
    return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                         "%s is at offset %ju, which is no multiple of the alignment %ju",
                         reader->what->message, tensor->offset, alignment);
  return TRUE;
}

static gboolean
read_tensors (Reader  *reader,
              guint64  n_tensors,
              guint64  alignment)
{
  LlmGguf *gguf = reader->gguf;

  for (guint64 i = 0; i < n_tensors; i++)
    {
      LlmGgufTensor tensor = { 0 };
      char *name;

      begin_reading (reader, "the name of tensor %ju", i);
      tensor.name = name = read_name (reader, MAX_TENSOR_NAME_LENGTH);
      if (name == NULL)
        return FALSE;

      g_array_append_val (gguf->tensors, tensor);
      if (!g_hash_table_insert (gguf->tensor_index, name, GUINT_TO_POINTER (gguf->tensors->len)))
        {
          g_autofree char *quoted = llm_gguf_quote (name, strlen (name));

          return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                               "tensor %s is there twice", quoted);
        }
      if (!read_tensor (reader, &g_array_index (gguf->tensors, LlmGgufTensor, i), alignment))
        return FALSE;
    }
  return TRUE;
}

/* Makes offsets count from the start of the file and keeps the tensors within it. */
static gboolean
place_tensors (Reader  *reader,
               guint64  alignment)
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

          return fail_reading (reader, LLMSVC_ERROR_INVALID_MODEL,
                               "tensor %s takes %ju bytes from offset %ju, but the file has only "
                               "%ju bytes of tensor data: it is damaged or not complete",
                               quoted, tensor->bytes, tensor->offset, room);
        }
      tensor->offset += start;
    }
  return TRUE;
}

/* The keys that say how the file is to be read. */
static gboolean
read_layout (LlmGguf  *gguf,
             guint64  *alignment,
             GError  **error)
{
  const guint64 default_alignment = DEFAULT_ALIGNMENT;

  if (!llm_gguf_get_uint (gguf, "general.alignment", MIN_ALIGNMENT, MAX_ALIGNMENT,
                          &default_alignment, alignment, error))
    return FALSE;
  if ((*alignment & (*alignment - 1)) != 0)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "general.alignment is %ju, a power of two from %d to %d is needed",
                          *alignment, MIN_ALIGNMENT, MAX_ALIGNMENT);
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

  if (!read_header (&reader, &n_tensors, &n_keys) ||
      !read_keys (&reader, n_keys) ||
      !read_layout (self, &alignment, &reader.error) ||
      !read_tensors (&reader, n_tensors, alignment) ||
      !place_tensors (&reader, alignment))
    g_propagate_error (error, reader.error);
  g_clear_error (&reader.what);
  if (reader.error != NULL)
    return FALSE;

  self->header_hash = XXH3_64bits (reader.data, reader.at);

  if (llm_file_map_is_damaged (self->map))
    return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was read");
  return TRUE;
}
