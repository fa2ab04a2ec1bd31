/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * By hand: json-glib cuts whole numbers to 63 bits and strings at \u0000, takes much that is no
 * JSON, and recurses once per bracket of hostile input.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-json.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "llmsvc.h"

#define DIGITS "0123456789"

typedef struct
{
  const char *text;
  const char *p;
  guint depth;
  GError **error;
} Reader;

/* Returns NULL, for the caller to return. */
static gpointer
fail (Reader     *reader,
      const char *reason)
{
  /* TRANSLATORS: the place is a number of bytes; then comes what is wrong there */
  g_set_error (reader->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
               _("Not JSON at byte %zu: %s"), (gsize) (reader->p - reader->text) + 1, reason);
  return NULL;
}

static gboolean
take (Reader *reader,
      char    c)
{
  reader->p += strspn (reader->p, " \t\r\n");
  if (*reader->p != c)
    return FALSE;
  reader->p++;
  return TRUE;
}

/* After "\u", in UTF-16; FALSE for half a pair and for NUL, which no string on the bus has. */
static gboolean
read_escaped_unichar (Reader  *reader,
                      GString *out)
{
  gunichar2 units[2] = { 0 };
  g_autofree char *text = NULL;
  glong n = 0;

  do
    {
      for (guint i = 0; i < 4; i++)
        {
          int digit = g_ascii_xdigit_value (*reader->p);

          if (digit < 0)
            return FALSE;
          units[n] = (gunichar2) (units[n] * 16 + digit);
          reader->p++;
        }
      n++;
    }
  while (n == 1 && (units[0] & 0xfc00) == 0xd800 && g_str_has_prefix (reader->p, "\\u") &&
         (reader->p += 2));

  text = units[0] != 0 ? g_utf16_to_utf8 (units, n, NULL, NULL, NULL) : NULL;
  if (text != NULL)
    g_string_append (out, text);
  return text != NULL;
}

/* (transfer full): after the first quote. */
static char *
read_text (Reader *reader)
{
  static const char escapes[] = "\"\\/bfnrt";
  static const char meanings[] = "\"\\/\b\f\n\r\t";
  g_autoptr(GString) out = g_string_new (NULL);

  for (;;)
    {
      const char *escape;

      while ((guchar) *reader->p >= 0x20 && *reader->p != '"' && *reader->p != '\\')
        g_string_append_c (out, *reader->p++);
      if (*reader->p == '"')
        {
          reader->p++;
          return g_string_free (g_steal_pointer (&out), FALSE);
        }
      if (*reader->p != '\\')
        return fail (reader, _("a text without its closing quote, or with a control character"));

      reader->p++;
      escape = *reader->p != '\0' ? strchr (escapes, *reader->p) : NULL;
      if (escape == NULL && *reader->p != 'u')
        return fail (reader, _("an unknown character after “\\”"));
      reader->p++;
      if (escape != NULL)
        g_string_append_c (out, meanings[escape - escapes]);
      else if (!read_escaped_unichar (reader, out))
        return fail (reader, _("“\\u” needs four digits that are a character"));
    }
}

/* The bytes at @text that are a number, 0 for none. */
static gsize
scan_number (const char *text,
             gboolean   *is_whole)
{
  const char *p = text + (*text == '-');
  gsize n = *p == '0' ? 1 : strspn (p, DIGITS);

  *is_whole = TRUE;
  p += n;
  if (n > 0 && *p == '.')
    {
      *is_whole = FALSE;
      n = strspn (++p, DIGITS);
      p += n;
    }
  if (n > 0 && (*p == 'e' || *p == 'E'))
    {
      *is_whole = FALSE;
      p++;
      p += *p == '+' || *p == '-';
      n = strspn (p, DIGITS);
      p += n;
    }

  return n > 0 ? (gsize) (p - text) : 0;
}

