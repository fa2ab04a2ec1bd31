/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Phi 3, 3.5 and 4: queries, keys and values in one tensor, gate and up in another. */

#include "model/architectures/llm-architecture.h"

static const char *const keys[] = {
  "attention.sliding_window",
  NULL,
};

const LlmArchitecture llm_architecture_phi3 = {
  .name = "phi3",
  .optional = LLM_OPS_QKV_BIAS | LLM_OPS_LONG_ROPE,
  .has_fused_gate = TRUE,
  .keys = keys,
  .rope_kind = LLM_ROPE_NEOX,
};
