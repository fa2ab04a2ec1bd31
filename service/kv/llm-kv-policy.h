/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a store treats its chunks. What the service does is LLMS; the others are what it
 * is compared with (L12), and LLMS with one part switched off. Plain data.
 */

#pragma once

#include <glib.h>

#include "kernels/llk-kv.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_KV_KEEP,          /* chunks stay floats */
  LLM_KV_UNIFORM,       /* all get the same format */
  LLM_KV_TOLERANCE,     /* by density (L4) */
  LLM_KV_INVERTED,      /* the densest get the fewest bits: must look bad (L13) */
} LlmKvCompression;

/* Whose memory goes first. */
typedef enum
{
  LLM_KV_BY_AGE,        /* chunks that were not used for longest (LRU) */
  LLM_KV_BY_BITS,       /* those with most bits, of equals the oldest (LCTRU, the paper's) */
  LLM_KV_BY_COST,       /* those whose loss is expected to cost least */
  LLM_KV_BY_GIVEN_COST, /* the same with chances that the owner sets: it knows what comes */
} LlmKvOrder;

typedef struct
{
  const char *name;
  LlmKvCompression compression;
  LlkKvFormat uniform;     /* of UNIFORM */
  double ratio;            /* of TOLERANCE: bytes of a context, of its bytes with 8 bits */
  gboolean swaps;          /* what is evicted can be read back; else it is computed again */
  gboolean whole;          /* a context is evicted as a whole, and restored before it is used */
  gboolean writes_ahead;   /* when a call returns (L7); else when it is evicted */
  gboolean recomputes;     /* while others are read (L6) */
  LlmKvOrder order;        /* of eviction (L8) */
  gboolean refills;        /* what calls displaced is read back when there is room */
} LlmKvPolicy;

/* "service", or "llms": what the service does; "lru", "lctru": with another order of eviction;
 * "known", "clairvoyant": with chances that are given; "llms-no-refill"; "keep" (floats); "lmk",
 * "swapping", "vllm-s", "vllm-sq"; "llms-no-compression" (8 bits), "llms-no-pipeline",
 * "llms-no-ahead" (written when evicted); "llms-inverted". NULL when unknown. */
const LlmKvPolicy *llm_kv_policy_find  (const char *name);

G_END_DECLS
