/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Qwen 3, without experts */

#include "model/architectures/llm-architecture.h"

const LlmArchitecture llm_architecture_qwen3 = {
  .name = "qwen3",
  .needed = LLM_OPS_QK_NORM,
  .optional = LLM_OPS_QKV_BIAS,
  .rope_kind = LLM_ROPE_NEOX,
};
