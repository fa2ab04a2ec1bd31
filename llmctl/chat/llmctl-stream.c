/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gi18n.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/llmctl.h"

#define CHUNK_BYTES 8192

typedef struct
{
  GString *held;        /* the begin of a character that has not come as a whole */
  GError *error;        /* (nullable) (owned) */
  gboolean has_open_line;
  gboolean is_done;
} Copy;

/* The bytes at the end of @text that may be the begin of a character. */
static gsize
count_unfinished (const char *text,
                  gsize       length)
{
  for (gsize n = 1; n <= 3 && n <= length; n++)
    {
      guchar byte = (guchar) text[length - n];
      gsize wanted = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;

      if (byte >= 0xc0)
        return wanted > n ? n : 0;
      if (byte < 0x80)
        return 0;
    }

  return 0;
}

static gboolean
write_out (Copy     *copy,
           gboolean  is_end)
{
  gsize keep = is_end ? 0 : count_unfinished (copy->held->str, copy->held->len);
  gsize length = copy->held->len - keep;
  gboolean is_there = TRUE;

  /* A text may have NUL bytes in it. */
  for (gsize begin = 0; begin < length && is_there;)
    {
      g_autofree char *part = g_strndup (copy->held->str + begin, length - begin);
      gsize part_length = strlen (part);

      is_there = llmctl_output_data (part);
      begin += part_length;
      if (begin < length && is_there)
        is_there = llmctl_output_text (LLMCTL_STYLE_PLAIN, "\xef\xbf\xbd");
      begin++;
    }
  if (length > 0)
    copy->has_open_line = copy->held->str[length - 1] != '\n';
  g_string_erase (copy->held, 0, (gssize) length);
  /* The prompt of the shell shall not stand behind the answer. */
  if (is_end && copy->has_open_line && isatty (STDOUT_FILENO))
    is_there = is_there && llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  return is_there && llmctl_output_flush ();
}

static gboolean
on_readable (int          fd,
             GIOCondition condition,
             gpointer     user_data)
{
  Copy *copy = user_data;
  char buffer[CHUNK_BYTES];
  gssize n = read (fd, buffer, sizeof buffer);

  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return G_SOURCE_CONTINUE;
  if (n < 0)
    copy->error = g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_LOST,
                               _("The answer can't be read: %s"), g_strerror (errno));
  if (n > 0)
    g_string_append_len (copy->held, buffer, n);
  /* Without a stdout nobody wants the rest. */
  copy->is_done = !write_out (copy, n <= 0) || n <= 0;
  return G_SOURCE_CONTINUE;
}

static gboolean
on_interrupt (gpointer user_data)
{
  Copy *copy = user_data;

  llmctl_set_interrupted ();
  copy->error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, _("Interrupted"));
  copy->is_done = TRUE;
  return G_SOURCE_REMOVE;
}

static gboolean
on_time_limit (gpointer user_data)
{
  Copy *copy = user_data;

  copy->error = g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED,
                             _("The answer was not whole within %g s"), llmctl_globals.timeout_s);
  copy->is_done = TRUE;
  return G_SOURCE_REMOVE;
}

static void
attach (GSource      *source,
        GSourceFunc   callback,
        Copy         *copy,
        GMainContext *context)
{
  g_source_set_callback (source, callback, copy, NULL);
  g_source_attach (source, context);
}

gboolean
llmctl_stream_copy (int      fd,
                    GError **error)
{
  g_autoptr(GMainContext) context = g_main_context_new ();
  g_autoptr(GString) held = g_string_new (NULL);
  g_autoptr(GSource) pipe_source = g_unix_fd_source_new (fd, G_IO_IN | G_IO_HUP | G_IO_ERR);
  g_autoptr(GSource) interrupt = g_unix_signal_source_new (SIGINT);
  g_autoptr(GSource) limit = NULL;
  Copy copy = { .held = held };

  attach (pipe_source, G_SOURCE_FUNC (on_readable), &copy, context);
  attach (interrupt, on_interrupt, &copy, context);
  if (llmctl_globals.timeout_s > 0)
    {
      limit = g_timeout_source_new ((guint) llmctl_get_timeout_ms ());
      attach (limit, on_time_limit, &copy, context);
    }

  while (!copy.is_done)
    g_main_context_iteration (context, TRUE);

  g_source_destroy (pipe_source);
  g_source_destroy (interrupt);
  if (limit != NULL)
    g_source_destroy (limit);
  close (fd);
  if (copy.error == NULL)
    return TRUE;
  g_propagate_error (error, copy.error);
  return FALSE;
}
