/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tables of what the service or JSON has as dictionaries. Main thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full): the member @key of @row, an a{sv} from outside, for people: "" or 0 for
 * what is not there. @key may be "outer/inner" for one in a dictionary of @row. */
typedef char *(*LlmctlFormat) (GVariant   *row,
                               const char *key);

typedef struct
{
  const char *title;     /* N_() or the name of an option */
  const char *key;
  LlmctlFormat format;
  guint spare;           /* a terminal that is too narrow lacks the one with the highest number
                          * first; 0 for one that is always there */
} LlmctlColumn;

/* A line of @rows, aa{sv}, for each; @columns end with an empty one. */
void  llmctl_rows_print    (const LlmctlColumn *columns,
                            GVariant           *rows);

/* The same for people when there are some, and TRUE, or else the text @empty; for programs always an
 * object with @rows as its @member. Takes floating @rows. */
gboolean llmctl_rows_show  (const LlmctlColumn *columns,
                            GVariant           *rows,
                            const char         *member,
                            const char         *empty);

char *llmctl_format_text   (GVariant           *row,
                            const char         *key);
/* What llmctl_words_say() knows. */
char *llmctl_format_word   (GVariant           *row,
                            const char         *key);
/* A name that may be missing. */
char *llmctl_format_name   (GVariant           *row,
                            const char         *key);
char *llmctl_format_number (GVariant           *row,
                            const char         *key);
/* "8.1 M": a rough number is what people compare. */
char *llmctl_format_count  (GVariant           *row,
                            const char         *key);
/* "12.3 MiB", or "?" for what is not there. */
char *llmctl_format_size   (GVariant           *row,
                            const char         *key);
/* A point in time, in seconds since 1970. */
char *llmctl_format_time   (GVariant           *row,
                            const char         *key);

G_END_DECLS
