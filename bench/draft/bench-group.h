/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A control group with a limit on memory, page cache included, and on what it reads from a disk, of
 * version 2 where that has the controllers, or of version 1. A program runs in it from its first page
 * on. One thread, which waits.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _BenchGroup BenchGroup;

/* Fails where none can be made here. */
BenchGroup *bench_group_new   (guint64       limit,
                               GError      **error);
void        bench_group_free  (BenchGroup   *self);
/* Of the disk that @path lies on it reads no more than so many bytes and requests a second from now on; 0:
 * as many as come. Called once. */
gboolean    bench_group_set_rate (BenchGroup *self,
                               const char   *path,
                               guint64       n_bytes,
                               guint64       n_requests,
                               GError      **error);
/* Runs @words in the group: what it printed (transfer full), or NULL when it failed. */
char       *bench_group_run   (BenchGroup   *self,
                               char        **words,
                               GError      **error);
/* The most that the group ever held, bytes; 0 where the kernel does not tell. */
guint64     bench_group_get_peak (BenchGroup *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchGroup, bench_group_free)

G_END_DECLS
