/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What an answer's token takes of a model whose weights do not fit into a budget (A6): as the reads of its
 * disk and its products were measured now. */

#pragma once

#include "base/llm-worker-pool.h"
#include "kernels/llk.h"
#include "model/llm-model.h"
#include "weights/llm-repacked-cache.h"

typedef struct
{
  guint64 budget;        /* bytes */
  double most_us;        /* of a token; 0: none is looked for */
  gboolean as_json;
} ToolForecast;

/* Prints it. Makes the prepared copy where it is missing. */
gboolean tool_forecast_print (const ToolForecast  *self,
                              LlmModel            *model,
                              LlmRepackedCache    *cache,
                              LlmWorkerPool       *pool,
                              const LlkOps        *kernels,
                              GError             **error);
