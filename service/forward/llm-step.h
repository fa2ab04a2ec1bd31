/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One step: the rows of a batch on their way through the stages of a plan, with
 * their activations and the weights held. It runs whatever stage its driver names;
 * the order that the plan allows is the driver's business (llm-forward.c has the
 * one that runs all in order). A stage that needs weights, chunks or a device
 * that are not there says LLM_PENDING and is run again later; nothing is lost and
 * nothing computed twice. Steps can be left at any time. The executor's thread owns it.
 */

#pragma once

#include "forward/llm-plan.h"
#include "memory/llm-ledger.h"

/* Nodes that may hold weights at a time: what a driver begins before others have ended. */
#define LLM_STEP_MAX_HOLDS 4

/* One of the experts of a row. */
typedef struct
{
  guint expert;
  float share;
} LlmExpertChoice;

/* A row whose density waits to be accepted. */
typedef struct
{
  guint row;              /* of the batch */
  guint first_mass;
  guint n_chunks;         /* of its sequence */
  guint slot;
  LlmVisibility visibility;
} LlmDrafted;

/* Activations of a step, rows sorted, in one block. */
typedef struct
{
  float *x;         /* [n_rows × n_embd], the residual stream */
  float *normed;    /* [n_rows × n_embd] */
  float *q;         /* [n_rows × n_heads·head_dim], of the layer, as all that layers have */
  float *k;         /* [n_rows × n_kv_heads·head_dim] */
  float *v;         /* [n_rows × n_kv_heads·head_dim] */
  float *attended;  /* [n_rows × n_heads·head_dim] */
  float *gate;      /* [n_rows × n_ff] */
  float *up;        /* [n_rows × n_ff] */
  float *adapted[LLM_STAGE_MAX_PRODUCTS]; /* [n_rows × max_rank], by product of a stage: rows
                     * between the two halves of their adapter */
  LlmExpertChoice *experts; /* [n_rows × n_used_experts], where there are experts */
  float *routed;    /* [n_rows × n_experts], likewise */
  float *gathered;  /* [n_rows × n_embd], rows of one expert */
  float *given;     /* [n_rows × n_embd], what it makes of them */
  float *layer_inputs; /* [n_rows × n_layers·n_layer_embd], where layers have embeddings */
  float *layer_gate; /* [n_rows × n_layer_embd], likewise */
  float *streams;   /* [n_rows × n_streams·n_embd], where there are several residual streams, as the
                     * next three */
  float *projected; /* [n_rows × (n_streams - 1)·n_embd] */
  float *modes;     /* [n_rows × n_streams], what the router says */
  float *mixing;    /* [n_rows × n_streams²], what streams get of each other */
  float *laurel_low; /* [n_rows × laurel_rank], where there is a short way around attention */
  float *laurel;    /* [n_rows × n_embd], likewise */
  float *query_low; /* [n_rows × query_rank], where K and V are latent */
  float *cosine;    /* [n_ropes × n_rows × rope_dim/2] */
  float *sine;      /* [n_ropes × n_rows × rope_dim/2] */
  float *hidden;    /* [n_logits × n_embd] */
  float *logits;    /* [n_logits × n_vocab] */
  guint64 *received;    /* [n_threads × n_masses], of all layers, where density is collected */
  guint8 *workers;  /* [n_threads × worker_bytes] */
  guint8 *panels;   /* [n_threads × gathered_bytes], where all rows are sparse */
  guint8 *prepared; /* [n_rows × row_bytes], rows as products want them */
  gpointer attention; /* what attention asks for */
} LlmScratch;

/* Bits of buffers, for what a stage reads and writes: those of LlmScratch, and two more. */
#define LLM_BUFFER_AT(offset) (G_GUINT64_CONSTANT (1) << ((offset) / sizeof (gpointer)))
#define LLM_BUFFER(field) LLM_BUFFER_AT (G_STRUCT_OFFSET (LlmScratch, field))
#define LLM_BUFFER_KV (G_GUINT64_CONSTANT (1) << 62)
#define LLM_BUFFER_FREQUENCIES (G_GUINT64_CONSTANT (1) << 63)

G_STATIC_ASSERT (sizeof (LlmScratch) / sizeof (gpointer) <= 62);

/* Neighbouring rows of one adapter and level. */
typedef struct
{
  guint first, n_rows;
  guint level;
  const LlmLora *adapter;
} LlmAdapterRun;

/* What a node holds that has begun and not ended. */
typedef struct
{
  const LlmPlanNode *node;    /* (nullable): NULL while free */
  LlmWeightView *views;       /* (owned) [LLM_STAGE_MAX_OPS × n_levels]: by operator, then
                               * segment */
  guint n_segments;           /* of each operator */
  guint n_views;              /* acquired so far */
  LlmWeightView vectors[LLM_STAGE_MAX_VECTORS];  /* that the stage acquires itself */
  guint n_vectors;            /* so far */
  gboolean takes_experts;     /* one by one: views are of the one that is computed */
  guint phase;                /* the stage's own, from 0 */
  LlmOp ops[LLM_STAGE_MAX_SUBMITTED];
  GArray *adapted;            /* (element-type LlmAdapted) (owned): of the products that are submitted */
  guint n_ops;                /* submitted, and not all known to be done */
} LlmHold;

