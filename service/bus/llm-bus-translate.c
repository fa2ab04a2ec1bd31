/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "config.h"

#include "bus/llm-bus-translate.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/llm-translation.h"
#include "common/llmsvc-i18n.h"

/* A translation takes a hundred kilobytes. */
#define MAX_LANGUAGES  8
#define MAX_FILE_BYTES (4 * 1024 * 1024)
/* Of a list by preference, so many are looked at. */
#define MAX_CHOICES    8

static char *fallback = NULL;             /* (nullable): of callers that have told no locale */
static GHashTable *languages = NULL;      /* (element-type utf8 LlmTranslation) (nullable) */

/* (nullable) */
static LlmTranslation *
load (const char *language)
{
  g_autofree char *path = g_build_filename (llmsvc_i18n_get_folder (), language, "LC_MESSAGES",
                                            GETTEXT_PACKAGE ".mo", NULL);
  g_autoptr(GBytes) bytes = NULL;
  LlmTranslation *translation;
  char *content;
  GStatBuf status;
  gsize size;

  if (g_stat (path, &status) != 0 || !S_ISREG (status.st_mode) ||
      status.st_size > MAX_FILE_BYTES || !g_file_get_contents (path, &content, &size, NULL))
    return NULL;

  bytes = g_bytes_new_take (content, size);
  translation = llm_translation_new (bytes);
  if (translation == NULL)
    g_message ("%s is no file of translations in UTF-8", path);
  return translation;
}

/* (nullable) (transfer none) */
static LlmTranslation *
find_language (const char *language)
{
  LlmTranslation *translation;

  if (languages == NULL)
    languages = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                       (GDestroyNotify) llm_translation_free);
  translation = g_hash_table_lookup (languages, language);
  if (translation != NULL || (translation = load (language)) == NULL)
    return translation;

  if (g_hash_table_size (languages) >= MAX_LANGUAGES)
    g_hash_table_remove_all (languages);
  g_hash_table_insert (languages, g_strdup (language), translation);
  return translation;
}

/* Whether @text has so many letters, and nothing else: it becomes a part of a path. */
static gboolean
has_letters (const char *text,
             gsize       min,
             gsize       max)
{
  gsize n = 0;

  while (g_ascii_isalpha (text[n]))
    n++;
  return text[n] == '\0' && n >= min && n <= max;
}

/* (nullable) (transfer none): the translation for one name, "de_AT.UTF-8@euro": that of
 * its territory, else of its language; *@is_english for what needs none. */
static LlmTranslation *
find_for_name (const char *name,
               gboolean   *is_english)
{
  g_autofree char *plain = g_strdelimit (g_strndup (name, strcspn (name, ".@")), "-", '_');
  g_auto(GStrv) parts = g_strsplit (plain, "_", 3);
  g_autofree char *language = NULL;
  g_autofree char *territory = NULL;
  LlmTranslation *translation = NULL;

  if (parts[0] == NULL || !has_letters (parts[0], 2, 3))
    {
      *is_english = g_str_equal (plain, "C") || g_str_equal (plain, "POSIX");
      return NULL;
    }
  language = g_ascii_strdown (parts[0], -1);
  *is_english = g_str_equal (language, "en");
  if (*is_english)
    return NULL;

  if (parts[1] != NULL && g_ascii_strcasecmp (parts[1], "hans") == 0)
    territory = g_strdup ("CN");
  else if (parts[1] != NULL && parts[2] == NULL && has_letters (parts[1], 2, 2))
    territory = g_ascii_strup (parts[1], -1);
  if (territory != NULL)
    {
      g_autofree char *both = g_strconcat (language, "_", territory, NULL);

      translation = find_language (both);
    }
  return translation != NULL ? translation : find_language (language);
}

char *
llm_bus_translate (const char *locale,
                   const char *message)
{
  const char *wanted = locale != NULL ? locale : fallback;
  g_auto(GStrv) names = g_strsplit (wanted != NULL ? wanted : "", ":", MAX_CHOICES + 1);
  LlmTranslation *translation = NULL;
  gboolean is_english = FALSE;

  for (guint i = 0;
       names[i] != NULL && i < MAX_CHOICES && !is_english && translation == NULL; i++)
    translation = find_for_name (names[i], &is_english);

  return translation != NULL ? llm_translation_apply (translation, message) : g_strdup (message);
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
