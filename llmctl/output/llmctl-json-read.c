/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-json.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "llmsvc.h"

typedef struct
{
  const char *text;
  const char *p;
  guint depth;
  GError **error;
} Reader;

/* Returns NULL, for the caller to return. */
static GVariant *
fail (Reader     *reader,
      const char *reason)
{
  if (reader->error != NULL && *reader->error == NULL)
    /* TRANSLATORS: the place is a number of bytes; then comes what is wrong there */
    g_set_error (reader->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 _("Not JSON at byte %zu: %s"),
                 (gsize) (reader->p - reader->text) + 1, reason);
  return NULL;
}

static void
skip_space (Reader *reader)
{
  reader->p += strspn (reader->p, " \t\r\n");
}

static gboolean
take (Reader *reader,
      char    c)
{
  skip_space (reader);
  if (*reader->p != c)
    return FALSE;
  reader->p++;
  return TRUE;
}

static int
read_hex (const char *p)
{
  int code = 0;

  for (int i = 0; i < 4; i++)
    {
      int digit = g_ascii_xdigit_value (p[i]);

      if (digit < 0)
        return -1;
      code = code * 16 + digit;
    }

  return code;
}

/* After "\u"; FALSE for half a pair and for NUL, which no string on the bus has. */
static gboolean
read_escaped_unichar (Reader  *reader,
                      GString *out)
{
  int code = read_hex (reader->p);

  if (code <= 0 || (code >= 0xdc00 && code <= 0xdfff))
    return FALSE;
  reader->p += 4;
  if (code >= 0xd800 && code <= 0xdbff)
    {
      int low;

      if (reader->p[0] != '\\' || reader->p[1] != 'u')
        return FALSE;
      low = read_hex (reader->p + 2);
      if (low < 0xdc00 || low > 0xdfff)
        return FALSE;
      reader->p += 6;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
  g_string_append_unichar (out, (gunichar) code);
  return TRUE;
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
      gsize n = 0;

      while ((guchar) reader->p[n] >= 0x20 && reader->p[n] != '"' && reader->p[n] != '\\')
        n++;
      g_string_append_len (out, reader->p, (gssize) n);
      reader->p += n;

      if (*reader->p == '"')
        {
          reader->p++;
          return g_string_free (g_steal_pointer (&out), FALSE);
        }
      if (*reader->p != '\\')
        {
          fail (reader, _("a text without its closing quote, or with a control character"));
          return NULL;
        }

      reader->p++;
      if (*reader->p == 'u')
        {
          reader->p++;
          if (!read_escaped_unichar (reader, out))
            {
              fail (reader, _("“\\u” needs four digits that are a character"));
              return NULL;
            }
        }
      else
        {
          const char *escape = *reader->p != '\0' ? strchr (escapes, *reader->p) : NULL;

          if (escape == NULL)
            {
              fail (reader, _("an unknown character after “\\”"));
              return NULL;
            }
          g_string_append_c (out, meanings[escape - escapes]);
          reader->p++;
        }
    }
}

/* The bytes at @p that are a number, 0 for none. */
static gsize
scan_number (const char *p,
             gboolean   *is_whole)
{
  const char *start = p;

  *is_whole = TRUE;
  if (*p == '-')
    p++;
  if (!g_ascii_isdigit (*p))
    return 0;
  if (*p == '0')
    p++;
  else
    while (g_ascii_isdigit (*p))
      p++;
  if (*p == '.')
    {
      *is_whole = FALSE;
      if (!g_ascii_isdigit (*++p))
        return 0;
      while (g_ascii_isdigit (*p))
        p++;
    }
  if (*p == 'e' || *p == 'E')
    {
      *is_whole = FALSE;
      p++;
      if (*p == '+' || *p == '-')
        p++;
      if (!g_ascii_isdigit (*p))
        return 0;
      while (g_ascii_isdigit (*p))
        p++;
    }

  return (gsize) (p - start);
}

