/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-i18n.h"

#include <libintl.h>

/* A translation is a format, so who names its folder could make a program with
 * more rights print what lies in its memory. */
const char *
llmsvc_i18n_get_folder (void)
{
  const char *folder = secure_getenv ("LLMSVC_LOCALEDIR");

  return folder != NULL && g_path_is_absolute (folder) ? folder : LLM_LOCALEDIR;
}

void
llmsvc_i18n_init (void)
{
  static gsize done = 0;

  if (g_once_init_enter (&done))
    {
      bindtextdomain (GETTEXT_PACKAGE, llmsvc_i18n_get_folder ());
      bind_textdomain_codeset (GETTEXT_PACKAGE, "UTF-8");
      g_once_init_leave (&done, 1);
    }
}
