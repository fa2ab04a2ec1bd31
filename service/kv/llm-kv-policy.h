/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a store treats its chunks: a record of numbers and choices. Plain data. */

#pragma once

#include <glib.h>

#include "kernels/llk-kv.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_KV_KEEP,          /* chunks stay floats */
  LLM_KV_UNIFORM,       /* all get the same format */
  LLM_KV_TOLERANCE,     /* by density (L4) */
} LlmKvCompression;

/* Eviction order. */
typedef enum
{
  LLM_KV_BY_AGE,        /* least recently used first (LRU) */
  LLM_KV_BY_BITS,       /* most bits first, of equals the least recently used (LCTRU, the
                         * paper's) */
  LLM_KV_BY_COST,       /* least expected cost of the loss first */
  LLM_KV_BY_GIVEN_COST, /* the same with chances that the owner sets: it knows the next calls */
} LlmKvOrder;

typedef struct
{
  const char *name;
  LlmKvCompression compression;
  LlkKvFormat uniform;     /* of UNIFORM */
  double ratio;            /* of TOLERANCE: bytes of a context, of its bytes with 8 bits */
  double density;          /* of TOLERANCE: the power to which a chunk's density counts */
  gboolean swaps;          /* evicted chunks can be read back; else they are computed again */
  gboolean whole;          /* a context is evicted as a whole, and restored before it is used */
  gboolean writes_ahead;   /* chunks are written when a call returns (L7); else when they are
                            * evicted */
  gboolean recomputes;     /* some are computed again while others are read (L6) */
  LlmKvOrder order;        /* of eviction (L8) */
  gboolean refills;        /* chunks that calls displaced are read back when they fit */
} LlmKvPolicy;

/* Ratio of L4: half of the bytes with 8 bits. No chunk is exempt: in measurements, 8 bits for the
 * first and the last ones cost more elsewhere than they save, because density finds those chunks
 * anyway. */
#define LLM_KV_RATIO 0.5

/* The policy of the service; and the same with chunks that stay floats. */
extern const LlmKvPolicy llm_kv_policy_llms, llm_kv_policy_keep;

G_END_DECLS
