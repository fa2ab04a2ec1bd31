/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-option-value.h"

#include <glib/gi18n-lib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error-private.h"

#define MAX_VARIANT_DEPTH 4
#define MAX_SHOWN_BYTES   40

typedef struct
{
  double real;
  gboolean is_whole;  /* from 0, and exactly what follows */
  guint64 whole;
} Number;

gboolean
llmsvc_option_fail (GError     **error,
                    const char  *format,
                    ...)
{
  va_list args;

  va_start (args, format);
  if (error != NULL)
    *error = llmsvc_error_new_valist (LLMSVC_ERROR_INVALID_OPTION, NULL, format, args);
  va_end (args);
  return FALSE;
}

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
  static const struct
  {
    const char *prefix;
    const char *what;
  } types[] = {
    { "a(ssa{sv})", N_("a list of messages") },
    { "a{ud}", N_("token ids with numbers") },
    { "as", N_("a list of strings") },
    { "a{", N_("a dictionary") },
    { "a", N_("a list") },
    { "b", N_("true or false") },
    { "s", N_("a string") },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    if (g_str_has_prefix (type, types[i].prefix))
      return _(types[i].what);

  return strchr ("ynqiuxtd", type[0]) != NULL ? _("a number") : _("something else");
}

static gboolean
fail_type (const LlmsvcOptionInfo  *info,
           GVariant                *found,
           GError                 **error)
{
  g_autofree char *type = llmsvc_shorten (g_variant_get_type_string (found));

  return llmsvc_option_fail (error, _("Option “%s” is %s (%s), it must be %s (%s)"), info->key,
                             describe_type (g_variant_get_type_string (found)), type,
                             describe_type (info->type), info->type);
}

/* --- numbers --- */

static gboolean
read_number (GVariant *value,
             Number   *number)
{
  gint64 below = 0;

  number->is_whole = TRUE;
  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_BYTE:
      number->whole = g_variant_get_byte (value);
      break;
    case G_VARIANT_CLASS_UINT16:
      number->whole = g_variant_get_uint16 (value);
      break;
    case G_VARIANT_CLASS_UINT32:
      number->whole = g_variant_get_uint32 (value);
      break;
    case G_VARIANT_CLASS_UINT64:
      number->whole = g_variant_get_uint64 (value);
      break;
    case G_VARIANT_CLASS_INT16:
      number->whole = (guint64) (below = g_variant_get_int16 (value));
      break;
    case G_VARIANT_CLASS_INT32:
      number->whole = (guint64) (below = g_variant_get_int32 (value));
      break;
    case G_VARIANT_CLASS_INT64:
      number->whole = (guint64) (below = g_variant_get_int64 (value));
      break;
    case G_VARIANT_CLASS_DOUBLE:
      number->real = g_variant_get_double (value);
      number->is_whole = number->real >= 0 && number->real < 18446744073709551616.0 &&
                         number->real == floor (number->real);
      number->whole = number->is_whole ? (guint64) number->real : 0;
      return TRUE;
    default:
      return FALSE;
    }

  number->is_whole = below >= 0;
  number->real = below < 0 ? (double) below : (double) number->whole;
  return TRUE;
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

/* All digits of a whole number. */
static char *
format_number (GVariant *value)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
    return format_double (g_variant_get_double (value));
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_BYTE))
    return g_strdup_printf ("%u", g_variant_get_byte (value));

  return g_variant_print (value, FALSE);
}

/* 2^64 - 1 is no double. */
static char *
format_max (const LlmsvcOptionInfo *info)
{
  return info->type[0] == 't' && info->max >= (double) G_MAXUINT64
             ? g_strdup_printf ("%" G_GUINT64_FORMAT, G_MAXUINT64)
             : format_double (info->max);
}

