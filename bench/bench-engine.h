/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The forward pass in this process, set up as the service does, with what a step of it
 * costs in bytes and operations. One thread.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "model/architectures/llm-sub-models.h"
#include "forward/llm-forward.h"
#include "model/llm-model.h"

#include "bench-turns.h"

G_BEGIN_DECLS

typedef struct
{
  const char *path;
  const char *kernels;   /* (nullable): the best */
  const char *cache;     /* (nullable): folder of prepared copies; memory */
  guint n_threads;       /* 0: as many as there are processors */
  gboolean is_exact;     /* weights as the file has them, in float arithmetic */
  guint n_segments;      /* that the weights are cut into, evenly; 0 and 1: none */
  gboolean has_levels;   /* they are cut into the sub-models of the file's companion */
  const LlmKvPolicy *policy; /* (nullable): of the KV cache; floats */
  const char *chunks;    /* (nullable): folder where it may be written */
} BenchEngineConfig;

/* Definitions of the figures: what must be read and computed, however it is done. */
typedef struct
{
  guint64 row_bytes;        /* of weights that one generated token reads */
  guint64 position_bytes;   /* of the KV cache for each position that a row sees */
  double row_ops;           /* of the layers, for each row */
  double logits_ops;        /* of the output, for each row that wants logits */
  double position_ops;      /* of attention, for each row and position it sees */
  LlkType type;             /* that most bytes of weights have */
} BenchCosts;

#define BENCH_MAX_STAGES 64

/* Seconds by stage, and what threads shared of them, summed, in the order of stages. */
typedef struct
{
  struct
  {
    const char *name;
    double seconds;
    LlmWorkerTimes times;
  } stages[BENCH_MAX_STAGES];
  guint n_stages;
} BenchProfile;

typedef struct
{
  LlmModel *model;
  const LlmHparams *hparams;
  const LlkOps *kernels;
  LlmSubModels *sub_models;   /* (nullable) (owned) */
  LlmWeights *weights;
  LlmWorkerPool *pool;
  guint n_threads;
  LlmKvStorage *storage;    /* (nullable) */
  LlmKvStore *store;
  LlmPlan *plan;
  LlmForward *forward;
  BenchCosts costs;
  guint64 random;
  BenchTurns turns;         /* of steps; counts their seconds */
  guint8 sub_model;         /* percent of the model that computes rows */
  guint8 before;            /* the same of the step before; 0: there was none */
  GArray *switches;         /* (element-type double) (owned): seconds that steps took to begin which
                             * follow one of another sub-model */
  GArray *repeats;          /* likewise of the same one */
} BenchEngine;

BenchEngine  *bench_engine_new     (const BenchEngineConfig  *config,
                                    GError                  **error);
void          bench_engine_free    (BenchEngine              *self);

/* What @level of the companion's costs, as bench_engine_new() counts it for the whole model. */
BenchCosts    bench_engine_get_level_costs (BenchEngine      *self,
                                    guint                     level);

/* What a call must compute: @missing (nullable) (element-type guint) slots that are there already,
 * then @n_new random tokens that are appended, in steps as large as they may be; the last row wants
 * logits. Waits for what is read. Seconds. @profile (nullable) gets the time of each stage. */
double        bench_engine_prefill (BenchEngine              *self,
                                    LlmKvSeq                 *sequence,
                                    const GArray             *missing,
                                    guint                     n_new,
                                    BenchProfile             *profile);
/* @n_steps steps with @n_rows rows of each sequence, all of which want logits: one after the other,
 * or with @is_tree a tree in which each has two children; the first one stays. Seconds. */
double        bench_engine_decode  (BenchEngine              *self,
                                    LlmKvSeq *const          *sequences,
                                    guint                     n_sequences,
                                    guint                     n_rows,
                                    gboolean                  is_tree,
                                    guint                     n_steps,
                                    BenchProfile             *profile);
/* A store of the same layout for @policy; its sequences may be used with the engine. */
LlmKvStore   *bench_engine_new_store (BenchEngine            *self,
                                    const LlmKvPolicy        *policy,
                                    GError                  **error);

/* --- stores, with an engine or without --- */

/* More than any benchmark writes. */
#define BENCH_STORAGE_LIMIT ((guint64) 1 << 40)

/* (transfer full): where @store may write from now on. */
LlmKvStorage *bench_store_open_storage (LlmKvStore           *store,
                                    const char               *folder,
                                    guint64                   identity,
                                    GError                  **error);
/* Waits until all layers of a call that has begun are in memory. */
gboolean      bench_store_restore  (LlmKvStore               *store,
                                    LlmKvSeq                 *sequence,
                                    GError                  **error);
/* Does all that it would do while nobody calls: packing, writing. */
void          bench_store_settle   (LlmKvStore               *store);
/* Ends the call of @sequence with some tokens, and settles. */
void          bench_store_end_call (LlmKvStore               *store,
                                    LlmKvSeq                 *sequence);
/* Appends slots with some numbers and densities, without computing: what stands in the KV cache
 * does not change what it costs. */
gboolean      bench_sequence_fill  (LlmKvSeq                 *sequence,
                                    guint                     n_slots,
                                    GError                  **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchEngine, bench_engine_free)

G_END_DECLS