/* The rows of a batch, sorted by level. */
typedef struct
{
  guint order[LLM_BATCH_MAX_ROWS];       /* batch row of each sorted row */
  gint logits_of[LLM_BATCH_MAX_ROWS];    /* by batch row: index of its logits, -1 for none */
  guint wanting[LLM_BATCH_MAX_ROWS];     /* sorted row of each index of logits */
  guint n_done_rows;                     /* valid entries of logits_of */
  guint n_logits;
  guint8 levels[LLM_BATCH_MAX_ROWS];     /* by sorted row: not rising */
  guint n_groups[LLM_BATCH_MAX_ROWS];    /* by sorted row: KV heads, with their queries, in the
                                          * layer of the last stage that ran */
  guint groups_layer;
  gboolean has_sparse_rows;
  guint least_sparsity;                  /* percent, of all rows; 0 in W8A8 */
  gboolean is_w8;                        /* all are in W8A8 */
  guint level_rows[LLM_MAX_LEVELS];      /* rows that include each segment */
  guint n_used_levels;                   /* segments that any row includes */
  guint first_mass[LLM_BATCH_MAX_ROWS];  /* by sorted row, see LlmAttention */
  guint n_masses;
} LlmSortedRows;

struct _LlmStep
{
  LlmPlan *plan;              /* (owned) */
  const LlmHparams *hparams;  /* of the plan, as the next three */
  LlmWeights *weights;
  const LlmSubModels *sub_models;
  const LlkOps *kernels;
  LlmWorkerPool *pool;        /* (unowned) */
  LlmLedger *ledger;          /* (nullable) (owned) */
  gboolean collects_density;

  /* Memory of the activations; kept between steps. */
  guint8 *block;              /* (nullable) (owned), from the kernel */
  gsize block_bytes;
  LlmScratch scratch;
  LlmHost host;
  guint64 n_multiplied;       /* products of two numbers, so far */
  guint64 n_of_device;        /* operations that were handed to the device, so far */

  /* Angle of a rotation per position, by pair; NULL before the first step. */
  double *frequencies;        /* (nullable) (owned) [n_ropes × rope_dim/2] */

  const LlmBatch *batch;      /* (nullable): NULL between steps */
  LlmSortedRows rows;         /* of the batch */
  GArray *adapter_runs;       /* (element-type LlmAdapterRun) (owned): sorted rows */
  GArray *logit_runs;         /* (element-type LlmAdapterRun) (owned): of these, those that want
                               * logits, by index of logits */
  guint n_expert_rows;        /* of the expert that is computed */
  GArray *views;              /* (element-type LlmKvView) (owned): chunks, of one layer at a time */
  GArray *first_view;         /* (element-type guint) (owned): by sequence, and the end */
  GArray *drafted;            /* (element-type LlmDrafted) (owned): of the last step */

  LlmHold holds[LLM_STEP_MAX_HOLDS];
  LlmHold *hold;              /* of the running stage */
  guint layer;                /* likewise */
};

/* @ledger (nullable) counts scratch memory, which is allocated when first needed. */
LlmStep     *llm_step_new        (LlmPlan           *plan,
                                  LlmWorkerPool     *pool,
                                  LlmLedger         *ledger);
void         llm_step_free       (LlmStep           *self);

/* As llm_forward_begin(). */
gboolean     llm_step_begin      (LlmStep           *self,
                                  const LlmBatch    *batch,
                                  GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Nodes of the plan that this step has to run. */
guint        llm_step_get_n_nodes (LlmStep          *self);
/* Acquires the weights of @node before it can run; what it will be computed with is not known then.
 * PENDING also where enough is held by others. */
LlmStatus    llm_step_acquire    (LlmStep           *self,
                                  const LlmPlanNode *node,
                                  GError           **error);
/* Runs @node; all that it needs has run. FAILED leaves the step to be abandoned. */
LlmStatus    llm_step_run        (LlmStep           *self,
                                  const LlmPlanNode *node,
                                  GError           **error);
/* When all nodes have run. FALSE when the weights were damaged meanwhile. */
gboolean     llm_step_end        (LlmStep           *self,
                                  GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* In the middle; waits for devices that still write. */
void         llm_step_abandon    (LlmStep           *self);
/* As llm_forward_accept(). */
void         llm_step_accept     (LlmStep           *self,
                                  LlmKvSeq          *seq,
                                  guint              row);
/* As llm_forward_get_logits(). */
const float *llm_step_get_logits (LlmStep           *self,
                                  guint              row);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmStep, llm_step_free)
