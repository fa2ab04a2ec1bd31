/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/llm-weights.h"

gboolean
llm_weights_check (LlmWeights  *self,
                   GError     **error)
{
  g_return_val_if_fail (self != NULL, FALSE);

  return self->provider->check (self, error);
}

void
llm_weights_free (LlmWeights *self)
{
  g_return_if_fail (self != NULL);

  self->provider->free (self);
}

const char *
llm_operator_get_name (LlmOperator op)
{
  static const char *const names[LLM_N_OPS] = {
    [LLM_OP_TOKEN_EMBEDDING] = "token-embedding",
    [LLM_OP_ATTENTION_NORM] = "attention-norm",
    [LLM_OP_QUERY] = "query",
    [LLM_OP_KEY] = "key",
    [LLM_OP_VALUE] = "value",
    [LLM_OP_ATTENTION_OUT] = "attention-out",
    [LLM_OP_FFN_NORM] = "ffn-norm",
    [LLM_OP_FFN_GATE] = "ffn-gate",
    [LLM_OP_FFN_UP] = "ffn-up",
    [LLM_OP_FFN_DOWN] = "ffn-down",
    [LLM_OP_OUTPUT_NORM] = "output-norm",
    [LLM_OP_OUTPUT] = "output",
    [LLM_OP_ROPE_FACTORS] = "rope-factors",
  };

  g_return_val_if_fail ((guint) op < LLM_N_OPS, NULL);

  return names[op];
}
