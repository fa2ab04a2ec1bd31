/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl-term.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

static char *
replace_controls (const char *text)
{
  GString *out = g_string_new (NULL);

  for (const char *p = text; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      g_string_append_unichar (out, c != '\n' && c != '\t' && g_unichar_iscntrl (c) ? 0xfffd : c);
    }

  return g_string_free (out, FALSE);
}

gboolean
llmctl_term_write (const char  *text,
                   GError     **error)
{
  g_autofree char *harmless = isatty (STDOUT_FILENO) ? replace_controls (text) : NULL;
  const char *bytes = harmless != NULL ? harmless : text;

  if (fputs (bytes, stdout) != EOF && fflush (stdout) == 0)
    return TRUE;

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
               "The answer can't be written: %s", g_strerror (errno));
  return FALSE;
}

char *
llmctl_term_read (gsize    max_bytes,
                  GError **error)
{
  g_autoptr(GString) text = g_string_new (NULL);
  char buffer[8192];
  gssize n;

  do
    {
      n = read (STDIN_FILENO, buffer, sizeof buffer);
      if (n > 0)
        g_string_append_len (text, buffer, n);
    }
  while ((n > 0 || (n < 0 && errno == EINTR)) && text->len <= max_bytes);

  if (n < 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   "The standard input can't be read: %s", g_strerror (errno));
      return NULL;
    }
  if (text->len > max_bytes)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                   "The standard input has more than %" G_GSIZE_FORMAT " bytes", max_bytes);
      return NULL;
    }
  if (!g_utf8_validate_len (text->str, text->len, NULL))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "The standard input is not valid UTF-8 text");
      return NULL;
    }

  return g_string_free (g_steal_pointer (&text), FALSE);
}
