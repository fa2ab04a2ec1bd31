/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The text of an answer on its way to stdout, and text from stdin. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Writes @text at once. On a terminal control characters are replaced, so that an
 * answer can't move the cursor or set the title. */
gboolean llmctl_term_write (const char  *text,
                            GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): stdin up to its end; at most @max_bytes of valid UTF-8. */
char    *llmctl_term_read  (gsize        max_bytes,
                            GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
