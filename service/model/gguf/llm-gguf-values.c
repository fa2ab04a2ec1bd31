/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/gguf/llm-gguf-private.h"

#include <glib/gi18n.h>
#include <string.h>

#include "common/llmsvc-error.h"

/* Items of an array that are copied out: more than any vocabulary has. */
#define MAX_ITEMS (4 * 1024 * 1024)
#define MAX_STRING_BYTES (4 * 1024 * 1024)

typedef struct
{
  const char *name;
  guint width;
} TypeInfo;

static const TypeInfo infos[LLM_GGUF_N_TYPES] = {
  [LLM_GGUF_UINT8] = { "uint8", 1 },     [LLM_GGUF_INT8] = { "int8", 1 },
  [LLM_GGUF_UINT16] = { "uint16", 2 },   [LLM_GGUF_INT16] = { "int16", 2 },
  [LLM_GGUF_UINT32] = { "uint32", 4 },   [LLM_GGUF_INT32] = { "int32", 4 },
  [LLM_GGUF_FLOAT32] = { "float32", 4 }, [LLM_GGUF_BOOL] = { "bool", 1 },
  [LLM_GGUF_STRING] = { "string", 0 },   [LLM_GGUF_ARRAY] = { "array", 0 },
  [LLM_GGUF_UINT64] = { "uint64", 8 },   [LLM_GGUF_INT64] = { "int64", 8 },
  [LLM_GGUF_FLOAT64] = { "float64", 8 },
};

guint
llm_gguf_type_width (guint32 type)
{
  return type < LLM_GGUF_N_TYPES ? infos[type].width : 0;
}

const char *
llm_gguf_type_name (guint32 type)
{
  return type < LLM_GGUF_N_TYPES ? infos[type].name : "unknown";
}

guint64
llm_gguf_load (const guint8 *bytes,
               guint         width)
{
  guint64 value = 0;

  /* lengths of strings, one for each of many tokens */
  if (width == sizeof value)
    {
      memcpy (&value, bytes, sizeof value);
      return GUINT64_FROM_LE (value);
    }
  for (guint i = 0; i < width; i++)
    value |= (guint64) bytes[i] << (8 * i);
  return value;
}

static gboolean
is_integer (LlmGgufType type)
{
  return type != LLM_GGUF_BOOL && type != LLM_GGUF_FLOAT32 && type != LLM_GGUF_FLOAT64 &&
         type != LLM_GGUF_STRING && type != LLM_GGUF_ARRAY;
}

static gboolean
is_signed (LlmGgufType type)
{
  return type == LLM_GGUF_INT8 || type == LLM_GGUF_INT16 || type == LLM_GGUF_INT32 ||
         type == LLM_GGUF_INT64;
}

static gboolean
is_real (LlmGgufType type)
{
  return type == LLM_GGUF_FLOAT32 || type == LLM_GGUF_FLOAT64;
}

/* The bits of an integer, widened with its sign. */
static guint64
load_integer (const guint8 *bytes,
              LlmGgufType   type)
{
  guint width = infos[type].width;
  guint64 value = llm_gguf_load (bytes, width);

  if (is_signed (type) && width < 8 && (value >> (8 * width - 1)) != 0)
    value |= ~G_GUINT64_CONSTANT (0) << (8 * width);
  return value;
}

static double
load_real (const guint8 *bytes,
           LlmGgufType   type)
{
  guint64 bits = llm_gguf_load (bytes, infos[type].width);
  guint32 bits32 = (guint32) bits;
  float single;
  double value;

  memcpy (&single, &bits32, sizeof single);
  memcpy (&value, &bits, sizeof value);
  return type == LLM_GGUF_FLOAT32 ? single : value;
}

static const guint8 *
get_bytes (LlmGguf       *self,
           const GgufKey *key)
{
  return llm_file_map_get_data (self->map) + key->offset;
}

static gboolean
fail_missing (LlmGguf     *self,
              const char  *name,
              GError     **error)
{
  return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL, "the key %s is missing", name);
}

