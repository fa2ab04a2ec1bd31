/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options from text, as people write them on command lines. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "values/llmsvc-options-private.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-option-value.h"

static const char *const words_true[] = { "true", "yes", "on", "1", NULL };
static const char *const words_false[] = { "false", "no", "off", "0", NULL };

static GVariant *
read_boolean (const char *key,
              const char *text,
              GError    **error)
{
  g_autofree char *shown = NULL;

  if (g_strv_contains (words_true, text))
    return g_variant_new_boolean (TRUE);
  if (g_strv_contains (words_false, text))
    return g_variant_new_boolean (FALSE);

  shown = llmsvc_shorten (text);
  llmsvc_option_fail (error, _("Option “%s” is “%s”, it must be “true” or “false”"), key,
                      shown);
  return NULL;
}

/* Whole numbers keep all their digits; the range is of the table's to check. */
static GVariant *
read_number (const char *key,
             const char *text,
             GError    **error)
{
  g_autofree char *shown = NULL;
  guint64 whole;
  double real;
  char *end;

  if (g_ascii_string_to_unsigned (text, 10, 0, G_MAXUINT64, &whole, NULL))
    return g_variant_new_uint64 (whole);

  real = g_ascii_strtod (text, &end);
  if (end != text && *end == '\0' && !g_ascii_isspace (text[0]))
    return g_variant_new_double (real);

  shown = llmsvc_shorten (text);
  llmsvc_option_fail (error, _("Option “%s” is “%s”, it must be a number"), key,
                      shown);
  return NULL;
}

/* @type: (nullable) */
static GVariant *
read_variant (const char         *key,
              const GVariantType *type,
              const char         *text,
              GError            **error)
{
  g_autoptr(GError) local = NULL;
  GVariant *value = g_variant_parse (type, text, NULL, NULL, &local);

  if (value == NULL)
    llmsvc_option_fail (error, _("Option “%s” can't be read: %s"), key, local->message);
  return value;
}

gboolean
llmsvc_options_set_from_string (LlmsvcOptions *self,
                                const char    *key,
                                const char    *text,
                                GError       **error)
{
  const LlmsvcOptionInfo *info;
  g_autoptr(GVariant) value = NULL;

  g_return_val_if_fail (LLMSVC_IS_OPTIONS (self), FALSE);
  g_return_val_if_fail (key != NULL, FALSE);
  g_return_val_if_fail (g_utf8_validate (key, -1, NULL), FALSE);
  g_return_val_if_fail (text != NULL, FALSE);

  if (!g_utf8_validate (text, -1, NULL))
    return llmsvc_option_fail (error, _("The value of option “%s” is not valid UTF-8 text"), key);

  info = llmsvc_option_find (key);
  if (info == NULL)
    value = read_variant (key, NULL, text, error);
  else if (g_str_equal (info->type, "as"))
    value = llmsvc_options_append (self, key, text);
  else if (g_str_equal (info->type, "b"))
    value = read_boolean (key, text, error);
  else if (g_str_equal (info->type, "s"))
    value = g_variant_new_string (text);
  else if (info->type[1] == '\0')
    value = read_number (key, text, error);
  else
    value = read_variant (key, G_VARIANT_TYPE (info->type), text, error);
  if (value == NULL)
    return FALSE;

  g_variant_take_ref (value);
  return llmsvc_options_set_value (self, key, value, error);
}
