/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A driver of the forward pass for long prompts on a machine with a device (N1, N6): the chunks of
 * a prompt are steps of their own, and whichever stage of whichever chunk llm-dispatch.h says runs
 * next, on the CPU while the device computes others. The bits are those of chunks one after the
 * other. What stages take, and which the device has, is learned while they run; the first prompt
 * goes in order. The executor's thread owns it.
 */

#pragma once

#include "dispatch/llm-dispatch.h"
#include "forward/llm-step.h"

typedef struct _LlmChunkRun LlmChunkRun;

/* Refers to @plan; @pool: (unowned); @ledger (nullable) counts scratch memory: that of a step for
 * each chunk. */
LlmChunkRun *llm_chunk_run_new      (LlmPlan         *plan,
                                     LlmWorkerPool   *pool,
                                     LlmLedger       *ledger);
void         llm_chunk_run_free     (LlmChunkRun     *self);

/* Chunks of one sequence, in order of their slots, which are appended already; they live until the
 * run has ended. At most LLM_DISPATCH_MAX_CHUNKS. */
gboolean     llm_chunk_run_begin    (LlmChunkRun     *self,
                                     const LlmBatch  *chunks,
                                     guint            n_chunks,
                                     GError         **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same, by @rule. */
gboolean     llm_chunk_run_begin_by (LlmChunkRun     *self,
                                     const LlmBatch  *chunks,
                                     guint            n_chunks,
                                     LlmDispatchRule  rule,
                                     GError         **error) G_GNUC_WARN_UNUSED_RESULT;
/* READY when all chunks have ended; PENDING when only the device, or what weights come from, can go
 * on; FAILED leaves all of it. */
LlmStatus    llm_chunk_run_resume   (LlmChunkRun     *self,
                                     GError         **error);
void         llm_chunk_run_abandon  (LlmChunkRun     *self);
/* As llm_step_get_logits(), of a chunk of the last run. */
const float *llm_chunk_run_get_logits (LlmChunkRun   *self,
                                     guint            chunk,
                                     guint            row);
/* What has been learned, for @n_chunks; FALSE before the first run. Valid until the next begin. */
gboolean     llm_chunk_run_get_graph (LlmChunkRun    *self,
                                     guint            n_chunks,
                                     LlmDispatchGraph *graph);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmChunkRun, llm_chunk_run_free)
