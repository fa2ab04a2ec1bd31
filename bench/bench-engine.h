/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The forward pass in this process, set up as the service does, with what a step of it
 * costs in bytes and operations. One thread.
 */

#pragma once

#include "forward/llm-forward.h"
#include "model/llm-model.h"

G_BEGIN_DECLS

typedef struct
{
  const char *path;
  const char *kernels;   /* (nullable): the best */
  const char *cache;     /* (nullable): folder of prepared copies; memory */
  guint n_threads;       /* 0: as many as there are processors */
  gboolean is_exact;     /* weights as the file has them, in float arithmetic */
  const LlmKvPolicy *policy; /* (nullable): of context memory; floats */
  const char *chunks;    /* (nullable): folder where it may be written */
} BenchEngineConfig;

/* Definitions of the figures: what must be read and computed, however it is done. */
typedef struct
{
  guint64 row_bytes;        /* of weights that one generated token reads */
  guint64 position_bytes;   /* of context memory for each position that a row sees */
  double row_ops;           /* of the layers, for each row */
  double logits_ops;        /* of the output, for each row that wants logits */
  double position_ops;      /* of attention, for each row and position it sees */
  LlkType type;             /* that most bytes of weights have */
} BenchCosts;

/* Seconds by stage, summed. */
typedef struct
{
  GPtrArray *names;         /* (element-type utf8) (unowned), in the order of stages */
  GArray *seconds;          /* (element-type double) */
} BenchProfile;

typedef struct
{
  LlmModel *model;
  const LlmHparams *hparams;
  const LlkOps *kernels;
  LlmWeights *weights;
  LlmWorkerPool *pool;
  LlmKvStorage *storage;    /* (nullable) */
  LlmKvStore *store;
  LlmForward *forward;
  BenchCosts costs;
  guint64 random;
} BenchEngine;

BenchEngine  *bench_engine_new     (const BenchEngineConfig  *config,
                                    GError                  **error);
void          bench_engine_free    (BenchEngine              *self);

/* Appends @n_tokens random tokens in steps as large as they may be; the last one wants
 * logits. Seconds. @profile (nullable) gets the time of each stage. */
double        bench_engine_prompt  (BenchEngine              *self,
                                    LlmKvSeq                 *sequence,
                                    guint                     n_tokens,
                                    BenchProfile             *profile);
/* The same for what a call must compute when it has begun: @missing (element-type guint) slots
 * that are there already, and @n_new behind them. Waits for what is read. */
double        bench_engine_call    (BenchEngine              *self,
                                    LlmKvSeq                 *sequence,
                                    const GArray             *missing,
                                    guint                     n_new);
/* Ends the call of @sequence, and does all that is left to do after it: packing, writing. */
void          bench_engine_end_call (LlmKvStore              *store,
                                    LlmKvSeq                 *sequence);
/* Appends slots with some numbers and densities, without computing: what stands in context memory
 * does not change what it costs. */
gboolean      bench_engine_fill    (LlmKvSeq                 *sequence,
                                    guint                     n_slots,
                                    GError                  **error);
/* A store of the same layout for @policy; its sequences may be used with the engine. */
LlmKvStore   *bench_engine_new_store (BenchEngine            *self,
                                    const LlmKvPolicy        *policy,
                                    GError                  **error);
/* @n_tokens steps with a row of each sequence, all of which want logits. Seconds. */
double        bench_engine_decode  (BenchEngine              *self,
                                    LlmKvSeq *const          *sequences,
                                    guint                     n_sequences,
                                    guint                     n_tokens,
                                    BenchProfile             *profile);

/* Of @n_rows rows of which @n_logits want logits, the first of them behind @depth others:
 * one after the other with @is_prompt, else each in a sequence of its own. */
double        bench_costs_get_ops   (const BenchCosts        *self,
                                     guint                    n_rows,
                                     guint                    n_logits,
                                     guint                    depth,
                                     gboolean                 is_prompt);

BenchProfile *bench_profile_new    (void);
void          bench_profile_free   (BenchProfile             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchEngine, bench_engine_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchProfile, bench_profile_free)

G_END_DECLS
