/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Gemma 2. The 27 B model, of 46 layers, scales attention otherwise. The norms of
 * a file have the 1 added that the model adds to them. */

#include "model/architectures/llm-architecture.h"

static const char *const keys[] = {
  "attention.sliding_window",
  "attn_logit_softcapping",
  "final_logit_softcapping",
  NULL,
};

const LlmArchitecture llm_architecture_gemma2 = {
  .name = "gemma2",
  .needed = LLM_OPS_POST_NORM,
  .keys = keys,
  .rope_kind = LLM_ROPE_NEOX,
  .window = 4096,
  .window_period = 2,
  .gate = LLM_GATE_GELU,
  .scales_embedding = TRUE,
  .wide_scale_layers = 46,
  .attention_softcap = 50,
  .logit_softcap = 30,
};
