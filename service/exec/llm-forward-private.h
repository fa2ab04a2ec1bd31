/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the cursor (llm-forward.c) and the stages (llm-forward-stages.c) share.
 * Rows inside are sorted by sub-model, the largest first: a weight segment is
 * multiplied for the first rows only. The executor's thread owns it.
 */

#pragma once

#include "exec/llm-attention.h"
#include "exec/llm-forward.h"
#include "exec/llm-matmul.h"

G_BEGIN_DECLS

/* Weights that a stage multiplies with at most. */
#define LLM_STAGE_MAX_OPS 3

typedef struct
{
  const char *name;
  /* PENDING leaves it to be called again, from the start: it then finds the
   * views it got already, and computes nothing twice that is not the same twice. */
  LlmStatus (*run) (LlmForward *self, GError **error);
} LlmStage;

typedef struct
{
  const LlmStage *stages;
  guint n_stages;
} LlmStageTable;

/* Once before the layers, once for each layer, once behind them for logits. */
typedef enum
{
  LLM_PART_ENTRY,
  LLM_PART_LAYERS,
  LLM_PART_EXIT,
  LLM_N_PARTS,
} LlmPart;

extern const LlmStageTable llm_forward_parts[LLM_N_PARTS];

/* Activations of a step, rows sorted, in one block. */
typedef struct
{
  float *x;         /* [n_rows × n_embd], the residual stream */
  float *normed;    /* [n_rows × n_embd] */
  float *q;         /* [n_rows × n_heads·head_dim] */
  float *k;         /* [n_rows × n_kv_heads·head_dim] */
  float *v;         /* [n_rows × n_kv_heads·head_dim] */
  float *attended;  /* [n_rows × n_heads·head_dim] */
  float *gate;      /* [n_rows × n_ff] */
  float *up;        /* [n_rows × n_ff] */
  float *cosine;    /* [n_rows × rope_dim/2] */
  float *sine;      /* [n_rows × rope_dim/2] */
  float *hidden;    /* [n_logits × n_embd] */
  float *logits;    /* [n_logits × n_vocab] */
  float *workers;   /* [n_threads × matmul scratch] */
  guint64 *mass;    /* [chunks of all sequences], where density is collected */
  LlmAttentionShare *shares;
} LlmScratch;

struct _LlmForward
{
  const LlmHparams *hparams;  /* (unowned), as the other parts */
  LlmWeights *weights;
  LlmWorkerPool *pool;
  const LlkOps *kernels;
  LlmLedger *ledger;          /* (nullable) (owned) */
  gboolean collects_density;

  /* Memory of the activations; kept between steps. */
  guint8 *block;              /* (nullable) (owned), from the kernel */
  gsize block_bytes;
  LlmScratch scratch;
  gsize worker_floats;

  /* Angle of a rotation per position, by pair; NULL before the first step. */
  double *frequencies;        /* (owned) [rope_dim/2] */

  /* The step. */
  const LlmBatch *batch;      /* (nullable): NULL between steps */
  LlmPart part;
  guint layer;
  guint stage;
  guint order[LLM_BATCH_MAX_ROWS];       /* batch row of each sorted row */
  gint logits_of[LLM_BATCH_MAX_ROWS];    /* by batch row: index of its logits, -1 for none */
  guint wanting[LLM_BATCH_MAX_ROWS];     /* sorted row of each index of logits */
  guint n_done_rows;                     /* valid entries of logits_of */
  guint n_logits;
  guint *segment_rows;        /* (owned) [n_segments]: rows that include each segment */
  guint n_used_segments;      /* segments that any row includes */
  GArray *views;              /* (element-type LlmKvView) (owned): chunks, of one layer at a time */
  GArray *first_view;         /* (element-type guint) (owned): by sequence, and the end */
  guint max_chunks;           /* of one sequence */

  /* Views that the running stage holds, also while it waits: all segments of
   * its first weights, then of its second. */
  LlmWeightView *held;        /* (owned) [LLM_STAGE_MAX_OPS × n_segments] */
  guint n_held;
};

static inline const LlmRow *
llm_forward_get_row (LlmForward *self,
                     guint       sorted)
{
  return &self->batch->rows[self->order[sorted]];
}

/* llm-forward-weights.c */

/* Acquires the segments of @ops that any row includes, or with @is_whole the
 * first segment, where weights that no sub-model cuts are found. Goes on from
 * what is held already. */
LlmStatus llm_forward_acquire  (LlmForward           *self,
                                const LlmOperator    *ops,
                                guint                 n_ops,
                                gboolean              is_whole,
                                const LlmActivation  *activation,
                                GError              **error);
void      llm_forward_release  (LlmForward           *self);

/* y[i] = (weights of ops[i]) × x for the ops acquired, each row with the
 * segments it includes; added to y with @is_added. */
void      llm_forward_multiply (LlmForward           *self,
                                const LlmOperator    *ops,
                                guint                 n_ops,
                                const float          *x,
                                float *const         *y,
                                gboolean              is_added);
/* Inputs and outputs of a whole operator. */
void      llm_forward_shape    (const LlmHparams     *hparams,
                                LlmOperator           op,
                                guint                *n_in,
                                guint                *n_out);

/* llm-forward-scratch.c */

/* Makes room for the step and points self->scratch into it. */
gboolean  llm_forward_reserve  (LlmForward           *self,
                                GError              **error);
guint64   llm_forward_free_scratch (LlmForward       *self);

G_END_DECLS
