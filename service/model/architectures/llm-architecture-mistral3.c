/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ministral 3: its queries grow with the position beyond the first training. */

#include "model/architectures/llm-architecture.h"

static const char *const keys[] = {
  "attention.temperature_scale",
  NULL,
};

const LlmArchitecture llm_architecture_mistral3 = {
  .name = "mistral3",
  .optional = LLM_OPS_QKV_BIAS | LLM_OPS_FFN_BIAS | LLM_OPS_LONG_ROPE |
              LLM_OP_BIT (LLM_OP_ATTENTION_OUT_BIAS) | LLM_OP_BIT (LLM_OP_ROPE_FACTORS),
  .keys = keys,
  .rope_kind = LLM_ROPE_NORM,
};
