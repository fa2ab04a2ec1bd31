/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One loaded model: hyper-parameters, weights, KV store, plan and scratch, made and dropped as one.
 * Several may be loaded; they share worker pools and the ledger, and nothing else. Owned by the
 * thread that runs it.
 */

#pragma once

#include "forward/llm-forward.h"
#include "model/llm-model.h"

typedef struct
{
  LlmWorkerPool *pool;      /* (unowned) */
  const LlkOps *kernels;
  LlmLedger *ledger;        /* (unowned): counts all that the instance holds */
  LlmBackend *w8;           /* (nullable) (unowned): for rows in W8A8 */
  gboolean is_exact;        /* the weights are those of the file, in floats */
  guint chunk_slots;        /* positions of a chunk */
  double kv_ratio;          /* bytes of a context, of its bytes with 8 bits; 0: floats, as
                             * computed */
  guint n_forwards;         /* batches that may be under way at a time */
} LlmInstanceConfig;

typedef struct
{
  LlmInstanceConfig config;
  LlmModel *model;          /* (owned) */
  const LlmHparams *hparams;
  LlmWeights *weights;      /* (owned) */
  LlmPlan *plan;            /* (owned) */
  LlmForward **forwards;    /* (owned) (array length=config.n_forwards): of the plan, with their
                             * scratch memory */
  LlmKvStore *store;        /* (nullable) (owned) */
} LlmInstance;

/* Refers to @model, takes @weights. Has no store yet. */
LlmInstance *llm_instance_new         (const LlmInstanceConfig *config,
                                       LlmModel                *model,
                                       LlmWeights              *weights);
/* Drops the store, too: its sequences must be gone. */
void         llm_instance_free        (LlmInstance             *self);

/* @storage: (nullable) (unowned). @identity: of what is on storage, as below. */
void         llm_instance_open_store  (LlmInstance             *self,
                                       LlmKvStorage            *storage,
                                       guint64                  identity);
void         llm_instance_close_store (LlmInstance             *self);
/* From now on, where it is not 0, and was not from the start. */
void         llm_instance_set_kv_ratio (LlmInstance            *self,
                                        double                  ratio);
/* K and V that one store computed are good for another one of the same identity. @lineage: of the
 * weights, where a sample of them does not tell. */
guint64      llm_instance_find_identity (LlmInstance           *self,
                                       guint64                  lineage);
/* Bytes that can be reclaimed while nothing runs. */
guint64      llm_instance_get_scratch (LlmInstance             *self);
