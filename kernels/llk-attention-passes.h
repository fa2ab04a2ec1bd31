/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention for sets with vectors, in three passes over a run: scores of all
 * slots, lanes being slots; the softmax; the sum of weights × V, lanes being
 * dimensions. No pass adds up lanes in its inner loop, and a loaded K or V serves
 * a block of queries. A query's arithmetic does not depend on its block.
 *
 * Packed chunks are taken apart as they are read. What the values of a slot share
 * stays outside of the loops: q · k = scale × (q · codes), and weight × v = (weight × step) ×
 * codes + weight × low, low being the value of code 0.
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
 *   load_codes() (of 4 or 2 bits, those that lie a number of bits higher in their
 *   words than the first) and load_steps(), see llk-kv-layout.h
 */

#include "kernels/llk-kv-layout.h"

#include <math.h>

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

  Slots slots[MAX_VECTORS + AHEAD];
  size_t n_slots;
  float low_sums[BLOCK_QUERIES];                                   /* of weight × low */
  float q[LLK_MAX_HEAD_DIM * BLOCK_QUERIES];                       /* by dimension, × scale */
  float key_steps[2 * SCORE_VECTORS][LLK_MAX_HEAD_DIM];            /* of the vectors at hand */
  float key_lows[2 * SCORE_VECTORS][LLK_MAX_HEAD_DIM];
  float weights[BLOCK_QUERIES * LLK_ATTENTION_RUN];            /* scores first */
  float acc[BLOCK_QUERIES * (LLK_MAX_HEAD_DIM + LANES)];
} Block;

INLINE size_t
get_bytes (size_t      n,
           LlkKvFormat format)
{
  static const size_t bits[LLK_N_KV_FORMATS] = { 32, 16, 8, 4, 2 };

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
      return load_codes (codes, format == LLK_KV_Q4 ? 4 : 2, 2 * at);
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
load_coding (const void *part,
             size_t      first,
             size_t      n_groups,
             LlkKvFormat format,
             Vector     *low)
{
  const uint8_t *head = part;
  Vector step, zero;

  if (format == LLK_KV_Q8)
    {
      *low = zero_vector ();
      return load_halves (head + 2 * first);
    }
  step = load_steps (head + first);
  zero = multiply (load_bytes (head + n_groups + first),
                   splat (llk_kv_get_unit (format == LLK_KV_Q4 ? 4 : 2)));
  *low = multiply (step, zero);
  return step;
}

INLINE uint32_t
get_bits (const LlkAttentionQuery *query,
          const Slots             *slots)
{
  return (uint32_t) (query->masks[slots->chunk] >> slots->first) & ((1u << LANES) - 1);
}

#include "kernels/llk-attention-scores.h"
#include "kernels/llk-attention-values.h"

/* --- softmax --- */

/* Scores to weights, 0 where the query sees nothing; the sum of them. Those of packed slots
 * become weight × step. */
static __attribute__ ((noinline)) float
weigh (Block             *block,
       size_t             j,
       LlkAttentionQuery *query)
{
  float *weights = &block->weights[j * LLK_ATTENTION_RUN];
  Vector sum = zero_vector (), low_sum = zero_vector ();
  Vector max;

  query->max = finish_scores (block, j, query);
  max = splat (query->max);
  if (query->mass != NULL)
    memset (query->mass, 0, block->n_chunks * sizeof (float));

  for (size_t i = 0; i < block->n_slots; i++)
    {
      const Slots *slots = &block->slots[i];
      uint32_t bits = get_bits (query, slots);
      Vector weight, step, low;

      if (bits == 0)
        continue;
      weight = exp_vector (subtract (load_floats (weights + slots->slot), max));
      weight = select_lanes (bits, weight, zero_vector ());
      sum = add (sum, weight);
      if (query->mass != NULL)
        query->mass[slots->chunk] += sum_vector (weight);
      if (llk_kv_is_packed (slots->format))
        {
          step = load_coding (block->chunks[slots->chunk].v, slots->first,
                              block->shape->chunk_slots, slots->format, &low);
          low_sum = add (low_sum, select_lanes (bits, multiply (weight, low), zero_vector ()));
          weight = select_lanes (bits, multiply (weight, step), zero_vector ());
        }
      store_floats (weights + slots->slot, weight);
    }

  block->low_sums[j] = sum_vector (low_sum);
  return sum_vector (sum);
}

/* --- together --- */

INLINE void
attend_block (Block *block,
              size_t n_queries)
{
  float sums[BLOCK_QUERIES];

  list_slots (block, n_queries);
  score (block, n_queries);
  for (size_t j = 0; j < n_queries; j++)
    sums[j] = weigh (block, j, &block->queries[j]);
  sum_values (block, n_queries);

  for (size_t j = 0; j < n_queries; j++)
    {
      LlkAttentionQuery *query = &block->queries[j];
      LlkAttentionState run = { query->max, sums[j], &block->acc[j * block->stride] };

      llk_attention_fold (query->state, &run, block->shape->head_dim);
    }
}

/* Not inlined, so that each number of queries has registers of its own. */
#define DEFINE_ATTEND_BLOCK(n)                                                                     \
  static __attribute__ ((noinline)) void                                                           \
  attend_##n (Block *block)                                                                        \
  {                                                                                                \
    attend_block (block, n);                                                                       \
  }

DEFINE_ATTEND_BLOCK (1)
DEFINE_ATTEND_BLOCK (2)
DEFINE_ATTEND_BLOCK (3)
DEFINE_ATTEND_BLOCK (4)
#if BLOCK_QUERIES == 8
DEFINE_ATTEND_BLOCK (5)
DEFINE_ATTEND_BLOCK (6)
DEFINE_ATTEND_BLOCK (7)
DEFINE_ATTEND_BLOCK (8)
#endif

static void
attend (const LlkAttentionShape *shape,
        const LlkAttentionChunk *chunks,
        size_t                   n_chunks,
        LlkAttentionQuery       *queries,
        size_t                   n_queries,
        void                    *scratch)
{
  static void (*const funcs[]) (Block *) = {
    attend_1, attend_2, attend_3, attend_4,
#if BLOCK_QUERIES == 8
    attend_5, attend_6, attend_7, attend_8,
#endif
  };
  Block *block = scratch;

  block->shape = shape;
  block->chunks = chunks;
  block->n_chunks = n_chunks;
  block->stride = (shape->head_dim + LANES - 1) / LANES * LANES;
  for (size_t first = 0; first < n_queries; first += BLOCK_QUERIES)
    {
      size_t n = n_queries - first < BLOCK_QUERIES ? n_queries - first : BLOCK_QUERIES;

      block->queries = queries + first;
      funcs[n - 1](block);
    }
}

static size_t
get_scratch (const LlkAttentionShape *shape)
{
  (void) shape;
  return sizeof (Block);
}

/* Queries beyond a block find K and V in the second cache. */
static const LlkAttention attention = { 8 * BLOCK_QUERIES, get_scratch, attend };
