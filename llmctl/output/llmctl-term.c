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

/* @name: for people. */
static char *
read_all (int          fd,
          const char  *name,
          gsize        max_bytes,
          GError     **error)
{
  g_autoptr(GString) text = g_string_new (NULL);
  char buffer[8192];
  gssize n;

  do
    {
      n = read (fd, buffer, sizeof buffer);
      if (n > 0)
        g_string_append_len (text, buffer, n);
    }
  while ((n > 0 || (n < 0 && errno == EINTR)) && text->len <= max_bytes);

  if (n < 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, _("%s can't be read: %s"), name,
                   g_strerror (errno));
      return NULL;
    }
  if (text->len > max_bytes)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                   _("%s has more than %zu bytes"), name, max_bytes);
      return NULL;
    }
  if (!g_utf8_validate_len (text->str, text->len, NULL))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   _("%s is not valid UTF-8 text"), name);
      return NULL;
    }

  return g_string_free (g_steal_pointer (&text), FALSE);
}

char *
llmctl_term_read (gsize    max_bytes,
                  GError **error)
{
  return read_all (STDIN_FILENO, _("The standard input"), max_bytes, error);
}

char *
llmctl_term_read_file (const char  *path,
                       gsize        max_bytes,
                       GError     **error)
{
  g_autofree char *name = g_filename_display_name (path);
  char *text;
  int fd;

  if (strcmp (path, "-") == 0)
    return llmctl_term_read (max_bytes, error);

  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, _("%s can't be read: %s"), name,
                   g_strerror (errno));
      return NULL;
    }
  text = read_all (fd, name, max_bytes, error);
  close (fd);
  return text;
}
