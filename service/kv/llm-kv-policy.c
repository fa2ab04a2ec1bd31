/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-policy.h"

const LlmKvPolicy llm_kv_policy_llms = {
  "llms", LLM_KV_TOLERANCE, LLK_KV_Q8, LLM_KV_RATIO, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST, TRUE,
};

const LlmKvPolicy llm_kv_policy_keep = {
  "keep", LLM_KV_KEEP, LLK_KV_F16, 1, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST, TRUE,
};