static gboolean
fail_type (LlmGguf        *self,
           const GgufKey  *key,
           const char     *wanted,
           GError        **error)
{
  if (key->type == LLM_GGUF_ARRAY)
    return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is an array of %s, %s is needed", key->name,
                          infos[key->item_type].name, wanted);

  return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                        "%s is of type %s, %s is needed", key->name, infos[key->type].name, wanted);
}

gboolean
llm_gguf_get_uint (LlmGguf        *self,
                   const char     *name,
                   guint64         min,
                   guint64         max,
                   const guint64  *fallback,
                   guint64        *value,
                   GError        **error)
{
  const GgufKey *key;
  guint64 found;
  gboolean is_negative;

  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (name != NULL, FALSE);

  key = llm_gguf_find_key (self, name);
  if (key == NULL && fallback == NULL)
    return fail_missing (self, name, error);
  if (key == NULL)
    {
      *value = *fallback;
      return TRUE;
    }
  if (!is_integer (key->type))
    return fail_type (self, key, N_("an integer"), error);

  found = load_integer (get_bytes (self, key), key->type);
  is_negative = is_signed (key->type) && (gint64) found < 0;
  if (is_negative || found < min || found > max)
    {
      g_autofree char *text = is_negative ? g_strdup_printf ("%" G_GINT64_FORMAT, (gint64) found)
                                          : g_strdup_printf ("%" G_GUINT64_FORMAT, found);

      return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                            "%s is %s, from %ju to %ju is supported", name, text, min, max);
    }
  *value = found;
  return TRUE;
}

gboolean
llm_gguf_get_double (LlmGguf       *self,
                     const char    *name,
                     double         min,
                     double         max,
                     const double  *fallback,
                     double        *value,
                     GError       **error)
{
  const GgufKey *key;
  double found;

  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (name != NULL, FALSE);

  key = llm_gguf_find_key (self, name);
  if (key == NULL && fallback == NULL)
    return fail_missing (self, name, error);
  if (key == NULL)
    {
      *value = *fallback;
      return TRUE;
    }
  if (!is_real (key->type))
    return fail_type (self, key, N_("a float32 or float64"), error);

  found = load_real (get_bytes (self, key), key->type);
  /* Written so that a NaN is outside. */
  if (!(found >= min && found <= max))
    return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %g, from %g to %g is supported", name, found, min, max);
  *value = found;
  return TRUE;
}

gboolean
llm_gguf_get_bool (LlmGguf         *self,
                   const char      *name,
                   const gboolean  *fallback,
                   gboolean        *value,
                   GError         **error)
{
  const GgufKey *key;
  guint8 found;

  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (name != NULL, FALSE);

  key = llm_gguf_find_key (self, name);
  if (key == NULL && fallback == NULL)
    return fail_missing (self, name, error);
  if (key == NULL)
    {
      *value = *fallback;
      return TRUE;
    }
  if (key->type != LLM_GGUF_BOOL)
    return fail_type (self, key, N_("a bool"), error);

  found = *get_bytes (self, key);
  if (found > 1)
    return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, a bool is 0 or 1", name, found);
  *value = found;
  return TRUE;
}

char *
llm_gguf_get_string (LlmGguf     *self,
                     const char  *name,
                     gboolean     optional,
                     GError     **error)
{
  g_autofree char *text = NULL;
  const GgufKey *key;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);

  key = llm_gguf_find_key (self, name);
  if (key == NULL)
    {
      if (!optional)
        fail_missing (self, name, error);
      return NULL;
    }
  if (key->type != LLM_GGUF_STRING)
    {
      fail_type (self, key, N_("a string"), error);
      return NULL;
    }
  if (key->n_items > MAX_STRING_BYTES)
    {
      llm_gguf_fail (self, error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s is a text of %ju bytes, up to %d are supported", name,
                     key->n_items, MAX_STRING_BYTES);
      return NULL;
    }

  /* Copied first: what was checked can't change any more. */
  text = g_strndup ((const char *) get_bytes (self, key), key->n_items);
  if (strlen (text) != key->n_items || !g_utf8_validate (text, -1, NULL))
    {
      g_autofree char *quoted = llm_gguf_quote (text, strlen (text));

      llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s begins with %s, which is no valid UTF-8 text", name, quoted);
      return NULL;
    }
  return g_steal_pointer (&text);
}

