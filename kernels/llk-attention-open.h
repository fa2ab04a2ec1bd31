/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packed chunks of a run taken apart once for many blocks of queries (llk-attention-passes.h),
 * each of which would do it again otherwise: keys as what they stand for, but with 8 bits as codes,
 * and the codes of values. Those are what a block makes of them as it reads, to the bit.
 */

#pragma once

#include "kernels/llk-attention-block.h"

/* From so many blocks on it is less work than reading packed chunks for each. */
#define OPEN_BLOCKS 3

/* Of the keys of a chunk; as many values come behind them, of dimensions made up to sixteen. */
INLINE size_t
get_open_keys (const LlkAttentionShape *shape)
{
  return shape->head_dim * shape->chunk_slots;
}

INLINE size_t
get_open_row (const LlkAttentionShape *shape)
{
  return llk_kv_pad (shape->head_dim);
}

/* Floats of a chunk. */
INLINE size_t
get_open_size (const LlkAttentionShape *shape)
{
  return get_open_keys (shape) + shape->chunk_slots * get_open_row (shape);
}

/* What K and V of a chunk are read as. */
INLINE LlkKvFormat
get_read_format (const Block *block,
                 LlkKvFormat  format)
{
  return block->open != NULL && llk_kv_is_packed (format) ? LLK_KV_F32 : format;
}

/* @steps has room for those of as many dimensions as a vector has lanes, and for their zeros. */
INLINE void
open_keys (const LlkAttentionShape *shape,
           const char              *part,
           float                   *dst,
           float                   *steps,
           LlkKvFormat              format)
{
  size_t slots = shape->chunk_slots, n_groups = llk_kv_pad (shape->head_dim);
  size_t row_bytes = get_bytes (slots, format);
  const char *codes =
    part + llk_kv_get_head_bytes (format, LLK_KV_KEYS, shape->head_dim, slots);
  float *lows = steps + LANES;
  bool has_steps = llk_kv_is_by_dimension (format, LLK_KV_KEYS);

  for (size_t first = 0; first < shape->head_dim; first += LANES)
    {
      size_t n = shape->head_dim - first < LANES ? shape->head_dim - first : LANES;

      if (has_steps)
        {
          Vector low, step = load_coding (part, LLK_KV_KEYS, first, n_groups, format, &low);

          store_floats (steps, step);
          store_floats (lows, low);
        }
      for (size_t i = 0; i < n; i++)
        for (size_t s = 0; s < slots; s += LANES)
          {
            const char *src = codes + (first + i) * row_bytes
                              + get_bytes (s / LLK_KV_GROUP * LLK_KV_GROUP, format);
            Vector k = load_vector (src, s % LLK_KV_GROUP, format);

            if (has_steps)
              k = multiply_add (k, splat (steps[i]), splat (lows[i]));
            store_floats (dst + (first + i) * slots + s, k);
          }
    }
}

INLINE void
open_values (const LlkAttentionShape *shape,
             const char              *part,
             float                   *dst,
             LlkKvFormat              format)
{
  size_t slots = shape->chunk_slots, row = get_open_row (shape);
  const char *codes =
    part + llk_kv_get_head_bytes (format, LLK_KV_VALUES, shape->head_dim, slots);

  for (size_t at = 0; at < slots * row; at += LANES)
    {
      const char *src = codes + get_bytes (at / LLK_KV_GROUP * LLK_KV_GROUP, format);

      store_floats (dst + at, load_vector (src, at % LLK_KV_GROUP, format));
    }
}

INLINE void
open_chunk (const LlkAttentionShape *shape,
            const LlkAttentionChunk *chunk,
            float                   *dst,
            LlkKvFormat              format)
{
  float *values = dst + get_open_keys (shape);

  open_keys (shape, chunk->k, dst, values, format);
  open_values (shape, chunk->v, values, format);
}

/* The packed chunks that a query sees. */
static __attribute__ ((noinline)) void
open_chunks (Block                   *block,
             const LlkAttentionQuery *queries,
             size_t                   n_queries,
             float                   *space)
{
  const LlkAttentionShape *shape = block->shape;

  block->open = n_queries > (OPEN_BLOCKS - 1) * BLOCK_QUERIES ? space : NULL;
  for (size_t c = 0; c < block->n_chunks && block->open != NULL; c++)
    {
      const LlkAttentionChunk *chunk = &block->chunks[c];
      float *dst = space + c * get_open_size (shape);

      if (!llk_kv_is_packed (chunk->format) || !llk_attention_is_seen (c, queries, n_queries))
        continue;
      if (chunk->format == LLK_KV_Q8)
        open_chunk (shape, chunk, dst, LLK_KV_Q8);
      else if (chunk->format == LLK_KV_Q4)
        open_chunk (shape, chunk, dst, LLK_KV_Q4);
      else if (chunk->format == LLK_KV_Q3)
        open_chunk (shape, chunk, dst, LLK_KV_Q3);
      else
        open_chunk (shape, chunk, dst, LLK_KV_Q2);
    }
}
