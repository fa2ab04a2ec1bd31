/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention for sets with vectors, in three passes over a run: scores of all
 * slots, lanes being slots; the softmax; the sum of weights × V, lanes being
 * dimensions. No pass adds up lanes in its inner loop, and a loaded K or V serves
 * a block of queries. A query's arithmetic does not depend on its block.
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
 *   second), exp_vector(), sum_vector(), max_lane()
 */

#include <math.h>

#define MAX_VECTORS (LLK_ATTENTION_RUN / LANES)
/* Slots whose V stays in the first cache while the dimensions are gone through. */
#define VALUE_SLOTS 64
/* Vectors of slots that K is fetched ahead of its use. */
#define AHEAD (2 * SCORE_VECTORS)

/* A vector of slots that somebody in the block sees. */
typedef struct
{
  const char *k;      /* of dimension 0 */
  const char *next;   /* what will be read AHEAD vectors later, in the same steps */
  size_t slot;        /* in the run */
  size_t chunk;
  size_t first;       /* in the chunk */
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

  Slots slots[MAX_VECTORS + AHEAD];
  size_t n_slots;
  Vector max[BLOCK_QUERIES];
  float q[LLK_MAX_HEAD_DIM * BLOCK_QUERIES];                       /* by dimension, × scale */
  float weights[BLOCK_QUERIES * LLK_ATTENTION_RUN];            /* scores first */
  float acc[BLOCK_QUERIES * (LLK_MAX_HEAD_DIM + LANES)];
} Block;

INLINE Vector
load_vector (const char *src,
             bool        is_half)
{
  return is_half ? load_halves (src) : load_floats ((const float *) (const void *) src);
}

INLINE Vector
load_part (const char *src,
           size_t      n,
           bool        is_half)
{
  return is_half ? load_some_halves (src, n)
                 : load_some_floats ((const float *) (const void *) src, n);
}

INLINE uint32_t
get_bits (const LlkAttentionQuery *query,
          const Slots             *slots)
{
  return (uint32_t) (query->masks[slots->chunk] >> slots->first) & ((1u << LANES) - 1);
}

/* --- scores --- */

/* Lists the vectors of slots that any of the queries sees; behind them, so that
 * it is fetched ahead as well, the V of the first chunks. */
INLINE void
list_slots (Block *block,
            size_t n_queries,
            size_t value_bytes)
{
  size_t n = 0, n_listed;

  for (size_t c = 0; c < block->n_chunks; c++)
    {
      uint64_t seen = 0;

      for (size_t j = 0; j < n_queries; j++)
        seen |= block->queries[j].masks[c];
      for (size_t first = 0; seen >> first != 0; first += LANES)
        {
          if ((seen >> first & ((1u << LANES) - 1)) != 0)
            block->slots[n++] = (Slots) {
              (const char *) block->chunks[c].k + first * value_bytes, NULL,
              c * block->shape->chunk_slots + first, c, first,
            };
          if (first + LANES == 64)
            break;
        }
    }

  block->n_slots = n;
  n_listed = n;
  for (size_t i = 0; i < AHEAD && n_listed > 0; i++)
    {
      const Slots *like = &block->slots[i < n_listed ? i : n_listed - 1];

      block->slots[n + i].k = (const char *) block->chunks[like->chunk].v
                              + like->first * value_bytes;
    }
  for (size_t i = 0; i < n_listed; i++)
    block->slots[i].next = block->slots[i + AHEAD].k;
}

INLINE Vector
cap (Vector score,
     float  softcap)
{
  Vector e = exp_vector (multiply (score, splat (2 / softcap)));

  return multiply (splat (softcap),
                   subtract (splat (1), divide (splat (2), add (e, splat (1)))));
}