/* The array @name, or NULL: with @error unless it is @optional and missing. */
static const GgufKey *
find_array (LlmGguf     *self,
            const char  *name,
            gboolean     optional,
            gboolean   (*is_wanted) (LlmGgufType type),
            const char  *wanted,
            gsize       *n_items,
            GError     **error)
{
  const GgufKey *key = llm_gguf_find_key (self, name);

  *n_items = 0;
  if (key == NULL)
    {
      if (!optional)
        fail_missing (self, name, error);
      return NULL;
    }
  if (key->type != LLM_GGUF_ARRAY || !is_wanted (key->item_type))
    {
      fail_type (self, key, wanted, error);
      return NULL;
    }
  if (key->n_items > MAX_ITEMS)
    {
      llm_gguf_fail (self, error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s has %ju items, up to %d are supported", name,
                     key->n_items, MAX_ITEMS);
      return NULL;
    }
  *n_items = key->n_items;
  return key;
}

static gboolean
is_string (LlmGgufType type)
{
  return type == LLM_GGUF_STRING;
}

LlmGgufString *
llm_gguf_get_strings (LlmGguf     *self,
                      const char  *name,
                      gboolean     optional,
                      gsize       *n_items,
                      GError     **error)
{
  g_autofree LlmGgufString *strings = NULL;
  const guint8 *data;
  const GgufKey *key;
  guint64 at, size;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (n_items != NULL, NULL);

  key = find_array (self, name, optional, is_string, N_("an array of strings"), n_items, error);
  if (key == NULL)
    return NULL;

  data = llm_file_map_get_data (self->map);
  size = llm_file_map_get_size (self->map);
  at = key->offset;
  /* One more, so that an empty array is not NULL. */
  strings = g_new0 (LlmGgufString, *n_items + 1);
  for (gsize i = 0; i < *n_items; i++)
    {
      guint64 length = size - at < 8 ? G_MAXUINT64 : llm_gguf_load (data + at, 8);

      /* Checked when the file was opened, but files can change. */
      if (length == G_MAXUINT64 || length > size - at - 8)
        {
          llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                         "%s was changed while the file was read", name);
          *n_items = 0;
          return NULL;
        }
      strings[i].text = (const char *) data + at + 8;
      strings[i].length = length;
      at += 8 + length;
    }
  return g_steal_pointer (&strings);
}

float *
llm_gguf_get_floats (LlmGguf     *self,
                     const char  *name,
                     gboolean     optional,
                     gsize       *n_items,
                     GError     **error)
{
  const GgufKey *key;
  float *values;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (n_items != NULL, NULL);

  key = find_array (self, name, optional, is_real, N_("an array of float32 or float64"), n_items,
                    error);
  if (key == NULL)
    return NULL;

  values = g_new0 (float, *n_items + 1);
  for (gsize i = 0; i < *n_items; i++)
    values[i] = (float) load_real (get_bytes (self, key) + i * infos[key->item_type].width,
                                   key->item_type);
  return values;
}

gint64 *
llm_gguf_get_ints (LlmGguf     *self,
                   const char  *name,
                   gboolean     optional,
                   gsize       *n_items,
                   GError     **error)
{
  g_autofree gint64 *values = NULL;
  const GgufKey *key;

  g_return_val_if_fail (self != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_return_val_if_fail (n_items != NULL, NULL);

  key = find_array (self, name, optional, is_integer, N_("an array of integers"), n_items, error);
  if (key == NULL)
    return NULL;

  values = g_new0 (gint64, *n_items + 1);
  for (gsize i = 0; i < *n_items; i++)
    {
      guint64 value = load_integer (get_bytes (self, key) + i * infos[key->item_type].width,
                                    key->item_type);

      if (key->item_type == LLM_GGUF_UINT64 && value > G_MAXINT64)
        {
          llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                         "%s: item %zu is %ju, up to %jd is supported", name, i, value, G_MAXINT64);
          *n_items = 0;
          return NULL;
        }
      values[i] = (gint64) value;
    }
  return g_steal_pointer (&values);
}
