/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention for sets with vectors, in three passes over a run: scores of all
 * slots, lanes being slots; the softmax; the sum of weights × V, lanes being
 * dimensions. No pass adds up lanes in its inner loop, and a loaded K or V serves
 * a block of queries. Chunks of one format go together. A query's arithmetic does not depend on its
 * block.
 *
 * Packed chunks are taken apart as they are read, or before (llk-attention-open.h). What the values of a slot share
 * stays outside of the loops: q · k = scale × (q · codes), and weight × v = (weight × step) ×
 * codes + weight × low, low being the value of code 0.
 *
 * Who includes this defines before what llk-attention-block.h says, and ATTENTION, the name of
 * the set's LlkAttention.
 */

#pragma once

#include "kernels/llk-attention-scores.h"
#include "kernels/llk-attention-values.h"

/* Chunks that were taken apart lie behind, in whole lines. */
#define BLOCK_BYTES ((sizeof (Block) + LINE - 1) / LINE * LINE)

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
  if (query->received != NULL)
    memset (query->received, 0, block->n_chunks * sizeof (float));

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
      if (query->received != NULL)
        query->received[slots->chunk] += sum_vector (weight);
      if (llk_kv_is_packed (slots->format))
        {
          step = load_coding (block->chunks[slots->chunk].v, LLK_KV_VALUES, slots->first,
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
  order_chunks (block);
  open_chunks (block, queries, n_queries, (float *) (void *) ((char *) scratch + BLOCK_BYTES));
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
  return BLOCK_BYTES
         + LLK_ATTENTION_RUN / shape->chunk_slots * get_open_size (shape) * sizeof (float);
}

/* Queries beyond a block find K and V in the second cache. */
const LlkAttention ATTENTION = { 8 * BLOCK_QUERIES, get_scratch, attend };
