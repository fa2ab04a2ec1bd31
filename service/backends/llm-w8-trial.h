/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whether products in W8A8 are faster on this machine than the CPU's others: both multiply a matrix of
 * the model with rows of a prompt, in turns. The executor's thread.
 */

#pragma once

#include "forward/llm-backend.h"

/* How many times as long as in @w8 the products of @view take; some milliseconds. @view: of the
 * operator @op in @layer, whole or its first segment, which @w8 can run. @scale: of its site; @share: of
 * the rows' values, that are beyond it. */
double llm_w8_trial (LlmBackend          *w8,
                     const LlkOps        *kernels,
                     LlmWorkerPool       *pool,
                     LlmOperator          op,
                     guint                layer,
                     const LlmWeightView *view,
                     float                scale,
                     double               share);
