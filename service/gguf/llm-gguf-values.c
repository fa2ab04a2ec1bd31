/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-fail.h"
#include "gguf/llm-gguf.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error-private.h"

/* Items of an array that are copied out: more than any vocabulary has. */
#define MAX_ITEMS (4 * 1024 * 1024)
#define MAX_STRING_BYTES (4 * 1024 * 1024)
/* Characters of text from a file that a message repeats. */
#define MAX_QUOTED 80

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

#define BIT(type) (1u << (type))
#define SIGNED (BIT (LLM_GGUF_INT8) | BIT (LLM_GGUF_INT16) | BIT (LLM_GGUF_INT32) | \
                BIT (LLM_GGUF_INT64))
#define INTEGERS (SIGNED | BIT (LLM_GGUF_UINT8) | BIT (LLM_GGUF_UINT16) | \
                  BIT (LLM_GGUF_UINT32) | BIT (LLM_GGUF_UINT64))
#define REALS (BIT (LLM_GGUF_FLOAT32) | BIT (LLM_GGUF_FLOAT64))

/* The bits of an integer, widened with its sign. */
static guint64
load_integer (const guint8 *bytes,
              LlmGgufType   type)
{
  guint width = infos[type].width;
  guint64 value = llm_gguf_load (bytes, width);

  if ((BIT (type) & SIGNED) != 0 && width < 8 && (value >> (8 * width - 1)) != 0)
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

char *
llm_gguf_quote (const char *text,
                gsize       length)
{
  /* Bytes enough for that many characters; what is cut apart becomes a sign. */
  g_autofree char *valid = g_utf8_make_valid (length > 0 ? text : "",
                                              (gssize) MIN (length, MAX_QUOTED * 4));
  GString *quoted = g_string_new ("“");
  guint n = 0;

  for (const char *p = valid; *p != '\0' && n < MAX_QUOTED; p = g_utf8_next_char (p), n++)
    {
      gunichar c = g_utf8_get_char (p);

      g_string_append_unichar (quoted, g_unichar_isprint (c) ? c : 0xfffd);
    }
  if (length > MAX_QUOTED * 4 || n == MAX_QUOTED)
    g_string_append (quoted, "…");
  g_string_append (quoted, "”");
  return g_string_free (quoted, FALSE);
}

gboolean
llm_gguf_fail_of (LlmGguf  *self,
                  GError  **error,
                  GError   *cause)
{
  g_autoptr(GError) owned = cause;
  g_autofree char *path = g_filename_display_name (self->path);

  g_propagate_error (error, llmsvc_error_new (cause->code, cause, "“%s”: %s", path,
                                              cause->message));
  return FALSE;
}

gboolean
llm_gguf_fail (LlmGguf     *self,
               GError     **error,
               int          code,
               const char  *format,
               ...)
{
  va_list args;
  GError *cause;

  va_start (args, format);
  cause = llmsvc_error_new_valist (code, NULL, format, args);
  va_end (args);
  return llm_gguf_fail_of (self, error, cause);
}

const LlmGgufKey *
llm_gguf_find_key (LlmGguf    *self,
                   const char *key)
{
  guint place = GPOINTER_TO_UINT (g_hash_table_lookup (self->key_index, key));

  return place > 0 ? &g_array_index (self->keys, LlmGgufKey, place - 1) : NULL;
}

static const guint8 *
get_bytes (LlmGguf          *self,
           const LlmGgufKey *key)
{
  return llm_file_map_get_data (self->map) + key->offset;
}

/* @types: a set of those that are @wanted, of the value or of an array's items. @key: (out): NULL
 * when @optional and missing. */
static gboolean
find_value (LlmGguf           *self,
            const char        *name,
            gboolean           optional,
            gboolean           is_array,
            guint              types,
            const char        *wanted,
            const LlmGgufKey **key,
            GError           **error)
{
  const LlmGgufKey *found = *key = llm_gguf_find_key (self, name);

  if (found == NULL)
    return optional || llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                                      "the key %s is missing", name);
  if (is_array && found->type == LLM_GGUF_ARRAY && (types & BIT (found->item_type)) != 0)
    {
      if (found->n_items > MAX_ITEMS)
        return llm_gguf_fail (self, error, LLMSVC_ERROR_UNSUPPORTED,
                              "%s has %ju items, up to %d are supported", name, found->n_items,
                              MAX_ITEMS);
      return TRUE;
    }
  if (!is_array && (types & BIT (found->type)) != 0)
    return TRUE;

  if (found->type == LLM_GGUF_ARRAY)
    return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is an array of %s, %s is needed", name,
                          infos[found->item_type].name, wanted);
  return llm_gguf_fail (self, error, LLMSVC_ERROR_INVALID_MODEL, "%s is of type %s, %s is needed",
                        name, infos[found->type].name, wanted);
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
  const LlmGgufKey *key;
  guint64 found;
  gboolean is_negative;

  if (!find_value (self, name, fallback != NULL, FALSE, INTEGERS, N_("an integer"), &key, error))
    return FALSE;

  found = key != NULL ? load_integer (get_bytes (self, key), key->type) : *fallback;
  is_negative = key != NULL && (BIT (key->type) & SIGNED) != 0 && (gint64) found < 0;
  if (key != NULL && (is_negative || found < min || found > max))
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
  const LlmGgufKey *key;
  double found;

  if (!find_value (self, name, fallback != NULL, FALSE, REALS, N_("a float32 or float64"), &key,
                   error))
    return FALSE;

  found = key != NULL ? load_real (get_bytes (self, key), key->type) : *fallback;
  /* Written so that a NaN is outside. */
  if (key != NULL && !(found >= min && found <= max))
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
  const LlmGgufKey *key;
  guint8 found;

  if (!find_value (self, name, fallback != NULL, FALSE, BIT (LLM_GGUF_BOOL), N_("a bool"), &key,
                   error))
    return FALSE;

  found = key != NULL ? *get_bytes (self, key) : (guint8) *fallback;
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
  const LlmGgufKey *key;

  if (!find_value (self, name, optional, FALSE, BIT (LLM_GGUF_STRING), N_("a string"), &key, error)
      || key == NULL)
    return NULL;
  if (key->n_items > MAX_STRING_BYTES)
    return llm_gguf_fail_null (self, error, LLMSVC_ERROR_UNSUPPORTED,
                               "%s is a text of %ju bytes, up to %d are supported", name,
                               key->n_items, MAX_STRING_BYTES);

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

