/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Attention of a batch's rows over the chunks of their sequences: which slots a
 * row sees, and the sum over them. Work is spread by row and KV head; chunks are
 * taken in their order, so a row's result is its own. The executor's thread
 * calls it.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "exec/llm-row.h"
#include "kernels/llk.h"

G_BEGIN_DECLS

/* Query heads of one KV head that go through the chunks together. */
#define LLM_ATTENTION_HEADS 8

/* What a head gave to a chunk, relative to the largest score known then. */
typedef struct
{
  float mass;
  float max;
} LlmAttentionShare;

typedef struct
{
  const LlkOps *kernels;
  LlmWorkerPool *pool;
  guint n_heads;
  guint n_kv_heads;
  guint head_dim;

  const LlmRow *rows;
  const guint *order;          /* rows[order[i]] is the i-th of q and out */
  guint n_rows;
  const LlmKvView *views;      /* chunks of all sequences */
  const guint *first_view;     /* of each sequence, and one past the last */

  const float *q;              /* [n_rows × n_heads·head_dim] */
  float *out;                  /* [n_rows × n_heads·head_dim] */

  /* Density, where it is collected. Sums of integers don't depend on the order
   * in which workers add. */
  guint64 *mass;               /* (nullable): by view, in units of LLM_ATTENTION_MASS_UNIT */
  LlmAttentionShare *shares;   /* LLM_ATTENTION_HEADS × max_chunks for each worker */
  guint max_chunks;            /* of one sequence */
} LlmAttention;

#define LLM_ATTENTION_MASS_UNIT (1.0 / (1 << 30) / 4)

void    llm_attention_run   (const LlmAttention  *self);

/* The slots of [@first, @first + @n_slots) that a row in @slot sees, the bit of
 * @first lowest. @n_slots is at most 64. */
guint64 llm_visibility_mask (const LlmVisibility *visibility,
                             guint                slot,
                             guint                first,
                             guint                n_slots);

G_END_DECLS
