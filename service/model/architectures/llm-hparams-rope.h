/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

#include "model/architectures/llm-keys.h"

/* The rotary embeddings, and which of them each layer has; its
 * windows are known already, as are the operators. */
void        llm_hparams_read_rope (LlmKeys    *keys,
                                   LlmHparams *hparams);
