/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "config.h"

#include "bus/llm-bus-translate.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/llm-translation.h"

/* A translation takes a hundred kilobytes. */
#define MAX_LANGUAGES  8
#define MAX_FILE_BYTES (4 * 1024 * 1024)
/* Of a list by preference, so many are looked at. */
#define MAX_CHOICES    8

struct _LlmBusTranslator
{
  char *folder;
  char *fallback;          /* (nullable) */
  GHashTable *languages;   /* (element-type utf8 LlmTranslation) (owned): those in use */
};

LlmBusTranslator *
llm_bus_translator_new (const char *folder,
                        const char *fallback)
{
  LlmBusTranslator *self = g_rc_box_new0 (LlmBusTranslator);

  self->folder = g_strdup (folder);
  self->fallback = g_strdup (fallback);
  self->languages = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                           (GDestroyNotify) llm_translation_free);
  return self;
}

LlmBusTranslator *
llm_bus_translator_ref (LlmBusTranslator *self)
{
  return g_rc_box_acquire (self);
}

static void
clear_translator (gpointer data)
{
  LlmBusTranslator *self = data;

  g_hash_table_unref (self->languages);
  g_free (self->fallback);
  g_free (self->folder);
}

void
llm_bus_translator_unref (LlmBusTranslator *self)
{
  g_rc_box_release_full (self, clear_translator);
}

static LlmTranslation *
load (LlmBusTranslator *self,
      const char       *language)
{
  g_autofree char *path = g_build_filename (self->folder, language, "LC_MESSAGES",
                                            GETTEXT_PACKAGE ".mo", NULL);
  g_autofree char *content = NULL;
  g_autoptr(GBytes) bytes = NULL;
  GStatBuf status;
  LlmMoFile *file;
  gsize size;

  if (g_stat (path, &status) != 0 || !S_ISREG (status.st_mode) ||
      status.st_size > MAX_FILE_BYTES || !g_file_get_contents (path, &content, &size, NULL))
    return NULL;

  bytes = g_bytes_new_take (g_steal_pointer (&content), size);
  file = llm_mo_file_new (bytes);
  if (file == NULL)
    {
      g_message ("%s is no file of translations in UTF-8", path);
      return NULL;
    }

  return llm_translation_new (file);
}

/* (nullable) (transfer none) */
static LlmTranslation *
find_language (LlmBusTranslator *self,
               const char       *language)
{
  LlmTranslation *translation = g_hash_table_lookup (self->languages, language);

  if (translation != NULL)
    return translation;

  translation = load (self, language);
  if (translation == NULL)
    return NULL;

  if (g_hash_table_size (self->languages) >= MAX_LANGUAGES)
    g_hash_table_remove_all (self->languages);
  g_hash_table_insert (self->languages, g_strdup (language), translation);
  return translation;
}

static gboolean
has_only (const char *text,
          gsize       min,
          gsize       max)
{
  gsize n = 0;

  while (g_ascii_isalpha (text[n]))
    n++;
  return text[n] == '\0' && n >= min && n <= max;
}

/* A part of a name in the case that the names of folders have. FALSE unless it is
 * a language and, if there is one, a territory. */
static gboolean
split_name (char  *name,
            char **language,
            char **territory)
{
  char *separator;

  name[strcspn (name, ".")] = '\0';
  g_strdelimit (name, "-", '_');
  separator = strchr (name, '_');
  if (separator != NULL)
    *separator++ = '\0';
  if (!has_only (name, 2, 3))
    return FALSE;

  *language = g_ascii_strdown (name, -1);
  if (separator != NULL && g_ascii_strncasecmp (separator, "hans", 4) == 0 &&
      (separator[4] == '\0' || separator[4] == '_'))
    *territory = g_strdup ("CN");
  else if (separator != NULL && has_only (separator, 2, 2))
    *territory = g_ascii_strup (separator, -1);

  return TRUE;
}

/* (nullable) (transfer none): the translation for one name, "de_AT.UTF-8@euro": that of
 * its territory, else of its language; *@is_english for what needs none. */
static LlmTranslation *
find_for_name (LlmBusTranslator *self,
               const char       *name,
               gboolean         *is_english)
{
  g_autofree char *plain = g_strndup (name, strcspn (name, "@"));
  g_autofree char *language = NULL;
  g_autofree char *territory = NULL;
  g_autofree char *both = NULL;
  LlmTranslation *translation = NULL;

  *is_english = FALSE;
  if (!split_name (plain, &language, &territory))
    {
      *is_english = g_str_equal (plain, "C") || g_str_equal (plain, "POSIX");
      return NULL;
    }
  if (g_str_equal (language, "en"))
    {
      *is_english = TRUE;
      return NULL;
    }

  if (territory != NULL)
    {
      both = g_strconcat (language, "_", territory, NULL);
      translation = find_language (self, both);
    }
  return translation != NULL ? translation : find_language (self, language);
}

static LlmTranslation *
find_for_locale (LlmBusTranslator *self,
                 const char       *locale)
{
  g_auto(GStrv) names = g_strsplit (locale, ":", MAX_CHOICES + 1);
  gboolean is_english = FALSE;

  for (guint i = 0; names[i] != NULL && i < MAX_CHOICES && !is_english; i++)
    {
      LlmTranslation *translation = find_for_name (self, names[i], &is_english);

      if (translation != NULL)
        return translation;
    }

  return NULL;
}

char *
llm_bus_translator_translate (LlmBusTranslator *self,
                              const char       *locale,
                              const char       *message)
{
  const char *wanted = locale != NULL ? locale : self->fallback;
  LlmTranslation *translation = wanted != NULL ? find_for_locale (self, wanted) : NULL;

  return translation != NULL ? llm_translation_apply (translation, message) : g_strdup (message);
}

GError *
llm_bus_translator_translate_error (LlmBusTranslator *self,
                                    const char       *locale,
                                    const GError     *error)
{
  g_autofree char *message = llm_bus_translator_translate (self, locale, error->message);

  return g_error_new_literal (error->domain, error->code, message);
}

static const char *
get_variable (const char *name)
{
  const char *value = g_getenv (name);

  return value != NULL && *value != '\0' ? value : NULL;
}

char *
llm_bus_translator_guess_locale (void)
{
  static const char *const variables[] = { "LC_ALL", "LC_MESSAGES", "LANG" };
  const char *language = get_variable ("LANGUAGE");
  const char *locale = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (variables) && locale == NULL; i++)
    locale = get_variable (variables[i]);
  if (locale == NULL || g_str_equal (locale, "C") || g_str_equal (locale, "POSIX"))
    return NULL;

  return g_strdup (language != NULL ? language : locale);
}
