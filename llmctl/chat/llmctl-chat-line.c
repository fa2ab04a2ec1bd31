/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-chat-line.h"

#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/output/llmctl-output.h"

#define MAX_ENTRIES     1000
#define MAX_ENTRY_BYTES (64 * 1024)   /* a longer one is not kept */

/* readline keeps its own state for the process; this is what its callbacks need. */
static struct
{
  LlmctlChatLineComplete complete;
  gpointer data;
  GPtrArray *candidates;  /* (nullable) (owned): of the completion under way */
  char *history_path;     /* (owned) */
  char *line;             /* (nullable): of malloc() */
  gboolean is_done;
} state;

static void
on_line (char *line)
{
  state.line = line;
  state.is_done = TRUE;
  /* At once: otherwise the prompt is shown again while the answer comes. */
  rl_callback_handler_remove ();
}

/* --- history --- */

static void
read_entries (void)
{
  struct stat status;

  using_history ();
  if (lstat (state.history_path, &status) != 0 || !S_ISREG (status.st_mode) ||
      read_history (state.history_path) != 0)
    return;
  /* not each time, as it is written anew for that */
  if (history_length > 2 * MAX_ENTRIES)
    (void) history_truncate_file (state.history_path, MAX_ENTRIES);
  stifle_history (MAX_ENTRIES);
  for (int i = 0; i < history_length; i++)
    {
      g_autofree char *entry = g_strcompress (history_list ()[i]->line);

      free_history_entry (replace_history_entry (i, entry, NULL));
    }
}

static void
write_entry (const char *entry)
{
  g_autofree char *folder = g_path_get_dirname (state.history_path);
  g_autoptr(GString) line = g_string_new (entry);
  int fd;

  if (strlen (entry) > MAX_ENTRY_BYTES || g_mkdir_with_parents (folder, 0700) != 0)
    return;
  fd = open (state.history_path,
             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0)
    return;

  /* In one piece, so that chats side by side don't mix their lines. */
  g_string_replace (line, "\\", "\\\\", 0);
  g_string_replace (line, "\n", "\\n", 0);
  g_string_append_c (line, '\n');
  if (fchmod (fd, 0600) != 0 || write (fd, line->str, line->len) < 0)
    g_debug ("The history is not written");
  close (fd);
}

void
llmctl_chat_line_remember (const char *entry)
{
  HIST_ENTRY *last = history_length > 0 ? history_get (history_base + history_length - 1) : NULL;

  if (last == NULL || strcmp (last->line, entry) != 0)
    add_history (entry);
  write_entry (entry);
}

/* --- completion --- */

static char *
next_candidate (const char *word,
                int         n_called)
{
  static guint at;

  if (n_called == 0)
    at = 0;
  while (at < state.candidates->len)
    {
      /* Names come from outside, and the terminal shows them. */
      g_autofree char *harmless =
          llmctl_output_make_harmless (g_ptr_array_index (state.candidates, at++));

      if (*harmless != '\0' && g_str_has_prefix (harmless, word))
        return strdup (harmless);
    }

  return NULL;
}

static char **
on_complete (const char *word,
             int         start,
             int         end)
{
  g_autofree char *before = g_strndup (rl_line_buffer, (gsize) end);
  char **matches;

  /* File names are not wanted where there is nothing else. */
  rl_attempted_completion_over = 1;
  g_clear_pointer (&state.candidates, g_ptr_array_unref);
  state.candidates = g_ptr_array_new_with_free_func (g_free);
  state.complete (before, state.candidates, state.data);
  matches = rl_completion_matches (word, next_candidate);

  /* “key=” goes on with its value. */
  if (matches != NULL && g_str_has_suffix (matches[0], "="))
    rl_completion_suppress_append = 1;
  return matches;
}

void
llmctl_chat_line_begin (LlmctlChatLineComplete complete,
                        gpointer               data)
{
  state.complete = complete;
  state.data = data;
  state.history_path = g_build_filename (g_get_user_state_dir (), "llmsvc", "chat-history", NULL);

  /* The main loop has the signals. */
  rl_catch_signals = 0;
  rl_catch_sigwinch = 0;
  rl_readline_name = "llmctl";
  rl_outstream = stdout;
  rl_basic_word_break_characters = " \t\n";
  rl_attempted_completion_function = on_complete;
  read_entries ();
}

/* --- reading --- */

static gboolean
on_readable (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  if (!state.is_done)
    rl_callback_read_char ();

  return G_SOURCE_CONTINUE;
}

static gboolean
on_size_changed (gpointer data)
{
  rl_resize_terminal ();
  return G_SOURCE_CONTINUE;
}

LlmctlChatLine
llmctl_chat_line_read (const char  *prompt,
                       char       **line)
{
  g_autofree char *styled = llmctl_output_has_colour (STDOUT_FILENO)
                                ? g_strdup_printf ("\001\033[1m\002%s\001\033[0m\002", prompt)
                                : g_strdup (prompt);
  guint readable_source;
  guint size_source;

  llmctl_output_flush ();
  llmctl_wait_begin (FALSE);
  state.is_done = FALSE;
  rl_callback_handler_install (styled, on_line);
  readable_source = g_unix_fd_add (STDIN_FILENO, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, NULL);
  size_source = g_unix_signal_add (SIGWINCH, on_size_changed, NULL);
  while (!state.is_done && llmctl_wait_get_end () == LLMCTL_EXIT_OK)
    g_main_context_iteration (NULL, TRUE);
  g_source_remove (readable_source);
  g_source_remove (size_source);

  if (!state.is_done)
    {
      /* behind what was typed, wherever the cursor is, and before readline goes to column 0 */
      rl_point = rl_end;
      rl_redisplay ();
      llmctl_output_text (LLMCTL_STYLE_PLAIN, llmctl_wait_is_terminated () ? "" : "^C");
      rl_free_line_state ();
      rl_callback_sigcleanup ();
      rl_callback_handler_remove ();
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
      llmctl_output_flush ();
      return llmctl_wait_is_terminated () ? LLMCTL_CHAT_LINE_END : LLMCTL_CHAT_LINE_INTERRUPTED;
    }
  if (state.line == NULL)
    {
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
      return LLMCTL_CHAT_LINE_END;
    }

  *line = g_strdup (state.line);
  free (g_steal_pointer (&state.line));
  return LLMCTL_CHAT_LINE_READ;
}
