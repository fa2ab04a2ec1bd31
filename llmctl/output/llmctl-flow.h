/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text that comes in pieces, on a terminal in lines that end between words. Main thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Begins as all zero. */
typedef struct
{
  GString *word;        /* (nullable) (owned): the last one, which may not be whole yet */
  guint column;         /* where it will begin */
  guint n_spaces;       /* before it */
  guint n_ticks;        /* "`" that its line begins with */
  gboolean is_line;     /* the line has something else, too */
  gboolean is_code;     /* between lines of three ticks: these are as they are */
} LlmctlFlow;

/* One more piece, UTF-8: shown at once but for a word that may go on. Where stdout is no terminal
 * nothing is broken or held back. FALSE when stdout is gone. */
gboolean llmctl_flow_write (LlmctlFlow *self,
                            const char *piece);
/* Shows the rest; another text may begin at the left. FALSE when stdout is gone. */
gboolean llmctl_flow_end   (LlmctlFlow *self);

G_END_DECLS