INLINE void
score_step (Block *block,
            size_t at,
            size_t n_queries,
            size_t n_vectors,
            bool   is_half)
{
  const LlkAttentionShape *shape = block->shape;
  const Slots *slots = &block->slots[at];
  size_t row_bytes = shape->chunk_slots * (is_half ? sizeof (uint16_t) : sizeof (float));
  const float *q = block->q;
  Vector sums[BLOCK_QUERIES][SCORE_VECTORS];

#pragma GCC unroll 8
  for (size_t j = 0; j < n_queries; j++)
#pragma GCC unroll 8
    for (size_t i = 0; i < n_vectors; i++)
      sums[j][i] = zero_vector ();

  for (size_t d = 0; d < shape->head_dim; d++)
    {
      Vector k[SCORE_VECTORS];

#pragma GCC unroll 8
      for (size_t i = 0; i < n_vectors; i++)
        {
          k[i] = load_vector (slots[i].k + d * row_bytes, is_half);
          __builtin_prefetch (slots[i].next + d * row_bytes, 0, 2);
        }
#pragma GCC unroll 8
      for (size_t j = 0; j < n_queries; j++)
        {
          Vector factor = splat (q[d * BLOCK_QUERIES + j]);

#pragma GCC unroll 8
          for (size_t i = 0; i < n_vectors; i++)
            sums[j][i] = multiply_add (factor, k[i], sums[j][i]);
        }
    }

#pragma GCC unroll 8
  for (size_t j = 0; j < n_queries; j++)
#pragma GCC unroll 8
    for (size_t i = 0; i < n_vectors; i++)
      {
        Vector score = sums[j][i];

        if (shape->softcap != 0)
          score = cap (score, shape->softcap);
        score = select_lanes (get_bits (&block->queries[j], &slots[i]), score,
                              splat (-INFINITY));
        block->max[j] = maximum (block->max[j], score);
        store_floats (&block->weights[j * LLK_ATTENTION_RUN + slots[i].slot], score);
      }
}

INLINE void
score (Block *block,
       size_t n_queries,
       bool   is_half)
{
  const LlkAttentionShape *shape = block->shape;
  size_t i = 0;

  for (size_t j = 0; j < n_queries; j++)
    {
      const float *q = block->queries[j].q;

      block->max[j] = splat (-INFINITY);
      for (size_t d = 0; d < shape->head_dim; d++)
        block->q[d * BLOCK_QUERIES + j] = q[d] * shape->scale;
    }

  for (; i + SCORE_VECTORS <= block->n_slots; i += SCORE_VECTORS)
    score_step (block, i, n_queries, SCORE_VECTORS, is_half);
  for (; i < block->n_slots; i++)
    score_step (block, i, n_queries, 1, is_half);
}

/* --- softmax --- */

/* Scores to weights, 0 where the query sees nothing; the sum of them. */
INLINE float
weigh (Block             *block,
       size_t             j,
       LlkAttentionQuery *query)
{
  float *weights = &block->weights[j * LLK_ATTENTION_RUN];
  Vector sum = zero_vector ();
  Vector max;

  query->max = max_lane (block->max[j]);
  max = splat (query->max);
  if (query->mass != NULL)
    memset (query->mass, 0, block->n_chunks * sizeof (float));

  for (size_t i = 0; i < block->n_slots; i++)
    {
      const Slots *slots = &block->slots[i];
      uint32_t bits = get_bits (query, slots);
      Vector weight;

      if (bits == 0)
        continue;
      weight = exp_vector (subtract (load_floats (weights + slots->slot), max));
      weight = select_lanes (bits, weight, zero_vector ());
      store_floats (weights + slots->slot, weight);
      sum = add (sum, weight);
      if (query->mass != NULL)
        query->mass[slots->chunk] += sum_vector (weight);
    }

  return sum_vector (sum);
}

/* --- values --- */

/* Adds the slots listed to @n_vectors vectors of each query's acc; of a partial
 * vector there are @n_left lanes. */
INLINE void
add_values (const Seen  *seen,
            size_t       n_seen,
            size_t       dimension,
            size_t       n_left,
            const float *weights,
            float       *acc,
            size_t       stride,
            size_t       n_queries,
            size_t       n_vectors,
            bool         is_part,
            bool         is_half)
{
  size_t value_bytes = is_half ? sizeof (uint16_t) : sizeof (float);
  size_t at = dimension * value_bytes;
  Vector sums[BLOCK_QUERIES][VALUE_VECTORS];

#pragma GCC unroll 8
  for (size_t j = 0; j < n_queries; j++)
#pragma GCC unroll 8
    for (size_t i = 0; i < n_vectors; i++)
      sums[j][i] = load_floats (acc + j * stride + dimension + i * LANES);

  for (size_t t = 0; t < n_seen; t++)
    {
      const char *v = seen[t].v + at;
      const float *weight = weights + seen[t].slot;
      Vector values[VALUE_VECTORS];

      __builtin_prefetch (seen[t].next + at, 0, 2);
#pragma GCC unroll 8
      for (size_t i = 0; i < n_vectors; i++)
        values[i] = is_part ? load_part (v, n_left, is_half)
                            : load_vector (v + i * LANES * value_bytes, is_half);
#pragma GCC unroll 8
      for (size_t j = 0; j < n_queries; j++)
        {
          Vector factor = splat (weight[j * LLK_ATTENTION_RUN]);

#pragma GCC unroll 8
          for (size_t i = 0; i < n_vectors; i++)
            sums[j][i] = multiply_add (factor, values[i], sums[j][i]);
        }
    }

#pragma GCC unroll 8
  for (size_t j = 0; j < n_queries; j++)
#pragma GCC unroll 8
    for (size_t i = 0; i < n_vectors; i++)
      store_floats (acc + j * stride + dimension + i * LANES, sums[j][i]);
}

