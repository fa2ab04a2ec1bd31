/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* LLaMA, and the many models that are built alike: Mistral, Mixtral, TinyLlama,
 * SmolLM 1 and 2, … Its matrices are permuted for turning neighbouring pairs. */

#include "model/architectures/llm-architecture.h"

static const char *const keys[] = {
  "expert_count",
  "attention.sliding_window",
  NULL,
};

const LlmArchitecture llm_architecture_llama = {
  .name = "llama",
  .optional = LLM_OPS_QKV_BIAS | LLM_OPS_FFN_BIAS | LLM_OPS_LONG_ROPE |
              LLM_OP_BIT (LLM_OP_ATTENTION_OUT_BIAS) | LLM_OP_BIT (LLM_OP_ROPE_FACTORS),
  .keys = keys,
  .rope_kind = LLM_ROPE_NORM,
};
