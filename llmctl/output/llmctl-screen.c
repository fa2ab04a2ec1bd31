/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-screen.h"

#include <glib-unix.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Its macros have names like “move”. */
#define NCURSES_NOMACROS
#include <ncurses.h>

#define MAX_COLUMNS 500
#define MAX_ROWS    500

/* What ends a program that has no handler of its own for it, leaving the terminal as it is. */
static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGQUIT };

/* By LlmctlStyle; the pairs are made by llmctl_screen_open(), 0 is the terminal's own. */
static const struct
{
  attr_t attribute;
  short pair;
} styles[] = {
  [LLMCTL_STYLE_PLAIN] = { A_NORMAL, 0 },
  [LLMCTL_STYLE_BOLD] = { A_BOLD, 0 },
  [LLMCTL_STYLE_DIM] = { A_DIM, 0 },
  [LLMCTL_STYLE_GOOD] = { A_NORMAL, COLOR_GREEN },
  [LLMCTL_STYLE_WARNING] = { A_NORMAL, COLOR_YELLOW },
  [LLMCTL_STYLE_BAD] = { A_NORMAL, COLOR_RED },
};

/* In a line of a frame the byte that stands before text of a style; no other control character is
 * in it. */
#define MARK(style) ((char) ((style) + 1))

static struct
{
  SCREEN *terminal;       /* (nullable) (owned) */
  volatile sig_atomic_t is_open;
  volatile sig_atomic_t moved_by;   /* SIGTSTP, SIGCONT or 0: the main loop has to see to it */
  LlmctlScreenEvent event;
  gpointer data;
  guint key_source;
  guint size_source;
} screen;

/* --- lines --- */

LlmctlFrame *
llmctl_frame_new (guint    columns,
                  gboolean has_styles)
{
  LlmctlFrame *self = g_new0 (LlmctlFrame, 1);

  self->columns = columns;
  self->has_styles = has_styles;
  self->lines = g_ptr_array_new_with_free_func (g_free);
  self->line = g_string_new (NULL);
  return self;
}

void
llmctl_frame_free (LlmctlFrame *self)
{
  g_ptr_array_unref (self->lines);
  g_string_free (self->line, TRUE);
  g_free (self);
}

void
llmctl_frame_put (LlmctlFrame *self,
                  LlmctlStyle  style,
                  const char  *text)
{
  g_autofree char *harmless = llmctl_output_make_harmless (text);
  guint width = self->columns - self->column;
  g_autofree char *fitted = llmctl_output_fit (g_strdelimit (harmless, "\n\t", ' '), &width);
  gboolean is_styled = self->has_styles && style != LLMCTL_STYLE_PLAIN;

  if (is_styled)
    g_string_append_c (self->line, MARK (style));
  g_string_append (self->line, fitted);
  self->column += width;
  if (is_styled)
    g_string_append_c (self->line, MARK (LLMCTL_STYLE_PLAIN));
}

void
llmctl_frame_printf (LlmctlFrame *self,
                     LlmctlStyle  style,
                     const char  *format,
                     ...)
{
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  llmctl_frame_put (self, style, text);
}

void
llmctl_frame_move (LlmctlFrame *self,
                   guint        column)
{
  guint n = column > self->column ? column - self->column : self->column > 0 ? 1 : 0;

  llmctl_frame_printf (self, LLMCTL_STYLE_PLAIN, "%*s", (int) n, "");
}

void
llmctl_frame_put_right (LlmctlFrame *self,
                        LlmctlStyle  style,
                        guint        column,
                        const char  *text)
{
  guint width = llmctl_output_get_width (text);

  llmctl_frame_move (self, column > width ? column - width : 0);
  llmctl_frame_put (self, style, text);
}

void
llmctl_frame_end_line (LlmctlFrame *self)
{
  gsize length = self->line->len;

  /* spaces at the end are only width */
  while (length > 0 && self->line->str[length - 1] == ' ')
    length--;
  g_ptr_array_add (self->lines, g_strndup (self->line->str, length));
  g_string_truncate (self->line, 0);
  self->column = 0;
}

/* --- signals --- */

static void
on_fatal (int number)
{
  if (screen.is_open)
    {
      screen.is_open = FALSE;
      endwin ();
    }
  /* the handler is gone after its first call: this is the end that was to come */
  raise (number);
}

/* ncurses has a handler of its own for Ctrl-Z, but draws in it whatever goes on meanwhile. While it
 * draws, it ignores the signal. */
static void
on_moved (int number)
{
  screen.moved_by = number;
  raise (SIGWINCH);
}

static void
set_handler (int  number,
             void (*handler) (int),
             int  flags)
{
  struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

  sigemptyset (&action.sa_mask);
  sigaction (number, &action, NULL);
}

/* The shell gets its terminal back, and then we ours. */
static void
stop (void)
{
  set_handler (SIGTSTP, SIG_DFL, 0);
  raise (SIGTSTP);
  /* here it stops, and goes on; at once where there is no shell to take the terminal */
  set_handler (SIGTSTP, on_moved, SA_RESTART);
}

