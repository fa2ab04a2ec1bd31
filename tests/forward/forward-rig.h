/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * All that a forward pass needs, set up for a test in one call. Failure to set
 * up aborts the test. One thread.
 */

#pragma once

#include "forward/llm-forward.h"

G_BEGIN_DECLS

typedef struct
{
  LlmGguf *gguf;
  LlmHparams hparams;
  LlmLedger *ledger;
  LlmWeights *weights;
  LlmWorkerPool *pool;
  LlmPlan *plan;
  LlmForward *forward;
  LlmKvStore *store;
} ExecRig;

typedef struct
{
  guint n_threads;      /* 0: 1 */
  const char *kernels;  /* NULL: the best */
  LlkKvFormat format;
  guint chunk_slots;    /* 0: 16 */
  LlmBackend *device;   /* (nullable) (unowned) */
  gboolean is_split;    /* as LlmPlanConfig has it, like the next two */
  LlmLora *const *adapters;
  guint n_adapters;
  const LlmThresholds *thresholds;
  gboolean keeps_smallest;
} ExecRigConfig;

ExecRig *exec_rig_open   (const char          *path,
                          const ExecRigConfig *config);
ExecRig *exec_rig_new    (GBytes              *model,
                          const ExecRigConfig *config);
/* Puts another provider between forward pass and file; takes it. */
void     exec_rig_set_weights (ExecRig        *self,
                               LlmWeights     *weights,
                               const ExecRigConfig *config);
void     exec_rig_free   (ExecRig             *self);

/* Runs a step to its end, however often it has to wait. */
void     exec_rig_step   (ExecRig             *self,
                          const LlmRow        *rows,
                          guint                n_rows,
                          LlmKvSeq *const     *sequences,
                          guint                n_sequences);
/* Appends causal rows for @tokens to @seq, in steps of up to @step rows, and
 * copies the logits of each into @logits (nullable, [n_tokens × n_vocab]). */
void     exec_rig_prompt (ExecRig             *self,
                          LlmKvSeq            *seq,
                          const gint32        *tokens,
                          guint                n_tokens,
                          guint                step,
                          float               *logits);
/* How far logits are from @expected: root mean square of the differences, beside the values'. */
double   exec_rig_get_distance (const float    *found,
                          const float          *expected,
                          gsize                 n);
/* A row of the whole model that sees everything before it. */
LlmRow   exec_rig_row    (gint32               token,
                          guint                sequence,
                          guint                slot);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (ExecRig, exec_rig_free)

G_END_DECLS
