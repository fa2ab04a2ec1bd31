/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a context comes back (L6, equation 4): which of its missing chunks are read and
 * which are computed again at the same time, from what both cost on this machine. Pure
 * functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Rows of the points at which prompts are timed. */
#define LLM_KV_PROFILE_POINTS 6
extern const guint llm_kv_profile_rows[LLM_KV_PROFILE_POINTS];  /* 1, 16, 64, 128, 256, 512 */

/* What restoring costs here, measured once per machine and model; zeros before: reads only. */
typedef struct
{
  double read_latency_us;       /* of a read that waits for nothing else */
  double read_bytes_per_us;     /* of many that follow each other */
  double write_bytes_per_us;
  double prompt_us[LLM_KV_PROFILE_POINTS]; /* of a step of so many prompt rows on an empty
                                            * context */
  double depth_us;              /* more for each row and 1000 slots before it */
} LlmKvProfile;

gboolean llm_kv_profile_is_measured (const LlmKvProfile *self);
/* Between and behind the points: straight lines. */
double   llm_kv_profile_get_prompt_us (const LlmKvProfile *self,
                                       guint               n_rows,
                                       guint               depth);
double   llm_kv_profile_get_read_us   (const LlmKvProfile *self,
                                       guint64             bytes);

typedef struct
{
  guint64 bytes;         /* that a read of it takes; 0: it is nowhere, it must be computed */
  gboolean is_fixed;     /* what came before it slid away: it must be read */
  gboolean recomputes;   /* set by the plan */
} LlmKvPlanChunk;

typedef struct
{
  guint n_read;
  guint n_recomputed;
  guint64 read_bytes;
  double read_us;        /* expected */
  double compute_us;     /* expected: recomputed and new rows */
} LlmKvPlan;

/* Chooses so that max (reading, computing) is least (of equals the one with less computing): as
 * reads and steps go on at the same time, layer by layer. @n_new: rows of the new prompt, computed
 * in any case; @depth: slots before them. With @may_recompute FALSE only what can't be read is. */
void     llm_kv_plan_make     (LlmKvPlanChunk     *chunks,
                               guint               n,
                               guint               chunk_slots,
                               guint               n_new,
                               guint               depth,
                               const LlmKvProfile *profile,
                               gboolean            may_recompute,
                               LlmKvPlan          *plan);

G_END_DECLS
