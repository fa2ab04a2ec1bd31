/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Long output for people goes through $PAGER, or less -FRX, when stdout is a terminal; as git does.
 * Not for PAGER="" or PAGER=cat, TERM=dumb, or --json. Main thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* From now on stdout is the pager's, where there is to be one. Before other threads begin. */
void     llmctl_pager_begin      (void);
/* Whether stdout goes to the terminal by way of it. */
gboolean llmctl_pager_is_open    (void);
/* Waits until the user has left it; stdout was closed. */
void     llmctl_pager_end        (void);

G_END_DECLS
