/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a step (llm-step.c), its stages (llm-forward-stages.c) and their work
 * share. Rows inside are sorted by sub-model, the largest first: a weight segment
 * is multiplied for the first rows only; then by adapter. The executor's thread
 * owns it.
 */

#pragma once

#include "forward/llm-step.h"

static inline const LlmRow *
llm_step_get_row (LlmStep *self,
                  guint    sorted)
{
  return &self->batch->rows[self->rows.order[sorted]];
}

/* Channels of the feed-forward network that a sorted row has in the running stage's layer. */
static inline guint
llm_step_get_n_channels (LlmStep *self,
                         guint    sorted)
{
  return llm_sub_models_get_channels (self->sub_models, self->layer, self->rows.levels[sorted]);
}

/* The buffer at an offset of LlmScratch. */
static inline float *
llm_step_get_buffer (LlmStep *self,
                     gsize    offset)
{
  return G_STRUCT_MEMBER (float *, &self->scratch, offset);
}

/* Rows that a worker takes at a time where each is about @n_values simple
 * operations: what is worth handing out. */
static inline guint
llm_step_get_grain (guint n_values)
{
  return MAX (16384 / MAX (n_values, 1), 1);
}

/* llm-forward-stages.c: all that there are, before, in and behind the layers; the last of each has
 * no function. */
extern const LlmStage llm_entry_stages[], llm_layer_stages[], llm_exit_stages[];

/* llm-forward-stages.c: rows and results of the product of the stage's operator @at; no weights. */
void      llm_forward_describe_product (LlmStep      *self,
                                const LlmStage       *stage,
                                guint                 at,
                                LlmRows              *rows,
                                LlmProduct           *product);
/* Whether its rows are those that want logits. */
static inline gboolean
llm_stage_is_exit (const LlmStage *stage)
{
  return stage->x == G_STRUCT_OFFSET (LlmScratch, hidden);
}

/* The layer of the running stage. */
static inline const LlmLayer *
llm_step_get_layer (LlmStep *self)
{
  return &self->hparams->layers[self->layer];
}

/* (nullable): beside the CPU: what rows in W8A8 need, or what may be faster. */
static inline LlmBackend *
llm_step_get_device (const LlmStep *self)
{
  return self->rows.is_w8 ? self->plan->config.w8 : self->plan->config.device;
}

static inline gboolean
llm_forward_adds_directly (const LlmHparams *hparams,
                           gboolean          has_post_norm)
{
  return !has_post_norm && hparams->scales.residual == 1;
}

/* llm-forward-adapters.c: what adapters add to the product of the node's operator @i; returns of how
 * many runs of rows. Valid until the node is released. */
guint     llm_forward_find_adapted (LlmStep          *self,
                                const LlmStage       *stage,
                                guint                 i,
                                const LlmAdapted    **adapted);

/* llm-forward-rope.c: stages before the layers */
LlmStatus llm_forward_run_frequencies (LlmStep       *self,
                                const LlmStage       *stage,
                                GError              **error);
LlmStatus llm_forward_run_angles (LlmStep            *self,
                                const LlmStage       *stage,
                                GError              **error);

/* Turns what a layer rotates of @n heads: @values is the first of these, each @stride behind the
 * one before. Of a sorted row. */
void      llm_forward_rotate   (LlmStep              *self,
                                guint                 row,
                                guint                 n,
                                guint                 stride,
                                float                *values);

/* llm-forward-attention.c: K and V of the rows are written; attention, and density */
LlmStatus llm_forward_run_remember (LlmStep          *self,
                                const LlmStage       *stage,
                                GError              **error);
LlmStatus llm_forward_run_attention (LlmStep         *self,
                                const LlmStage       *stage,
                                GError              **error);
/* Where rows add what they give out; when the rows are sorted and the chunks counted. */
void      llm_step_place_masses (LlmStep             *self);
/* At the end of the step: what its rows gave out, to their sequences. */
void      llm_step_add_densities (LlmStep            *self);

/* llm-forward-experts.c: chooses the experts of each row by scratch.routed and a bias; the stage
 * adds what they make of normed to x. */
void      llm_forward_choose_experts (LlmStep        *self,
                                const float *const   *bias);
/* Whether experts of self->hold's layer come one by one; where the choice is known, which they
 * are. */
gboolean  llm_forward_take_experts (LlmStep          *self,
                                gboolean              is_early);
LlmStatus llm_forward_run_experts (LlmStep           *self,
                                const LlmStage       *stage,
                                GError              **error);

/* llm-forward-rows.c: work on rows, on all workers, as LlmStage.work has it */

/* x = the rows of the tokens, scaled; the embedding is held */
void      llm_forward_embed    (LlmStep              *self,
                                const float *const   *embedding);
/* Embedding, norm: layer_inputs, which are a projection of x, normalized and the embedding added */
void      llm_forward_embed_layers (LlmStep          *self,
                                const float *const   *vectors);
/* layer_gate = its gate times the layer's of layer_inputs */
void      llm_forward_gate_layer_input (LlmStep      *self,
                                const float *const   *vectors);
/* Norm, scale: x += the norm of normed, then x × scale; of several streams those behind the first
 * get it in the place of x */
void      llm_forward_end_layer (LlmStep             *self,
                                const float *const   *vectors);

/* llm-forward-latent.c, where K and V are of one latent vector */

/* query_low = its norm */
void      llm_forward_normalize_query_low (LlmStep   *self,
                                const float *const   *norm);
/* q = the heads of attended, without what is rotated, as queries for latent vectors */
LlmStatus llm_forward_run_query_absorb (LlmStep      *self,
                                const LlmStage       *stage,
                                GError              **error);
