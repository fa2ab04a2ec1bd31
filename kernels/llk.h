/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Arithmetic on numbers and shapes: plain C and libc, no allocation, no
 * threads. One table of functions per instruction set; the portable one is the
 * definition, the others must agree with it within the tolerance stated at
 * each function. A function's result for one row does not depend on how many
 * rows it is called with.
 *
 * NaN: goes through sums and products as IEEE says; nothing tests for it.
 */

#pragma once

#include "kernels/llk-types.h"

/* Values an attention chunk holds at most in one call. */
#define LLK_ATTENTION_MAX_SLOTS 64
/* Longest head. */
#define LLK_MAX_HEAD_DIM 512

/* The running state of one row and head: an online softmax. */
typedef struct
{
  float max;                     /* largest score so far, -INFINITY at the start */
  float sum;                     /* of exp (score - max) */
  float acc[LLK_MAX_HEAD_DIM];   /* of exp (score - max) × V */
} LlkAttentionState;

typedef struct LlkOps
{
  const char *name;  /* "portable", "avx2" */

  /* Weights to floats: @n values, a multiple of the type's block. Exact. */
  void (*unpack) (LlkType type, const void *src, float *dst, size_t n);

  /* y[r * y_stride] = sum over i < n of w[i] × x[r * x_stride + i], for each
   * r < n_rows. Relative error of a sum of n floats in blocks. */
  void (*dot_rows) (const float *w, const float *x, size_t x_stride, size_t n_rows, size_t n,
                    float *y, size_t y_stride);

  /* y[i] = x[i] / sqrt (mean (x²) + eps) × weight[i] */
  void (*rms_norm) (const float *x, const float *weight, float eps, float *y, size_t n);

  /* gate[i] = silu (gate[i]) × up[i] */
  void (*silu_mul) (float *gate, const float *up, size_t n);

  /* y[i] += x[i] */
  void (*add) (float *y, const float *x, size_t n);

  void (*f32_to_f16) (const float *src, uint16_t *dst, size_t n);
  void (*f16_to_f32) (const uint16_t *src, float *dst, size_t n);

  /* One chunk of one KV head for one query head of one row: scores
   * q·K[s] × scale for the slots s < n_slots whose bit in @mask is set, folded
   * into @state with their V. K and V lie head_dim values apart per slot.
   * @probabilities (nullable): exp (score - state->max after the call) per slot,
   * 0 for masked ones: for the density of L3, to be rescaled with the final max and sum. */
  void (*attend_f32) (const float *q, const float *k, const float *v, size_t head_dim,
                      size_t n_slots, uint64_t mask, float scale, LlkAttentionState *state,
                      float *probabilities);
  void (*attend_f16) (const float *q, const uint16_t *k, const uint16_t *v, size_t head_dim,
                      size_t n_slots, uint64_t mask, float scale, LlkAttentionState *state,
                      float *probabilities);
} LlkOps;

/* The definition. */
const LlkOps *llk_ops_portable (void);
/* By name; NULL when unknown or not possible on this processor. */
const LlkOps *llk_ops_find     (const char *name);
/* Names this processor can run, best first, NULL-terminated; portable is last. */
const char *const *llk_ops_list (void);
/* The best for this processor, or the one that $LLMSVC_KERNELS names. */
const LlkOps *llk_ops_best     (void);

/* Start of an attention row. Only acc[0, head_dim) is used. */
void llk_attention_begin (LlkAttentionState *state, size_t head_dim);
/* out[i] = acc[i] / sum; zeros when nothing was visible. */
void llk_attention_end   (const LlkAttentionState *state, float *out, size_t head_dim);

/* Rotates one head in place by the angles cosine[i], sine[i], i < rope_dim / 2:
 * neighbouring pairs (norm), or halves (neox). */
void llk_rope_norm (float *head, const float *cosine, const float *sine, size_t rope_dim);
void llk_rope_neox (float *head, const float *cosine, const float *sine, size_t rope_dim);
