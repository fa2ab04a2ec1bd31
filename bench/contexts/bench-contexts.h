/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The parts of `llmsvc-bench contexts` that run in real time, with real models: what the
 * replays are compared with. One thread.
 */

#pragma once

#include "bench.h"
#include "contexts/bench-rates.h"

G_BEGIN_DECLS

typedef struct
{
  BenchRateFile *rates;
  const BenchModelShape *const *shapes;   /* ended by NULL */
  const char *folder;                     /* on the disk that is measured */
  guint n_switches;
  guint64 seed;
  gboolean is_silent;                      /* no tables */
  const char *peer;                       /* (nullable): a program that saves and loads contexts */
  JsonBuilder *json;                      /* each part adds a member */
} BenchRealConfig;

/* Switches at full size on the real disk, predicted and measured. */
gboolean bench_switches_run (const BenchRealConfig *config,
                             GError               **error);
/* The time to the first token behind a context that is read, and one that is computed anew. */
gboolean bench_ttft_run     (const BenchRealConfig *config,
                             GError               **error);
/* Bytes and time to load the same context, beside a peer's file. */
gboolean bench_slots_run    (const BenchRealConfig *config,
                             GError               **error);

G_END_DECLS
