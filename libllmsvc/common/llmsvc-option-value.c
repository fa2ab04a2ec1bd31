/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-option-value.h"

#include <glib/gi18n-lib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define MAX_VARIANT_DEPTH 4
#define MAX_SHOWN_BYTES   40

/* A number as it came, without loss. */
typedef struct
{
  enum { NUMBER_NEGATIVE, NUMBER_POSITIVE, NUMBER_REAL } kind;
  gint64 negative;
  guint64 positive;
  double real;
} Number;

/* Names come from outside, so only a beginning of them is repeated. */
char *
llmsvc_shorten (const char *text)
{
  g_autofree char *valid = NULL;

  if (strlen (text) <= MAX_SHOWN_BYTES)
    return g_strdup (text);

  valid = g_utf8_substring (text, 0, MIN (MAX_SHOWN_BYTES / 2, g_utf8_strlen (text, -1)));
  return g_strconcat (valid, "…", NULL);
}

static const char *
describe_type (const char *type)
{
  if (g_str_equal (type, "a(ssa{sv})"))
    return _("a list of messages");
  if (g_str_equal (type, "a{ud}"))
    return _("token ids with numbers");

  switch (type[0])
    {
    case 'b':
      return _("true or false");
    case 'y':
    case 'n':
    case 'q':
    case 'i':
    case 'u':
    case 'x':
    case 't':
    case 'd':
      return _("a number");
    case 's':
      return _("a string");
    case 'a':
      return type[1] == 's'   ? _("a list of strings")
             : type[1] == '{' ? _("a dictionary")
                              : _("a list");
    default:
      return _("something else");
    }
}

static void
set_type_error (const LlmsvcOptionInfo  *info,
                GVariant                *found,
                GError                 **error)
{
  g_autofree char *type = llmsvc_shorten (g_variant_get_type_string (found));

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
               _("Option “%s” is %s (%s), it must be %s (%s)"),
               info->key, describe_type (g_variant_get_type_string (found)), type,
               describe_type (info->type), info->type);
}

static gboolean
read_number (GVariant *value,
             Number   *number)
{
  gint64 whole;

  number->kind = NUMBER_POSITIVE;
  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_BYTE:
      number->positive = g_variant_get_byte (value);
      return TRUE;
    case G_VARIANT_CLASS_UINT16:
      number->positive = g_variant_get_uint16 (value);
      return TRUE;
    case G_VARIANT_CLASS_UINT32:
      number->positive = g_variant_get_uint32 (value);
      return TRUE;
    case G_VARIANT_CLASS_UINT64:
      number->positive = g_variant_get_uint64 (value);
      return TRUE;
    case G_VARIANT_CLASS_INT16:
      whole = g_variant_get_int16 (value);
      break;
    case G_VARIANT_CLASS_INT32:
      whole = g_variant_get_int32 (value);
      break;
    case G_VARIANT_CLASS_INT64:
      whole = g_variant_get_int64 (value);
      break;
    case G_VARIANT_CLASS_DOUBLE:
      number->kind = NUMBER_REAL;
      number->real = g_variant_get_double (value);
      return TRUE;
    default:
      return FALSE;
    }

  if (whole >= 0)
    {
      number->positive = (guint64) whole;
    }
  else
    {
      number->kind = NUMBER_NEGATIVE;
      number->negative = whole;
    }
  return TRUE;
}

static double
number_to_double (const Number *number)
{
  switch (number->kind)
    {
    case NUMBER_NEGATIVE:
      return (double) number->negative;
    case NUMBER_POSITIVE:
      return (double) number->positive;
    case NUMBER_REAL:
    default:
      return number->real;
    }
}

static char *
format_double (double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (isnan (value))
    return g_strdup (_("not a number"));
  if (isinf (value))
    return g_strdup (_("not finite"));
  if (value == floor (value) && fabs (value) < 1e15)
    return g_strdup_printf ("%.0f", value);

  return g_strdup (g_ascii_formatd (buffer, sizeof buffer, "%.6g", value));
}

static char *
format_number (const Number *number)
{
  switch (number->kind)
    {
    case NUMBER_NEGATIVE:
      return g_strdup_printf ("%" G_GINT64_FORMAT, number->negative);
    case NUMBER_POSITIVE:
      return g_strdup_printf ("%" G_GUINT64_FORMAT, number->positive);
    case NUMBER_REAL:
    default:
      return format_double (number->real);
    }
}

