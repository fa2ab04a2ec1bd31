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
  guint n_read;                /* chunks */
  guint n_groups;              /* of layers */
  guint n_layers;
  guint n_recomputed;          /* rows */
  double new_us;               /* the prompt with all there */
  double us[2];                /* with what is recomputed: the first step, and the others */
  double lost_us[2];           /* what is recomputed alone */
  guint n_evicted;             /* chunks, for the memory of the call */
  double evicted_bytes;
  double written_bytes;        /* while it waited for that */
  double packed_bytes;         /* floats that were quantized for it */
} BenchSwitch;

/* @device is what plans expect, of a store with so many times fewer bytes. */
void            bench_profile_set_device (LlmKvProfile      *self,
                                        const BenchDevice   *device,
                                        double               factor);
/* (transfer full): what every chunk is before a call begins. */
LlmKvChunkInfo *bench_switch_get_infos (LlmKvSeq            *sequence);
/* @bytes of the model in @n_chunks are read, which make @n_runs of neighbours. */
void            bench_switch_set_reads (BenchSwitch           *self,
                                        double                 bytes,
                                        guint                  n_chunks,
                                        guint                  n_runs);
/* Fills in what is read, when a call has begun: @infos from before, @missing (element-type guint):
 * slots that the store wants computed; what is read instead is removed from them. */
void            bench_switch_note      (BenchSwitch           *self,
                                        LlmKvStore            *store,
                                        LlmKvSeq              *sequence,
                                        const BenchModelShape *shape,
                                        const LlmKvChunkInfo  *infos,
                                        GArray                *missing);
/* Fills in what computing takes: of slots @missing, and of @n_new rows behind @length. */
void            bench_switch_time      (BenchSwitch           *self,
                                        const LlmKvProfile    *profile,
                                        const GArray          *missing,
                                        guint                  length,
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
  gboolean is_clairvoyant;     /* where chances are given: by the trace, not its pattern */
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
