/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl-i18n.h"

#include <libintl.h>
#include <locale.h>

#include "common/llmsvc-i18n.h"

void
llmctl_i18n_init (void)
{
  setlocale (LC_ALL, "");
  llmsvc_i18n_init ();
  textdomain (GETTEXT_PACKAGE);
}

const char *
llmctl_i18n_get_locale (void)
{
  const char *locale = setlocale (LC_MESSAGES, NULL);
  const char *language;

  /* As gettext: in the locale C nothing is translated, whatever LANGUAGE says. */
  if (locale == NULL || g_str_equal (locale, "C") || g_str_equal (locale, "POSIX"))
    return NULL;

  language = g_get_language_names_with_category ("LC_MESSAGES")[0];
  return g_str_equal (language, "C") || g_str_has_prefix (language, "C.") ? NULL : language;
}