/* 2^64 - 1 is no double. */
static char *
format_max (const LlmsvcOptionInfo *info)
{
  return info->type[0] == 't' && info->max >= (double) G_MAXUINT64
             ? g_strdup_printf ("%" G_GUINT64_FORMAT, G_MAXUINT64)
             : format_double (info->max);
}

static void
set_range_error (const LlmsvcOptionInfo  *info,
                 const char              *found,
                 const char              *min,
                 const char              *max,
                 GError                 **error)
{
  const char *unit = info->unit != NULL ? info->unit : "";

  if (info->type[0] == 'a')
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("A number of option “%s” is %s, it must be from %s to %s"), info->key, found,
                 min, max);
  else if (g_str_equal (unit, "ms"))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("Option “%s” is %s, it must be from %s to %s ms"), info->key, found, min, max);
  else if (g_str_equal (unit, "bytes"))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("Option “%s” is %s, it must be from %s to %s bytes"), info->key, found, min,
                 max);
  else if (g_str_equal (unit, "percent"))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("Option “%s” is %s, it must be from %s to %s percent"), info->key, found, min,
                 max);
  else if (g_str_equal (unit, "tokens"))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("Option “%s” is %s, it must be from %s to %s tokens"), info->key, found, min,
                 max);
  else
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("Option “%s” is %s, it must be from %s to %s"), info->key, found, min, max);
}

static gboolean
check_range (const LlmsvcOptionInfo  *info,
             const Number            *number,
             GError                 **error)
{
  double value = number_to_double (number);
  g_autofree char *found = NULL;
  g_autofree char *min = NULL;
  g_autofree char *max = NULL;

  if (value >= info->min && value <= info->max)
    return TRUE;

  found = format_number (number);
  min = format_double (info->min);
  max = format_max (info);
  set_range_error (info, found, min, max, error);
  return FALSE;
}

/* The value as an integer, when it is one exactly. */
static gboolean
number_to_uint64 (const Number *number,
                  guint64      *value)
{
  switch (number->kind)
    {
    case NUMBER_POSITIVE:
      *value = number->positive;
      return TRUE;
    case NUMBER_REAL:
      if (!(number->real >= 0 && number->real < 18446744073709551616.0) ||
          number->real != floor (number->real))
        return FALSE;
      *value = (guint64) number->real;
      return TRUE;
    case NUMBER_NEGATIVE:
    default:
      return FALSE;
    }
}

static GVariant *
convert_number (const LlmsvcOptionInfo  *info,
                GVariant                *value,
                GError                 **error)
{
  Number number;
  guint64 whole;

  if (!read_number (value, &number))
    {
      set_type_error (info, value, error);
      return NULL;
    }
  if (!check_range (info, &number, error))
    return NULL;
  if (info->type[0] == 'd')
    return g_variant_new_double (number_to_double (&number));

  if (!number_to_uint64 (&number, &whole))
    {
      g_autofree char *found = format_number (&number);
      g_autofree char *max = format_max (info);

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                   _("Option “%s” is %s, it must be a whole number up to %s"),
                   info->key, found, max);
      return NULL;
    }

  return info->type[0] == 'u' ? g_variant_new_uint32 ((guint32) whole)
                              : g_variant_new_uint64 (whole);
}

static gboolean
check_length (const LlmsvcOptionInfo  *info,
              gsize                    length,
              GError                 **error)
{
  if (info->max == 0 || ((double) length >= info->min && (double) length <= info->max))
    return TRUE;

  if (info->type[0] == 'a')
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("A string of option “%s” is %zu bytes long, it must be from %.0f to %.0f bytes"),
                 info->key, length, info->min, info->max);
  else
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                 _("Option “%s” is %zu bytes long, it must be from %.0f to %.0f bytes"), info->key,
                 length, info->min, info->max);
  return FALSE;
}

/* Names are shown in lists and may become part of a path one day. */
static gboolean
check_name (const char  *name,
            GError     **error)
{
  for (const char *p = name; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (c == '/' || !g_unichar_isprint (c))
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                       _("Option “name” has the character U+%04X, it must be printable text "
                         "without “/”"), (guint) c);
          return FALSE;
        }
    }

  return TRUE;
}

static GVariant *
convert_string (const LlmsvcOptionInfo  *info,
                GVariant                *value,
                GError                 **error)
{
  const char *string;
  gsize length;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    {
      set_type_error (info, value, error);
      return NULL;
    }

  string = g_variant_get_string (value, &length);
  if (info->choices != NULL && !g_strv_contains (info->choices, string))
    {
      g_autofree char *shown = llmsvc_shorten (string);
      g_autofree char *choices = g_strjoinv (", ", (char **) info->choices);

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                   _("Option “%s” is “%s”, it must be one of: %s"), info->key, shown, choices);
      return NULL;
    }
  if (info->choices == NULL && !check_length (info, length, error))
    return NULL;
  if (info->id == LLMSVC_OPTION_NAME && !check_name (string, error))
    return NULL;

  return g_variant_ref (value);
}

