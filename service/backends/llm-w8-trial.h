/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whether products in W8A8 are faster on this machine than the service's others: both multiply the
 * same few outputs of a model with rows of a prompt, in turns. Any thread.
 */

#pragma once

#include "kernels/llk.h"
#include "weights/llm-weights.h"

/* How many times as long as W8A8 the products of @view take, rows prepared; on one thread, in about
 * a millisecond. 0 where @view has no packed weights. @w8: the same matrix. */
double llm_w8_trial (const LlkOps        *kernels,
                     const LlmWeightView *view,
                     const LlkW8Matrix   *w8);
