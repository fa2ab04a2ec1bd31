/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options as calls send them. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "values/llmsvc-options-private.h"

#include <locale.h>
#include <string.h>

#include "common/llmsvc-option-value.h"

#define KEY_LOCALE "locale"
#define MAX_LOCALE_BYTES 64

/* (transfer full) (nullable): the language that the process speaks, as gettext finds it; NULL
 * when it has not asked for any. */
static char *
dup_locale (void)
{
  const char *locale = setlocale (LC_MESSAGES, NULL);
  const char *language = g_getenv ("LANGUAGE");

  if (locale == NULL || g_str_equal (locale, "C") || g_str_equal (locale, "POSIX"))
    return NULL;
  if (language != NULL && language[0] != '\0' && language[0] != ':')
    return g_strndup (language, strcspn (language, ":"));

  return g_str_has_prefix (locale, "C.") ? NULL : g_strdup (locale);
}

static void
add_locale (GVariantDict *dict)
{
  g_autofree char *locale = NULL;

  if (g_variant_dict_contains (dict, KEY_LOCALE))
    return;

  locale = dup_locale ();
  if (locale != NULL && strlen (locale) <= MAX_LOCALE_BYTES && g_str_is_ascii (locale))
    g_variant_dict_insert (dict, KEY_LOCALE, "s", locale);
}

/* What came in as a property may be out of range. */
static gboolean
check_ranges (LlmsvcOptions  *self,
              GError        **error)
{
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) i);
      GVariant *value = llmsvc_options_get_value (self, info->key);
      g_autoptr(GVariant) converted = NULL;

      if (value == NULL)
        continue;
      converted = llmsvc_option_value_convert (info, value, error);
      if (converted == NULL)
        return FALSE;
    }

  return TRUE;
}

GVariantDict *
llmsvc_options_begin (LlmsvcOptions  *options,
                      GError        **error)
{
  GVariantDict *dict;

  g_return_val_if_fail (options == NULL || LLMSVC_IS_OPTIONS (options), NULL);

  if (options != NULL)
    {
      g_autoptr(GVariant) set = NULL;

      if (!check_ranges (options, error))
        return NULL;
      set = llmsvc_options_to_variant (options);
      dict = g_variant_dict_new (set);
    }
  else
    {
      dict = g_variant_dict_new (NULL);
    }

  add_locale (dict);
  return dict;
}

GVariant *
llmsvc_options_take (LlmsvcOptions  *options,
                     GError        **error)
{
  g_autoptr(GVariantDict) dict = llmsvc_options_begin (options, error);

  return dict != NULL ? g_variant_dict_end (dict) : NULL;
}

static GVariant *
get_value (LlmsvcOptions *options,
           LlmsvcOption   id)
{
  return options != NULL ? llmsvc_options_get_value (options, llmsvc_option_get_info (id)->key)
                         : NULL;
}

gboolean
llmsvc_options_is_true (LlmsvcOptions *options,
                        LlmsvcOption   id)
{
  GVariant *value = get_value (options, id);

  return value != NULL && g_variant_get_boolean (value);
}

const char *
llmsvc_options_get_string (LlmsvcOptions *options,
                           LlmsvcOption   id)
{
  GVariant *value = get_value (options, id);

  return value != NULL ? g_variant_get_string (value, NULL) : NULL;
}
