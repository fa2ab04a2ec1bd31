/* SPDX-License-Identifier: LGPL-2.1-or-later */

#pragma once

#include "model/architectures/llm-keys.h"

/* The heads of each layer; windows are known already, as are the operators. */
void llm_hparams_read_heads     (LlmKeys    *keys,
                                 LlmHparams *hparams);
/* Which layers have K and V of their own; the others attend to those of the last one before them
 * that looks as far. */
void llm_hparams_share_layers   (LlmKeys    *keys,
                                 LlmHparams *hparams);
/* What is largest of all layers. */
void llm_hparams_measure_layers (LlmHparams *hparams);