static gboolean
check_entries (const LlmsvcOptionInfo  *info,
               GVariant                *value,
               GError                 **error)
{
  gsize n = g_variant_n_children (value);

  if (n <= info->max_entries)
    return TRUE;

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
               _("Option “%s” has %zu entries, at most %u are taken"),
               info->key, n, info->max_entries);
  return FALSE;
}

static GVariant *
convert_strings (const LlmsvcOptionInfo  *info,
                 GVariant                *value,
                 GError                 **error)
{
  GVariantIter iter;
  const char *string;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY))
    {
      set_type_error (info, value, error);
      return NULL;
    }
  if (!check_entries (info, value, error))
    return NULL;

  g_variant_iter_init (&iter, value);
  while (g_variant_iter_next (&iter, "&s", &string))
    if (!check_length (info, strlen (string), error))
      return NULL;

  return g_variant_ref (value);
}

/* Takes the content out of variants in variants, as tools for shells make them.
 * What is left a variant is too deep, and of no type that an option has. */
GVariant *
llmsvc_option_value_unwrap (GVariant *value)
{
  g_autoptr(GVariant) inner = g_variant_ref (value);

  for (guint i = 0; i < MAX_VARIANT_DEPTH; i++)
    {
      GVariant *next;

      if (!g_variant_is_of_type (inner, G_VARIANT_TYPE_VARIANT))
        break;

      next = g_variant_get_variant (inner);
      g_variant_unref (inner);
      inner = next;
    }

  return g_steal_pointer (&inner);
}

static GVariant *
convert_biases (const LlmsvcOptionInfo  *info,
                GVariant                *value,
                GError                 **error)
{
  g_autoptr(GHashTable) seen = g_hash_table_new (NULL, NULL);
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a{ud}"));
  gsize n;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_DICTIONARY))
    {
      set_type_error (info, value, error);
      return NULL;
    }
  if (!check_entries (info, value, error))
    return NULL;

  n = g_variant_n_children (value);
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) entry = g_variant_get_child_value (value, i);
      g_autoptr(GVariant) key = g_variant_get_child_value (entry, 0);
      g_autoptr(GVariant) wrapped = g_variant_get_child_value (entry, 1);
      g_autoptr(GVariant) bias = llmsvc_option_value_unwrap (wrapped);
      Number token_number, bias_number;
      guint64 token;

      if (!read_number (key, &token_number) || !read_number (bias, &bias_number))
        {
          set_type_error (info, value, error);
          return NULL;
        }
      if (!number_to_uint64 (&token_number, &token) || token > G_MAXUINT32)
        {
          g_autofree char *found = format_number (&token_number);

          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                       _("Option “%s” has the token id %s, ids are whole numbers from 0 to "
                         "4294967295"), info->key, found);
          return NULL;
        }
      if (!check_range (info, &bias_number, error))
        return NULL;
      if (!g_hash_table_add (seen, GSIZE_TO_POINTER ((gsize) token)))
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                       _("Option “%s” has the token id %ju twice"), info->key, token);
          return NULL;
        }

      g_variant_builder_add (&builder, "{ud}", (guint32) token, number_to_double (&bias_number));
    }

  return g_variant_builder_end (&builder);
}

GVariant *
llmsvc_option_value_convert (const LlmsvcOptionInfo  *info,
                             GVariant                *value,
                             GError                 **error)
{
  GVariant *converted = NULL;

  switch (info->type[0])
    {
    case 'u':
    case 't':
    case 'd':
      converted = convert_number (info, value, error);
      break;
    case 's':
      converted = convert_string (info, value, error);
      break;
    case 'a':
      if (g_str_equal (info->type, "as"))
        {
          converted = convert_strings (info, value, error);
          break;
        }
      if (g_str_equal (info->type, "a{ud}"))
        {
          converted = convert_biases (info, value, error);
          break;
        }
      G_GNUC_FALLTHROUGH;
    default:
      if (g_variant_is_of_type (value, G_VARIANT_TYPE (info->type)))
        converted = g_variant_ref (value);
      else
        set_type_error (info, value, error);
      break;
    }

  return converted != NULL ? g_variant_take_ref (converted) : NULL;
}
