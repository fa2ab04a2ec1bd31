/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Policies of KV stores, by their names on the command line: LLMS, what it is compared with (L12),
 * and LLMS with one part switched off. */

#pragma once

#include "kv/llm-kv-policy.h"

G_BEGIN_DECLS

/* "llms": what the service does; "lru", "lctru": with another order of eviction; "known",
 * "clairvoyant": with chances that are given; "keep" (floats); "lmk", "swapping", "vllm-s",
 * "vllm-sq"; "llms-no-compression" (8 bits), "llms-no-pipeline", "llms-no-ahead" (written when
 * evicted), "llms-no-refill", "llms-inverted". NULL when unknown. */
const LlmKvPolicy *bench_kv_policy_find (const char *name);

G_END_DECLS
