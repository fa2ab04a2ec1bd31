/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-output.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/llmsvc-command-line.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-pager.h"

#define DEFAULT_COLUMNS 80
#define MIN_COLUMNS     40
#define MAX_COLUMNS     120

/* Raised when a member of some JSON changes its meaning or goes; new ones are no change. */
#define JSON_VERSION 1

static const char *const style_codes[] = {
  [LLMCTL_STYLE_PLAIN] = "\033[0m",
  [LLMCTL_STYLE_BOLD] = "\033[1m",
  [LLMCTL_STYLE_DIM] = "\033[2m",
  [LLMCTL_STYLE_GOOD] = "\033[32m",
  [LLMCTL_STYLE_WARNING] = "\033[33m",
  [LLMCTL_STYLE_BAD] = "\033[31m",
};

/* Why stdout is gone, an errno; 0 while it is there. */
static int lost_errno;

/* --- the terminal --- */

gboolean
llmctl_output_is_terminal (int fd)
{
  return isatty (fd) || (fd == STDOUT_FILENO && llmctl_pager_is_open ());
}

gboolean
llmctl_output_has_colour (int fd)
{
  const char *no_colour = g_getenv ("NO_COLOR");
  const char *term = g_getenv ("TERM");

  return (no_colour == NULL || *no_colour == '\0') && term != NULL && *term != '\0' &&
         strcmp (term, "dumb") != 0 && llmctl_output_is_terminal (fd);
}

static guint
get_columns (int fd)
{
  struct winsize size = { 0 };

  if (ioctl (fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return DEFAULT_COLUMNS;

  return CLAMP (size.ws_col, MIN_COLUMNS, MAX_COLUMNS);
}

guint
llmctl_output_get_columns (void)
{
  return get_columns (llmctl_pager_is_open () ? STDERR_FILENO : STDOUT_FILENO);
}

char *
llmctl_output_fit (const char *text,
                   guint      *columns)
{
  char *valid = g_utf8_make_valid (text, -1);
  char *end = valid;
  guint width = 0;

  for (; *end != '\0'; end = g_utf8_next_char (end))
    {
      gunichar c = g_utf8_get_char (end);
      guint more = g_unichar_iszerowidth (c) ? 0 : g_unichar_iswide (c) ? 2 : 1;

      if (width + more > *columns)
        break;
      width += more;
    }

  *end = '\0';
  *columns = width;
  return valid;
}

guint
llmctl_output_get_width (const char *text)
{
  guint width = G_MAXUINT;

  g_free (llmctl_output_fit (text, &width));
  return width;
}

char *
llmctl_output_make_harmless (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  GString *out = g_string_new (NULL);

  for (const char *p = valid; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      g_string_append_unichar (out, c != '\n' && c != '\t' && g_unichar_iscntrl (c) ? 0xfffd : c);
    }

  return g_string_free (out, FALSE);
}

/* Whether a line may end between two characters that have no space between them: scripts
 * with wide characters have none, but their punctuation stays with its word. */
static gboolean
can_break_between (gunichar before,
                   gunichar after)
{
  const guint openings = 1U << G_UNICODE_OPEN_PUNCTUATION | 1U << G_UNICODE_INITIAL_PUNCTUATION;
  const guint closings = 1U << G_UNICODE_CLOSE_PUNCTUATION | 1U << G_UNICODE_FINAL_PUNCTUATION |
                         1U << G_UNICODE_OTHER_PUNCTUATION;

  return (g_unichar_iswide (before) || g_unichar_iswide (after)) &&
         !g_unichar_iszerowidth (after) && (1U << g_unichar_type (before) & openings) == 0 &&
         (1U << g_unichar_type (after) & closings) == 0;
}

/* What stays together at the beginning of @text, which is not empty: up to a space, the
 * end, or where a line may end. */
static char *
take_piece (const char *text)
{
  const char *p = text;
  gunichar before;

  do
    {
      before = g_utf8_get_char (p);
      p = g_utf8_next_char (p);
    }
  while (*p != '\0' && *p != ' ' && !can_break_between (before, g_utf8_get_char (p)));

  return g_strndup (text, (gsize) (p - text));
}

static char *
wrap (const char *text,
      guint       indent,
      guint       columns)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  g_auto(GStrv) lines = g_strsplit (valid, "\n", -1);
  GString *out = g_string_new (NULL);

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      const char *p = lines[i] + strspn (lines[i], " ");
      guint n_spaces = 0;
      guint column = 0;

      while (*p != '\0')
        {
          g_autofree char *piece = take_piece (p);
          guint width = llmctl_output_get_width (piece);

          if (column > indent && column + n_spaces + width > columns)
            {
              g_string_append_c (out, '\n');
              column = 0;
            }
          if (column == 0)
            n_spaces = indent;
          g_string_append_printf (out, "%*s%s", (int) n_spaces, "", piece);
          column += n_spaces + width;
          p += strlen (piece);
          n_spaces = *p == ' ' ? 1 : 0;
          p += strspn (p, " ");
        }
      g_string_append_c (out, '\n');
    }

  return g_string_free (out, FALSE);
}

