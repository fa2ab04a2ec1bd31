/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Qwen 2 and 2.5 */

#include "model/architectures/llm-architecture.h"

const LlmArchitecture llm_architecture_qwen2 = {
  .name = "qwen2",
  .optional = LLM_OPS_QKV_BIAS | LLM_OP_BIT (LLM_OP_OUTPUT_BIAS),
  .rope_kind = LLM_ROPE_NEOX,
};