/* The norm of the latent vector; the rotated parts of q, of attended, and of k; v = the vector */
void      llm_forward_prepare_latent_heads (LlmStep  *self,
                                const float *const   *norm);
/* q = the values of the heads, of the latent vectors in attended */
LlmStatus llm_forward_run_value_up (LlmStep          *self,
                                const LlmStage       *stage,
                                GError              **error);

/* llm-forward-streams.c, where there are several residual streams: likewise */

/* streams = x, and what was projected of it, as long as x */
void      llm_forward_begin_streams (LlmStep         *self,
                                const float *const   *vectors);
/* normed = what the router reads of the first stream; of x */
void      llm_forward_normalize_first_stream (LlmStep *self,
                                const float *const   *norm);
void      llm_forward_normalize_for_router (LlmStep  *self,
                                const float *const   *norm);
/* modes = their tanh */
void      llm_forward_bend_modes (LlmStep            *self,
                                const float *const   *vectors);
/* streams += what mixing says that they get of each other; x = the first */
void      llm_forward_mix_streams (LlmStep           *self,
                                const float *const   *vectors);
/* streams += what mixing says that they get of x less the first; x = the first × scale */
void      llm_forward_correct_streams (LlmStep       *self,
                                const float *const   *scale);
/* laurel = its norm + normed; then x = (x + laurel) / √2 */
void      llm_forward_end_laurel (LlmStep            *self,
                                const float *const   *norm);
void      llm_forward_add_laurel (LlmStep            *self,
                                const float *const   *vectors);
/* x of the rows that want logits = the mean of the streams, each unprojected and as long as the
 * first */
LlmStatus llm_forward_run_streams_end (LlmStep       *self,
                                const LlmStage       *stage,
                                GError              **error);

/* normed = the norm of x */
void      llm_forward_normalize (LlmStep             *self,
                                const float *const   *weight);
/* hidden = the norm of x, of the rows that want logits */
void      llm_forward_normalize_wanted (LlmStep      *self,
                                const float *const   *weight);
/* Bias, norm: x += bias; or with norm: x += the norm of (normed + bias), and normed is used up */
void      llm_forward_add_residual (LlmStep          *self,
                                const float *const   *vectors);
/* q, k, v: biases of all three, norms of the heads of q and k, rotation, and the scale of far
 * positions */
void      llm_forward_prepare_heads (LlmStep         *self,
                                const float *const   *vectors);
/* Whether the backend gates the products of the running layer itself, and keeps what comes of it. */
gboolean  llm_forward_keeps_gate (LlmStep            *self);
/* Biases of gate and up: gate = silu or gelu of (gate + bias) × (up + bias), for the first
 * @n_rows, which have @n_ff values; where @is_cut, as many of them as their level */
void      llm_forward_gate     (LlmStep              *self,
                                guint                 n_rows,
                                guint                 n_ff,
                                gboolean              is_cut,
                                const float *const   *vectors);
/* logits: bias and cap */
void      llm_forward_finish_logits (LlmStep         *self,
                                const float *const   *bias);

/* llm-forward-active.c: of each row with a sparsity, the values of @input below the threshold are
 * zero from now on */
void      llm_forward_zero_inactive (LlmStep         *self,
                                LlmInput              input);

/* llm-step-ops.c: of self->hold */

/* Acquires what its node needs and it has not yet. @is_early: before it is known what will be
 * multiplied. */
LlmStatus llm_step_hold        (LlmStep              *self,
                                gboolean              is_early,
                                GError              **error);
/* Acquires a vector that its stage does not name, (nullable) data where the model lacks it; it is
 * released with the others. At most LLM_STAGE_MAX_VECTORS, in the order of @place. */
LlmStatus llm_step_hold_vector (LlmStep              *self,
                                LlmOperator           op,
                                guint                 place,
                                GError              **error);
/* The part @index of weights that hold several matrices of @n_out outputs; in panels these are
 * whole ones. */
LlmWeightView llm_step_cut_view (const LlmWeightView *all,
                                guint                 index,
                                guint                 n_out);
/* Gives all that @hold has back, and leaves operations that are under way. */
void      llm_step_release     (LlmStep              *self,
                                LlmHold              *hold);
/* Adds an operation to those that are submitted next; they must not depend on each other. */
void      llm_step_add_product (LlmStep              *self,
                                LlmOperator           operator,
                                const LlmRows        *rows,
                                guint                 n_rows,
                                const LlmProduct     *product);
/* What adapters add to it, and nothing else of @product. */
void      llm_step_add_adapters (LlmStep             *self,
                                const LlmRows        *rows,
                                const LlmProduct     *product);
/* Makes of the two that were added, gate and up, a gated one, whose result stays with the backend. */
void      llm_step_gate_products (LlmStep            *self,
                                gboolean              is_gelu);
void      llm_step_add_attention (LlmStep            *self,
                                const LlmAttention   *attention);
/* Submits them, and raises the phase. PENDING, which the stage returns: it is called again when all
 * are done; or FAILED. */
LlmStatus llm_step_submit      (LlmStep              *self,
                                GError              **error);
/* Whether all that was submitted is done. */
LlmStatus llm_step_poll        (LlmStep              *self,
                                GError              **error);

/* llm-step-scratch.c */

/* Makes room for the step and points self->scratch into it. */
gboolean  llm_step_reserve     (LlmStep              *self,
                                GError              **error);
/* All of @attention that decides how much room it needs in @layer. */
void      llm_step_describe_attention (LlmStep       *self,
                                guint                 layer,
                                LlmAttention         *attention);
guint64   llm_step_free_scratch (LlmStep             *self);
