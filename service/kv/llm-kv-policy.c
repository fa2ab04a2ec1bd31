/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-policy.h"

/* Of L4: half of what the context takes with 8 bits. No chunk is spared besides: measured, 8 bits
 * for the first and the last ones lose more elsewhere than they save, as density finds them anyway.
 * */
#define RATIO 0.5

static const LlmKvPolicy policies[] = {
  {
    .name = "llms",
    .compression = LLM_KV_TOLERANCE,
    .uniform = LLK_KV_Q8,
    .ratio = RATIO,
    .swaps = TRUE,
    .writes_ahead = TRUE,
    .recomputes = TRUE,
    .by_bits = TRUE,
  },
  {
    .name = "llms-no-compression",
    .compression = LLM_KV_UNIFORM,
    .uniform = LLK_KV_Q8,
    .ratio = 1,
    .swaps = TRUE,
    .writes_ahead = TRUE,
    .recomputes = TRUE,
    .by_bits = TRUE,
  },
  {
    .name = "llms-no-pipeline",
    .compression = LLM_KV_TOLERANCE,
    .uniform = LLK_KV_Q8,
    .ratio = RATIO,
    .swaps = TRUE,
    .writes_ahead = TRUE,
    .by_bits = TRUE,
  },
  {
    .name = "llms-no-lifecycle",
    .compression = LLM_KV_TOLERANCE,
    .uniform = LLK_KV_Q8,
    .ratio = RATIO,
    .swaps = TRUE,
    .recomputes = TRUE,
  },
  {
    .name = "llms-inverted",
    .compression = LLM_KV_INVERTED,
    .uniform = LLK_KV_Q8,
    .ratio = RATIO,
    .swaps = TRUE,
    .writes_ahead = TRUE,
    .recomputes = TRUE,
    .by_bits = TRUE,
  },
  {
    /* What phones do with apps: the one not used for longest is dropped, and starts anew. */
    .name = "lmk",
    .compression = LLM_KV_KEEP,
    .uniform = LLK_KV_F16,
    .ratio = 1,
    .whole = TRUE,
  },
  {
    .name = "swapping",
    .compression = LLM_KV_KEEP,
    .uniform = LLK_KV_F16,
    .ratio = 1,
    .swaps = TRUE,
    .whole = TRUE,
  },
  {
    .name = "vllm-s",
    .compression = LLM_KV_KEEP,
    .uniform = LLK_KV_F16,
    .ratio = 1,
    .swaps = TRUE,
  },
  {
    .name = "vllm-sq",
    .compression = LLM_KV_UNIFORM,
    .uniform = LLK_KV_Q8,
    .ratio = 1,
    .swaps = TRUE,
  },
};

static const char *const names[] = {
  "llms",
  "llms-no-compression",
  "llms-no-pipeline",
  "llms-no-lifecycle",
  "llms-inverted",
  "lmk",
  "swapping",
  "vllm-s",
  "vllm-sq",
  NULL,
};

G_STATIC_ASSERT (G_N_ELEMENTS (names) == G_N_ELEMENTS (policies) + 1);

const LlmKvPolicy *
llm_kv_policy_find (const char *name)
{
  for (gsize i = 0; i < G_N_ELEMENTS (policies); i++)
    if (g_strcmp0 (policies[i].name, name) == 0)
      return &policies[i];

  return NULL;
}

const char *const *
llm_kv_policy_list (void)
{
  return names;
}
