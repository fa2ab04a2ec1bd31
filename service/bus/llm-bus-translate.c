/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "config.h"

#include "bus/llm-bus-translate.h"

#include <stdio.h>

#include "base/llm-translation.h"
#include "common/llmsvc-i18n.h"

/* Limit of entries in a list by preference. */
#define MAX_CHOICES 8

static char *fallback = NULL;          /* (nullable): of callers without a locale */
static GHashTable *languages = NULL;   /* (element-type utf8 LlmTranslation) (nullable) */

/* (nullable) (transfer none): that of "de" or "de_AT". */
static const LlmTranslation *
find_language (const char *name)
{
  g_autofree char *path = g_build_filename (llmsvc_i18n_get_folder (), name, "LC_MESSAGES",
                                            GETTEXT_PACKAGE ".mo", NULL);
  g_autoptr(GBytes) bytes = NULL;
  LlmTranslation *translation;
  char *content;
  gsize size;

  if (languages == NULL)
    languages = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                       (GDestroyNotify) llm_translation_free);
  translation = g_hash_table_lookup (languages, name);
  if (translation != NULL || !g_file_get_contents (path, &content, &size, NULL))
    return translation;

  bytes = g_bytes_new_take (content, size);
  translation = llm_translation_new (bytes);
  if (translation != NULL)
    g_hash_table_insert (languages, g_strdup (name), translation);
  else
    g_message ("%s is no file of translations", path);
  return translation;
}

/* (nullable) (transfer none): the translation for one name, "de_AT.UTF-8@euro": that of
 * its territory, else of its language; *@is_english for what needs none. */
static const LlmTranslation *
find_for_name (const char *name,
               gboolean   *is_english)
{
  /* only letters, as they become parts of a path */
  char letters[2][8] = { "", "" };
  int n_parts = sscanf (name, "%7[A-Za-z]%*1[-_]%7[A-Za-z]", letters[0], letters[1]);
  g_autofree char *language = g_ascii_strdown (letters[0], -1);
  g_autofree char *territory = g_ascii_strup (letters[1], -1);
  g_autofree char *both = g_strconcat (
    language, "_", g_str_equal (territory, "HANS") ? "CN" : territory, NULL);
  const LlmTranslation *translation = NULL;

  *is_english = g_str_equal (language, "en") || g_str_equal (letters[0], "C") ||
                g_str_equal (letters[0], "POSIX");
  if (*is_english || n_parts < 1)
    return NULL;
  if (n_parts > 1)
    translation = find_language (both);
  return translation != NULL ? translation : find_language (language);
}

char *
llm_bus_translate (const char   *locale,
                   const GError *error)
{
  const char *wanted = locale != NULL ? locale : fallback;
  g_auto(GStrv) names = g_strsplit (wanted != NULL ? wanted : "", ":", MAX_CHOICES + 1);
  const LlmTranslation *translation = NULL;
  gboolean is_english = FALSE;

  for (guint i = 0;
       names[i] != NULL && i < MAX_CHOICES && !is_english && translation == NULL; i++)
    translation = find_for_name (names[i], &is_english);

  return translation != NULL ? llm_translation_apply (translation, error)
                             : g_strdup (error->message);
}

void
llm_bus_translate_use_environment (void)
{
  static const char *const variables[] = { "LC_ALL", "LC_MESSAGES", "LANG" };
  const char *language = g_getenv ("LANGUAGE");
  const char *locale = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (variables) && (locale == NULL || *locale == '\0'); i++)
    locale = g_getenv (variables[i]);
  g_clear_pointer (&fallback, g_free);
  if (locale != NULL && *locale != '\0' && !g_str_equal (locale, "C") &&
      !g_str_equal (locale, "POSIX"))
    fallback = g_strdup (language != NULL && *language != '\0' ? language : locale);
}
