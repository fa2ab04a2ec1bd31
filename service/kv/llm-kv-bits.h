/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How many bits each chunk of a context gets (L4): the choice that loses least, chunks
 * weighed by density, within a budget of bytes. Pure functions.
 */

#pragma once

#include <glib.h>

#include "kernels/llk-kv.h"

G_BEGIN_DECLS

typedef struct
{
  float density;
  LlkKvFormat best;     /* what it has: never more bits than that */
} LlmKvBitsChunk;

/* What the widths cost, of this model. */
typedef struct
{
  guint64 bytes[LLK_N_KV_FORMATS];    /* of a chunk */
  double errors[LLK_N_KV_FORMATS];    /* relative squared error, measured; rising as bits fall */
} LlmKvBitsCosts;

/* Sets @formats[i] to Q8, Q4 or Q2 such that the sum of density × error is least among all choices
 * of at most @budget bytes (equations 2 and 3; exact). Where even the fewest bits take more than
 * @budget, they are what is chosen. A density that is no number counts as 0. Returns the bytes. */
guint64 llm_kv_bits_choose (const LlmKvBitsChunk *chunks,
                            guint                 n,
                            const LlmKvBitsCosts *costs,
                            guint64               budget,
                            LlkKvFormat          *formats);
/* Turns the densities round: the densest chunk gets that of the least dense, and so on. The choice
 * then takes the same bytes and is as bad as it can be (LLM_KV_INVERTED, L13). */
void    llm_kv_bits_invert (LlmKvBitsChunk       *chunks,
                            guint                 n);

G_END_DECLS
