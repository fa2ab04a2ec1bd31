/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A run of chunks and a block of queries on their way through the tiles. */

#pragma once

#include "kernels/x86/llk-amx-attention-tiles.h"

#define RUN LLK_ATTENTION_RUN
#define N_PAIRS (RUN / (2 * GROUP))
#define BLOCK 32
/* Of scores; a little more than the run, so that rows don't share places of the cache. */
#define STRIDE (RUN + GROUP)

/* Where the parts of the caller's scratch are. */
typedef struct
{
  char *k_high;     /* [group][step] tiles */
  char *k_low;
  char *v_high;     /* [pair][column] tiles */
  char *v_low;
  char *q_high;     /* [half of the block][step] tiles */
  char *q_low;
  float *scores;    /* [BLOCK × STRIDE]; weights take their place: of each pair, 32 bfloat16 of
                     * their high parts, then of the low ones */
  float *acc;       /* [BLOCK × 16 × columns] */
  float *unpacked;  /* chunks of a run that has packed ones */
  size_t bytes;
} Parts;

/* Slots seen whose values are not finite: no tile may hold them. */
typedef struct
{
  size_t n;
  uint16_t slots[RUN];
} Special;

/* Sixteen slots of a chunk. */
typedef struct
{
  uint8_t chunk;
  uint8_t first;
} Group;

typedef struct
{
  const LlkAttentionShape *shape;
  const LlkAttentionChunk *chunks;
  size_t n_chunks;
  bool is_half;            /* what the chunks hold now */
  Group groups[2 * N_PAIRS];
  size_t n_groups;
  Parts parts;
  Special special;

  LlkAttentionQuery *queries;
  size_t n_queries;
  size_t pairs[N_PAIRS];   /* pairs of groups that a query of the block sees, rising */
  size_t n_pairs;
  uint32_t bits[N_PAIRS];  /* what the query at hand sees of each of them */
  bool sees_all;
} Run;

/* Bits of a group's slots in the low half, of the next group's in the high one. */
INLINE uint32_t
get_bits (const Run      *run,
          const uint64_t *masks,
          size_t          pair)
{
  const Group *group = &run->groups[2 * pair];
  uint32_t bits;

  if (2 * pair >= run->n_groups)
    return 0;

  bits = (uint32_t) (masks[group[0].chunk] >> group[0].first & 0xffff);
  if (2 * pair + 1 < run->n_groups)
    bits |= (uint32_t) (masks[group[1].chunk] >> group[1].first & 0xffff) << 16;
  return bits;
}