/* (nullable) (transfer full): NULL when it is too large for any type. */
static GVariant *
make_number (const char *text,
             gsize       length,
             gboolean    is_whole)
{
  g_autofree char *copy = g_strndup (text, length);
  double real = g_ascii_strtod (copy, NULL);
  guint64 large;
  gint64 whole;

  if (is_whole && g_ascii_string_to_signed (copy, 10, G_MININT64, G_MAXINT64, &whole, NULL))
    return g_variant_ref_sink (g_variant_new_int64 (whole));
  if (is_whole && g_ascii_string_to_unsigned (copy, 10, 0, G_MAXUINT64, &large, NULL))
    return g_variant_ref_sink (g_variant_new_uint64 (large));
  return isfinite (real) ? g_variant_ref_sink (g_variant_new_double (real)) : NULL;
}

static GVariant *read_value (Reader *reader);

/* After the first bracket. */
static GVariant *
read_container (Reader   *reader,
                gboolean  is_object)
{
  g_auto(GVariantBuilder) list = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("av"));
  g_auto(GVariantDict) object = G_VARIANT_DICT_INIT (NULL);

  for (gboolean is_first = TRUE; !take (reader, is_object ? '}' : ']'); is_first = FALSE)
    {
      g_autofree char *key = NULL;
      g_autoptr(GVariant) value = NULL;

      if (!is_first && !take (reader, ','))
        return fail (reader, is_object ? _("an object goes on with “,” or ends with “}”")
                                       : _("an array goes on with “,” or ends with “]”"));
      if (is_object)
        {
          if (!take (reader, '"'))
            return fail (reader, _("the name of a member stands in double quotes"));
          key = read_text (reader);
          if (key == NULL)
            return NULL;
          if (!take (reader, ':'))
            return fail (reader, _("after the name of a member comes “:”"));
        }
      value = read_value (reader);
      if (value == NULL)
        return NULL;
      if (is_object)
        g_variant_dict_insert_value (&object, key, value);
      else
        g_variant_builder_add (&list, "v", value);
    }

  return g_variant_ref_sink (is_object ? g_variant_dict_end (&object)
                                       : g_variant_builder_end (&list));
}

static GVariant *
read_word (Reader *reader)
{
  gboolean is_whole;
  gsize length;
  GVariant *number;

  for (guint i = 0; i < 2; i++)
    if (g_str_has_prefix (reader->p, i > 0 ? "true" : "false"))
      {
        reader->p += i > 0 ? strlen ("true") : strlen ("false");
        return g_variant_ref_sink (g_variant_new_boolean (i > 0));
      }
  if (g_str_has_prefix (reader->p, "null"))
    return fail (reader, _("“null” can't be sent: leave it out"));

  length = scan_number (reader->p, &is_whole);
  if (length == 0)
    return fail (reader, _("a value is missing; texts stand in double quotes"));
  number = make_number (reader->p, length, is_whole);
  if (number == NULL)
    return fail (reader, _("the number is too large"));
  reader->p += length;
  return number;
}

static GVariant *
read_value (Reader *reader)
{
  gboolean is_object;
  GVariant *value;

  if (take (reader, '"'))
    {
      char *text = read_text (reader);

      return text != NULL ? g_variant_ref_sink (g_variant_new_take_string (text)) : NULL;
    }
  is_object = take (reader, '{');
  if (!is_object && !take (reader, '['))
    return read_word (reader);

  if (++reader->depth > LLMCTL_JSON_MAX_DEPTH)
    return fail (reader, _("it is nested too deeply"));
  value = read_container (reader, is_object);
  reader->depth--;
  return value;
}

GVariant *
llmctl_json_read (const char  *text,
                  GError     **error)
{
  Reader reader = { .text = text, .p = text, .error = error };
  g_autoptr(GVariant) value = read_value (&reader);

  if (value != NULL && !take (&reader, '\0'))
    return fail (&reader, _("something follows the value"));
  return g_steal_pointer (&value);
}

GVariant *
llmctl_json_read_number (const char *text)
{
  gboolean is_whole;
  gsize length = scan_number (text, &is_whole);

  return length > 0 && text[length] == '\0' ? make_number (text, length, is_whole) : NULL;
}
