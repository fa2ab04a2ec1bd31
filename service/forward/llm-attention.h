/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention of a batch's rows over the chunks of their sequences: which slots a
 * row sees, and the softmax over them. Rows of one sequence go through the chunks
 * together, in runs that begin at fixed slots; where rows are few, each run is work
 * of its own, so that one context keeps all workers busy. Sums are in the order of
 * slots, so the K and V of a path in a tree are copied to the slots that decoding
 * would have put them in. A row's result depends on none of it. The executor's thread
 * calls it.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "forward/llm-row.h"
#include "kernels/llk.h"

typedef struct
{
  const LlkOps *kernels;
  LlmWorkerPool *pool;
  guint n_heads;
  guint n_kv_heads;
  guint head_dim;
  guint chunk_slots;           /* of all sequences */
  LlkKvFormat format;          /* of chunks that are not quantized: F32 or F16 */
  gboolean collects_density;   /* of the rows that are counted */

  float scale;                 /* score = q·k × scale */
  float softcap;               /* if not 0, softcap × tanh (score / softcap) */
  guint window;                /* if not 0, what lies further back than this many positions, mine
                                * included, is hidden, whatever the row sees otherwise */

  const float *sinks;          /* (nullable) [n_heads]: a score of each head's that stands for
                                * nothing, and takes its share */

  const LlmRow *rows;
  const guint *order;          /* rows[order[i]] is the i-th of q and out */
  const guint *n_groups;       /* (nullable) [n_rows]: how many KV heads the i-th has, from the
                                * first on; NULL for all. What the others would give stays as it is
                                * in out */
  guint n_rows;                /* at most LLM_BATCH_MAX_ROWS */
  const guint *first_view;     /* of each sequence, and one past the last */
  const LlmKvView *views;      /* chunks of all sequences; those with neither K nor V lie
                                * behind the window: no row sees them */
  guint n_views;

  const float *q;              /* [n_rows × n_heads·head_dim] */
  float *out;                  /* [n_rows × n_heads·head_dim] */
  float density_share;         /* if density is collected: what a row gives out with one of n_heads
                                * heads here; a row with fewer heads gives as much in all */
  guint64 *received;           /* likewise: [threads × n_masses], added to, in parts of
                                * LLM_KV_DENSITY_ONE: what the counted rows gave out */
  const guint *first_mass;     /* [n_rows]: where the i-th adds what its sequence's first chunk
                                * gets, and the others behind */
  guint n_masses;
  gpointer scratch;            /* llm_attention_get_scratch() bytes, 64-byte aligned */
} LlmAttention;

/* Room behind the first @used bytes of @base (nullable: to measure only), in whole cache lines,
 * which workers must not share. */
static inline gpointer
llm_take (guint8 *base,
          gsize  *used,
          gsize   n_items,
          gsize   item_bytes)
{
  gpointer place = base != NULL ? base + *used : NULL;

  *used += (n_items * item_bytes + 63) / 64 * 64;
  return place;
}

/* Bytes of scratch memory; reads the fields up to first_view, but not scale,
 * softcap and window. */
gsize   llm_attention_get_scratch (const LlmAttention *self);
void    llm_attention_run   (const LlmAttention  *self);

/* Whether a row in @slot may have it: a tree's path ends with the row, and is not too long. */
gboolean llm_visibility_is_valid (const LlmVisibility *visibility,
                                guint                slot);
/* The slot that a row in @slot would be in had its path been decoded: in a tree, that behind the
 * slots of its ancestors, which are in the first ones from the base on. */
guint   llm_visibility_get_slot (const LlmVisibility *visibility,
                                guint                slot);
/* The slots of [@first, @first + @n_slots) that a row in @slot sees, the bit of
 * @first lowest; in a tree, slots as llm_visibility_get_slot() has them. @n_slots is at most 64.
 * @window as in LlmAttention: in a segment it reaches to both sides. */
guint64 llm_visibility_mask (const LlmVisibility *visibility,
                             guint                slot,
                             guint                window,
                             guint                first,
                             guint                n_slots);
