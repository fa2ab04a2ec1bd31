/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How fast a disk reads, by size of reads: past the page cache, and from it. One thread.
 */

#pragma once

#include "bench.h"

G_BEGIN_DECLS

/* Adds figures of a file of @bytes without a name that is made in @folder. */
gboolean bench_disk_measure (GPtrArray   *figures,
                             const char  *folder,
                             gsize        bytes,
                             guint        n_runs,
                             GError     **error);

G_END_DECLS
