/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Readings of the machine, each below a root folder that tests replace
 * (NULL or "" for the real one). Any thread; reads small kernel files.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Processors this process may run on. */
guint    llm_sysinfo_n_processors     (void);

/* Bytes of memory in all and available to new work, from ROOT/proc/meminfo. */
gboolean llm_sysinfo_read_meminfo     (const char *root,
                                       guint64    *total,
                                       guint64    *available,
                                       GError    **error);

/* Resident bytes of this process, from ROOT/proc/self/statm. */
guint64  llm_sysinfo_read_resident    (const char *root);

G_END_DECLS
