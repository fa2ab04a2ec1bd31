/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

#include "model/architectures/llm-keys.h"

/* The embedding of tokens that each layer has, if any; an operator of all layers. */
void llm_hparams_read_layer_embedding (LlmKeys    *keys,
                                       LlmHparams *hparams);
/* How many residual streams there are, and the rank of the way around attention, which is that of
 * the file's tensor. */
void llm_hparams_read_streams         (LlmKeys    *keys,
                                       LlmHparams *hparams);
/* What each layer leaves out of its gate. */
void llm_hparams_read_cutoffs         (LlmKeys    *keys,
                                       LlmHparams *hparams);
/* The networks of layers, and so which operators layers have: one for all rows, or experts, or
 * both. */
void llm_hparams_read_networks        (LlmKeys    *keys,
                                       LlmHparams *hparams);
