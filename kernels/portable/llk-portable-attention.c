/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The definition of attention. */

#include "kernels/llk-attention-unpack.h"

#include <math.h>

#define GROUP LLK_ATTENTION_GROUP

static inline float
get_value (const void *values,
           size_t      index,
           bool        is_half)
{
  return is_half ? llk_float_of_half (((const uint16_t *) values)[index])
                 : ((const float *) values)[index];
}

/* Scores of the slots [@first, @first + GROUP) of a chunk, seen or not. */
static inline void
score_group (const LlkAttentionShape *shape,
             const float             *q,
             const void              *k,
             size_t                   first,
             float                   *scores,
             bool                     is_half)
{
  float sums[GROUP] = { 0 };

  for (size_t d = 0; d < shape->head_dim; d++)
    for (size_t s = 0; s < GROUP; s++)
      sums[s] += q[d] * shape->scale * get_value (k, d * shape->chunk_slots + first + s, is_half);

  for (size_t s = 0; s < GROUP; s++)
    {
      scores[s] = sums[s];
      if (shape->softcap != 0)
        scores[s] = shape->softcap
                    * (1 - 2 / (llk_exp (2 * (sums[s] / shape->softcap)) + 1));
    }
}

/* Scores of the slots seen, and the largest. */
static inline float
score_run (const LlkAttentionShape *shape,
           const LlkAttentionChunk *chunks,
           size_t                   n_chunks,
           const LlkAttentionQuery *query,
           float                   *scores,
           bool                     is_half)
{
  float max = -INFINITY;

  for (size_t c = 0; c < n_chunks; c++)
    for (size_t first = 0; first < shape->chunk_slots; first += GROUP)
      {
        uint64_t bits = query->masks[c] >> first & ((1u << GROUP) - 1);
        float *group = scores + c * shape->chunk_slots + first;

        if (bits == 0)
          continue;
        score_group (shape, query->q, chunks[c].k, first, group, is_half);
        for (size_t s = 0; s < GROUP; s++)
          if (bits >> s & 1)
            max = group[s] > max ? group[s] : max;
      }

  return max;
}

static inline void
attend_query (const LlkAttentionShape *shape,
              const LlkAttentionChunk *chunks,
              size_t                   n_chunks,
              LlkAttentionQuery       *query,
              bool                     is_half)
{
  float scores[LLK_ATTENTION_RUN];
  float acc[LLK_MAX_HEAD_DIM];
  LlkAttentionState run = { .acc = acc };

  llk_attention_begin (&run, shape->head_dim);
  run.max = query->max = score_run (shape, chunks, n_chunks, query, scores, is_half);

  for (size_t c = 0; c < n_chunks; c++)
    {
      float received = 0;

      for (uint64_t rest = query->masks[c]; rest != 0; rest &= rest - 1)
        {
          size_t s = (size_t) __builtin_ctzll (rest);
          float weight = llk_exp (scores[c * shape->chunk_slots + s] - run.max);

          received += weight;
          for (size_t d = 0; d < shape->head_dim; d++)
            acc[d] += weight * get_value (chunks[c].v, s * shape->head_dim + d, is_half);
        }
      run.sum += received;
      if (query->received != NULL)
        query->received[c] = received;
    }

  llk_attention_fold (query->state, &run, shape->head_dim);
}

static void
attend (const LlkAttentionShape *shape,
        const LlkAttentionChunk *chunks,
        size_t                   n_chunks,
        LlkAttentionQuery       *queries,
        size_t                   n_queries,
        void                    *scratch)
{
  LlkAttentionChunk unpacked[LLK_ATTENTION_RUN / GROUP];
  bool is_half = shape->is_half;

  if (llk_attention_unpack (&llk_portable_kv, shape, chunks, n_chunks, queries, n_queries,
                            unpacked, scratch))
    {
      chunks = unpacked;
      is_half = false;
    }
  for (size_t i = 0; i < n_queries; i++)
    if (is_half)
      attend_query (shape, chunks, n_chunks, &queries[i], true);
    else
      attend_query (shape, chunks, n_chunks, &queries[i], false);
}

const LlkAttention llk_portable_attention = { 32, llk_attention_get_unpacked, attend };
