/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-term.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "llmsvc.h"

char *
llmctl_term_read_file (const char  *path,
                       gsize        max_bytes,
                       GError     **error)
{
  gboolean is_stdin = strcmp (path, "-") == 0;
  g_autofree char *name = is_stdin ? g_strdup (_("The standard input"))
                                   : g_filename_display_name (path);
  g_autoptr(GString) text = g_string_new (NULL);
  int fd = is_stdin ? STDIN_FILENO : open (path, O_RDONLY | O_CLOEXEC);
  gboolean is_text = FALSE;
  char buffer[8192];
  gssize n = -1;

  while (fd >= 0 && text->len <= max_bytes)
    {
      n = read (fd, buffer, sizeof buffer);
      if (n == 0 || (n < 0 && errno != EINTR))
        break;
      if (n > 0)
        g_string_append_len (text, buffer, n);
    }
  if (n < 0)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, _("%s can't be read: %s"), name,
                 g_strerror (errno));
  else if (text->len > max_bytes)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                 _("%s has more than %zu bytes"), name, max_bytes);
  else if (!g_utf8_validate_len (text->str, text->len, NULL))
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 _("%s is not valid UTF-8 text"), name);
  else
    is_text = TRUE;
  if (fd > STDIN_FILENO)
    close (fd);

  return is_text ? g_string_free (g_steal_pointer (&text), FALSE) : NULL;
}

char *
llmctl_term_read (gsize    max_bytes,
                  GError **error)
{
  return llmctl_term_read_file ("-", max_bytes, error);
}
