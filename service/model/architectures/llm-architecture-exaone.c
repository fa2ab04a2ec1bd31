/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* EXAONE 3 */

#include "model/architectures/llm-architecture.h"

const LlmArchitecture llm_architecture_exaone = {
  .name = "exaone",
  .optional = LLM_OP_BIT (LLM_OP_ROPE_FACTORS),
  .rope_kind = LLM_ROPE_NEOX,
};
