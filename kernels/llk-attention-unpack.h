/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The chunks of a run as floats in scratch memory, once for all queries of a call, where some
 * are packed: for sets that don't take codes apart as they go.
 */

#pragma once

#include "kernels/llk-internal.h"

/* Bytes of a run as floats, a multiple of 64. */
static inline size_t
llk_attention_get_unpacked (const LlkAttentionShape *shape)
{
  return 2 * LLK_ATTENTION_RUN * shape->head_dim * sizeof (float);
}

/* Whether a query sees a packed chunk. Then @unpacked, with room for a run's chunks, has all
 * that are seen as floats, which lie in @space. */
static inline bool
llk_attention_unpack (const LlkKvOps          *kv,
                      const LlkAttentionShape *shape,
                      const LlkAttentionChunk *chunks,
                      size_t                   n_chunks,
                      const LlkAttentionQuery *queries,
                      size_t                   n_queries,
                      LlkAttentionChunk       *unpacked,
                      float                   *space)
{
  size_t n = shape->chunk_slots * shape->head_dim;
  bool seen[LLK_ATTENTION_RUN / LLK_ATTENTION_GROUP];
  bool is_packed = false;

  for (size_t c = 0; c < n_chunks; c++)
    {
      seen[c] = llk_attention_is_seen (c, queries, n_queries);
      is_packed |= seen[c] && llk_kv_is_packed (chunks[c].format);
    }
  if (!is_packed)
    return false;

  for (size_t c = 0; c < n_chunks; c++)
    {
      float *k = space + 2 * c * n, *v = k + n;
      LlkKvFormat format = llk_attention_get_format (shape, &chunks[c]);

      unpacked[c] = (LlkAttentionChunk) { NULL, NULL, LLK_KV_F32 };
      if (!seen[c])
        continue;
      kv->unpack (format, LLK_KV_KEYS, shape->head_dim, shape->chunk_slots, chunks[c].k, k, false);
      kv->unpack (format, LLK_KV_VALUES, shape->head_dim, shape->chunk_slots, chunks[c].v, v,
                  false);
      unpacked[c].k = k;
      unpacked[c].v = v;
    }

  return true;
}