static gboolean
check_range (const LlmsvcOptionInfo  *info,
             GVariant                *value,
             const Number            *number,
             GError                 **error)
{
  const char *unit = info->unit != NULL ? info->unit : "";
  g_autofree char *found = NULL;
  g_autofree char *min = NULL;
  g_autofree char *max = NULL;

  if (number->real >= info->min && number->real <= info->max)
    return TRUE;

  found = format_number (value);
  min = format_double (info->min);
  max = format_max (info);
  return llmsvc_option_fail (
    error,
    info->type[0] == 'a'           ? _("A number of option “%s” is %s, it must be from %s to %s")
    : g_str_equal (unit, "ms")      ? _("Option “%s” is %s, it must be from %s to %s ms")
    : g_str_equal (unit, "bytes")   ? _("Option “%s” is %s, it must be from %s to %s bytes")
    : g_str_equal (unit, "percent") ? _("Option “%s” is %s, it must be from %s to %s percent")
    : g_str_equal (unit, "tokens")  ? _("Option “%s” is %s, it must be from %s to %s tokens")
                                    : _("Option “%s” is %s, it must be from %s to %s"),
    info->key, found, min, max);
}

static GVariant *
convert_number (const LlmsvcOptionInfo  *info,
                GVariant                *value,
                GError                 **error)
{
  g_autofree char *found = NULL;
  g_autofree char *max = NULL;
  Number number;

  if (!read_number (value, &number))
    {
      fail_type (info, value, error);
      return NULL;
    }
  if (!check_range (info, value, &number, error))
    return NULL;
  if (info->type[0] == 'd')
    return g_variant_new_double (number.real);
  if (number.is_whole)
    return info->type[0] == 'u' ? g_variant_new_uint32 ((guint32) number.whole)
                                : g_variant_new_uint64 (number.whole);

  found = format_number (value);
  max = format_max (info);
  llmsvc_option_fail (error, _("Option “%s” is %s, it must be a whole number up to %s"), info->key,
                      found, max);
  return NULL;
}

/* --- strings and lists --- */

static gboolean
check_length (const LlmsvcOptionInfo  *info,
              gsize                    length,
              GError                 **error)
{
  if (info->max == 0 || ((double) length >= info->min && (double) length <= info->max))
    return TRUE;

  return llmsvc_option_fail (
    error,
    info->type[0] == 'a'
      ? _("A string of option “%s” is %zu bytes long, it must be from %.0f to %.0f bytes")
      : _("Option “%s” is %zu bytes long, it must be from %.0f to %.0f bytes"),
    info->key, length, info->min, info->max);
}

gboolean
llmsvc_name_may_have (gunichar c)
{
  const gunichar joiner = 0x200d, non_joiner = 0x200c;

  return c != '/' && (g_unichar_isprint (c) || c == joiner || c == non_joiner);
}

/* What leaves no mark where it is shown: spaces, joiners, accents without a letter, and letters and
 * signs that are blank. */
static gboolean
is_invisible (gunichar c)
{
  static const gunichar blanks[] = { 0x115f, 0x2800, 0x3164, 0xffa0 };

  for (gsize i = 0; i < G_N_ELEMENTS (blanks); i++)
    if (c == blanks[i])
      return TRUE;
  return !g_unichar_isgraph (c) || g_unichar_iszerowidth (c);
}

/* Names are shown in lists and may become part of a path one day. */
static gboolean
check_name (const char  *name,
            GError     **error)
{
  gboolean is_visible = FALSE;

  if (*name == '\0')
    return llmsvc_option_fail (error, _("Option “name” is empty"));
  for (const char *p = name; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (!llmsvc_name_may_have (c))
        return llmsvc_option_fail (error, _("Option “name” has the character U+%04X, it must be "
                                            "printable text without “/”"), (guint) c);
      is_visible |= !is_invisible (c);
    }

  return is_visible ||
         llmsvc_option_fail (error, _("Option “name” has no character that can be seen"));
}

/* (transfer floating) (nullable): a word, or a whole number in digits. */
static GVariant *
convert_word_or_number (const LlmsvcOptionInfo  *info,
                        GVariant                *value,
                        GError                 **error)
{
  gboolean is_text = g_variant_is_of_type (value, G_VARIANT_TYPE_STRING);
  const char *text = is_text ? g_variant_get_string (value, NULL) : "";
  g_autofree char *shown = NULL;
  g_autofree char *choices = NULL;
  Number number = { 0 };
  guint64 whole = 0;

  if (is_text && g_strv_contains (info->choices, text))
    return g_variant_new_string (text);
  if (!is_text && !read_number (value, &number))
    {
      fail_type (info, value, error);
      return NULL;
    }
  if (is_text ? g_ascii_string_to_unsigned (text, 10, 0, (guint64) info->max, &whole, NULL)
              : number.is_whole && number.real <= info->max)
    return g_variant_new_take_string (
      g_strdup_printf ("%" G_GUINT64_FORMAT, is_text ? whole : number.whole));
  shown = is_text ? llmsvc_shorten (text) : format_number (value);
  choices = g_strjoinv (", ", (char **) info->choices);
  llmsvc_option_fail (error, _("Option “%s” is “%s”, it must be one of: %s, or a whole number from "
                               "%.0f to %.0f"), info->key, shown, choices, info->min, info->max);
  return NULL;
}

