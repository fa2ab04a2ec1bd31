/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-stream.h"

#include <gio/gunixinputstream.h>
#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/output/llmctl-output.h"

#define CHUNK_BYTES 8192

/* Bytes at the end of @text that are the begin of a character. */
static gsize
count_unfinished (const GString *text)
{
  for (gsize n = 1; n <= MIN (3, text->len); n++)
    if (g_utf8_get_char_validated (text->str + text->len - n, (gssize) n) == (gunichar) -2)
      return n;

  return 0;
}

/* Writes @held but for the begin of a character; a text may have NUL bytes in it. */
static gboolean
write_out (GString  *held,
           gboolean *has_open_line)
{
  gsize length = held->len - count_unfinished (held);
  gboolean is_there = TRUE;

  for (gsize begin = 0; begin < length && is_there;)
    {
      g_autofree char *part = g_strndup (held->str + begin, length - begin);

      is_there = llmctl_output_data (part);
      begin += strlen (part) + 1;
      if (begin <= length && is_there)
        is_there = llmctl_output_text (LLMCTL_STYLE_PLAIN, "\xef\xbf\xbd");
    }
  if (length > 0)
    *has_open_line = held->str[length - 1] != '\n';
  g_string_erase (held, 0, (gssize) length);
  return is_there && llmctl_output_flush ();
}

static gboolean
fail (GError       *reason,
      GError      **error)
{
  if (llmctl_wait_get_end () == LLMCTL_EXIT_TIME_LIMIT)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED,
                 _("The answer was not whole within %g s"), llmctl_globals.timeout_s);
  else if (llmctl_wait_get_end () == LLMCTL_EXIT_INTERRUPTED)
    g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, _("Interrupted"));
  else
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_LOST, _("The answer can't be read: %s"),
                 reason->message);

  return FALSE;
}

gboolean
llmctl_stream_copy (int      fd,
                    GError **error)
{
  g_autoptr(GInputStream) stream = g_unix_input_stream_new (fd, TRUE);
  g_autoptr(GString) held = g_string_new (NULL);
  gboolean has_open_line = FALSE;

  llmctl_wait_begin (TRUE);
  for (;;)
    {
      g_autoptr(GError) reason = NULL;
      char bytes[CHUNK_BYTES];
      gssize n = g_input_stream_read (stream, bytes, sizeof bytes, llmctl_wait_get_cancellable (),
                                      &reason);

      if (n < 0)
        return fail (reason, error);
      if (n == 0)
        break;
      g_string_append_len (held, bytes, n);
      /* Without a stdout nobody wants the rest. */
      if (!write_out (held, &has_open_line))
        return TRUE;
    }

  /* The begin of a character that has not come as a whole; and the prompt of the shell shall not
   * stand behind the answer. */
  if (held->len > 0)
    has_open_line = TRUE;
  if (llmctl_output_data (held->str) && has_open_line && isatty (STDOUT_FILENO))
    llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  llmctl_output_flush ();
  return TRUE;
}
