/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Guesses that a model computes: a sequence with the K and V of the text, and behind it those of the
 * nodes of a draft tree, one row each (C4). What the text is, and where its K and V come from, is its
 * owner's matter. The executor's thread.
 */

#pragma once

#include "decoding/draft/llm-draft-source.h"
#include "forward/llm-forward.h"

G_BEGIN_DECLS

typedef struct
{
  LlmDraftSource parent;
  LlmForward *forward;      /* (nullable) (owned) */
  LlmKvSeq *seq;            /* (nullable) (unowned) */
  guint sub_model;          /* percent of the model that computes rows */
  guint n_done;             /* slots of the text; behind them are those of nodes */
  guint n_nodes;            /* of the tree, computed */
  guint nodes[LLM_TREE_MAX_NODES];     /* node of the growth that each of them is */
  guint64 paths[LLM_GROWTH_MAX_NODES]; /* by node of the growth: bits of computed nodes; 0: not
                                        * computed */
  guint running;            /* node whose step is under way; 0: none, as the root is the text's */
  LlmRow row;               /* of that step, as the next two */
  LlmBatch batch;
  double running_us;        /* that it took so far */
} LlmDraftRows;

/* No node is computed any more. */
void      llm_draft_rows_forget    (LlmDraftRows          *self);
/* Computes one step with rows that follow what the sequence has, of which none is a node's. Unless it
 * is READY, the rows are removed again. */
LlmStatus llm_draft_rows_run       (LlmDraftRows          *self,
                                    const LlmRow          *rows,
                                    guint                  n);
/* Computes a node, whose parent is computed. PENDING behind the source's until_us: call it for
 * the same node again; all other calls here leave that step. */
LlmStatus llm_draft_rows_run_node  (LlmDraftRows          *self,
                                    const LlmDraftGrowth  *growth,
                                    guint                  number);
/* keep() of a source that begins with such rows: K and V of the nodes on the path to @node become
 * the text's; those below it stay after them. If @node itself was not computed, its path ends
 * with its parent. */
void      llm_draft_rows_keep      (LlmDraftSource        *source,
                                    const LlmDraftGrowth  *growth,
                                    guint                  node,
                                    const guint           *numbers);
/* The likeliest tokens by the softmax of @logits; returns how many. */
guint     llm_draft_rows_find_best (const float           *logits,
                                    guint                  n_vocab,
                                    LlmDraftCandidate     *candidates);

G_END_DECLS
