/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the tokens of prompts are computed: as all others, or in W8A8, and the weights for that. */

#pragma once

#include "backends/llm-backend-w8.h"
#include "runtime/llm-executor.h"

G_BEGIN_DECLS

typedef struct _LlmRunner LlmRunner;

/* Of one model. */
typedef struct
{
  LlmBackend *backend;      /* (nullable) (owned): of a model that is calibrated */
  LlmW8Weights *weights;    /* (nullable) (owned): once they are prepared */
  double speedup;           /* of its products, measured here */
  guint64 ahead;            /* up to here they are read again; G_MAXUINT64: all are */
} LlmRunnerPrefill;

/* Makes the backend, before the instance; and ends it behind it. */
void        llm_runner_init_prefill  (LlmRunner        *self,
                                      const LlmWeights *weights,
                                      const LlmHparams *hparams);
void        llm_runner_clear_prefill (LlmRunner        *self,
                                      gboolean          keeps_cache);
/* Whether rows can be computed in W8A8: the weights are prepared. */
gboolean    llm_runner_has_w8        (const LlmRunner  *self);
/* Bytes of its prepared weights in memory; 0 while a prompt uses them. In
 * llm-executor-figures.c. */
guint64     llm_runner_get_w8_bytes  (const LlmRunner  *self);
/* Decides it for the prompt's tokens that no earlier turn computed: result.is_w8. By the number of
 * tokens and the model alone where the weights are there, not by what is cached. */
void        llm_request_choose_prefill (LlmRequest     *request);
/* Reads a piece of those that were released; TRUE when more are left. */
gboolean    llm_executor_read_w8_ahead (LlmExecutor    *self);

G_END_DECLS