/* (nullable) (transfer full): NULL when it is too large for any type. */
static GVariant *
make_number (const char *text,
             gsize       length,
             gboolean    is_whole)
{
  g_autofree char *copy = g_strndup (text, length);
  double real;

  if (is_whole)
    {
      gint64 whole;
      guint64 large;

      errno = 0;
      whole = g_ascii_strtoll (copy, NULL, 10);
      if (errno == 0)
        return g_variant_ref_sink (g_variant_new_int64 (whole));
      errno = 0;
      large = g_ascii_strtoull (copy, NULL, 10);
      if (errno == 0 && copy[0] != '-')
        return g_variant_ref_sink (g_variant_new_uint64 (large));
    }

  real = g_ascii_strtod (copy, NULL);
  return isfinite (real) ? g_variant_ref_sink (g_variant_new_double (real)) : NULL;
}

static GVariant *read_value (Reader *reader);

static GVariant *
read_array (Reader *reader)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("av"));

  if (!take (reader, ']'))
    do
      {
        g_autoptr(GVariant) value = read_value (reader);

        if (value == NULL)
          return NULL;
        g_variant_builder_add (&builder, "v", value);
        if (take (reader, ']'))
          return g_variant_ref_sink (g_variant_builder_end (&builder));
      }
    while (take (reader, ','));
  else
    return g_variant_ref_sink (g_variant_builder_end (&builder));

  return fail (reader, _("an array goes on with “,” or ends with “]”"));
}

static GVariant *
read_object (Reader *reader)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);

  if (take (reader, '}'))
    return g_variant_ref_sink (g_variant_dict_end (&dict));

  do
    {
      g_autofree char *key = NULL;
      g_autoptr(GVariant) value = NULL;

      if (!take (reader, '"'))
        return fail (reader, _("the name of a member stands in double quotes"));
      key = read_text (reader);
      if (key == NULL)
        return NULL;
      if (!take (reader, ':'))
        return fail (reader, _("after the name of a member comes “:”"));
      value = read_value (reader);
      if (value == NULL)
        return NULL;
      g_variant_dict_insert_value (&dict, key, value);
      if (take (reader, '}'))
        return g_variant_ref_sink (g_variant_dict_end (&dict));
    }
  while (take (reader, ','));

  return fail (reader, _("an object goes on with “,” or ends with “}”"));
}

static GVariant *
read_word (Reader *reader)
{
  static const char *const words[] = { "true", "false" };
  gboolean is_whole;
  gsize length;
  GVariant *number;

  for (gsize i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (reader->p, words[i]))
      {
        reader->p += strlen (words[i]);
        return g_variant_ref_sink (g_variant_new_boolean (i == 0));
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
  GVariant *value;

  skip_space (reader);
  if (*reader->p == '"')
    {
      char *text;

      reader->p++;
      text = read_text (reader);
      return text != NULL ? g_variant_ref_sink (g_variant_new_take_string (text)) : NULL;
    }
  if (*reader->p != '[' && *reader->p != '{')
    return read_word (reader);

  if (++reader->depth > LLMCTL_JSON_MAX_DEPTH)
    return fail (reader, _("it is nested too deeply"));
  value = *reader->p++ == '[' ? read_array (reader) : read_object (reader);
  reader->depth--;
  return value;
}

GVariant *
llmctl_json_read (const char  *text,
                  GError     **error)
{
  g_autoptr(GError) local_error = NULL;
  Reader reader = { .text = text, .p = text, .error = &local_error };
  g_autoptr(GVariant) value = read_value (&reader);

  skip_space (&reader);
  if (value != NULL && *reader.p != '\0')
    {
      g_clear_pointer (&value, g_variant_unref);
      fail (&reader, _("something follows the value"));
    }
  if (value == NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));

  return g_steal_pointer (&value);
}

GVariant *
llmctl_json_read_number (const char *text)
{
  gboolean is_whole;
  gsize length = scan_number (text, &is_whole);

  return length > 0 && text[length] == '\0' ? make_number (text, length, is_whole) : NULL;
}
