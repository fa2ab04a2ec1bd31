/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Gemma 3, text alone: five layers with a window and a rotation of their own for
 * each one without. The 27 B model, of 62 layers, scales attention otherwise. */

#include "model/architectures/llm-architecture.h"

static const char *const keys[] = {
  "attention.sliding_window",
  "final_logit_softcapping",
  NULL,
};

const LlmArchitecture llm_architecture_gemma3 = {
  .name = "gemma3",
  .needed = LLM_OPS_POST_NORM | LLM_OPS_QK_NORM,
  .keys = keys,
  .rope_kind = LLM_ROPE_NEOX,
  .window_rope_base = 10000,
  .window_period = 6,
  .gate = LLM_GATE_GELU,
  .scales_embedding = TRUE,
  .wide_scale_layers = 62,
};
