/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A control group with a limit on memory for two sides: a language model's server and the
 * program beside it. The memory controller is taken where it is, version 2 or 1; each side
 * has a group of version 2 of its own, whose memory.pressure says how long it waited. Made
 * below the group of this process; removed with it. One thread, but for
 * bench_storm_group_read().
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef enum
{
  BENCH_STORM_SERVER,
  BENCH_STORM_EATER,
  BENCH_STORM_N_SIDES,
} BenchStormSide;

typedef struct
{
  guint64 some_us;   /* since the group was made: one task at least waited for memory */
  guint64 full_us;   /* all that could run did */
} BenchStormStall;

typedef struct
{
  guint64 usage;     /* bytes charged to both sides, page cache included */
  guint64 cache;     /* of them, page cache on the lists that are reclaimed */
  guint64 oom_kills; /* processes killed in it */
  BenchStormStall stalls[BENCH_STORM_N_SIDES];
} BenchStormReading;

typedef struct _BenchStormGroup BenchStormGroup;

/* @limit: bytes for both sides together. Fails where this process may not make such groups. */
BenchStormGroup *bench_storm_group_new       (guint64            limit,
                                              GError           **error);
/* Waits a moment for processes that are on their end. */
void             bench_storm_group_free      (BenchStormGroup   *self);

/* For a child between fork and exec: system calls only. FALSE when it is not in. */
gboolean         bench_storm_group_enter     (BenchStormGroup   *self,
                                              BenchStormSide     side);
void             bench_storm_group_read      (BenchStormGroup   *self,
                                              BenchStormReading *reading);
/* 1 or 2: of the memory controller. */
guint            bench_storm_group_get_version (BenchStormGroup *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormGroup, bench_storm_group_free)

G_END_DECLS
