/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products as the service computes those of a Q8_0 file, of a model in any type: its weights are
 * made Q8_0 and packed, and rows get a scale for each 256 inputs. For comparing ways to compute on
 * the same weights. The executor's thread.
 */

#pragma once

#include "forward/llm-backend.h"

/* @kernels: (unowned). */
LlmBackend *llm_backend_q8_new (const LlkOps     *kernels,
                                const LlmHparams *hparams);
