/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The forward pass as the executor has it: a step (llm-step.h) whose stages run
 * in the order of the plan. One that must wait for weights, chunks or a device
 * says LLM_PENDING and is run again later; nothing before it is lost, and other
 * steps may go on. A step can be left at a stage boundary.
 *
 * The executor's thread owns it.
 */

#pragma once

#include "forward/llm-plan.h"
#include "memory/llm-ledger.h"

typedef struct _LlmForward LlmForward;

/* The layout of sequences for a model. @layers: [LLM_MAX_LAYERS], set; the layout points to it. */
LlmKvLayout  llm_forward_get_layout  (const LlmHparams *hparams,
                                      LlkKvFormat       format,
                                      guint             chunk_slots,
                                      LlmKvLayer       *layers);

/* Refers to @plan. @ledger (nullable) counts scratch memory, which is allocated when first
 * needed. */
LlmForward  *llm_forward_new         (LlmPlan          *plan,
                                      LlmWorkerPool    *pool,
                                      LlmLedger        *ledger);
void         llm_forward_free        (LlmForward       *self);

/* Other workers, from the next step on. */
void         llm_forward_set_pool    (LlmForward       *self,
                                      LlmWorkerPool    *pool);

/* Whether attention adds to its sequences' densities (L3) from the next step on: every row that is
 * counted (a sample, see llm_row_is_sampled()) gives out 1, shared over its heads, its layers and
 * the slots that it saw. A step that is abandoned adds nothing. Off at first. */
void         llm_forward_set_density (LlmForward       *self,
                                      gboolean          collects);

/* Begins a step. The slots of the rows are appended to their sequences
 * already; rows of one sequence come in rising order of slots. @batch and its
 * arrays must live until the step has ended. Checks tokens and sub-models;
 * fails with NO_MEMORY when there is no room for scratch. */
gboolean     llm_forward_begin       (LlmForward       *self,
                                      const LlmBatch   *batch,
                                      GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* Runs on until the step has ended, must wait, or failed. */
LlmStatus    llm_forward_resume      (LlmForward       *self,
                                      GError          **error);
/* Runs one stage only: for drivers that stop at stage boundaries. READY when
 * the step has ended; PENDING also when the next stage may be run. */
LlmStatus    llm_forward_step        (LlmForward       *self,
                                      gboolean         *waits,
                                      GError          **error);
/* The stage that llm_forward_step() would run next, for profiles; NULL between steps. */
const char  *llm_forward_get_stage_name (LlmForward    *self);
/* Leaves a step in the middle. */
void         llm_forward_abandon     (LlmForward       *self);

/* Logits of row @row of the last step: n_vocab floats, valid until the next
 * begin or trim; NULL when the row did not ask for them. */
const float *llm_forward_get_logits  (LlmForward       *self,
                                      guint             row);
/* Adds to the density of @seq (or what it became by a commit) what the drafted row @row of the last
 * step gave out. Those that are not accepted until the next begin or trim count for nothing. */
void         llm_forward_accept      (LlmForward       *self,
                                      LlmKvSeq         *seq,
                                      guint             row);
/* Products of two numbers that its steps have computed so far: of matrices, not of attention. */
guint64      llm_forward_get_n_multiplied (LlmForward  *self);
/* Whether rows may have an adapter of their own. */
gboolean     llm_forward_has_adapters (LlmForward      *self);
/* LlmPlanConfig.sub_model. */
guint8       llm_forward_get_sub_model (LlmForward     *self);
/* LlmPlanConfig.sparsity. */
guint8       llm_forward_get_sparsity (LlmForward      *self);
/* Scratch memory held, and giving it back between steps. */
guint64      llm_forward_get_scratch (LlmForward       *self);
/* How many rows a step of so many bytes of scratch may have, at least 1. */
guint        llm_forward_count_rows  (LlmForward       *self,
                                      guint64           room);
guint64      llm_forward_trim        (LlmForward       *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmForward, llm_forward_free)