/* These leave the value as it is. */
static gboolean
check_string (const LlmsvcOptionInfo  *info,
              GVariant                *value,
              GError                 **error)
{
  const char *string;
  gsize length;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    return fail_type (info, value, error);

  string = g_variant_get_string (value, &length);
  if (info->choices != NULL && !info->takes_names && !g_strv_contains (info->choices, string))
    {
      g_autofree char *shown = llmsvc_shorten (string);
      g_autofree char *choices = g_strjoinv (", ", (char **) info->choices);

      return llmsvc_option_fail (error, _("Option “%s” is “%s”, it must be one of: %s"), info->key,
                                 shown, choices);
    }
  return (info->id != LLMSVC_OPTION_NAME || check_name (string, error)) &&
         ((info->choices != NULL && !info->takes_names) || check_length (info, length, error));
}

static gboolean
check_entries (const LlmsvcOptionInfo  *info,
               GVariant                *value,
               GError                 **error)
{
  gsize n = g_variant_n_children (value);

  return n <= info->max_entries ||
         llmsvc_option_fail (error, _("Option “%s” has %zu entries, at most %u are taken"),
                             info->key, n, info->max_entries);
}

static gboolean
check_strings (const LlmsvcOptionInfo  *info,
               GVariant                *value,
               GError                 **error)
{
  GVariantIter iter;
  const char *string;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY))
    return fail_type (info, value, error);
  if (!check_entries (info, value, error))
    return FALSE;

  g_variant_iter_init (&iter, value);
  while (g_variant_iter_next (&iter, "&s", &string))
    if (!check_length (info, strlen (string), error))
      return FALSE;

  return TRUE;
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
      fail_type (info, value, error);
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
      g_autoptr(GVariant) inner = llmsvc_option_value_unwrap (wrapped);
      Number token, bias;

      if (!read_number (key, &token) || !read_number (inner, &bias))
        {
          fail_type (info, value, error);
          return NULL;
        }
      if (!token.is_whole || token.whole > G_MAXUINT32)
        {
          g_autofree char *found = format_number (key);

          llmsvc_option_fail (error, _("Option “%s” has the token id %s, ids are whole numbers "
                                       "from 0 to 4294967295"), info->key, found);
          return NULL;
        }
      if (!check_range (info, inner, &bias, error))
        return NULL;
      if (!g_hash_table_add (seen, GSIZE_TO_POINTER ((gsize) token.whole)))
        {
          llmsvc_option_fail (error, _("Option “%s” has the token id %ju twice"), info->key,
                              token.whole);
          return NULL;
        }

      g_variant_builder_add (&builder, "{ud}", (guint32) token.whole, bias.real);
    }

  return g_variant_builder_end (&builder);
}

GVariant *
llmsvc_option_value_convert (const LlmsvcOptionInfo  *info,
                             GVariant                *value,
                             GError                 **error)
{
  GVariant *converted = NULL;
  gboolean is_right;

  if (strchr ("utd", info->type[0]) != NULL || g_str_equal (info->type, "a{ud}"))
    {
      converted = info->type[0] == 'a' ? convert_biases (info, value, error)
                                       : convert_number (info, value, error);
      return converted != NULL ? g_variant_ref_sink (converted) : NULL;
    }

  if (info->takes_numbers)
    {
      converted = convert_word_or_number (info, value, error);
      return converted != NULL ? g_variant_ref_sink (converted) : NULL;
    }
  if (g_str_equal (info->type, "s"))
    is_right = check_string (info, value, error);
  else if (g_str_equal (info->type, "as"))
    is_right = check_strings (info, value, error);
  else
    is_right = g_variant_is_of_type (value, G_VARIANT_TYPE (info->type)) ||
               fail_type (info, value, error);
  return is_right ? g_variant_ref (value) : NULL;
}
