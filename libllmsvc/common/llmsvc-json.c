/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * By hand and not by json-glib: version 1.6 of that recurses once per bracket of
 * hostile input, ends strings at \u0000 and cuts integers to 63 bits, all
 * without an error.
 */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-json.h"

#include <errno.h>
#include <glib/gi18n-lib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define MAX_DEPTH        16
#define MAX_KEYS         256
#define MAX_ITEMS        65536
#define MAX_NUMBER_BYTES 64

/* The rest of the text. No byte at or after end is read. */
typedef struct
{
  const char *next;
  const char *end;
} Cursor;

void
llmsvc_json_append_escaped (GString    *out,
                            const char *text,
                            gsize       length)
{
  for (gsize i = 0; i < length; i++)
    {
      guchar c = (guchar) text[i];

      switch (c)
        {
        case '"':
        case '\\':
          g_string_append_c (out, '\\');
          g_string_append_c (out, (char) c);
          break;
        case '\n':
          g_string_append (out, "\\n");
          break;
        case '\0':
          g_string_append (out, "\xef\xbf\xbd");
          break;
        default:
          if (c < 0x20 || c == 0x7f)
            g_string_append_printf (out, "\\u%04x", c);
          else
            g_string_append_c (out, (char) c);
          break;
        }
    }
}

static void
append_string (GString    *out,
               const char *text)
{
  g_string_append_c (out, '"');
  llmsvc_json_append_escaped (out, text, strlen (text));
  g_string_append_c (out, '"');
}

/* The shortest form that reads back as the same number, and always as a real. */
static void
append_double (GString *out,
               double   value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (!isfinite (value))
    {
      g_string_append (out, "null");
      return;
    }

  g_ascii_formatd (buffer, sizeof buffer, "%.15g", value);
  if (g_ascii_strtod (buffer, NULL) != value)
    g_ascii_formatd (buffer, sizeof buffer, "%.17g", value);
  g_string_append (out, buffer);
  if (strpbrk (buffer, ".e") == NULL)
    g_string_append (out, ".0");
}

static void
append_strings (GString  *out,
                GVariant *value)
{
  GVariantIter iter;
  const char *string;
  gboolean is_first = TRUE;

  g_string_append_c (out, '[');
  g_variant_iter_init (&iter, value);
  while (g_variant_iter_next (&iter, "&s", &string))
    {
      if (!is_first)
        g_string_append_c (out, ',');
      append_string (out, string);
      is_first = FALSE;
    }
  g_string_append_c (out, ']');
}

static void
append_object (GString  *out,
               GVariant *value)
{
  GVariantIter iter;
  const char *key;
  GVariant *item;
  gboolean is_first = TRUE;

  g_string_append_c (out, '{');
  g_variant_iter_init (&iter, value);
  while (g_variant_iter_next (&iter, "{&sv}", &key, &item))
    {
      g_autoptr(GVariant) owned = item;

      if (!is_first)
        g_string_append_c (out, ',');
      append_string (out, key);
      g_string_append_c (out, ':');
      llmsvc_json_append_value (out, owned);
      is_first = FALSE;
    }
  g_string_append_c (out, '}');
}

void
llmsvc_json_append_value (GString  *out,
                          GVariant *value)
{
  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_BOOLEAN:
      g_string_append (out, g_variant_get_boolean (value) ? "true" : "false");
      break;
    case G_VARIANT_CLASS_UINT32:
      g_string_append_printf (out, "%u", g_variant_get_uint32 (value));
      break;
    case G_VARIANT_CLASS_UINT64:
      g_string_append_printf (out, "%" G_GUINT64_FORMAT, g_variant_get_uint64 (value));
      break;
    case G_VARIANT_CLASS_DOUBLE:
      append_double (out, g_variant_get_double (value));
      break;
    case G_VARIANT_CLASS_STRING:
      append_string (out, g_variant_get_string (value, NULL));
      break;
    default:
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY))
        {
          append_strings (out, value);
          break;
        }
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
        {
          append_object (out, value);
          break;
        }
      g_critical ("A value of type %s has no form in JSON here", g_variant_get_type_string (value));
      g_string_append (out, "null");
      break;
    }
}

static gboolean
fail (GError     **error,
      const char  *what)
{
  g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, what);
  return FALSE;
}

static void
skip_space (Cursor *cursor)
{
  while (cursor->next < cursor->end &&
         (*cursor->next == ' ' || *cursor->next == '\t' || *cursor->next == '\r' ||
          *cursor->next == '\n'))
    cursor->next++;
}

/* Steps over @c and what space is before it. */
static gboolean
accept (Cursor *cursor,
        char    c)
{
  skip_space (cursor);
  if (cursor->next == cursor->end || *cursor->next != c)
    return FALSE;

  cursor->next++;
  return TRUE;
}

