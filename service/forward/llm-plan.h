/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The plan of a model: its stages in order, once before the layers, once for
 * each layer, once behind them; what each acquires, reads and writes, and so
 * which must wait for which; and what computes. Made once for a model with its
 * table of sub-models, immutable, and shared by all steps. Any thread.
 */

#pragma once

#include "forward/llm-backend.h"
#include "weights/llm-levels.h"

/* Weights that a stage acquires at most. */
#define LLM_STAGE_MAX_OPS 5
/* Vectors that a stage may acquire itself. */
#define LLM_STAGE_MAX_VECTORS 3
/* Products of a stage at most. */
#define LLM_STAGE_MAX_PRODUCTS 3
/* Operations that are submitted together. */
#define LLM_STAGE_MAX_SUBMITTED 8
#define LLM_PLAN_MAX_ADAPTERS 255

typedef struct _LlmStep LlmStep;
typedef struct _LlmStage LlmStage;

typedef enum
{
  LLM_ACQUIRE_VECTORS,   /* those that the model has */
  LLM_ACQUIRE_WHOLE,     /* matrices that no sub-model cuts */
  LLM_ACQUIRE_EXPERTS,   /* likewise, of all experts; or the stage takes one by one */
  LLM_ACQUIRE_SEGMENTS,  /* the segments that any row includes */
} LlmAcquireKind;

struct _LlmStage
{
  const char *name;
  /* Called when all weights are held. PENDING with operations submitted leaves it to be called
   * again when these are done, @hold->phase being its own; otherwise, to be called again from where
   * it was. */
  LlmStatus (*run) (LlmStep *self, const LlmStage *stage, GError **error);
  LlmAcquireKind acquires;
  guint n_ops;
  LlmOperator ops[LLM_STAGE_MAX_OPS];
  /* (nullable): whether a layer has it, or around the layers (@layer is 0) the model; by default
   * one that has any of the operators. */
  gboolean (*is_needed) (const LlmHparams *hparams, guint layer);
  /* Buffers of the step, beside those below. */
  guint64 reads, writes;

  LlmInput input;   /* which one it makes, whose inactive values are zero behind it */

  /* Of work on rows: all of it. @vectors: of the operators in their order, each (nullable) where a
   * model may lack it. */
  void (*work) (LlmStep *self, const float *const *vectors);
  /* Of products: where in LlmScratch the input is, and the product of each operator. */
  gsize x, y[LLM_STAGE_MAX_PRODUCTS];
  gboolean is_residual;   /* of the first operator, for the residual stream, unless the second, a
                           * norm, comes between */
};

/* One stage of one layer. */
typedef struct
{
  const LlmStage *stage;
  guint layer;
  guint first_op, n_ops;     /* of the stage's: all that it acquires, or one product's */
  guint used_ops;            /* bits by operator of the stage: those that the model has */
  guint64 reads, writes;
} LlmPlanNode;

typedef struct
{
  const LlkOps *kernels;     /* of the CPU */
  LlmBackend *device;        /* (nullable) (unowned): computes what it can run at less cost */
  LlmBackend *w8;            /* (nullable) (unowned): computes what it can run of rows that are in W8A8 */
  gboolean is_split;         /* each product is a stage of its own, for drivers that run stages out
                              * of order; products of the same rows cost less together */
  LlmLora *const *adapters;  /* (nullable) (unowned): for the model; LlmRow.adapter is the place of
                              * one, from 1 on */
  guint n_adapters;          /* at most LLM_PLAN_MAX_ADAPTERS less LLM_MAX_LEVELS */
  const LlmThresholds *thresholds; /* (nullable) (unowned): of LlmRow.sparsity */
  guint8 sub_model;          /* percent, of rows that are only measured; 0: 100 */
  guint8 sparsity;           /* likewise, 0: none */
  gboolean keeps_smallest;   /* as many inputs as above the threshold, but the smallest: what must
                              * measure badly */
} LlmPlanConfig;

typedef struct
{
  gatomicrefcount ref_count;
  const LlmHparams *hparams;         /* (unowned), as the weights */
  LlmWeights *weights;
  LlmPlanConfig config;
  LlmLora **adapters;                /* (owned) (array length=n_adapters), references: those of
                                      * @config, then those of levels */
  guint n_adapters;
  guint8 level_adapters[LLM_MAX_LEVELS]; /* of rows of a level that name none: a place in @adapters,
                                      * from 1 on; 0: none (E4) */
  LlmBackend *cpu;                   /* (owned) */
  LlmPlanNode *nodes;                /* (owned) */
  guint n_nodes;
  guint first_exit;                  /* from here on, nodes are for rows that want logits */
  guint widest;                      /* inputs of a product */
  gsize row_bytes;                   /* of scratch memory, as LlmHost has it */
  guint max_rank;                    /* of all adapters; 0 without any */
  float ones[LLK_MAX_HEAD_DIM];      /* weights of norms that have none */
} LlmPlan;

/* Does not own @hparams and @weights. */
LlmPlan  *llm_plan_new     (const LlmHparams    *hparams,
                            LlmWeights          *weights,
                            const LlmPlanConfig *config);
LlmPlan  *llm_plan_ref     (LlmPlan             *self);
void      llm_plan_unref   (LlmPlan             *self);

/* Whether of two nodes of a plan the later one must not begin before @earlier has ended: one writes
 * what the other reads or writes. */
static inline gboolean
llm_plan_node_needs (const LlmPlanNode *later,
                     const LlmPlanNode *earlier)
{
  return (earlier->writes & (later->reads | later->writes)) != 0
         || (earlier->reads & later->writes) != 0;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPlan, llm_plan_unref)
