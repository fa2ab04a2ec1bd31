/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Ways to run one engine in turns: with context memory as floats, packed, with densities
 * collected. Each has contexts of its own. One thread.
 */

#pragma once

#include "bench-engine.h"

G_BEGIN_DECLS

typedef struct
{
  char *name;
  BenchEngine *engine;        /* (unowned) */
  LlmKvStore *store;          /* (owned) (nullable): the engine's */
  gboolean collects_density;
  LlmKvSeq **filled;          /* contexts that runs are forks of */
  guint n_filled;
  double position_bytes;      /* of context memory of each token in them */
} BenchVariant;

/* Floats. */
BenchVariant *bench_variant_new        (BenchEngine  *engine,
                                        const char   *name,
                                        gboolean      collects_density);
/* What the contexts are filled with is packed as @policy says. Fails where there is none. */
BenchVariant *bench_variant_new_packed (BenchEngine  *engine,
                                        const char   *name,
                                        const char   *policy,
                                        gboolean      collects_density,
                                        GError      **error);
void          bench_variant_free       (BenchVariant *self);
/* Makes @n contexts of @depth tokens each. */
void          bench_variant_fill       (BenchVariant *self,
                                        guint         n,
                                        guint         depth);

G_END_DECLS
