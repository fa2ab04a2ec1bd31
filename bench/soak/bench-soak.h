/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the parts of `llmsvc-bench soak` share: one run, and the processes it starts. Main thread.
 */

#pragma once

#include "bench-bus.h"
#include "soak/bench-soak-load.h"
#include "soak/bench-soak-watch.h"

G_BEGIN_DECLS

typedef struct
{
  BenchBus *bus;
  char *folder;            /* of the configuration */
  char *address;
  char *state;             /* the service's state folder */
  BenchLoadSetup setup;
  BenchLoad *load;
  gint64 begin_us;
  gint64 end_us;
  GArray *under_load;      /* (element-type BenchSample) */
  GArray *at_rest;         /* (element-type BenchSample): nobody calls */
  GArray *pauses;          /* (element-type gint64): begin and end of each rest, µs */
  GByteArray *probes;      /* of BenchProbe */
  guint n_killed;          /* processes of callers */
  guint n_compared_at_end;
  guint n_compared_after_kill;
  guint n_compared_after_end;
} BenchSoak;

/* This program again with a hidden option; it ends with us. @out: its standard output, or -1. */
GPid     bench_soak_spawn  (const char *option,
                            const char *address,
                            guint64     seed,
                            const char *kind,
                            int         out);
void     bench_soak_kill   (GPid        pid);

/* Starts to read properties (BenchProbe); @fd: where they come from, for the next. */
GPid     bench_soak_start_probe (BenchSoak *self,
                            int        *fd);
/* Takes what has come so far into @self's probes. */
void     bench_soak_read_probes (BenchSoak *self,
                            int         fd);

/* (element-type BenchFigure), as JSON. */
gboolean bench_soak_write_figures (GPtrArray *figures,
                            const char *path);
/* Says what came out; FALSE when something did that must not. */
gboolean bench_soak_report (BenchSoak  *self,
                            gboolean    as_json,
                            const char *json_file,
                            const char *plots);

G_END_DECLS
