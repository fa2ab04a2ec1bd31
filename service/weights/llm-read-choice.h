/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which of two ways to read the weights of sparse rows is faster here: whole, in large reads ahead of
 * their use, or by channel, less of them in small reads. Storage decides that, so passes are measured;
 * the text is the same. What a pass takes is counted from its first layer to its last one: not what
 * callers do between tokens. Zero-initialized.
 */

#pragma once

#include "model/llm-thresholds.h"

typedef enum
{
  LLM_READ_BY_CHANNEL,
  LLM_READ_WHOLE,
  LLM_N_READS,
} LlmRead;

typedef struct
{
  double us[LLM_N_READS];  /* of a pass; 0: not measured */
  LlmRead way;
  guint n_passes;          /* in this way, in a row */
} LlmReadRecord;

typedef struct
{
  LlmReadRecord records[LLM_MAX_SPARSITY + 1];  /* by sparsity */
  guint layer;             /* where the last pass is */
  gint64 begun_us;         /* 0: it is not measured */
} LlmReadChoice;

/* A sparse row comes to @layer of @n_layers; also several times. @whole_us: what reading all that
 * streams takes in a pass, 0 where that is not known yet. Which way it reads. */
LlmRead llm_read_choice_take (LlmReadChoice *self,
                              guint          sparsity,
                              guint          layer,
                              guint          n_layers,
                              double         whole_us,
                              gint64         now_us);
/* What a pass takes in the faster way; 0: not measured. */
double  llm_read_choice_get_us (const LlmReadChoice *self,
                                guint                sparsity);