/* (transfer full): room for the items of an array, and one more, so that an empty array is not
 * NULL; NULL with @key set where it is missing. */
static gpointer
find_array (LlmGguf           *self,
            const char        *name,
            gboolean           optional,
            guint              types,
            const char        *wanted,
            gsize              item_bytes,
            const LlmGgufKey **key,
            gsize             *n_items,
            GError           **error)
{
  *n_items = 0;
  if (!find_value (self, name, optional, TRUE, types, wanted, key, error) || *key == NULL)
    return NULL;
  *n_items = (*key)->n_items;
  return g_malloc0_n (*n_items + 1, item_bytes);
}

LlmGgufString *
llm_gguf_get_strings (LlmGguf     *self,
                      const char  *name,
                      gboolean     optional,
                      gsize       *n_items,
                      GError     **error)
{
  const guint8 *data = llm_file_map_get_data (self->map);
  guint64 size = llm_file_map_get_size (self->map);
  const LlmGgufKey *key;
  g_autofree LlmGgufString *items =
    find_array (self, name, optional, BIT (LLM_GGUF_STRING), N_("an array of strings"),
                sizeof *items, &key, n_items, error);
  guint64 at = items != NULL ? key->offset : 0;

  for (gsize i = 0; i < *n_items; i++)
    {
      guint64 length = size - at < 8 ? G_MAXUINT64 : llm_gguf_load (data + at, 8);

      /* Checked when the file was opened, but files can change. */
      if (length == G_MAXUINT64 || length > size - at - 8)
        return llm_gguf_fail_null (self, error, LLMSVC_ERROR_INVALID_MODEL,
                                   "%s was changed while the file was read", name);
      items[i] = (LlmGgufString) { (const char *) data + at + 8, length };
      at += 8 + length;
    }
  return g_steal_pointer (&items);
}

float *
llm_gguf_get_floats (LlmGguf     *self,
                     const char  *name,
                     gboolean     optional,
                     gsize       *n_items,
                     GError     **error)
{
  const LlmGgufKey *key;
  float *items = find_array (self, name, optional, REALS, N_("an array of float32 or float64"),
                             sizeof *items, &key, n_items, error);

  for (gsize i = 0; i < *n_items; i++)
    items[i] = (float) load_real (get_bytes (self, key) + i * infos[key->item_type].width,
                                  key->item_type);
  return items;
}

static gint64 *
get_ints (LlmGguf     *self,
          const char  *name,
          gboolean     optional,
          guint        types,
          gsize       *n_items,
          GError     **error)
{
  const LlmGgufKey *key;
  g_autofree gint64 *items = find_array (self, name, optional, types,
                                         N_("an array of integers"), sizeof *items, &key, n_items,
                                         error);

  for (gsize i = 0; i < *n_items; i++)
    {
      guint64 value = load_integer (get_bytes (self, key) + i * infos[key->item_type].width,
                                    key->item_type);

      if (key->item_type == LLM_GGUF_UINT64 && value > G_MAXINT64)
        return llm_gguf_fail_null (self, error, LLMSVC_ERROR_INVALID_MODEL,
                                   "%s: item %zu is %ju, up to %jd is supported", name, i, value,
                                   G_MAXINT64);
      items[i] = (gint64) value;
    }
  return g_steal_pointer (&items);
}

gint64 *
llm_gguf_get_ints (LlmGguf     *self,
                   const char  *name,
                   gboolean     optional,
                   gsize       *n_items,
                   GError     **error)
{
  return get_ints (self, name, optional, INTEGERS, n_items, error);
}

gint64 *
llm_gguf_get_flags (LlmGguf     *self,
                    const char  *name,
                    gsize       *n_items,
                    GError     **error)
{
  return get_ints (self, name, FALSE, INTEGERS | BIT (LLM_GGUF_BOOL), n_items, error);
}

float *
llm_gguf_get_numbers (LlmGguf     *gguf,
                      const char  *key,
                      gsize        n,
                      double       most,
                      GError     **error)
{
  gsize n_items;
  g_autofree float *items = llm_gguf_get_floats (gguf, key, FALSE, &n_items, error);

  if (items == NULL)
    return NULL;
  if (n_items != n)
    {
      llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL, "%s has %zu items, %zu are needed",
                     key, n_items, n);
      return NULL;
    }
  for (gsize i = 0; i < n; i++)
    if (!(items[i] >= 0 && (double) items[i] <= most && isfinite (items[i])))
      {
        llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                       "item %zu of %s is %g; 0 to %g is possible", i, key, (double) items[i],
                       most);
        return NULL;
      }
  return g_steal_pointer (&items);
}
