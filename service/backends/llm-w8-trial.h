/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whether prompts in W8A8 are faster on this machine than the CPU's others: both multiply the rows of a
 * prompt with a layer of the model, in turns. The executor's thread.
 */

#pragma once

#include "forward/llm-backend.h"
#include "model/llm-w8-site.h"

/* How many times as long as in @w8 the products of @layer take: for 30 ms, or two turns. @views: [LLM_N_OPS]
 * of its operators, whole or their first segments; in_count 0 for those that are not multiplied so.
 * @sites: of the layer, [LLM_W8_N_KINDS]; @share: of the rows' values, that are beyond their scales. 1
 * where nothing is multiplied so. */
double llm_w8_trial (LlmBackend          *w8,
                     const LlkOps        *kernels,
                     LlmWorkerPool       *pool,
                     guint                layer,
                     const LlmWeightView *views,
                     const LlmW8Site     *sites,
                     double               share);