/* --- the main loop --- */

/* ncurses would look into the environment first. */
static void
take_size (void)
{
  struct winsize size = { 0 };

  if (ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
    resizeterm (size.ws_row, size.ws_col);
}

static gboolean
on_size (gpointer data)
{
  /* after SIGCONT, too: somebody else may have had the terminal */
  if (screen.moved_by != 0)
    endwin ();
  if (screen.moved_by == SIGTSTP)
    stop ();
  screen.moved_by = 0;
  take_size ();
  clearok (curscr, TRUE);
  screen.event (0, screen.data);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_key (int          fd,
        GIOCondition condition,
        gpointer     data)
{
  int key;

  while (screen.is_open && (key = getch ()) != ERR)
    {
      /* An arrow key, say, is no letter that was typed: ESC [ … or ESC O x. */
      if (key == '\033' && ((key = getch ()) == '[' || key == 'O'))
        do
          key = getch ();
        while (key != ERR && (key < 0x40 || key > 0x7e));
      else if (key != ERR && key != 0)
        screen.event (key, screen.data);
    }
  if ((condition & (G_IO_HUP | G_IO_ERR)) == 0 || !screen.is_open)
    return G_SOURCE_CONTINUE;

  screen.key_source = 0;
  screen.event (LLMCTL_SCREEN_GONE, screen.data);
  return G_SOURCE_REMOVE;
}

/* --- the screen --- */

gboolean
llmctl_screen_open (LlmctlScreenEvent event,
                    gpointer          data)
{
  const char *term = g_getenv ("TERM");

  if (term == NULL || strcmp (term, "dumb") == 0 || !isatty (STDIN_FILENO) ||
      !isatty (STDOUT_FILENO))
    return FALSE;
  screen.terminal = newterm (NULL, stdout, stdin);
  if (screen.terminal == NULL)
    return FALSE;

  screen.event = event;
  screen.data = data;
  take_size ();
  cbreak ();
  noecho ();
  nodelay (stdscr, TRUE);
  curs_set (0);
  if (llmctl_output_has_colour (STDOUT_FILENO) && start_color () == OK)
    {
      use_default_colors ();
      for (short i = COLOR_RED; i <= COLOR_YELLOW; i++)
        init_pair (i, i, -1);
    }
  screen.is_open = TRUE;
  atexit (llmctl_screen_close);
  for (gsize i = 0; i < G_N_ELEMENTS (fatal_signals); i++)
    set_handler (fatal_signals[i], on_fatal, SA_RESETHAND | SA_NODEFER);
  set_handler (SIGTSTP, on_moved, SA_RESTART);
  set_handler (SIGCONT, on_moved, SA_RESTART);
  screen.key_source = g_unix_fd_add (STDIN_FILENO, G_IO_IN | G_IO_HUP | G_IO_ERR, on_key, NULL);
  screen.size_source = g_unix_signal_add (SIGWINCH, on_size, NULL);
  return TRUE;
}

void
llmctl_screen_close (void)
{
  if (!screen.is_open)
    return;

  screen.is_open = FALSE;
  endwin ();
  for (gsize i = 0; i < G_N_ELEMENTS (fatal_signals); i++)
    set_handler (fatal_signals[i], SIG_DFL, 0);
  set_handler (SIGTSTP, SIG_DFL, 0);
  set_handler (SIGCONT, SIG_DFL, 0);
  g_clear_handle_id (&screen.key_source, g_source_remove);
  g_clear_handle_id (&screen.size_source, g_source_remove);
  g_clear_pointer (&screen.terminal, delscreen);
}

void
llmctl_screen_get_size (guint *columns,
                        guint *rows)
{
  *columns = (guint) CLAMP (COLS, 1, MAX_COLUMNS);
  *rows = (guint) CLAMP (LINES, 1, MAX_ROWS);
}

static void
show_line (const char *line)
{
  const char *charset;
  gboolean is_utf8 = g_get_charset (&charset);

  for (const char *p = line; *p != '\0';)
    {
      gsize length = strcspn (p, "\1\2\3\4\5\6");
      g_autofree char *text = NULL;

      if (length == 0)
        {
          guint style = (guint) (*p++ - MARK (LLMCTL_STYLE_PLAIN));

          attr_set (styles[style].attribute, styles[style].pair, NULL);
          continue;
        }
      if (is_utf8)
        text = g_strndup (p, length);
      else
        text = g_convert_with_fallback (p, (gssize) length, charset, "UTF-8", "?", NULL, NULL,
                                        NULL);
      addstr (text != NULL ? text : "?");
      p += length;
    }
}

void
llmctl_screen_show (LlmctlFrame *frame)
{
  erase ();
  for (guint i = 0; i < frame->lines->len; i++)
    {
      move ((int) i, 0);
      show_line (g_ptr_array_index (frame->lines, i));
    }
  refresh ();
}
