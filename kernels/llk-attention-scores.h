/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The first pass of attention (llk-attention-passes.h): which slots are seen, and their scores. */

#pragma once

#include "kernels/llk-attention-open.h"

#include <math.h>

/* Where the keys of the slots from @first on are; packed ones by sixteen. */
INLINE const char *
find_keys (const Block *block,
           size_t       chunk,
           size_t       first,
           LlkKvFormat  format)
{
  const LlkAttentionShape *shape = block->shape;
  const char *k = block->chunks[chunk].k;

  if (get_read_format (block, format) != format)
    return (const char *) (block->open + chunk * get_open_size (shape) + first);
  if (!llk_kv_is_packed (format))
    return k + get_bytes (first, format);
  return k + llk_kv_get_head_bytes (format, LLK_KV_KEYS, shape->head_dim, shape->chunk_slots)
         + get_bytes (first / LLK_KV_GROUP * LLK_KV_GROUP, format);
}

/* Of the values of a slot. */
INLINE size_t
get_value_bytes (const Block *block,
                 LlkKvFormat  format)
{
  const LlkAttentionShape *shape = block->shape;
  size_t row = shape->head_dim;

  if (get_read_format (block, format) != format)
    return get_open_row (shape) * sizeof (float);
  if (llk_kv_is_packed (format))
    row = llk_kv_get_row (LLK_KV_VALUES, row, shape->chunk_slots);
  return get_bytes (row, format);
}

/* Where the values of a chunk are. */
INLINE const char *
find_values (const Block *block,
             size_t       chunk,
             LlkKvFormat  format)
{
  const LlkAttentionShape *shape = block->shape;
  const char *v = block->chunks[chunk].v;

  if (get_read_format (block, format) != format)
    return (const char *) (block->open + chunk * get_open_size (shape) + get_open_keys (shape));
  if (llk_kv_is_packed (format))
    v += llk_kv_get_head_bytes (format, LLK_KV_VALUES, shape->head_dim, shape->chunk_slots);
  return v;
}

/* Chunks of one format go together: of a mix each change of the format would end a group of vectors
 * that are computed at once. */
static void
order_chunks (Block *block)
{
  size_t n_of[LLK_N_KV_FORMATS + 1] = { 0 };

  for (size_t c = 0; c < block->n_chunks; c++)
    n_of[llk_attention_get_format (block->shape, &block->chunks[c]) + 1]++;
  for (size_t format = 1; format < LLK_N_KV_FORMATS; format++)
    n_of[format] += n_of[format - 1];
  for (size_t c = 0; c < block->n_chunks; c++)
    block->order[n_of[llk_attention_get_format (block->shape, &block->chunks[c])]++] = (uint16_t) c;
}

/* Lists the vectors of slots that any of the queries sees; behind them, so that
 * it is fetched ahead as well, the V of the first chunks. */
