/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The kernel's files about a caller. Any user can make them long (thousands of mounts in a name
 * space of its own), so none is read further than an honest process needs. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full) (nullable): the file @name in @folder, with a zero behind it; NULL where it can't
 * be read, or has more than @max_bytes (in whole pieces of 16 KiB). */
char *llm_bus_proc_read    (const char *folder,
                            const char *name,
                            gsize       max_bytes);
/* The same of an open file, from where it is. */
char *llm_bus_proc_read_fd (int         fd,
                            gsize       max_bytes);

G_END_DECLS
