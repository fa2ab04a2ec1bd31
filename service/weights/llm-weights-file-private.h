/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Weights of a file, shared by the parts of the provider: llm-weights-file.c and, for streaming,
 * llm-weights-file-stream.c. */

#pragma once

#include "weights/llm-channels.h"
#include "weights/llm-expert-cache.h"
#include "weights/llm-read-choice.h"
#include "weights/llm-repacked-private.h"
#include "weights/llm-stream-sums.h"
#include "weights/llm-weight-ranges.h"

typedef struct
{
  LlmWeights parent;

  const LlmHparams *hparams;
  LlmSubModels *whole;      /* (nullable) (owned), like the rest: the table, if none was given */
  LlmGguf *gguf;
  LlmLedger *ledger;        /* (nullable) */
  LlmTensorPart *parts;     /* [n_layers × LLM_N_OPS], shared ones in layer 0 */
  LlmWeightRanges ranges;   /* what is read from the file, then the panels */
  guint *places;            /* [n_layers × LLM_N_OPS × n_levels]: number of a range + 1, or 0 */

  LlmRepacked *repacked;    /* (nullable): NULL for weights as the file has them */
  guint64 first_panel;      /* bytes of ranges before the panels */

  LlmWeightStream *stream;  /* (nullable) */
  LlmWeightSource source;   /* of the stream */
  LlmChannels *channels;    /* (nullable): for sparse rows, while the stream is there */
  LlmReadChoice choice;     /* whether they are faster */
  gboolean only_channels;   /* whether they are or not */
  gboolean skips;           /* what they have is not read ahead */
  LlmExpertCache *experts;  /* (nullable): of a mixture of experts that streams */
  guint64 first_expert;     /* bytes of ranges before those of experts, which are the last */
  LlmStreamFigures ended;   /* counters of earlier streams */
  guint64 keeps;            /* argument of llm_weights_keep(), at most all */
  LlmStreamSums *sums;      /* (nullable): of streamed bytes, if they are still to be compared */
} LlmFileWeights;

/* Whether the kernel can reclaim the memory of the panels. */
static inline gboolean
llm_file_weights_has_panel_file (const LlmFileWeights *self)
{
  return self->repacked != NULL && self->repacked->map != NULL;
}

static inline guint *
llm_file_weights_place (const LlmFileWeights *self,
                        LlmOperator           op,
                        guint                 layer,
                        guint                 segment)
{
  return &self->places[(layer * LLM_N_OPS + op) * self->parent.sub_models->n_levels + segment];
}

/* --- llm-weights-file-stream.c --- */

/* Whether @range streams: the whole range, if some of it does not stay. */
gboolean  llm_file_weights_streams           (const LlmFileWeights     *self,
                                              const LlmWeightRange     *range);
/* Updates what stays, after a change of keeps or of what streams. */
void      llm_file_weights_set_staying       (LlmFileWeights           *self);
/* Of @range, which streams: READY without view->data if the mapping is to be used. */
LlmStatus llm_file_weights_acquire_streaming (LlmFileWeights           *self,
                                              const LlmWeightRange     *range,
                                              const LlmRepackedMatrix  *matrix,
                                              LlmWeightView            *view,
                                              GError                  **error);
/* Chooses how what streams is read from now on. */
void      llm_file_weights_choose_read       (LlmFileWeights           *self,
                                              LlmOperator               op,
                                              guint                     layer,
                                              const LlmActivation      *activation);
/* The same by channel, where that is chosen and can be: READY without view->data if whole weights are
 * to be used. */
LlmStatus llm_file_weights_acquire_channels  (LlmFileWeights           *self,
                                              LlmOperator               op,
                                              guint                     layer,
                                              guint                     segment,
                                              const LlmActivation      *activation,
                                              LlmWeightView            *view);
/* --- llm-weights-file-experts.c --- */

/* Makes the cache, if experts are packed. */
void      llm_file_weights_make_experts      (LlmFileWeights           *self,
                                              const LlmWeightSource    *source,
                                              const LlmStreamConfig    *config);
/* As the provider has them. */
gboolean  llm_file_weights_choose_experts    (LlmWeights               *weights,
                                              guint                     layer,
                                              const guint              *n_rows);
LlmStatus llm_file_weights_acquire_expert    (LlmWeights               *weights,
                                              guint                     layer,
                                              guint                     expert,
                                              LlmWeightView            *views,
                                              GError                  **error);

/* --- llm-weights-file-stream.c --- */

/* Compares the checksums of arrived bytes of @matrix, from @at on in it, unless they were compared
 * before. */
gboolean  llm_file_weights_compare_sums      (LlmFileWeights           *self,
                                              const LlmRepackedMatrix  *matrix,
                                              guint64                   at,
                                              const guint8             *data,
                                              guint64                   length,
                                              gboolean                  streams_before,
                                              gboolean                  streams_behind,
                                              GError                  **error);
/* Whether the file of panels has changed since it was opened. Streamed bytes come from the disk
 * each time. A mapping would show changes by other processes, too, but most of its pages were
 * compared before. */
gboolean  llm_file_weights_were_written      (const LlmFileWeights     *self);
