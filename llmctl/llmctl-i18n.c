/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl-i18n.h"

#include <libintl.h>
#include <locale.h>
#include <stdlib.h>

void
llmctl_i18n_init (void)
{
  const char *folder = secure_getenv ("LLMSVC_LOCALEDIR");

  setlocale (LC_ALL, "");
  bindtextdomain (GETTEXT_PACKAGE,
                  folder != NULL && g_path_is_absolute (folder) ? folder : LLM_LOCALEDIR);
  bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
  textdomain (GETTEXT_PACKAGE);
}