char *
llmctl_wrap (const char *text,
             guint       indent)
{
  return wrap (text, indent, MAX (llmctl_output_get_columns (), indent + MIN_COLUMNS));
}

char *
llmctl_output_fit_lines (const char *text,
                         int         fd)
{
  g_auto(GStrv) lines = NULL;
  guint columns;

  if (!llmctl_output_is_terminal (fd))
    return g_strdup (text);

  lines = g_strsplit (text, "\n", -1);
  columns = get_columns (fd);
  for (gsize i = 0; lines[i] != NULL; i++)
    if (llmctl_output_get_width (lines[i]) > columns)
      {
        g_autofree char *whole = lines[i];

        lines[i] = g_strchomp (wrap (whole, 0, columns));
      }
  return g_strjoinv ("\n", lines);
}

/* --- writing --- */

static gboolean
put (const char *text)
{
  if (lost_errno == 0 && fputs (text, stdout) == EOF)
    lost_errno = errno != 0 ? errno : EIO;

  return lost_errno == 0;
}

gboolean
llmctl_output_flush (void)
{
  if (lost_errno == 0 && fflush (stdout) != 0)
    lost_errno = errno != 0 ? errno : EIO;

  return lost_errno == 0;
}

static gboolean
put_styled (LlmctlStyle  style,
            const char  *text)
{
  g_autofree char *harmless = NULL;
  gboolean is_styled;

  if (!llmctl_output_is_terminal (STDOUT_FILENO))
    return put (text);

  harmless = llmctl_output_make_harmless (text);
  is_styled = style != LLMCTL_STYLE_PLAIN && llmctl_output_has_colour (STDOUT_FILENO);
  return (!is_styled || put (style_codes[style])) && put (harmless) &&
         (!is_styled || put (style_codes[LLMCTL_STYLE_PLAIN]));
}

gboolean
llmctl_output_text (LlmctlStyle  style,
                    const char  *text)
{
  g_autofree char *fitted = llmsvc_command_line_fit_locale (text);

  return put_styled (style, fitted);
}

void
llmctl_output_column (LlmctlStyle style,
                      guint       columns,
                      const char *text)
{
  guint width = llmctl_output_get_width (text);

  llmctl_output_text (style, text);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%*s", (int) (columns - MIN (width, columns - 1)), "");
}

gboolean
llmctl_output_data (const char *text)
{
  return put_styled (LLMCTL_STYLE_PLAIN, text);
}

gboolean
llmctl_output_printf (LlmctlStyle  style,
                      const char  *format,
                      ...)
{
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);

  return llmctl_output_text (style, text);
}

static void
complain (const char *message,
          gboolean    is_command)
{
  g_autofree char *harmless = isatty (STDERR_FILENO) ? llmctl_output_make_harmless (message) : NULL;
  g_autofree char *line = g_strconcat ("llmctl: ", harmless != NULL ? harmless : message, NULL);
  g_autofree char *fitted = is_command ? NULL : llmctl_output_fit_lines (line, STDERR_FILENO);

  /* What was said before comes before, also when both go to one file. */
  llmctl_output_flush ();
  g_printerr ("%s\n", fitted != NULL ? fitted : line);
}

void
llmctl_complain (const char *format,
                 ...)
{
  g_autofree char *message = NULL;
  va_list arguments;

  va_start (arguments, format);
  message = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  complain (message, FALSE);
}

void
llmctl_complain_command (const char *message)
{
  complain (message, TRUE);
}

int
llmctl_output_finish (int status)
{
  gboolean was_good = llmctl_output_flush ();

  /* Some file systems tell of a full disk only now. */
  if (was_good && close (STDOUT_FILENO) != 0 && errno != EBADF)
    lost_errno = errno;
  /* who leaves the pager early has seen enough */
  if (llmctl_pager_is_open () && lost_errno == EPIPE)
    lost_errno = 0;
  llmctl_pager_end ();
  if (lost_errno == 0)
    return status;

  if (lost_errno == EPIPE)
    {
      /* GIO ignores the signal; whoever waits for us shall see what it sees of others. */
      signal (SIGPIPE, SIG_DFL);
      raise (SIGPIPE);
    }
  llmctl_complain (_("Can't write to the standard output: %s"), g_strerror (lost_errno));
  return status != 0 ? status : EXIT_FAILURE;
}

/* --- values --- */

static gboolean
write_json (GVariant *object,
            gboolean  has_version,
            gboolean  is_indented)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (object);
  g_autoptr(GVariant) whole = NULL;
  g_autofree char *json = NULL;
  GVariantBuilder builder;
  GVariantIter iter;
  GVariant *entry;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  if (has_version)
    g_variant_builder_add (&builder, "{sv}", "version", g_variant_new_uint32 (JSON_VERSION));
  g_variant_iter_init (&iter, owned);
  while (g_variant_iter_loop (&iter, "@{sv}", &entry))
    g_variant_builder_add_value (&builder, entry);
  whole = g_variant_ref_sink (g_variant_builder_end (&builder));
  json = llmctl_json_write (whole, is_indented);

  return llmctl_output_data (json) && llmctl_output_data ("\n");
}