static gboolean
accept_word (Cursor     *cursor,
             const char *word)
{
  gsize length = strlen (word);

  if ((gsize) (cursor->end - cursor->next) < length || memcmp (cursor->next, word, length) != 0)
    return FALSE;

  cursor->next += length;
  return TRUE;
}

static gboolean
read_hex4 (Cursor   *cursor,
           gunichar *value)
{
  *value = 0;
  if (cursor->end - cursor->next < 4)
    return FALSE;

  for (guint i = 0; i < 4; i++)
    {
      int digit = g_ascii_xdigit_value (*cursor->next++);

      if (digit < 0)
        return FALSE;
      *value = *value * 16 + (gunichar) digit;
    }

  return TRUE;
}

/* What follows \u: one character, or a pair of surrogates. */
static gboolean
read_unicode_escape (Cursor  *cursor,
                     GString *out)
{
  gunichar c, low;

  if (!read_hex4 (cursor, &c) || c == 0)
    return FALSE;
  if (c >= 0xd800 && c < 0xdc00)
    {
      if (!accept_word (cursor, "\\u") || !read_hex4 (cursor, &low) || low < 0xdc00 ||
          low > 0xdfff)
        return FALSE;
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
  if (!g_unichar_validate (c))
    return FALSE;

  g_string_append_unichar (out, c);
  return TRUE;
}

static gboolean
read_escape (Cursor  *cursor,
             GString *out)
{
  static const char from[] = "\"\\/bfnrt";
  static const char to[] = "\"\\/\b\f\n\r\t";
  const char *found;
  char c;

  if (cursor->next == cursor->end)
    return FALSE;

  c = *cursor->next++;
  if (c == 'u')
    return read_unicode_escape (cursor, out);

  found = c != '\0' ? strchr (from, c) : NULL;
  if (found == NULL)
    return FALSE;

  g_string_append_c (out, to[found - from]);
  return TRUE;
}

/* A string from its opening quote; the text is valid UTF-8 already. */
static char *
read_string (Cursor  *cursor,
             GError **error)
{
  g_autoptr(GString) out = g_string_new (NULL);

  if (!accept (cursor, '"'))
    {
      fail (error, _("a string is missing"));
      return NULL;
    }

  while (cursor->next < cursor->end)
    {
      const char *run = cursor->next;

      while (cursor->next < cursor->end && *cursor->next != '"' && *cursor->next != '\\' &&
             (guchar) *cursor->next >= 0x20)
        cursor->next++;
      g_string_append_len (out, run, cursor->next - run);

      if (cursor->next == cursor->end || (guchar) *cursor->next < 0x20)
        break;
      if (*cursor->next++ == '"')
        return g_string_free (g_steal_pointer (&out), FALSE);
      if (!read_escape (cursor, out))
        {
          fail (error, _("a string has a wrong escape"));
          return NULL;
        }
    }

  fail (error, _("a string does not end"));
  return NULL;
}

static gsize
count_digits (const char *text)
{
  gsize n = 0;

  while (g_ascii_isdigit (text[n]))
    n++;
  return n;
}

/* The grammar of JSON: no leading zeros, no bare point, no plus sign. */
static gboolean
is_number (const char *text,
           gboolean   *is_real)
{
  const char *p = text + (*text == '-' ? 1 : 0);
  gsize n = count_digits (p);

  *is_real = FALSE;
  if (n == 0 || (n > 1 && *p == '0'))
    return FALSE;
  p += n;
  if (*p == '.')
    {
      *is_real = TRUE;
      n = count_digits (++p);
      if (n == 0)
        return FALSE;
      p += n;
    }
  if (*p == 'e' || *p == 'E')
    {
      *is_real = TRUE;
      p++;
      if (*p == '+' || *p == '-')
        p++;
      n = count_digits (p);
      if (n == 0)
        return FALSE;
      p += n;
    }

  return *p == '\0';
}

/* (transfer floating): t, x for what is below zero, d for the rest. */
static GVariant *
read_number (Cursor  *cursor,
             GError **error)
{
  char text[MAX_NUMBER_BYTES];
  gsize length = 0;
  gboolean is_real;
  double real;

  while (cursor->next < cursor->end && length < sizeof text - 1 &&
         (g_ascii_isalnum (*cursor->next) || strchr ("+-.", *cursor->next) != NULL) &&
         *cursor->next != '\0')
    text[length++] = *cursor->next++;
  text[length] = '\0';

  if (!is_number (text, &is_real))
    {
      fail (error, _("a value is neither number, string, list nor object"));
      return NULL;
    }
  if (!is_real)
    {
      errno = 0;
      if (text[0] != '-')
        {
          guint64 whole = g_ascii_strtoull (text, NULL, 10);

          if (errno == 0)
            return g_variant_new_uint64 (whole);
        }
      else
        {
          gint64 whole = g_ascii_strtoll (text, NULL, 10);

          if (errno == 0)
            return g_variant_new_int64 (whole);
        }
    }

  real = g_ascii_strtod (text, NULL);
  if (!isfinite (real))
    {
      fail (error, _("a number is too large"));
      return NULL;
    }
  return g_variant_new_double (real);
}

static gboolean read_value (Cursor    *cursor,
                            guint      depth,
                            GVariant **value,
                            GError   **error);

/* (out) @value: `as` when all are strings, NULL otherwise. */
static gboolean
read_list (Cursor    *cursor,
           guint      depth,
           GVariant **value,
           GError   **error)
{
  g_autoptr(GPtrArray) strings = g_ptr_array_new_with_free_func (g_free);
  gboolean only_strings = TRUE;
  guint n_items = 0;

  cursor->next++;
  if (!accept (cursor, ']'))
    {
      do
        {
          g_autoptr(GVariant) item = NULL;

          if (++n_items > MAX_ITEMS)
            return fail (error, _("a list has too many entries"));
          if (!read_value (cursor, depth + 1, &item, error))
            return FALSE;
          if (item != NULL && g_variant_is_of_type (item, G_VARIANT_TYPE_STRING))
            g_ptr_array_add (strings, g_variant_dup_string (item, NULL));
          else
            only_strings = FALSE;
        }
      while (accept (cursor, ','));
      if (!accept (cursor, ']'))
        return fail (error, _("a list does not end"));
    }

  if (only_strings)
    *value = g_variant_ref_sink (g_variant_new_strv ((const char *const *) strings->pdata,
                                                     (gssize) strings->len));
  return TRUE;
}

/* (out) @value: a{sv} of the values that have a type there; the others are from
 * a later version. */
static gboolean
read_object (Cursor    *cursor,
             guint      depth,
             GVariant **value,
             GError   **error)
{
  g_autoptr(GVariantDict) dict = g_variant_dict_new (NULL);
  guint n_keys = 0;

  cursor->next++;
  if (!accept (cursor, '}'))
    {
      do
        {
          g_autofree char *key = read_string (cursor, error);
          g_autoptr(GVariant) item = NULL;

          if (key == NULL)
            return FALSE;
          if (!accept (cursor, ':'))
            return fail (error, _("a key has no value"));
          if (!read_value (cursor, depth + 1, &item, error))
            return FALSE;
          if (++n_keys > MAX_KEYS)
            return fail (error, _("an object has too many keys"));
          if (g_variant_dict_contains (dict, key))
            return fail (error, _("a key is there twice"));
          if (item != NULL)
            g_variant_dict_insert_value (dict, key, item);
        }
      while (accept (cursor, ','));
      if (!accept (cursor, '}'))
        return fail (error, _("an object does not end"));
    }

  *value = g_variant_ref_sink (g_variant_dict_end (dict));
  return TRUE;
}

/* (out) (nullable) @value: (transfer full), NULL for null and for what has no type here. */
static gboolean
read_value (Cursor    *cursor,
            guint      depth,
            GVariant **value,
            GError   **error)
{
  g_autofree char *string = NULL;

  *value = NULL;
  skip_space (cursor);
  if (cursor->next == cursor->end)
    return fail (error, _("it ends too early"));
  if (depth > MAX_DEPTH)
    return fail (error, _("it is nested too deeply"));

  switch (*cursor->next)
    {
    case '"':
      string = read_string (cursor, error);
      if (string != NULL)
        *value = g_variant_ref_sink (g_variant_new_take_string (g_steal_pointer (&string)));
      return *value != NULL;
    case '[':
      return read_list (cursor, depth, value, error);
    case '{':
      return read_object (cursor, depth, value, error);
    default:
      break;
    }

  if (accept_word (cursor, "null"))
    return TRUE;
  if (accept_word (cursor, "true"))
    *value = g_variant_new_boolean (TRUE);
  else if (accept_word (cursor, "false"))
    *value = g_variant_new_boolean (FALSE);
  else
    *value = read_number (cursor, error);

  if (*value != NULL)
    g_variant_ref_sink (*value);
  return *value != NULL;
}

gboolean
llmsvc_json_read_object (const char  *bytes,
                         gsize        length,
                         GVariant   **object,
                         GError     **error)
{
  Cursor cursor = { bytes, bytes + length };
  g_autoptr(GVariant) value = NULL;

  g_return_val_if_fail (bytes != NULL || length == 0, FALSE);
  g_return_val_if_fail (object != NULL, FALSE);

  if (!g_utf8_validate_len (bytes, length, NULL))
    return fail (error, _("it is not valid UTF-8"));
  skip_space (&cursor);
  if (cursor.next == cursor.end || *cursor.next != '{')
    return fail (error, _("it is not an object"));
  if (!read_value (&cursor, 0, &value, error))
    return FALSE;
  skip_space (&cursor);
  if (cursor.next != cursor.end)
    return fail (error, _("something follows the object"));

  *object = g_steal_pointer (&value);
  return TRUE;
}
