/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Switches: what the store really reads and computes again for a call in a context that was away,
 * and what that costs on a device, layer by layer. Noted in real time, or of a trace that is
 * played through a real store, with real bits, packing, eviction, plans and extents, but in virtual
 * time (L12). So that a grid of such replays ends in minutes the store has one layer and one head
 * of the model: all its bytes are those of the model divided by the same factor.
 *
 * Nothing has a state but its own: several replays may go on in several threads.
 */

#pragma once

#include "contexts/bench-contexts.h"

G_BEGIN_DECLS

/* What one call did, before it is priced. Bytes are those of the whole model, times are of
 * computing. */
typedef struct
{
  gboolean is_counted;
  double read_bytes;
  double n_requests;
  guint n_groups;              /* of layers */
  guint n_layers;
  guint n_recomputed;          /* rows */
  double new_us;               /* the prompt with all there */
  double us[2];                /* with what is recomputed: the first step, and the others */
  double lost_us[2];           /* what is recomputed alone */
  double written_bytes;        /* while the call waited for memory */
  double lacking_bytes;        /* that it took from other contexts */
  double late_bytes;           /* of them that the call before had left to be written */
} BenchSwitch;

/* @device is what plans expect, of a store with so many times fewer bytes. */
void            bench_profile_set_device (LlmKvProfile      *self,
                                        const BenchDevice   *device,
                                        double               factor);
/* (transfer full): what every chunk is before a call begins. */
LlmKvChunkInfo *bench_switch_get_infos (LlmKvSeq            *sequence);
/* Fills in all but what was written, when a call has begun: @infos from before, @missing
 * (element-type guint): slots that are computed again, @n_new: rows of the prompt. */
void            bench_switch_note      (BenchSwitch           *self,
                                        LlmKvStore            *store,
                                        LlmKvSeq              *sequence,
                                        const BenchModelShape *shape,
                                        const LlmKvProfile    *profile,
                                        const LlmKvChunkInfo  *infos,
                                        const GArray          *missing,
                                        guint                  n_new);

/* What a switch costs on a device. */
typedef struct
{
  double wait_us;        /* what the call waits because its context was away */
  double read_us;        /* the same without a prompt whose computing hides some of it */
  double overlapped_us;  /* as wait_us, if every policy read and computed at the same time */
} BenchPrice;

BenchPrice      bench_switch_price     (const BenchSwitch    *self,
                                        const LlmKvPolicy    *policy,
                                        const BenchDevice    *device,
                                        const BenchRates     *rates);
/* Whether what it decides depends on how fast devices are. */
gboolean        bench_policy_plans     (const LlmKvPolicy    *policy);

typedef struct
{
  const BenchModelShape *shape;
  const LlmKvPolicy *policy;
  const BenchTrace *trace;
  double budget;               /* bytes of KV cache, of the whole model */
  const BenchRates *rates;
  const BenchDevice *device;   /* what the plans expect */
  guint chunk_slots;
  const char *folder;          /* there, for the chunks; nothing stays in it */
} BenchReplayConfig;

/* (transfer full) (element-type BenchSwitch): of all calls of the trace. */
GArray         *bench_replay_run       (const BenchReplayConfig *config,
                                        GError                 **error);
/* Of a token's keys and values in the whole model. */
double          bench_replay_get_slot_bytes (const BenchModelShape *shape,
                                        guint                  chunk_slots,
                                        LlkKvFormat            format);

G_END_DECLS