gboolean
llmctl_output_json (GVariant *object)
{
  return write_json (object, TRUE, llmctl_output_is_terminal (STDOUT_FILENO));
}

gboolean
llmctl_output_json_member (const char *name,
                           GVariant   *value)
{
  return llmctl_output_json (g_variant_new_parsed ("{%s: <%*>}", name, value));
}

gboolean
llmctl_output_json_line (GVariant *object)
{
  static gboolean is_begun;
  gboolean is_first = !is_begun;

  is_begun = TRUE;
  return write_json (object, is_first, FALSE);
}

gboolean
llmctl_output_value (GVariant *value)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (value);
  gboolean is_there = TRUE;

  if (g_variant_is_of_type (owned, G_VARIANT_TYPE_VARIANT))
    {
      g_autoptr(GVariant) content = g_variant_get_variant (owned);

      return llmctl_output_value (content);
    }
  if (!g_variant_is_of_type (owned, G_VARIANT_TYPE_DICTIONARY))
    {
      g_autofree char *text = llmctl_json_write_plain (owned);

      return llmctl_output_data (text) && llmctl_output_data ("\n");
    }

  for (gsize i = 0; i < g_variant_n_children (owned) && is_there; i++)
    {
      g_autoptr(GVariant) entry = g_variant_get_child_value (owned, i);
      g_autoptr(GVariant) key = g_variant_get_child_value (entry, 0);
      g_autoptr(GVariant) content = g_variant_get_child_value (entry, 1);
      g_autofree char *name = llmctl_json_write_plain (key);
      g_autofree char *line = llmctl_json_write_plain (content);

      is_there = llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s:", name) &&
                 llmctl_output_data (" ") && llmctl_output_data (line) && llmctl_output_data ("\n");
    }

  return is_there;
}

char *
llmctl_format_bytes (guint64 bytes)
{
  g_autofree char *text = g_format_size_full (bytes, G_FORMAT_SIZE_IEC_UNITS);
  g_auto(GStrv) parts = NULL;

  if (g_get_charset (NULL))
    return g_steal_pointer (&text);

  /* GLib's space that breaks no line is there in every locale. */
  parts = g_strsplit (text, "\302\240", -1);
  return g_strjoinv (" ", parts);
}

/* --- tables --- */

LlmctlTable *
llmctl_table_new (const char *const *header)
{
  LlmctlTable *self = g_ptr_array_new_with_free_func ((GDestroyNotify) g_strfreev);

  llmctl_table_add (self, header);
  return self;
}

void
llmctl_table_add (LlmctlTable       *self,
                  const char *const *cells)
{
  char **row = g_strdupv ((char **) cells);

  /* A line of a table is a line, whatever is in it. */
  for (guint i = 0; row[i] != NULL; i++)
    g_strdelimit (row[i], "\n\t\r", ' ');
  g_ptr_array_add (self, row);
}

/* (transfer full): of each column, without the space behind it. */
static guint *
measure (LlmctlTable *self,
         guint        n_columns)
{
  guint *widths = g_new0 (guint, n_columns);

  for (guint i = 0; i < self->len; i++)
    for (guint j = 0; j < n_columns; j++)
      widths[j] = MAX (widths[j],
                       llmctl_output_get_width (((char **) g_ptr_array_index (self, i))[j]));
  return widths;
}

guint
llmctl_table_get_width (LlmctlTable *self)
{
  guint n_columns = g_strv_length (g_ptr_array_index (self, 0));
  g_autofree guint *widths = measure (self, n_columns);
  guint width = 0;

  for (guint j = 0; j < n_columns; j++)
    width += widths[j] + (j > 0 ? 2 : 0);
  return width;
}

gboolean
llmctl_table_print (LlmctlTable *self)
{
  g_autoptr(GPtrArray) rows = self;
  guint n_columns = g_strv_length (g_ptr_array_index (rows, 0));
  g_autofree guint *widths = measure (rows, n_columns);
  gboolean is_there = TRUE;

  for (guint i = rows->len > 1 ? 0 : 1; i < rows->len && is_there; i++)
    {
      char **row = g_ptr_array_index (rows, i);
      g_autoptr(GString) line = g_string_new (NULL);

      for (guint j = 0; j < n_columns; j++)
        g_string_append_printf (line, "%s%*s", row[j],
                                j + 1 < n_columns
                                    ? (int) (widths[j] + 2 - llmctl_output_get_width (row[j]))
                                    : 0,
                                "");
      /* names in it are to be found under */
      is_there = put_styled (i == 0 ? LLMCTL_STYLE_BOLD : LLMCTL_STYLE_PLAIN, line->str) &&
                 put ("\n");
    }

  return is_there;
}
