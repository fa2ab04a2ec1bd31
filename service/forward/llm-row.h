/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rows: what one step computes. Prefill, batched decode, the verification of
 * token trees, the recompute of chunks that are not neighbours and encoders
 * without a cache are the same code over rows that differ in what they see.
 * Plain data, for one step.
 */

#pragma once

#include "kv/llm-kv.h"

/* Rows in one step at most: what a step takes stays bounded. */
#define LLM_BATCH_MAX_ROWS 512
/* Nodes of a tree at most: slots from its base on. */
#define LLM_TREE_MAX_NODES 64

typedef enum
{
  LLM_VISIBLE_CAUSAL,   /* slots up to and with mine */
  LLM_VISIBLE_WINDOW,   /* the first @sinks slots, and the last @window up to and with mine */
  LLM_VISIBLE_TREE,     /* slots below @base, and base + i for each bit i of @ancestors: the path to
                         * mine, which is the highest. If @window is not 0, of these as WINDOW has
                         * it, counted along the path */
  LLM_VISIBLE_SEGMENT,  /* all slots of my sequence, later ones too (encoders) */
} LlmVisibilityKind;

typedef struct
{
  LlmVisibilityKind kind;
  guint window;
  guint sinks;
  guint base;
  guint64 ancestors;
} LlmVisibility;

typedef struct
{
  gint32 token;
  guint position;       /* for rotary embedding */
  guint sequence;       /* index into the batch's sequences */
  guint slot;           /* where K and V go; already appended to the sequence */
  LlmVisibility visibility;
  guint8 sub_model;     /* percent of the model that computes this row, 100 for all */
  guint8 adapter;       /* of the plan's, from 1 on; 0 for none. K and V of the row are the
                         * adapter's, too: all rows of a sequence, and of those that share chunks
                         * with it, are of the same one, and with one it has no folder on storage */
  guint8 sparsity;      /* percent of the layers' weights that this row leaves out, by the plan's
                         * thresholds; 0: none */
  gboolean is_w8;       /* its products are computed in W8A8, as the plan's backend does; all rows of
                         * a step are so or none */
  gboolean wants_logits;
  gboolean is_counted;  /* density counts what it attends to (L3) */
  gboolean is_drafted;  /* it counts when llm_forward_accept() says so: a drafted token may be
                         * rejected */
} LlmRow;

/* Whether density counts the row in @slot: one of so many, the same ones however the text was cut
 * into steps, and who wrote it. */
#define LLM_ROWS_SAMPLED 4

static inline gboolean
llm_row_is_sampled (guint slot)
{
  return slot % LLM_ROWS_SAMPLED == LLM_ROWS_SAMPLED - 1;
}

/* Of the arithmetic of products and attention: part of the identity of what is on storage
 * (llm-instance.c). */
#define LLM_ARITHMETIC 5

/* What K and V of a row without adapter were computed with, in six bits: the levels of the model's
 * table that the sub-model lacks, 0 for the whole model, or the place of a sparsity among the
 * thresholds': no row has both; and whether it was in W8A8. Rows whose states differ are not each
 * other's. Table, thresholds and calibration are part of the identity of what is on storage. */
#define LLM_ROW_SPARSE 16
#define LLM_ROW_W8 32

static inline guint8
llm_row_state (guint n_lacking)
{
  return (guint8) n_lacking;
}

static inline guint8
llm_row_state_sparse (guint place)
{
  return (guint8) (LLM_ROW_SPARSE | place);
}

static inline gboolean
llm_row_state_is_sparse (guint8 state)
{
  return (state & LLM_ROW_SPARSE) != 0;
}

static inline gboolean
llm_row_state_is_w8 (guint8 state)
{
  return (state & LLM_ROW_W8) != 0;
}

static inline guint
llm_row_state_get_lacking (guint8 state)
{
  return llm_row_state_is_sparse (state) ? 0 : state & 15;
}

static inline guint
llm_row_state_get_place (guint8 state)
{
  return state & 15;
}

/* How a token of an earlier turn was computed, for whatever thresholds, table and calibration the
 * model has next time: percent of the model; or this, and percent that it left out; and this, where
 * it was in W8A8. */
#define LLM_LEVEL_SPARSE 128
#define LLM_LEVEL_W8 256

typedef struct
{
  const LlmRow *rows;
  guint n_rows;
  LlmKvSeq *const *sequences;
  guint n_sequences;
} LlmBatch;
