/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A trace played through a real store, with real bits, packing, eviction, plans and extents,
 * but in virtual time (L12). So that a grid of such runs ends in minutes the store has one layer
 * and one head of the model: all its bytes are those of the model divided by the same factor. What
 * a call waits follows from what the store then really read, wrote and computed again.
 *
 * A run has no state but its own: several may go on in several threads.
 */

#pragma once

#include "bench-device.h"
#include "contexts/bench-rates.h"
#include "contexts/bench-switch.h"
#include "contexts/bench-trace.h"
#include "kv/llm-kv.h"

G_BEGIN_DECLS

typedef struct
{
  const BenchModelShape *shape;
  const LlmKvPolicy *policy;
  const BenchTrace *trace;
  double budget;               /* bytes of context memory, of the whole model */
  const BenchRates *rates;
  const BenchDevice *device;   /* what the plans expect */
  guint chunk_slots;
  const char *folder;          /* there, for the chunks; nothing stays in it */
} BenchReplayConfig;

typedef struct
{
  GArray *switches;            /* (element-type BenchSwitch): of all calls */
  double read_bytes;
  double written_bytes;
  double factor;               /* bytes of the model / bytes of the store that ran */
  LlmKvCounters counters;
} BenchReplay;

BenchReplay *bench_replay_run   (const BenchReplayConfig *config,
                                 GError                 **error);
void         bench_replay_free  (BenchReplay             *self);

/* Of a token's keys and values in the whole model. */
double       bench_replay_get_slot_bytes (const BenchModelShape *shape,
                                          guint                  chunk_slots,
                                          LlkKvFormat            format);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchReplay, bench_replay_free)

G_END_DECLS
