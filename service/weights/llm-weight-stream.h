/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights that stream (C4). The ranges of a file are used one after the other in every pass; those
 * that do not fit into memory are read past the page cache into a ring of buffers, in the order of
 * a pass and ahead of their use. A range is in one buffer, which is counted while it is leased, and
 * can be evicted when it is not. Reading continues while some buffer is free, across the end of a
 * pass to the beginning of the next.
 *
 * Nothing waits here: a range that has not arrived is PENDING, and the caller waits on the queue
 * that reads. A range that finds no buffer for long, because all are leased, is used from the
 * mapping of the file: so one of several steps that hold views and wait for others can always go
 * on.
 *
 * One thread: that of the queue.
 */

#pragma once

#include "base/llm-status.h"
#include "memory/llm-ledger.h"
#include "weights/llm-weight-reader.h"

typedef struct
{
  guint64 offset;        /* in the file */
  guint64 length;        /* at least 1 */
} LlmStreamRange;

typedef struct
{
  guint64 bytes;         /* of the ring; more where the largest range needs it */
  gboolean poisons;      /* for tests: a buffer is overwritten as soon as its last lease ends, or
                          * when all steps of a pass have used it, so that a late reader gets wrong
                          * values */
  gboolean by_channel;   /* for tests: weights by channel are used whenever they can be, not only where
                          * that is faster */
} LlmStreamConfig;

typedef struct
{
  guint64 read_bytes;    /* that arrived, whole blocks */
  guint64 n_rests;       /* times that no read was under way behind one that arrived */
  guint64 n_mapped;      /* leases that found no buffer, and used the mapping */
  guint64 ring_bytes;    /* of memory that is held now */
  guint64 expert_bytes;  /* memory of the expert cache (llm-expert-cache.h) */
  double expert_share;   /* the fraction of all experts that fits into it */
  guint64 n_expert_uses; /* experts that steps chose, */
  guint64 n_expert_hits; /* of these, cached ones; */
  guint64 n_expert_reads; /* and reads of an expert */
  guint64 channel_bytes; /* of read_bytes, those by channel (llm-channels.h), */
  guint64 n_channels_read; /* inputs whose weights they were, */
  guint64 n_channels_left; /* and inputs beside them whose weights were not needed */
  guint64 pass_bytes;    /* read by each pass now, without experts */
  double pass_us;        /* time of those reads, at the rate measured while steps waited; 0 before
                          * the first */
} LlmStreamFigures;

/* Adds the counters; the other figures are current values. */
static inline void
llm_stream_figures_add_counts (LlmStreamFigures       *sum,
                               const LlmStreamFigures *figures)
{
  sum->read_bytes += figures->read_bytes;
  sum->n_rests += figures->n_rests;
  sum->n_mapped += figures->n_mapped;
  sum->n_expert_uses += figures->n_expert_uses;
  sum->n_expert_hits += figures->n_expert_hits;
  sum->n_expert_reads += figures->n_expert_reads;
  sum->channel_bytes += figures->channel_bytes;
  sum->n_channels_read += figures->n_channels_read;
  sum->n_channels_left += figures->n_channels_left;
}

typedef struct _LlmWeightStream LlmWeightStream;

/* Takes @reader, which has a source. @ranges: (copied): in the order of a pass. None streams at first.
 * The ring takes memory while some range streams, and counts it in @ledger (nullable) as
 * LLM_HOLDER_WEIGHTS. */
LlmWeightStream *llm_weight_stream_new     (LlmWeightReader       *reader,
                                            const LlmStreamConfig *config,
                                            const LlmStreamRange  *ranges,
                                            guint                  n_ranges,
                                            LlmLedger             *ledger);
/* No range may be leased. Waits for reads under way. */
void             llm_weight_stream_free    (LlmWeightStream       *self);

/* Sets which ranges stream from now on; leased ones stay until they are released. The others are
 * not read ahead. */
void             llm_weight_stream_set     (LlmWeightStream       *self,
                                            guint                  range,
                                            gboolean               streams);
/* Of a range that streams: whether it is not read ahead, only when it is asked for. */
void             llm_weight_stream_skip    (LlmWeightStream       *self,
                                            guint                  range,
                                            gboolean               skips);
/* Called after all of those: frees the ring if no range streams. */
void             llm_weight_stream_settle  (LlmWeightStream       *self);

/* How many steps share a pass from now on: a range that one of them has used stays until all have,
 * so that it is read once for all; a step that is ahead waits for the others for a while. */
void             llm_weight_stream_set_readers (LlmWeightStream   *self,
                                            guint                  n_readers);
/* READY with the bytes of @range in @data, until released; READY with NULL if the caller must use
 * the mapping, and release nothing; PENDING; or FAILED when it could not be read, which the next
 * call tries again. */
LlmStatus        llm_weight_stream_acquire (LlmWeightStream       *self,
                                            guint                  range,
                                            const guint8         **data,
                                            GError               **error);
void             llm_weight_stream_release (LlmWeightStream       *self,
                                            guint                  range);
/* Whether @data came from here. */
gboolean         llm_weight_stream_owns    (LlmWeightStream       *self,
                                            gconstpointer          data);
/* Takes arrived reads, and continues reading. */
void             llm_weight_stream_poll    (LlmWeightStream       *self);
/* Frees memory that no lease needs; the next acquire() takes it again. Waits for reads under way.
 * Returns the bytes freed. */
guint64          llm_weight_stream_trim    (LlmWeightStream       *self);
void             llm_weight_stream_get_figures (LlmWeightStream   *self,
                                            LlmStreamFigures      *figures);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWeightStream, llm_weight_stream_free)
