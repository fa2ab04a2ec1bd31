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
  double density;          /* of TOLERANCE: to which power a chunk's density counts */
  gboolean swaps;          /* what is evicted can be read back; else it is computed again */
  gboolean whole;          /* a context is evicted as a whole, and restored before it is used */
  gboolean writes_ahead;   /* when a call returns (L7); else when it is evicted */
  gboolean recomputes;     /* while others are read (L6) */
  LlmKvOrder order;        /* of eviction (L8) */
  gboolean refills;        /* what calls displaced is read back when there is room */
} LlmKvPolicy;

/* Of L4: half of what the context takes with 8 bits. No chunk is spared besides: measured, 8 bits
 * for the first and the last ones lose more elsewhere than they save, as density finds them anyway. */
#define LLM_KV_RATIO 0.5

/* What the service does; and the same with chunks that stay floats. */
extern const LlmKvPolicy llm_kv_policy_llms, llm_kv_policy_keep;

G_END_DECLS
