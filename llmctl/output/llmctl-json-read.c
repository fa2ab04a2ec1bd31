/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * By hand, of what is known to be JSON: json-glib cuts whole numbers to 63 bits and strings at
 * \u0000.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-json.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "llmctl/llmctl.h"

/* Characters of a number. */
#define NUMBER "+-.0123456789Ee"

static const LlmsvcJsonLimits limits = {
  .depth = LLMCTL_JSON_MAX_DEPTH, .values = G_MAXUINT, .whole_digits = G_MAXUINT,
};

typedef struct
{
  const char *text;
  const char *p;
  GError **error;
} Reader;

/* Returns NULL, for the caller to return. */
static gpointer
fail (Reader     *reader,
      const char *reason)
{
  /* TRANSLATORS: the place is a number of bytes; then comes what is wrong there */
  return llmctl_set_invalid_null (reader->error, _("Not JSON at byte %zu: %s"),
                                  (gsize) (reader->p - reader->text) + 1, reason);
}

/* Whether @c comes next; then it is taken. */
static gboolean
take (Reader *reader,
      char    c)
{
  reader->p += strspn (reader->p, " \t\r\n,:");
  if (*reader->p != c)
    return FALSE;
  reader->p++;
  return TRUE;
}

/* Four digits. */
static gunichar
read_hex (const char *digits)
{
  gunichar c = 0;

  for (guint i = 0; i < 4; i++)
    c = c * 16 + (gunichar) g_ascii_xdigit_value (digits[i]);
  return c;
}

/* (transfer full): after the first quote. */
static char *
read_text (Reader *reader)
{
  static const char escapes[] = "bfnrt";
  static const char meanings[] = "\b\f\n\r\t";
  GString *out = g_string_new (NULL);

  for (; *reader->p != '"'; reader->p++)
    {
      gboolean is_escape = *reader->p == '\\';
      const char *escape = is_escape ? strchr (escapes, *++reader->p) : NULL;
      gunichar c;

      if (!is_escape || *reader->p != 'u')
        {
          g_string_append_c (out, escape != NULL ? meanings[escape - escapes] : *reader->p);
          continue;
        }
      c = read_hex (reader->p + 1);
      reader->p += 4;
      /* the first half of a pair in UTF-16 */
      if ((c & 0xfc00) == 0xd800)
        {
          c = 0x10000 + ((c & 0x3ff) << 10) + (read_hex (reader->p + 3) & 0x3ff);
          reader->p += 6;
        }
      g_string_append_unichar (out, c);
    }

  reader->p++;
  return g_string_free (out, FALSE);
}

/* (nullable) (transfer full): NULL when it is too large for any type. */
static GVariant *
make_number (const char *text)
{
  g_autofree char *copy = g_strndup (text, strspn (text, NUMBER));
  gboolean is_whole = strpbrk (copy, ".Ee") == NULL;
  double real = g_ascii_strtod (copy, NULL);
  guint64 large;
  gint64 whole;

  if (is_whole && g_ascii_string_to_signed (copy, 10, G_MININT64, G_MAXINT64, &whole, NULL))
    return g_variant_ref_sink (g_variant_new_int64 (whole));
  if (is_whole && g_ascii_string_to_unsigned (copy, 10, 0, G_MAXUINT64, &large, NULL))
    return g_variant_ref_sink (g_variant_new_uint64 (large));
  return isfinite (real) ? g_variant_ref_sink (g_variant_new_double (real)) : NULL;
}

static GVariant *
read_value (Reader *reader)
{
  g_auto(GVariantBuilder) list = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("av"));
  g_auto(GVariantDict) object = G_VARIANT_DICT_INIT (NULL);
  gboolean is_object;
  GVariant *number;

  if (take (reader, '"'))
    return g_variant_ref_sink (g_variant_new_take_string (read_text (reader)));
  if (*reader->p == 't' || *reader->p == 'f')
    {
      gboolean is_true = *reader->p == 't';

      reader->p += is_true ? strlen ("true") : strlen ("false");
      return g_variant_ref_sink (g_variant_new_boolean (is_true));
    }
  if (*reader->p == 'n')
    return fail (reader, _("“null” can't be sent: leave it out"));
  is_object = take (reader, '{');
  if (!is_object && !take (reader, '['))
    {
      number = make_number (reader->p);
      if (number == NULL)
        return fail (reader, _("the number is too large"));
      reader->p += strspn (reader->p, NUMBER);
      return number;
    }

  while (!take (reader, is_object ? '}' : ']'))
    {
      g_autofree char *key = is_object && take (reader, '"') ? read_text (reader) : NULL;
      g_autoptr(GVariant) value = read_value (reader);

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

GVariant *
llmctl_json_read (const char  *text,
                  GError     **error)
{
  Reader reader = { .text = text, .p = text, .error = error };
  const char *at;
  const char *fault = llmsvc_json_find_fault (text, strlen (text), &limits, &at);

  if (fault == NULL)
    return read_value (&reader);
  reader.p = *at != '\0' ? at - 1 : at;
  return fail (&reader, fault);
}

GVariant *
llmctl_json_read_number (const char *text)
{
  gsize length = strspn (text, NUMBER);
  const char *at;

  return text[length] == '\0' && llmsvc_json_find_fault (text, length, &limits, &at) == NULL
             ? make_number (text)
             : NULL;
}
