/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention of a batch's rows over the chunks of their sequences: which slots a
 * row sees, and the softmax over them. Rows of one sequence go through the chunks
 * together, in runs that begin at fixed slots; of few rows each run is work of its
 * own, so that one context keeps all workers busy. A row's result depends on
 * neither. The executor's thread calls it.
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

  const LlmRow *rows;
  const guint *order;          /* rows[order[i]] is the i-th of q and out */
  const guint *n_groups;       /* (nullable) [n_rows]: KV heads that the i-th has, the first of them;
                                * NULL for all. What the others would give stays as it is in out */
  guint n_rows;                /* at most LLM_BATCH_MAX_ROWS */
  const guint *first_view;     /* of each sequence, and one past the last */
  const LlmKvView *views;      /* chunks of all sequences; those with neither K nor V lie
                                * behind the window: no row sees them */
  guint n_views;

  const float *q;              /* [n_rows × n_heads·head_dim] */
  float *out;                  /* [n_rows × n_heads·head_dim] */
  guint64 *received;           /* if density is collected: [threads × views], added to, in units of
                                * LLM_ATTENTION_MASS_UNIT: what the counted rows gave out, n_heads
                                * each. Sums of integers don't depend on who adds what */
  gpointer scratch;            /* llm_attention_get_scratch() bytes, 64-byte aligned */
} LlmAttention;

#define LLM_ATTENTION_MASS_UNIT (1.0 / (1 << 30) / 4)

/* Room behind the first @used bytes of @base (nullable: to measure only), in whole cache lines, which
 * workers must not share. */
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

/* The slots of [@first, @first + @n_slots) that a row in @slot sees, the bit of
 * @first lowest. @n_slots is at most 64. @window as in LlmAttention: in a tree it
 * counts along the path, in a segment to both sides. */
guint64 llm_visibility_mask (const LlmVisibility *visibility,
                             guint                slot,
                             guint                window,
                             guint                first,
                             guint                n_slots);
