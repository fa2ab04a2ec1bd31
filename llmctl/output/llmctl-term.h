/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text from outside: stdin and files. Untrusted, bounded. Main thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full): the file @path, "-" for stdin, up to its end; at most @max_bytes of valid UTF-8. */
char *llmctl_term_read (const char  *path,
                        gsize        max_bytes,
                        GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
