/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-policy.h"

/* Of L4: half of what the context takes with 8 bits. No chunk is spared besides: measured, 8 bits
 * for the first and the last ones lose more elsewhere than they save, as density finds them anyway.
 * */
#define RATIO 0.5

static const LlmKvPolicy policies[] = {
  /* name, compression, uniform, ratio, swaps, whole, writes_ahead, recomputes, by_bits */
  { "llms", LLM_KV_TOLERANCE, LLK_KV_Q8, RATIO, TRUE, FALSE, TRUE, TRUE, TRUE },
  { "llms-no-compression", LLM_KV_UNIFORM, LLK_KV_Q8, 1, TRUE, FALSE, TRUE, TRUE, TRUE },
  { "llms-no-pipeline", LLM_KV_TOLERANCE, LLK_KV_Q8, RATIO, TRUE, FALSE, TRUE, FALSE, TRUE },
  { "llms-no-lifecycle", LLM_KV_TOLERANCE, LLK_KV_Q8, RATIO, TRUE, FALSE, FALSE, TRUE, FALSE },
  { "llms-inverted", LLM_KV_INVERTED, LLK_KV_Q8, RATIO, TRUE, FALSE, TRUE, TRUE, TRUE },
  { "keep", LLM_KV_KEEP, LLK_KV_F16, 1, TRUE, FALSE, TRUE, TRUE, TRUE },
  /* What phones do with apps: the one not used for longest is dropped, and starts anew. */
  { "lmk", LLM_KV_KEEP, LLK_KV_F16, 1, FALSE, TRUE, FALSE, FALSE, FALSE },
  { "swapping", LLM_KV_KEEP, LLK_KV_F16, 1, TRUE, TRUE, FALSE, FALSE, FALSE },
  { "vllm-s", LLM_KV_KEEP, LLK_KV_F16, 1, TRUE, FALSE, FALSE, FALSE, FALSE },
  { "vllm-sq", LLM_KV_UNIFORM, LLK_KV_Q8, 1, TRUE, FALSE, FALSE, FALSE, FALSE },
};

const LlmKvPolicy *
llm_kv_policy_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (policies); i++)
    if (g_strcmp0 (policies[i].name, name) == 0)
      return &policies[i];

  return NULL;
}
