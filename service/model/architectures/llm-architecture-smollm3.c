/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* SmolLM 3: every fourth layer knows nothing of positions. */

#include "model/architectures/llm-architecture.h"

const LlmArchitecture llm_architecture_smollm3 = {
  .name = "smollm3",
  .optional = LLM_OPS_QKV_BIAS,
  .rope_kind = LLM_ROPE_NORM,
  .no_rope_period = 4,
};
