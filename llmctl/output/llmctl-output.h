/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What goes to stdout: text for people, with colour on a terminal only, or JSON.
 * Control characters from outside never reach a terminal.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLMCTL_STYLE_PLAIN,
  LLMCTL_STYLE_BOLD,
  LLMCTL_STYLE_DIM,
  LLMCTL_STYLE_GOOD,
  LLMCTL_STYLE_WARNING,
  LLMCTL_STYLE_BAD,
} LlmctlStyle;

/* Whether what is written there is seen on a terminal, directly or in a pager. */
gboolean llmctl_output_is_terminal (int           fd);
/* Whether stdout (or stderr) is a terminal that takes colours: NO_COLOR and TERM=dumb say no. */
gboolean llmctl_output_has_colour  (int           fd);
/* Columns of the terminal, 80 when it is none. */
guint    llmctl_output_get_columns (void);

/* Writes a message, styled where colours are, made harmless on a terminal, its punctuation
 * in ASCII in a locale without UTF-8. FALSE when stdout is gone (closed pipe, full disk). */
gboolean llmctl_output_text        (LlmctlStyle   style,
                                    const char   *text);
G_GNUC_PRINTF (2, 3)
gboolean llmctl_output_printf      (LlmctlStyle   style,
                                    const char   *format,
                                    ...);

/* @text of a column that is so wide, followed by a space at least; "" for the width alone. */
void     llmctl_output_column      (LlmctlStyle   style,
                                    guint         columns,
                                    const char   *text);

/* The same for what is not our own: answers, names, values and JSON, which are UTF-8 in
 * every locale. */
gboolean llmctl_output_data        (const char   *text);

/* Writes "llmctl: …" to stderr, where that is a terminal in lines that it has room for. */
void     llmctl_complain           (const char   *format,
                                    ...) G_GNUC_PRINTF (1, 2);
/* The same of what ends with a command to copy, which stays in one line. */
void     llmctl_complain_command   (const char   *message);

/* Makes what was written so far visible. FALSE when stdout is gone. */
gboolean llmctl_output_flush       (void);
/* Text as a terminal may have it: control characters but newline and tab, and what is
 * not UTF-8, become U+FFFD. (transfer full) */
char    *llmctl_output_make_harmless (const char *text);
/* (transfer full): as much of @text as fits. @columns: (inout): there are, and it takes. */
char    *llmctl_output_fit         (const char   *text,
                                    guint        *columns);
/* Columns that @text takes on a terminal. */
guint    llmctl_output_get_width   (const char   *text);
/* @text in lines of at most the terminal's columns, each @indent columns in and with a
 * newline; empty lines stay. (transfer full) */
char    *llmctl_wrap               (const char   *text,
                                    guint         indent);

/* @text as it is for @fd: on a terminal, lines that are wider than that end between words.
 * (transfer full) */
char    *llmctl_output_fit_lines   (const char   *text,
                                    int           fd);

/* Flushes; says what is wrong when stdout was gone at any time. Ends the process as
 * writing to a closed pipe does. Returns the status to end with: @status when all is well. */
int      llmctl_output_finish      (int           status);

/* @object, an a{sv}, as JSON and a newline: `version` first, then its members. Variants are
 * unwrapped, dictionaries are objects, structures and arrays are arrays; indented on a
 * terminal, one line otherwise. Takes a floating @object. */
gboolean llmctl_output_json        (GVariant     *object);
/* The same for an object of one member. Takes a floating @value. */
gboolean llmctl_output_json_member (const char   *name,
                                    GVariant     *value);
/* The same in one line on a terminal, too: for commands that write one object after
 * another, of which the first has the `version`. */
gboolean llmctl_output_json_line   (GVariant     *object);

/* @value as people read it: `key: value` lines for dictionaries, JSON for what is
 * nested. Takes a floating @value. */
gboolean llmctl_output_value       (GVariant     *value);

/* "12.3 MiB"; units are binary. (transfer full) */
char    *llmctl_format_bytes       (guint64       bytes);

/* A table whose columns align: (element-type GStrv), the header first, all of one length. */
typedef GPtrArray LlmctlTable;

LlmctlTable *llmctl_table_new      (const char *const *header);
/* @cells: NULL-terminated. */
void         llmctl_table_add      (LlmctlTable       *self,
                                    const char *const *cells);
/* Columns that its lines take. */
guint        llmctl_table_get_width (LlmctlTable      *self);
/* Prints (no header when there are no rows) and frees. */
gboolean     llmctl_table_print    (LlmctlTable       *self);

G_END_DECLS