INLINE void
add_all_values (const Seen  *seen,
                size_t       n_seen,
                size_t       head_dim,
                const float *weights,
                float       *acc,
                size_t       stride,
                size_t       n_queries,
                bool         is_half)
{
  size_t d = 0;

  for (; d + VALUE_VECTORS * LANES <= head_dim; d += VALUE_VECTORS * LANES)
    add_values (seen, n_seen, d, 0, weights, acc, stride, n_queries, VALUE_VECTORS, false, is_half);
  for (; d + LANES <= head_dim; d += LANES)
    add_values (seen, n_seen, d, 0, weights, acc, stride, n_queries, 1, false, is_half);
  if (d < head_dim)
    add_values (seen, n_seen, d, head_dim - d, weights, acc, stride, n_queries, 1, true, is_half);
}

/* The slots that the mask of @query shows in @n_chunks chunks from @first on. */
INLINE size_t
list_seen (const Block             *block,
           const LlkAttentionQuery *query,
           size_t                   first,
           size_t                   n_chunks,
           size_t                   slot_bytes,
           Seen                    *seen)
{
  size_t n = 0;

  for (size_t c = first; c < first + n_chunks; c++)
    {
      const char *v = block->chunks[c].v;
      const char *next = c + n_chunks < block->n_chunks ? block->chunks[c + n_chunks].v : v;

      if (next == NULL)
        next = v;
      for (uint64_t rest = query->masks[c]; rest != 0; rest &= rest - 1)
        {
          size_t s = (size_t) __builtin_ctzll (rest);

          seen[n++] = (Seen) { v + s * slot_bytes, next + s * slot_bytes,
                               c * block->shape->chunk_slots + s };
        }
    }

  return n;
}

INLINE bool
see_the_same (const LlkAttentionQuery *queries,
              size_t                   n_queries,
              size_t                   first,
              size_t                   n_chunks)
{
  for (size_t j = 1; j < n_queries; j++)
    if (queries[j].masks != queries[0].masks
        && memcmp (queries[j].masks + first, queries[0].masks + first,
                   n_chunks * sizeof (uint64_t)) != 0)
      return false;

  return true;
}

INLINE void
sum_values (Block *block,
            size_t n_queries,
            bool   is_half)
{
  size_t head_dim = block->shape->head_dim;
  size_t slot_bytes = head_dim * (is_half ? sizeof (uint16_t) : sizeof (float));
  size_t step = VALUE_SLOTS / block->shape->chunk_slots;
  Seen seen[VALUE_SLOTS];

  memset (block->acc, 0, n_queries * block->stride * sizeof (float));
  for (size_t first = 0; first < block->n_chunks; first += step)
    {
      size_t n_chunks = first + step <= block->n_chunks ? step : block->n_chunks - first;
      bool is_same = see_the_same (block->queries, n_queries, first, n_chunks);

      if (is_same)
        {
          size_t n = list_seen (block, block->queries, first, n_chunks, slot_bytes, seen);

          if (n > 0)
            add_all_values (seen, n, head_dim, block->weights, block->acc, block->stride,
                            n_queries, is_half);
        }
      for (size_t j = 0; j < n_queries && !is_same; j++)
        {
          size_t n = list_seen (block, &block->queries[j], first, n_chunks, slot_bytes, seen);

          add_all_values (seen, n, head_dim, &block->weights[j * LLK_ATTENTION_RUN],
                          &block->acc[j * block->stride], block->stride, 1, is_half);
        }
    }
}

/* --- together --- */

INLINE void
attend_block (Block *block,
              size_t n_queries,
              bool   is_half)
{
  float sums[BLOCK_QUERIES];

  list_slots (block, n_queries, is_half ? sizeof (uint16_t) : sizeof (float));
  score (block, n_queries, is_half);
  for (size_t j = 0; j < n_queries; j++)
    sums[j] = weigh (block, j, &block->queries[j]);
  sum_values (block, n_queries, is_half);

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
    if (block->shape->is_half)                                                                     \
      attend_block (block, n, true);                                                               \
    else                                                                                           \
      attend_block (block, n, false);                                                              \
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
