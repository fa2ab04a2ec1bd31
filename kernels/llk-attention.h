/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention of queries over the chunks of a sequence's context memory. A chunk
 * holds the keys and values of one KV head for a number of slots: keys by
 * dimension, k[d × chunk_slots + s], so that a vector instruction scores several
 * slots at once; values by slot, v[s × head_dim + d].
 *
 * Chunks are taken in runs, each with a softmax of its own that is folded into
 * the query's state. Runs must begin at fixed slots, whoever computes them: then
 * a query's result depends on nothing but the query and what it sees.
 */

#pragma once

#include "kernels/llk-kv.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Slots of a chunk: a multiple of the first, at most the second. */
#define LLK_ATTENTION_GROUP 16
#define LLK_ATTENTION_MAX_SLOTS 64
/* Slots of a run at most: it has as many whole chunks as go in. */
#define LLK_ATTENTION_RUN 512
/* Longest head. */
#define LLK_MAX_HEAD_DIM 576

typedef struct
{
  const void *k;
  const void *v;
  LlkKvFormat format;   /* floats, as the shape says, or packed, see llk-kv.h */
} LlkAttentionChunk;

typedef struct
{
  bool is_half;         /* K and V that are not packed are F16, else F32 */
  size_t head_dim;
  size_t chunk_slots;
  float scale;          /* score = q·k × scale */
  float softcap;        /* if not 0, score = softcap × tanh (score / softcap) */
} LlkAttentionShape;

static inline LlkKvFormat
llk_attention_get_format (const LlkAttentionShape *shape,
                          const LlkAttentionChunk *chunk)
{
  if (llk_kv_is_packed (chunk->format))
    return chunk->format;
  return shape->is_half ? LLK_KV_F16 : LLK_KV_F32;
}

/* The softmax over what was seen so far. */
typedef struct
{
  float max;            /* largest score, -INFINITY when nothing was seen */
  float sum;            /* of exp (score - max) */
  float *acc;           /* [head_dim], of exp (score - max) × V */
} LlkAttentionState;

typedef struct
{
  const float *q;             /* [head_dim] */
  const uint64_t *masks;      /* of each chunk of the run: bit s for slot s, no others */
  LlkAttentionState *state;
  float *received;            /* (nullable) [n_chunks]: set to the sums of exp (score - max) */
  float max;                  /* set to the run's largest score; -INFINITY when it sees nothing */
} LlkAttentionQuery;

/* How a set attends. Relative to the largest magnitude of V that a query sees, scores up to S:
 * within 1e-6 × (8 + S) of exact arithmetic; on tiles within 2^-15 × (1 + S): q, weights, and K and
 * V that are floats are rounded to 17 bits of precision, halves are not. Packed K and V are what
 * unpacking makes of them, as floats. */
typedef struct
{
  size_t n_queries;           /* that one call should have for best speed; any number is right */

  /* Bytes of scratch memory that a caller of attend() has to bring, 64-byte aligned. */
  size_t (*get_scratch) (const LlkAttentionShape *shape);

  /* Folds a run of @n_chunks chunks into the states of @n_queries queries of one
   * KV head. What lies in a slot that a query does not see has no influence on
   * that query, whatever it is. Chunks that no query sees are not read and may
   * be NULL. */
  void (*attend) (const LlkAttentionShape *shape, const LlkAttentionChunk *chunks, size_t n_chunks,
                  LlkAttentionQuery *queries, size_t n_queries, void *scratch);
} LlkAttention;

/* A state that has seen nothing. */
void llk_attention_begin (LlkAttentionState *state, size_t head_dim);
/* Makes @state the softmax over what both have seen. What @other has as zeros of
 * either sign counts as +0, so that folding into an empty state copies. */
void llk_attention_fold  (LlkAttentionState *state, const LlkAttentionState *other,
                          size_t head_dim);
/* out[i] = acc[i] / sum; zeros when nothing was seen. @out may be acc. */
void llk_attention_end   (const LlkAttentionState *state, float *out, size_t head_dim);
