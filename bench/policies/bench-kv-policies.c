/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "policies/bench-kv-policies.h"

static const LlmKvPolicy policies[] = {
  /* name, compression, uniform, ratio, density, swaps, whole, writes_ahead, recomputes, order,
   * refills */
#define BITS LLM_KV_TOLERANCE, LLK_KV_Q8, LLM_KV_RATIO
  { "llms-no-refill", BITS, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST, FALSE },
  { "lru", BITS, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_AGE, TRUE },
  { "lctru", BITS, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_BITS, TRUE },
  { "known", BITS, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_GIVEN_COST, TRUE },
  { "clairvoyant", BITS, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_GIVEN_COST, TRUE },
  { "llms-no-pipeline", BITS, 1, TRUE, FALSE, TRUE, FALSE, LLM_KV_BY_COST, TRUE },
  { "llms-no-ahead", BITS, 1, TRUE, FALSE, FALSE, TRUE, LLM_KV_BY_COST, TRUE },
  /* the densest chunks get the fewest bits: must look bad (L13) */
  { "llms-inverted", BITS, -1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST, TRUE },
#undef BITS
  { "llms-no-compression", LLM_KV_UNIFORM, LLK_KV_Q8, 1, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST,
    TRUE },
  /* What phones do with apps: the one not used for longest is dropped, and starts anew. */
  { "lmk", LLM_KV_KEEP, LLK_KV_F16, 1, 1, FALSE, TRUE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
  { "swapping", LLM_KV_KEEP, LLK_KV_F16, 1, 1, TRUE, TRUE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
  { "vllm-s", LLM_KV_KEEP, LLK_KV_F16, 1, 1, TRUE, FALSE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
  { "vllm-sq", LLM_KV_UNIFORM, LLK_KV_Q8, 1, 1, TRUE, FALSE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
};

const LlmKvPolicy *
bench_kv_policy_find (const char *name)
{
  const LlmKvPolicy *own[] = { &llm_kv_policy_llms, &llm_kv_policy_keep };

  for (guint i = 0; i < G_N_ELEMENTS (own); i++)
    if (g_strcmp0 (own[i]->name, name) == 0)
      return own[i];
  for (gsize i = 0; i < G_N_ELEMENTS (policies); i++)
    if (g_strcmp0 (policies[i].name, name) == 0)
      return &policies[i];

  return NULL;
}
