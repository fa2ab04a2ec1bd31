/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-term.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "llmsvc.h"

char *
llmctl_term_read (const char  *path,
                  gsize        max_bytes,
                  GError     **error)
{
  gboolean is_stdin = strcmp (path, "-") == 0;
  g_autofree char *name = is_stdin ? g_strdup (_("The standard input"))
                                   : g_filename_display_name (path);
  g_autofree char *text = g_malloc (max_bytes + 2);
  FILE *file = is_stdin ? stdin : fopen (path, "re");
  gsize n = file != NULL ? fread (text, 1, max_bytes + 1, file) : 0;
  gboolean is_text = FALSE;

  text[n] = '\0';
  if (file == NULL || ferror (file))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, _("%s can't be read: %s"), name,
                 g_strerror (errno));
  else if (n > max_bytes)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                 _("%s has more than %zu bytes"), name, max_bytes);
  else if (!g_utf8_validate_len (text, n, NULL))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 _("%s is not valid UTF-8 text"), name);
  else
    is_text = TRUE;
  if (file != NULL && !is_stdin)
    fclose (file);

  return is_text ? g_realloc (g_steal_pointer (&text), n + 1) : NULL;
}
