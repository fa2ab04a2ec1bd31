/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From lines to what is meant by them. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat.h"

#include <errno.h>
#include <glib-unix.h>
#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "llmctl/chat/llmctl-chat-history.h"
#include "llmctl/chat/llmctl-chat-line.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-wait.h"

#define BLOCK "\"\"\""
#define MORE_PROMPT "| "
#define MAX_ENTRY_BYTES (16 * 1024 * 1024)

/* --- a pipe --- */

static gboolean
on_readable (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  gboolean *is_ready = data;

  *is_ready = TRUE;
  return G_SOURCE_REMOVE;
}

/* Waits, so that Ctrl-C and the library have their turn. FALSE when the waiting ended. */
static gboolean
wait_for_input (void)
{
  gboolean is_ready = FALSE;
  guint source = g_unix_fd_add (STDIN_FILENO, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable,
                                &is_ready);

  while (!is_ready && llmctl_wait_get_end () == LLMCTL_EXIT_OK)
    g_main_context_iteration (NULL, TRUE);
  if (!is_ready)
    g_source_remove (source);

  return is_ready;
}

/* (transfer full) (nullable): the first line of what is pending, and of its end if
 * @is_end. */
static char *
take_line (GString  *pending,
           gboolean  is_end)
{
  const char *newline = memchr (pending->str, '\n', pending->len);
  gsize length = newline != NULL ? (gsize) (newline - pending->str) : pending->len;
  char *line;

  if (newline == NULL && (!is_end || length == 0))
    return NULL;

  line = g_malloc (length + 1);
  memcpy (line, pending->str, length);
  line[length] = '\0';
  /* A NUL byte would cut it short without a word: that is no text either. */
  if (!g_utf8_validate_len (line, length, NULL))
    line[0] = '\377';
  g_string_erase (pending, 0, (gssize) (newline != NULL ? length + 1 : length));
  return line;
}

static LlmctlChatLine
read_pipe (LlmctlChat  *self,
           char       **line)
{
  char buffer[65536];
  gssize n;

  if (self->pending == NULL)
    self->pending = g_string_new (NULL);
  llmctl_wait_begin (FALSE);
  while ((*line = take_line (self->pending, FALSE)) == NULL)
    {
      if (!wait_for_input ())
        return LLMCTL_CHAT_LINE_INTERRUPTED;
      n = read (STDIN_FILENO, buffer, sizeof buffer);
      if (n < 0 && (errno == EINTR || errno == EAGAIN))
        continue;
      if (n > 0 && self->pending->len + (gsize) n <= MAX_ENTRY_BYTES)
        {
          g_string_append_len (self->pending, buffer, n);
          continue;
        }

      if (n < 0)
        llmctl_complain (_("The standard input can't be read: %s"), g_strerror (errno));
      else if (n > 0)
        llmctl_complain (_("A line of the standard input has more than %d bytes"),
                         MAX_ENTRY_BYTES);
      if (n != 0)
        self->status = LLMCTL_EXIT_FAILED;
      *line = n == 0 ? take_line (self->pending, TRUE) : NULL;
      return *line != NULL ? LLMCTL_CHAT_LINE_READ : LLMCTL_CHAT_LINE_END;
    }

  return LLMCTL_CHAT_LINE_READ;
}

/* --- both --- */

static LlmctlChatLine
read_line (LlmctlChat  *self,
           gboolean     is_first,
           char       **line)
{
  g_autofree char *prompt = NULL;

  if (!self->is_interactive)
    return read_pipe (self, line);

  /* Only ASCII has the same width in every locale. */
  if (!is_first)
    prompt = g_strdup (MORE_PROMPT);
  else if (self->name != NULL && g_str_is_ascii (self->name) && strlen (self->name) < 32)
    {
      g_autofree char *harmless = llmctl_output_make_harmless (self->name);

      prompt = g_str_is_ascii (harmless) ? g_strconcat (harmless, "> ", NULL) : g_strdup ("> ");
    }
  else
    prompt = g_strdup ("> ");

  return llmctl_chat_line_read (prompt, line);
}

static gboolean
is_block_mark (const char *line)
{
  g_autofree char *stripped = g_strstrip (g_strdup (line));

  return g_str_equal (stripped, BLOCK);
}

/* Whether it ends with one backslash, which is then taken off; two are one that is meant. */
static gboolean
takes_more (char *line)
{
  gsize length = strlen (line);

  if (length == 0 || line[length - 1] != '\\')
    return FALSE;

  line[length - 1] = '\0';
  return length < 2 || line[length - 2] != '\\';
}

static void
remember (LlmctlChat *self,
          const char *entry)
{
  if (self->history_path == NULL || *entry == '\0' || *entry == ' ')
    return;

  llmctl_chat_line_add_history (entry);
  llmctl_chat_history_append (self->history_path, entry);
}

/* @is_block: (out): it was between two marks. FALSE at the end. */
static gboolean
read_entry (LlmctlChat *self,
            GString    *entry,
            gboolean   *is_block)
{
  gboolean is_first = TRUE;

  *is_block = self->wants_block;
  self->wants_block = FALSE;
  for (;;)
    {
      g_autofree char *line = NULL;
      gboolean has_more;

      switch (read_line (self, is_first && !*is_block, &line))
        {
        case LLMCTL_CHAT_LINE_INTERRUPTED:
          if (!self->is_interactive)
            {
              self->status = LLMCTL_EXIT_INTERRUPTED;
              return FALSE;
            }
          g_string_truncate (entry, 0);
          is_first = TRUE;
          *is_block = FALSE;
          continue;
        case LLMCTL_CHAT_LINE_END:
          return !is_first && entry->len > 0;
        case LLMCTL_CHAT_LINE_READ:
        default:
          break;
        }

      if (is_block_mark (line) && (*is_block || is_first))
        {
          if (*is_block)
            return TRUE;
          *is_block = TRUE;
          continue;
        }
      has_more = !*is_block && takes_more (line);
      if (!is_first)
        g_string_append_c (entry, '\n');
      g_string_append (entry, line);
      is_first = FALSE;
      if (!*is_block && !has_more)
        return TRUE;
    }
}

gboolean
llmctl_chat_next (LlmctlChat  *self,
                  char       **entry,
                  gboolean    *is_command)
{
  while (!self->is_over)
    {
      g_autoptr(GString) text = g_string_new (NULL);
      gboolean is_block = FALSE;

      if (!read_entry (self, text, &is_block))
        return FALSE;
      if (!g_utf8_validate (text->str, -1, NULL))
        {
          llmctl_complain (_("What was typed is not valid UTF-8 text"));
          self->status = LLMCTL_EXIT_USAGE;
          continue;
        }
      remember (self, text->str);
      if (strspn (text->str, " \t\n") == text->len)
        continue;

      /* With --json every line is a turn, so that any text can be sent. */
      *is_command = !is_block && text->str[0] == '/' && text->str[1] != '/' &&
                    !llmctl_globals.is_json;
      if (!is_block && !llmctl_globals.is_json && g_str_has_prefix (text->str, "//"))
        g_string_erase (text, 0, 1);
      *entry = g_string_free (g_steal_pointer (&text), FALSE);
      return TRUE;
    }

  return FALSE;
}
