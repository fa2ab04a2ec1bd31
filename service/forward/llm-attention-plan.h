/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How the attention of one layer is cut into items for the workers, and where
 * each finds its scratch memory: blocks of rows of one sequence, by KV
 * head; where rows are few, by run of slots as well. What a row gets depends on
 * none of it. Plain data on the executor's stack while llm_attention_run() lasts;
 * workers read it.
 */

#pragma once

#include "forward/llm-attention.h"

/* Rows of one sequence and as many KV heads, neighbours in the order. Those of a tree share its
 * base. */
typedef struct
{
  guint first;          /* index into order */
  guint n_rows;
  guint n_groups;       /* KV heads */
  gboolean is_tree;
  guint first_item;
  guint n_items;        /* KV heads; of a split block, runs × KV heads */
  gint first_split;     /* index among the split rows, -1 when not split */
  guint split_block;
} LlmAttentionBlock;

/* What one worker needs for an item. */
typedef struct
{
  gpointer kernel;               /* scratch of the kernel */
  LlkAttentionQuery *queries;    /* [n_queries] */
  LlkAttentionState *states;     /* [n_queries] */
  LlkAttentionChunk *chunks;     /* [LLK_ATTENTION_RUN / LLK_ATTENTION_GROUP] */
  LlkAttentionQuery *some;       /* [n_queries], of one path, where there are trees */
  LlkAttentionChunk *path_chunks; /* [the same as chunks], likewise */
  guint8 *path;                  /* [n_path_chunks × head_bytes], likewise */
  guint64 *masks;                /* [n_queries × the same] */
  float *received;               /* [n_queries × max_chunks], where density is collected */
  float *maxima;                 /* [n_queries × max_runs], likewise: of each run */
} LlmAttentionWorker;

/* Queries of split rows, by row, head and run. */
typedef struct
{
  LlkAttentionState *states;     /* [rows × n_heads × max_runs] */
  float *acc;                    /* [rows × n_heads × max_runs × head_dim] */
  guint *n_left;                 /* [blocks × n_kv_heads] runs that are not done */
  float *received;               /* [rows × n_heads × max_chunks] */
  float *maxima;                 /* [rows × n_heads × max_runs] */
} LlmAttentionSplit;

typedef struct
{
  const LlmAttention *self;
  const LlkAttention *kernel;
  LlkAttentionShape shape;
  guint group;                   /* query heads of a KV head */
  guint max_queries;             /* of an item */
  guint max_chunks;              /* of one sequence */
  guint max_runs;                /* of one row */
  guint n_split_rows;
  guint n_path_chunks;           /* that a path takes with what lies before the base; 0: no trees */
  LlmKvLayout layout;            /* of a slot */
  gsize k_bytes;                 /* of K of one head of a chunk that is not quantized */
  gsize head_bytes;              /* of K and V */

  guint8 *workers;
  gsize worker_bytes;
  LlmAttentionSplit split;

  LlmAttentionBlock blocks[LLM_BATCH_MAX_ROWS];
  guint n_blocks;
  guint n_items;
} LlmAttentionPlan;

static inline const LlmRow *
llm_attention_get_row (const LlmAttention *self,
                       guint               index)
{
  return &self->rows[self->order[index]];
}

/* KV heads of a row. */
static inline guint
llm_attention_count_groups (const LlmAttention *self,
                            guint               index)
{
  return self->n_groups != NULL ? self->n_groups[index] : self->n_kv_heads;
}

static inline guint
llm_attention_count_chunks (const LlmAttention *self,
                            const LlmRow       *row)
{
  return self->first_view[row->sequence + 1] - self->first_view[row->sequence];
}

/* Chunks of a run: they begin at multiples of it. */
static inline guint
llm_attention_get_run_chunks (const LlmAttention *self)
{
  return LLK_ATTENTION_RUN / self->chunk_slots;
}

static inline guint
llm_attention_count_runs (const LlmAttention *self,
                          const LlmRow       *row)
{
  guint run = llm_attention_get_run_chunks (self);

  return (llm_attention_count_chunks (self, row) + run - 1) / run;
}

/* Cuts the rows into blocks and lays scratch memory out. */
void     llm_attention_plan_init       (LlmAttentionPlan       *plan,
                                        const LlmAttention     *self);
const LlmAttentionBlock *
         llm_attention_plan_find_block (const LlmAttentionPlan *plan,
                                        guint                   item);
/* llm-attention-path.c: takes the queries of a tree's rows through the run's chunks, from @first of
 * the sequence on: as kernel->attend() does, but each sees its path where decoding would have put
 * it. */
void     llm_attention_attend_paths    (const LlmAttentionPlan *plan,
                                        const LlmAttentionBlock *block,
                                        guint                   kv_head,
                                        guint                   first,
                                        guint                   n_chunks,
                                        LlmAttentionWorker     *worker);
void     llm_attention_plan_get_worker (const LlmAttentionPlan *plan,
                                        guint                   index,
                                        LlmAttentionWorker     *worker);
