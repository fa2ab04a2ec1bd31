/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the cursor (llm-forward.c) and the stages (llm-forward-stages.c) share.
 * Rows inside are sorted by kind, and then by sub-model, the largest first: a
 * weight segment is multiplied for the first rows of each kind only. The executor's thread owns it.
 */

#pragma once

#include "forward/llm-attention.h"
#include "forward/llm-forward.h"
#include "forward/llm-matmul.h"

/* Weights that a stage multiplies with at most. */
#define LLM_STAGE_MAX_OPS 5

typedef struct _LlmStage LlmStage;

struct _LlmStage
{
  const char *name;
  /* PENDING leaves it to be called again, from the start: it then finds the
   * views it got already, and computes nothing twice that is not the same twice. */
  LlmStatus (*run) (LlmForward *self, const LlmStage *stage, GError **error);
  /* What it acquires; those that a model may lack are vectors. */
  guint n_ops;
  LlmOperator ops[LLM_STAGE_MAX_OPS];
  /* (nullable): whether a model has it; by default one that has any of the operators. */
  gboolean (*is_needed) (const LlmHparams *hparams);

  /* Of work on rows: all of it. @vectors: of the operators in their order, each (nullable) where a
   * model may lack it. */
  void (*work) (LlmForward *self, const float *const *vectors);
  /* Of products: where in LlmScratch the input is, and the product of each operator. */
  gsize x, y[3];
  gboolean is_residual;   /* of the first operator, for the residual stream; the second is a norm */
};

/* The stages of one part that a model has. */
#define LLM_PART_MAX_STAGES 16

typedef struct
{
  const LlmStage *stages[LLM_PART_MAX_STAGES];
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

/* One of the experts of a row. */
typedef struct
{
  guint expert;
  float share;
} LlmExpertChoice;

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
  LlmExpertChoice *experts; /* [n_rows × n_used_experts], where there are experts */
  float *routed;    /* [n_rows × n_experts], likewise */
  float *gathered;  /* [n_rows × n_embd], rows of one expert */
  float *given;     /* [n_rows × n_embd], what it makes of them */
  float *cosine;    /* [n_ropes × n_rows × rope_dim/2] */
  float *sine;      /* [n_ropes × n_rows × rope_dim/2] */
  float *hidden;    /* [n_logits × n_embd] */
  float *logits;    /* [n_logits × n_vocab] */
  guint8 *workers;  /* [n_threads × worker_bytes] */
  guint8 *prepared; /* [n_rows × row_bytes], rows as products want them */
  guint64 *received;    /* [n_threads × chunks of all sequences], of all layers, where density is
                     * collected */
  gpointer attention; /* what attention asks for */
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
  gsize worker_bytes;         /* scratch of one worker */
  gsize row_bytes;            /* of a prepared row */

  LlmStageTable parts[LLM_N_PARTS];

  /* Angle of a rotation per position, by pair; NULL before the first step. */
  double *frequencies;        /* (nullable) (owned) [n_ropes × rope_dim/2] */

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
  guint first_row[LLK_N_ROW_KINDS];      /* sorted row of each kind */
  guint *segment_rows;        /* (owned) [n_segments × kinds]: rows of a kind that include each */
  guint n_used_segments;      /* segments that any row includes */
  GArray *views;              /* (element-type LlmKvView) (owned): chunks, of one layer at a time */
  GArray *first_view;         /* (element-type guint) (owned): by sequence, and the end */

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

/* Rows that a worker takes at a time where each is about @n_values simple
 * operations: what is worth handing out. */
static inline guint
llm_forward_get_grain (guint n_values)
{
  return MAX (16384 / MAX (n_values, 1), 1);
}

/* llm-forward-stages.c: fills in self->parts for the model. */
void      llm_forward_build_stages (LlmForward       *self);

/* llm-forward-rope.c: stages before the layers */
LlmStatus llm_forward_run_frequencies (LlmForward    *self,
                                const LlmStage       *stage,
                                GError              **error);
LlmStatus llm_forward_run_angles (LlmForward         *self,
                                const LlmStage       *stage,
                                GError              **error);

/* llm-forward-attention.c: K and V of the rows are written; attention, and density */
LlmStatus llm_forward_run_remember (LlmForward       *self,
                                const LlmStage       *stage,
                                GError              **error);
LlmStatus llm_forward_run_attention (LlmForward      *self,
                                const LlmStage       *stage,
                                GError              **error);

/* llm-forward-experts.c: chooses the experts of each row by scratch.routed; adds what
 * they make of normed to x, their weights being held. */
void      llm_forward_choose_experts (LlmForward     *self);
void      llm_forward_run_experts (LlmForward        *self);

/* llm-forward-rows.c: work on rows, on all workers, as LlmStage.work has it */

/* x = the rows of the tokens, scaled; the embedding is held */
void      llm_forward_embed    (LlmForward           *self,
                                const float *const   *embedding);
/* normed = the norm of x */
void      llm_forward_normalize (LlmForward          *self,
                                const float *const   *weight);
/* hidden = the norm of x, of the rows that want logits */
void      llm_forward_normalize_wanted (LlmForward   *self,
                                const float *const   *weight);
/* Bias, norm: x += bias; or with norm: x += the norm of (normed + bias), and normed is used up */
void      llm_forward_add_residual (LlmForward       *self,
                                const float *const   *vectors);
/* q, k, v: biases of all three, norms of the heads of q and k, rotation, and the scale of far
 * positions */
void      llm_forward_prepare_heads (LlmForward      *self,
                                const float *const   *vectors);
/* Biases of gate and up: gate = silu or gelu of (gate + bias) × (up + bias), for the first
 * @n_rows */
void      llm_forward_gate     (LlmForward           *self,
                                guint                 n_rows,
                                const float *const   *vectors);
/* logits: bias and cap */
void      llm_forward_finish_logits (LlmForward      *self,
                                const float *const   *bias);

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
/* The same of any rows, with any weights. */
void      llm_forward_multiply_rows (LlmForward      *self,
                                const LlmRows        *rows,
                                const LlmProduct     *products,
                                guint                 n_products);
/* llm-forward-scratch.c */

/* Makes room for the step and points self->scratch into it. */
gboolean  llm_forward_reserve  (LlmForward           *self,
                                GError              **error);
/* All of @attention that does not depend on the layer. */
void      llm_forward_describe_attention (LlmForward *self,
                                LlmAttention         *attention);
guint64   llm_forward_free_scratch (LlmForward       *self);