static __attribute__ ((noinline)) void
list_slots (Block *block,
            size_t n_queries)
{
  const LlkAttentionShape *shape = block->shape;
  size_t n = 0, n_listed;

  block->has_packed = false;
  for (size_t i = 0; i < block->n_chunks; i++)
    {
      size_t c = block->order[i];
      const LlkAttentionChunk *chunk = &block->chunks[c];
      LlkKvFormat format = llk_attention_get_format (shape, chunk);
      uint64_t seen = 0;

      for (size_t j = 0; j < n_queries; j++)
        seen |= block->queries[j].masks[c];
      block->has_packed |= seen != 0 && llk_kv_is_packed (format);
      for (size_t first = 0; seen >> first != 0; first += LANES)
        {
          if ((seen >> first & ((1u << LANES) - 1)) != 0)
            block->slots[n++] = (Slots) {
              find_keys (block, c, first, format), NULL,
              c * shape->chunk_slots + first, c, first, format,
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

      block->slots[n + i].k = find_values (block, like->chunk, like->format)
                              + get_bytes (like->first, like->format);
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

/* Steps and lows of the dimensions of some vectors of slots. */
INLINE void
find_key_steps (Block        *block,
                const Slots  *slots,
                size_t        n_vectors,
                LlkKvFormat   format,
                const float **steps,
                const float **lows)
{
  const LlkAttentionShape *shape = block->shape;
  size_t n_groups = llk_kv_pad (shape->head_dim);

  for (size_t i = 0; i < n_vectors; i++)
    {
      const void *part = block->chunks[slots[i].chunk].k;

      if (i > 0 && slots[i].chunk == slots[i - 1].chunk)
        {
          steps[i] = steps[i - 1];
          lows[i] = lows[i - 1];
          continue;
        }
      for (size_t d = 0; d < n_groups; d += LANES)
        {
          Vector low, step = load_coding (part, LLK_KV_KEYS, d, n_groups, format, &low);

          store_floats (block->key_steps[i] + d, step);
          store_floats (block->key_lows[i] + d, low);
        }
      __builtin_prefetch (slots[i].next - LINE, 0, 2);
      steps[i] = block->key_steps[i];
      lows[i] = block->key_lows[i];
    }
}

/* All vectors have @format. */
INLINE void
score_step (Block      *block,
            size_t      at,
            size_t      n_queries,
            size_t      n_vectors,
            LlkKvFormat format)
{
  const LlkAttentionShape *shape = block->shape;
  const Slots *slots = &block->slots[at];
  size_t row_bytes = get_bytes (shape->chunk_slots, format);
  size_t line_rows = row_bytes < LINE ? LINE / row_bytes : 1;
  bool has_steps = llk_kv_is_packed (format) && llk_kv_is_by_dimension (format, LLK_KV_KEYS);
  const float *steps[2 * SCORE_VECTORS], *lows[2 * SCORE_VECTORS];
  const float *q = block->q;
  Vector sums[BLOCK_QUERIES][2 * SCORE_VECTORS];

  if (has_steps)
    find_key_steps (block, slots, n_vectors, format, steps, lows);

#pragma GCC unroll 8
  for (size_t j = 0; j < n_queries; j++)
#pragma GCC unroll 8
    for (size_t i = 0; i < n_vectors; i++)
      sums[j][i] = zero_vector ();

  for (size_t d = 0; d < shape->head_dim; d++)
    {
      Vector k[2 * SCORE_VECTORS];

#pragma GCC unroll 8
      for (size_t i = 0; i < n_vectors; i++)
        {
          k[i] = load_vector (slots[i].k + d * row_bytes, slots[i].first % LLK_KV_GROUP, format);
          if (has_steps)
            k[i] = multiply_add (k[i], splat (steps[i][d]), splat (lows[i][d]));
          if (!llk_kv_is_packed (format) || (d & (line_rows - 1)) == 0)
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
      store_floats (&block->weights[j * LLK_ATTENTION_RUN + slots[i].slot], sums[j][i]);
}

/* From sums to scores; returns the largest. */
static __attribute__ ((noinline)) float
finish_scores (Block                   *block,
               size_t                   j,
               const LlkAttentionQuery *query)
{
  const LlkAttentionShape *shape = block->shape;
  float *scores = &block->weights[j * LLK_ATTENTION_RUN];
  Vector max = splat (-INFINITY);

  for (size_t i = 0; i < block->n_slots; i++)
    {
      const Slots *slots = &block->slots[i];
      uint32_t bits = get_bits (query, slots);
      Vector score = load_floats (scores + slots->slot);

      if (slots->format == LLK_KV_Q8)
        {
          Vector low;

          score = multiply (score, load_coding (block->chunks[slots->chunk].k, LLK_KV_KEYS,
                                                slots->first, shape->chunk_slots, LLK_KV_Q8,
                                                &low));
        }
      if (shape->softcap != 0)
        score = cap (score, shape->softcap);
      score = select_lanes (bits, score, splat (-INFINITY));
      max = maximum (max, score);
      store_floats (scores + slots->slot, score);
    }

  return max_lane (max);
}

INLINE void
score_slots (Block      *block,
             size_t      first,
             size_t      n,
             size_t      n_queries,
             LlkKvFormat format)
{
  size_t end = first + n;

  for (; first + MANY (n_queries, SCORE_VECTORS) <= end; first += MANY (n_queries, SCORE_VECTORS))
    score_step (block, first, n_queries, MANY (n_queries, SCORE_VECTORS), format);
  for (; first < end; first++)
    score_step (block, first, n_queries, 1, format);
}

INLINE void
score (Block *block,
       size_t n_queries)
{
  const LlkAttentionShape *shape = block->shape;

  for (size_t j = 0; j < n_queries; j++)
    {
      const float *q = block->queries[j].q;

      for (size_t d = 0; d < shape->head_dim; d++)
        block->q[d * BLOCK_QUERIES + j] = q[d] * shape->scale;
    }

  for (size_t i = 0, n; i < block->n_slots; i += n)
    {
      LlkKvFormat format = get_read_format (block, block->slots[i].format);

      for (n = 1; i + n < block->n_slots
                  && get_read_format (block, block->slots[i + n].format) == format;)
        n++;
      if (format == LLK_KV_F16)
        score_slots (block, i, n, n_queries, LLK_KV_F16);
      else if (format == LLK_KV_F32)
        score_slots (block, i, n, n_queries, LLK_KV_F32);
      else if (format == LLK_KV_Q8)
        score_slots (block, i, n, n_queries, LLK_KV_Q8);
      else if (format == LLK_KV_Q4)
        score_slots (block, i, n, n_queries, LLK_KV_Q4);
      else if (format == LLK_KV_Q3)
        score_slots (block, i, n, n_queries, LLK_KV_Q3);
      else
        score_slots (block, i, n, n_queries, LLK_KV_Q2);
    }
}
