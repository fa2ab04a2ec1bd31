/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights that stream (C4): of a file whose ranges are used one after the other in every pass,
 * those that memory has no room for are read past the page cache into a ring of buffers, in the
 * order of a pass and ahead of their use. A range is in one buffer, which is counted while it is
 * leased and gives way to others when it is not. Reading goes on as long as some buffer is free,
 * over the end of a pass to the beginning of the next.
 *
 * Nothing waits here: a range that has not arrived is PENDING, and who waits does so on the queue
 * that reads. A range that finds no buffer for long, since all are leased, is left to the mapping
 * of the file: so one of several steps that hold views and wait for others can always go on.
 *
 * One thread: that of the queue.
 */

#pragma once

#include "base/llm-status.h"
#include "memory/llm-ledger.h"
#include "weights/llm-weight-source.h"

typedef struct
{
  guint64 offset;        /* in the file */
  guint64 length;        /* at least 1 */
} LlmStreamRange;

typedef struct
{
  guint64 bytes;         /* of the ring; more where the largest range needs it */
  gboolean poisons;      /* for tests: a buffer is filled with other bytes as soon as its last
                          * lease ends, or when all steps of a pass have used it, so that what still
                          * reads it gets wrong values */
} LlmStreamConfig;

typedef struct
{
  guint64 read_bytes;    /* that arrived, whole blocks */
  guint64 n_mapped;      /* leases that found no buffer, and were left to the mapping */
  guint64 ring_bytes;    /* of memory that is held now */
  guint64 expert_bytes;  /* of memory that experts are kept in (llm-expert-cache.h) */
  double expert_share;   /* of all experts, those that it has room for */
  guint64 n_expert_uses; /* experts that steps chose, */
  guint64 n_expert_hits; /* of these, that were there; */
  guint64 n_expert_reads; /* and reads of an expert */
  guint64 pass_bytes;    /* that each pass reads now, without experts */
  double pass_us;        /* that reading what streams takes, at the rate of times when a step waited
                          * for it; 0 before there were any */
} LlmStreamFigures;

/* What is counted since the beginning: the other figures are of now. */
static inline void
llm_stream_figures_add_counts (LlmStreamFigures       *sum,
                               const LlmStreamFigures *figures)
{
  sum->read_bytes += figures->read_bytes;
  sum->n_mapped += figures->n_mapped;
  sum->n_expert_uses += figures->n_expert_uses;
  sum->n_expert_hits += figures->n_expert_hits;
  sum->n_expert_reads += figures->n_expert_reads;
}

typedef struct _LlmWeightStream LlmWeightStream;

/* @ranges: (copied): in the order of a pass. None streams at first. @fd is closed in the end, also
 * on failure; @name (copied) is for messages. The ring takes memory while some range streams, and
 * counts it in @ledger (nullable) as LLM_HOLDER_WEIGHTS. */
LlmWeightStream *llm_weight_stream_new     (const LlmWeightSource *source,
                                            const LlmStreamConfig *config,
                                            int                    fd,
                                            const char            *name,
                                            const LlmStreamRange  *ranges,
                                            guint                  n_ranges,
                                            LlmLedger             *ledger);
/* Nothing is leased. Waits for what is being read. */
void             llm_weight_stream_free    (LlmWeightStream       *self);

/* Which ranges stream from now on; what is leased stays until it is released. Those that don't are
 * not read ahead. */
void             llm_weight_stream_set     (LlmWeightStream       *self,
                                            guint                  range,
                                            gboolean               streams);
/* After all of those: gives the ring's memory back where none streams. */
void             llm_weight_stream_settle  (LlmWeightStream       *self);

/* How many steps go through one pass together, from now on: what one of them has used stays until
 * all have, so that it is read once for all; who is ahead waits for the others for a while. */
void             llm_weight_stream_set_readers (LlmWeightStream   *self,
                                            guint                  n_readers);
/* READY with the bytes of @range in @data, until released; READY with NULL where the caller is to
 * take them from the mapping, and releases nothing; PENDING; or FAILED when it could not be read,
 * which is tried again by the next call. */
LlmStatus        llm_weight_stream_acquire (LlmWeightStream       *self,
                                            guint                  range,
                                            const guint8         **data,
                                            GError               **error);
void             llm_weight_stream_release (LlmWeightStream       *self,
                                            guint                  range);
/* Whether @data came from here. */
gboolean         llm_weight_stream_owns    (LlmWeightStream       *self,
                                            gconstpointer          data);
/* Takes what has arrived, and goes on reading. */
void             llm_weight_stream_poll    (LlmWeightStream       *self);
/* Gives memory back that no lease needs; the next acquire() takes it again. Waits for what is being
 * read. Returns the bytes. */
guint64          llm_weight_stream_trim    (LlmWeightStream       *self);
void             llm_weight_stream_get_figures (LlmWeightStream   *self,
                                            LlmStreamFigures      *figures);

/* For what reads weights of the file @name: @code is the errno of that, ENODATA for a file that was cut.
 * FAILED. */
LlmStatus        llm_weight_stream_fail    (const char            *name,
                                            int                    code,
                                            GError               **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWeightStream, llm_weight_stream_free)
