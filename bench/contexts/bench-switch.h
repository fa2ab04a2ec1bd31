/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One call in a context that was away: what the store really read and computed again for it, and
 * what that costs on a device, layer by layer. Used for replays in virtual time and for the
 * switches in real time that they are compared with. Plain data; the thread of the store.
 */

#pragma once

#include "bench-device.h"
#include "kv/llm-kv.h"

G_BEGIN_DECLS

/* What one call did, before it is priced. Bytes are those of the whole model, times are of
 * computing. */
typedef struct
{
  guint context;
  gboolean is_counted;
  double read_bytes;
  double n_requests;
  guint n_groups;              /* of layers */
  guint n_layers;
  guint n_recomputed;          /* rows */
  double new_us;               /* the prompt with all there */
  double first_us;             /* with what is recomputed: the first step */
  double rest_us;              /* and the others */
  double lost_first_us;        /* what is recomputed alone */
  double lost_rest_us;
  double written_bytes;        /* while the call waited for memory */
  double lacking_bytes;        /* that it took from other contexts */
  double late_bytes;           /* of them that the call before had left to be written */
} BenchSwitch;

/* (transfer full): what every chunk is before a call begins. */
LlmKvChunkInfo *bench_switch_get_infos (LlmKvSeq            *sequence);
/* Fills in all but what was written, when a call has begun: @infos from before, @missing
 * (element-type guint): slots that are computed again, @n_new: rows of the prompt. A model of
 * @n_layers has @factor times the bytes of @store. */
void       bench_switch_note  (BenchSwitch          *self,
                               LlmKvStore           *store,
                               LlmKvSeq             *sequence,
                               const LlmKvProfile   *profile,
                               const LlmKvChunkInfo *infos,
                               const GArray         *missing,
                               guint                 n_new,
                               guint                 n_layers,
                               double                factor);

/* What a switch costs on a device. */
typedef struct
{
  double wait_us;        /* what the call waits because its context was away */
  double read_us;        /* the same without a prompt whose computing hides some of it */
  double overlapped_us;  /* as wait_us, if every policy read and computed at the same time */
} BenchPrice;

/* @resident_us: what the begin of any call costs; @take_us_per_byte: what we do with what was
 * read. */
BenchPrice bench_switch_price (const BenchSwitch    *self,
                               const LlmKvPolicy    *policy,
                               const BenchDevice    *device,
                               double                resident_us,
                               double                take_us_per_byte);
/* Whether what it decides depends on how fast devices are. */
gboolean   bench_policy_plans (const LlmKvPolicy    *policy);

G_END_DECLS
