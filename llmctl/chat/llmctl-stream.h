/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What comes through a pipe of the service, to stdout as it comes. Main thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Copies until the end of the pipe @fd (transfer full); at most as long as --timeout says. Ctrl-C
 * ends it, and so does a stdout that is gone. On a terminal control characters are replaced. */
gboolean llmctl_stream_copy (int       fd,
                             GError  **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
