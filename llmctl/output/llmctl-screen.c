/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-screen.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define DEFAULT_COLUMNS 80
#define DEFAULT_ROWS    24
#define MAX_COLUMNS     500
#define MAX_ROWS        500

/* Another screen than the shell's, no cursor, and no line that goes on in the next. */
static const char enter_codes[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_codes[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

/* What ends a program that has no handler of its own for it, leaving the terminal as it is. */
static const int fatal_signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGQUIT };

/* Also used by handlers of signals, which find it as it was when it was opened. */
static struct
{
  struct termios before;
  struct termios raw;
  int wake_fds[2];        /* handlers write, the main loop reads */
  volatile sig_atomic_t is_open;

  LlmctlScreenEvent event;
  gpointer data;
  guint key_source;
  guint wake_source;
  guint size_source;
  char half[8];           /* of a character whose bytes have not all come */
  gsize n_half;
} screen = { .wake_fds = { -1, -1 } };

gboolean
llmctl_screen_is_possible (void)
{
  const char *term = g_getenv ("TERM");

  return term != NULL && *term != '\0' && strcmp (term, "dumb") != 0 && isatty (STDIN_FILENO) &&
         isatty (STDOUT_FILENO);
}

/* --- what handlers of signals may do --- */

static void
write_all (const char *bytes,
           gsize       n)
{
  while (n > 0)
    {
      gssize written = write (STDOUT_FILENO, bytes, n);

      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return;
      bytes += written;
      n -= (gsize) written;
    }
}

static void
enter (void)
{
  tcsetattr (STDIN_FILENO, TCSADRAIN, &screen.raw);
  write_all (enter_codes, sizeof enter_codes - 1);
}

static void
leave (void)
{
  write_all (leave_codes, sizeof leave_codes - 1);
  tcsetattr (STDIN_FILENO, TCSADRAIN, &screen.before);
}

static void
on_fatal (int number)
{
  if (screen.is_open)
    {
      screen.is_open = FALSE;
      leave ();
    }
  /* the handler is gone after its first call: this is the end that was to come */
  raise (number);
}

static void set_handler (int  number,
                         void (*handler) (int),
                         int  flags);

static void
wake (void)
{
  char byte = 0;

  while (write (screen.wake_fds[1], &byte, 1) < 0 && errno == EINTR)
    ;
}

static void
come_back (void)
{
  if (!screen.is_open)
    return;

  enter ();
  wake ();
}

/* Ctrl-Z, or somebody's kill: the shell gets its terminal back, and then we ours. */
static void
on_stop (int number)
{
  int saved_errno = errno;
  sigset_t mask, before;

  if (screen.is_open)
    leave ();
  set_handler (SIGTSTP, SIG_DFL, 0);
  sigemptyset (&mask);
  sigaddset (&mask, SIGTSTP);
  raise (SIGTSTP);
  pthread_sigmask (SIG_UNBLOCK, &mask, &before);
  /* here it stops, and goes on */
  pthread_sigmask (SIG_SETMASK, &before, NULL);
  set_handler (SIGTSTP, on_stop, SA_RESTART);
  /* it goes on without a signal where there is no shell to take the terminal: then it did not
   * stop at all */
  come_back ();
  errno = saved_errno;
}

static void
on_continue (int number)
{
  int saved_errno = errno;

  come_back ();
  errno = saved_errno;
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

/* --- the main loop --- */

static gboolean
on_size (gpointer data)
{
  screen.event (0, screen.data);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_wake (int          fd,
         GIOCondition condition,
         gpointer     data)
{
  char bytes[64];

  while (read (fd, bytes, sizeof bytes) > 0)
    ;
  screen.event (0, screen.data);
  return G_SOURCE_CONTINUE;
}

/* An arrow key, say, is no letter that was typed: ESC [ … or ESC O x. */
static gsize
skip_sequence (const char *bytes,
               gsize       n)
{
  gsize i = 2;

  if (n < 2 || (bytes[1] != '[' && bytes[1] != 'O'))
    return 1;
  while (i < n && (bytes[i] < 0x40 || bytes[i] > 0x7e))
    i++;

  return MIN (i + 1, n);
}

static void
take_bytes (const char *bytes,
            gsize       n)
{
  for (gsize i = 0; i < n && screen.is_open;)
    {
      gunichar c = g_utf8_get_char_validated (bytes + i, (gssize) (n - i));

      if (bytes[i] == '\033')
        {
          i += skip_sequence (bytes + i, n - i);
          continue;
        }
      if (c == (gunichar) -2 && n - i < sizeof screen.half)
        {
          memcpy (screen.half, bytes + i, n - i);
          screen.n_half = n - i;
          return;
        }
      if (c == (gunichar) -1 || c == (gunichar) -2)
        {
          i++;
          continue;
        }
      i += (gsize) (g_utf8_next_char (bytes + i) - (bytes + i));
      if (c != 0)
        screen.event (c, screen.data);
    }
}

static gboolean
on_key (int          fd,
        GIOCondition condition,
        gpointer     data)
{
  char bytes[256];
  gssize n;

  memcpy (bytes, screen.half, screen.n_half);
  n = read (fd, bytes + screen.n_half, sizeof bytes - screen.n_half);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    {
      screen.key_source = 0;
      screen.event (LLMCTL_SCREEN_GONE, screen.data);
      return G_SOURCE_REMOVE;
    }

  n += (gssize) screen.n_half;
  screen.n_half = 0;
  take_bytes (bytes, (gsize) n);
  return G_SOURCE_CONTINUE;
}

/* --- the screen --- */

void
llmctl_screen_open (LlmctlScreenEvent event,
                    gpointer          data)
{
  static gboolean is_at_exit;

  g_return_if_fail (!screen.is_open);

  screen.event = event;
  screen.data = data;
  screen.n_half = 0;
  if (tcgetattr (STDIN_FILENO, &screen.before) != 0)
    return;
  screen.raw = screen.before;
  screen.raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
  screen.raw.c_cc[VMIN] = 1;
  screen.raw.c_cc[VTIME] = 0;
  if (!g_unix_open_pipe (screen.wake_fds, FD_CLOEXEC, NULL))
    return;
  g_unix_set_fd_nonblocking (screen.wake_fds[0], TRUE, NULL);
  g_unix_set_fd_nonblocking (screen.wake_fds[1], TRUE, NULL);

  screen.is_open = TRUE;
  if (!is_at_exit)
    atexit (llmctl_screen_close);
  is_at_exit = TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (fatal_signals); i++)
    set_handler (fatal_signals[i], on_fatal, SA_RESETHAND | SA_NODEFER);
  set_handler (SIGTSTP, on_stop, SA_RESTART);
  set_handler (SIGCONT, on_continue, SA_RESTART);
  screen.key_source = g_unix_fd_add (STDIN_FILENO, G_IO_IN | G_IO_HUP | G_IO_ERR, on_key, NULL);
  screen.wake_source = g_unix_fd_add (screen.wake_fds[0], G_IO_IN, on_wake, NULL);
  screen.size_source = g_unix_signal_add (SIGWINCH, on_size, NULL);
  enter ();
}

void
llmctl_screen_close (void)
{
  if (!screen.is_open)
    return;

  screen.is_open = FALSE;
  leave ();
  set_handler (SIGTSTP, SIG_DFL, 0);
  set_handler (SIGCONT, SIG_DFL, 0);
  for (gsize i = 0; i < G_N_ELEMENTS (fatal_signals); i++)
    set_handler (fatal_signals[i], SIG_DFL, 0);
  g_clear_handle_id (&screen.key_source, g_source_remove);
  g_clear_handle_id (&screen.wake_source, g_source_remove);
  g_clear_handle_id (&screen.size_source, g_source_remove);
  close (screen.wake_fds[0]);
  close (screen.wake_fds[1]);
}

void
llmctl_screen_get_size (guint *columns,
                        guint *rows)
{
  struct winsize size = { 0 };
  gboolean is_known = ioctl (STDOUT_FILENO, TIOCGWINSZ, &size) == 0;

  *columns = is_known && size.ws_col > 0 ? MIN (size.ws_col, MAX_COLUMNS) : DEFAULT_COLUMNS;
  *rows = is_known && size.ws_row > 0 ? MIN (size.ws_row, MAX_ROWS) : DEFAULT_ROWS;
}

gboolean
llmctl_screen_show (LlmctlFrame *frame)
{
  g_autoptr(GString) out = g_string_new ("\033[H");
  guint columns, rows, n;

  llmctl_screen_get_size (&columns, &rows);
  n = MIN (llmctl_frame_get_n_lines (frame), rows);
  /* cleared before it is written: behind a line as wide as the screen its end would be cleared */
  for (guint i = 0; i < n; i++)
    g_string_append_printf (out, "%s\033[K%s", i > 0 ? "\r\n" : "",
                            llmctl_frame_get_line (frame, i));
  if (n < rows)
    g_string_append (out, "\r\n\033[J");

  for (gsize at = 0; at < out->len;)
    {
      gssize written = write (STDOUT_FILENO, out->str + at, out->len - at);

      if (written < 0 && errno == EINTR)
        continue;
      if (written < 0 && errno == EAGAIN)
        /* somebody made the terminal non-blocking; the next frame is drawn over this one */
        return TRUE;
      if (written <= 0)
        return FALSE;
      at += (gsize) written;
    }

  return TRUE;
}
