/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The last pass of attention (llk-attention-passes.h): the sum of weights × V. */

#pragma once

#include "kernels/llk-attention-block.h"

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
            LlkKvFormat  format)
{
  size_t group = llk_kv_is_packed (format) ? dimension / LLK_KV_GROUP * LLK_KV_GROUP : dimension;
  size_t at = get_bytes (group, format);
  Vector sums[BLOCK_QUERIES][2 * VALUE_VECTORS];

#pragma GCC unroll 8
  for (size_t j = 0; j < n_queries; j++)
#pragma GCC unroll 8
    for (size_t i = 0; i < n_vectors; i++)
      sums[j][i] = load_floats (acc + j * stride + dimension + i * LANES);

  for (size_t t = 0; t < n_seen; t++)
    {
      const char *v = seen[t].v + at;
      const float *weight = weights + seen[t].slot;
      Vector values[2 * VALUE_VECTORS];

      __builtin_prefetch (seen[t].next + at, 0, 2);
#pragma GCC unroll 8
      for (size_t i = 0; i < n_vectors; i++)
        {
          size_t place = dimension - group + i * LANES;
          size_t whole = llk_kv_is_packed (format) ? place / LLK_KV_GROUP * LLK_KV_GROUP : place;
          const char *src = v + get_bytes (whole, format);

          values[i] = is_part ? load_part (src, place - whole, n_left, format)
                              : load_vector (src, place - whole, format);
        }
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
add_formatted (const Seen  *seen,
               size_t       n_seen,
               size_t       head_dim,
               const float *weights,
               float       *acc,
               size_t       stride,
               size_t       n_queries,
               LlkKvFormat  format)
{
  size_t many = MANY (n_queries, VALUE_VECTORS);
  size_t d = 0;

  for (; d + many * LANES <= head_dim; d += many * LANES)
    add_values (seen, n_seen, d, 0, weights, acc, stride, n_queries,
                MANY (n_queries, VALUE_VECTORS), false, format);
  for (; d + LANES <= head_dim; d += LANES)
    add_values (seen, n_seen, d, 0, weights, acc, stride, n_queries, 1, false, format);
  if (d < head_dim)
    add_values (seen, n_seen, d, head_dim - d, weights, acc, stride, n_queries, 1, true, format);
}

INLINE void
add_all_values (const Seen  *seen,
                size_t       n_seen,
                size_t       head_dim,
                const float *weights,
                float       *acc,
                size_t       stride,
                size_t       n_queries,
                LlkKvFormat  format)
{
  if (format == LLK_KV_F16)
    add_formatted (seen, n_seen, head_dim, weights, acc, stride, n_queries, LLK_KV_F16);
  else if (format == LLK_KV_F32)
    add_formatted (seen, n_seen, head_dim, weights, acc, stride, n_queries, LLK_KV_F32);
  else if (format == LLK_KV_Q8)
    add_formatted (seen, n_seen, head_dim, weights, acc, stride, n_queries, LLK_KV_Q8);
  else if (format == LLK_KV_Q4)
    add_formatted (seen, n_seen, head_dim, weights, acc, stride, n_queries, LLK_KV_Q4);
  else if (format == LLK_KV_Q3)
    add_formatted (seen, n_seen, head_dim, weights, acc, stride, n_queries, LLK_KV_Q3);
  else
    add_formatted (seen, n_seen, head_dim, weights, acc, stride, n_queries, LLK_KV_Q2);
}

/* For queries that see different slots. */
static __attribute__ ((noinline)) void
add_values_of_one (const Seen  *seen,
                   size_t       n_seen,
                   size_t       head_dim,
                   const float *weights,
                   float       *acc,
                   LlkKvFormat  format)
{
  add_all_values (seen, n_seen, head_dim, weights, acc, 0, 1, format);
}

/* The slots that the mask of @query shows in @n_chunks chunks of block->order, from @first on, which
 * have one format. */
static __attribute__ ((noinline)) size_t
list_seen (const Block             *block,
           const LlkAttentionQuery *query,
           size_t                   first,
           size_t                   n_chunks,
           LlkKvFormat              format,
           Seen                    *seen)
{
  const LlkAttentionShape *shape = block->shape;
  size_t ahead = VALUE_SLOTS / shape->chunk_slots;
  size_t row_bytes = get_value_bytes (block, format);
  size_t n = 0;

  for (size_t i = first; i < first + n_chunks; i++)
    {
      size_t c = block->order[i], slot = c * shape->chunk_slots;
      size_t next = i + ahead < block->n_chunks ? block->order[i + ahead] : c;
      const char *v = find_values (block, c, format), *next_v = v;
      size_t next_bytes = row_bytes;

      if (block->chunks[next].v != NULL)
        {
          LlkKvFormat next_format = llk_attention_get_format (shape, &block->chunks[next]);

          next_v = find_values (block, next, next_format);
          next_bytes = get_value_bytes (block, next_format);
        }
      for (uint64_t rest = query->masks[c]; rest != 0; rest &= rest - 1)
        {
          size_t s = (size_t) __builtin_ctzll (rest);

          seen[n++] = (Seen) { v + s * row_bytes, next_v + s * next_bytes, slot + s };
        }
    }

  return n;
}

INLINE bool
see_the_same (const Block *block,
              size_t       n_queries,
              size_t       first,
              size_t       n_chunks)
{
  const LlkAttentionQuery *queries = block->queries;

  for (size_t j = 1; j < n_queries; j++)
    for (size_t i = first; queries[j].masks != queries[0].masks && i < first + n_chunks; i++)
      if (queries[j].masks[block->order[i]] != queries[0].masks[block->order[i]])
        return false;

  return true;
}

INLINE void
sum_values (Block *block,
            size_t n_queries)
{
  const LlkAttentionShape *shape = block->shape;
  Seen seen[VALUE_SLOTS];

  memset (block->acc, 0, n_queries * block->stride * sizeof (float));
  for (size_t first = 0, n_chunks; first < block->n_chunks; first += n_chunks)
    {
      LlkKvFormat format =
        llk_attention_get_format (shape, &block->chunks[block->order[first]]);
      size_t end = first + VALUE_SLOTS / shape->chunk_slots;
      bool is_same;

      for (n_chunks = 1; first + n_chunks < end && first + n_chunks < block->n_chunks; n_chunks++)
        if (llk_attention_get_format (shape, &block->chunks[block->order[first + n_chunks]])
            != format)
          break;

      is_same = see_the_same (block, n_queries, first, n_chunks);
      if (is_same)
        {
          size_t n = list_seen (block, block->queries, first, n_chunks, format, seen);

          if (n > 0)
            add_all_values (seen, n, shape->head_dim, block->weights, block->acc, block->stride,
                            n_queries, get_read_format (block, format));
        }
      for (size_t j = 0; j < n_queries && !is_same; j++)
        {
          size_t n = list_seen (block, &block->queries[j], first, n_chunks, format, seen);

          add_values_of_one (seen, n, shape->head_dim, &block->weights[j * LLK_ATTENTION_RUN],
                             &block->acc[j * block->stride], get_read_format (block, format));
        }
    }

  for (size_t j = 0; j < n_queries && block->has_packed; j++)
    for (size_t d = 0; d < shape->head_dim; d++)
      block->acc[j * block->stride + d] += block->low_sums[j];
}
