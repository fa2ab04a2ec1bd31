/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A block of queries in a run, and the reading of K and V: what the passes of
 * llk-attention-passes.h share.
 *
 * Who includes this defines before, for its vectors:
 *   LANES               floats of a vector: 16, 8 or 4
 *   BLOCK_QUERIES       queries of a block: 4 or 8
 *   SCORE_VECTORS       vectors of slots scored together
 *   VALUE_VECTORS       vectors of dimensions summed together
 *   Vector, INLINE, and the functions zero_vector(), splat(), load_floats(),
 *   load_halves(), load_some_floats(), load_some_halves() (the first n lanes, zeros
 *   behind, nothing read behind), store_floats(), multiply(), multiply_add() (a × b
 *   + c), add(), subtract(), divide(), maximum() (of NaN and a number the number
 *   given first, if that is one), select_lanes() (where a bit is set the first, else the
 *   second), exp_vector(), sum_vector(), max_lane(); load_bytes() (signed ones),
 *   load_codes() (of 4, 3 or 2 bits, those that lie a number of bits higher in their
 *   words than the first) and load_steps() and load_nibbles() (of
 *   sixteen groups those from a place on), see llk-kv-layout.h
 */

#pragma once

#include "kernels/llk-kv-layout.h"

#define MAX_VECTORS (LLK_ATTENTION_RUN / LANES)
/* Slots whose V stays in the first cache while the dimensions are gone through. */
#define VALUE_SLOTS 64
/* Vectors of slots that K is fetched ahead of its use. */
#define AHEAD (2 * SCORE_VECTORS)
/* One or two queries leave registers free, and wait for sums more than others do. */
#define MANY(n_queries, n) ((n_queries) <= 2 ? 2 * (n) : (n))
#define LINE 64

/* A vector of slots that somebody in the block sees. */
typedef struct
{
  const char *k;      /* of dimension 0, and of sixteen slots if packed */
  const char *next;   /* what will be read AHEAD vectors later, in the same steps */
  size_t slot;        /* in the run */
  size_t chunk;
  size_t first;       /* in the chunk */
  LlkKvFormat format;
} Slots;

/* A slot that the queries see. */
typedef struct
{
  const char *v;
  const char *next;   /* where V is that will be read VALUE_SLOTS slots later */
  size_t slot;        /* in the run */
} Seen;

typedef struct
{
  const LlkAttentionShape *shape;
  const LlkAttentionChunk *chunks;
  size_t n_chunks;
  LlkAttentionQuery *queries;
  size_t stride;                                                   /* of acc: whole vectors */
  bool has_packed;                                                 /* chunks that are seen */
  const float *open;                                               /* (nullable): packed chunks
                                                                    * taken apart */

  uint16_t order[LLK_ATTENTION_RUN];                               /* chunks by format; those of one
                                                                    * in their order */
  Slots slots[MAX_VECTORS + AHEAD];
  size_t n_slots;
  float low_sums[BLOCK_QUERIES];                                   /* of weight × low */
  float q[LLK_MAX_HEAD_DIM * BLOCK_QUERIES];                       /* by dimension, × scale */
  float key_steps[2 * SCORE_VECTORS][LLK_MAX_HEAD_DIM];            /* of the vectors at hand */
  float key_lows[2 * SCORE_VECTORS][LLK_MAX_HEAD_DIM];
  float weights[BLOCK_QUERIES * LLK_ATTENTION_RUN];            /* scores first */
  float acc[BLOCK_QUERIES * (LLK_MAX_HEAD_DIM + LANES)];
} Block;

INLINE unsigned
get_code_bits (LlkKvFormat format)
{
  return format == LLK_KV_Q4 ? 4 : format == LLK_KV_Q3 ? 3 : 2;
}

INLINE size_t
get_bytes (size_t      n,
           LlkKvFormat format)
{
  static const size_t bits[LLK_N_KV_FORMATS] = { 32, 16, 8, 4, 3, 2 };

  return n * bits[format] / 8;
}

/* A vector of values, or of codes; @at: its place among the sixteen codes at @src. */
INLINE Vector
load_vector (const char *src,
             size_t      at,
             LlkKvFormat format)
{
  const uint8_t *codes = (const uint8_t *) src;

  switch (format)
    {
    case LLK_KV_F32:
      return load_floats ((const float *) (const void *) src);
    case LLK_KV_F16:
      return load_halves (src);
    case LLK_KV_Q8:
      return load_bytes (codes + at);
    default:
      return load_codes (codes, get_code_bits (format), 2 * at);
    }
}

/* The first @n values; of codes, which are made up to sixteen, any behind. */
INLINE Vector
load_part (const char *src,
           size_t      at,
           size_t      n,
           LlkKvFormat format)
{
  if (format == LLK_KV_F32)
    return load_some_floats ((const float *) (const void *) src, n);
  if (format == LLK_KV_F16)
    return load_some_halves (src, n);
  return load_vector (src, at, format);
}

/* The steps of a vector of the groups of a part, and what is added to step × code. */
INLINE Vector
load_coding (const void *src,
             LlkKvPart   part,
             size_t      first,
             size_t      n_groups,
             LlkKvFormat format,
             Vector     *low)
{
  const uint8_t *head = src, *at = head + llk_kv_get_lows_at (n_groups);
  size_t sixteen = first / LLK_KV_GROUP * 8;
  unsigned bits = get_code_bits (format);
  Vector step, units;

  if (format == LLK_KV_Q8)
    {
      *low = zero_vector ();
      return load_halves (head + 2 * first);
    }
  step = load_steps (head + LLK_KV_BASE_BYTES + sixteen, first % LLK_KV_GROUP, head[0]);
  units = part == LLK_KV_KEYS ? load_bytes (at + first)
                              : subtract (load_nibbles (at + sixteen, first % LLK_KV_GROUP),
                                          splat (8));
  *low = multiply (step, multiply_add (units, splat (llk_kv_get_unit (part, bits)),
                                       splat (llk_kv_get_origin (part, bits))));
  return step;
}

INLINE uint32_t
get_bits (const LlkAttentionQuery *query,
          const Slots             *slots)
{
  return (uint32_t) (query->masks[slots->chunk] >> slots->first) & ((1u << LANES) - 1);
}
