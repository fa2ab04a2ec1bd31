/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-policy.h"

/* Of L4: half of what the context takes with 8 bits. No chunk is spared besides: measured, 8 bits
 * for the first and the last ones lose more elsewhere than they save, as density finds them anyway.
 * */
#define RATIO 0.5

static const LlmKvPolicy policies[] = {
  /* name, compression, uniform, ratio, swaps, whole, writes_ahead, recomputes, order, refills */
#define SERVICE LLM_KV_TOLERANCE, LLK_KV_Q8, RATIO, TRUE, FALSE, TRUE, TRUE
  { "service", SERVICE, LLM_KV_BY_COST, TRUE },
  { "llms", SERVICE, LLM_KV_BY_COST, TRUE },
  { "llms-no-refill", SERVICE, LLM_KV_BY_COST, FALSE },
  { "lru", SERVICE, LLM_KV_BY_AGE, TRUE },
  { "lctru", SERVICE, LLM_KV_BY_BITS, TRUE },
  { "known", SERVICE, LLM_KV_BY_GIVEN_COST, TRUE },
  { "clairvoyant", SERVICE, LLM_KV_BY_GIVEN_COST, TRUE },
#undef SERVICE
  { "llms-no-compression", LLM_KV_UNIFORM, LLK_KV_Q8, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST,
    TRUE },
  { "llms-no-pipeline", LLM_KV_TOLERANCE, LLK_KV_Q8, RATIO, TRUE, FALSE, TRUE, FALSE,
    LLM_KV_BY_COST, TRUE },
  { "llms-no-ahead", LLM_KV_TOLERANCE, LLK_KV_Q8, RATIO, TRUE, FALSE, FALSE, TRUE, LLM_KV_BY_COST,
    TRUE },
  { "llms-inverted", LLM_KV_INVERTED, LLK_KV_Q8, RATIO, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST,
    TRUE },
  { "keep", LLM_KV_KEEP, LLK_KV_F16, 1, TRUE, FALSE, TRUE, TRUE, LLM_KV_BY_COST, TRUE },
  /* What phones do with apps: the one not used for longest is dropped, and starts anew. */
  { "lmk", LLM_KV_KEEP, LLK_KV_F16, 1, FALSE, TRUE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
  { "swapping", LLM_KV_KEEP, LLK_KV_F16, 1, TRUE, TRUE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
  { "vllm-s", LLM_KV_KEEP, LLK_KV_F16, 1, TRUE, FALSE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
  { "vllm-sq", LLM_KV_UNIFORM, LLK_KV_Q8, 1, TRUE, FALSE, FALSE, FALSE, LLM_KV_BY_AGE, FALSE },
};

const LlmKvPolicy *
llm_kv_policy_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (policies); i++)
    if (g_strcmp0 (policies[i].name, name) == 0)
      return &policies[i];

  return NULL;
}
