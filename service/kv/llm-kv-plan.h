/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a context is restored (L6, equation 4): which of its missing chunks are read, and which are
 * computed again at the same time, from the cost of both on this machine. Pure functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Row counts at which prefill is timed. */
#define LLM_KV_PROFILE_POINTS 6
extern const guint llm_kv_profile_rows[LLM_KV_PROFILE_POINTS];  /* 1, 16, 64, 128, 256, 512 */

/* Cost of restoring on this machine, measured once per machine and model; zeros before: then chunks
 * are only read. */
typedef struct
{
  double read_latency_us;       /* of a single read */
  double read_bytes_per_us;     /* of many reads in a row */
  double write_bytes_per_us;
  double prompt_us[LLM_KV_PROFILE_POINTS]; /* of a step of so many prompt rows on an empty
                                            * context */
  double depth_us;              /* more for each row and 1000 slots before it */
} LlmKvProfile;

gboolean llm_kv_profile_is_measured (const LlmKvProfile *self);
/* Linear between the points and after them. */
double   llm_kv_profile_get_prompt_us (const LlmKvProfile *self,
                                       guint               n_rows,
                                       guint               depth);
double   llm_kv_profile_get_read_us   (const LlmKvProfile *self,
                                       guint64             bytes);

typedef struct
{
  guint64 bytes;         /* duration of its read; 0: it is not on storage, and must be computed */
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

/* Chooses so that max (reading, computing) is least (of equals the one with less computing),
 * because reads and steps run at the same time, layer by layer. @n_new: rows of the new prompt,
 * computed in any case; @depth: slots before them. With @may_recompute FALSE only chunks that can't
 * be read are computed. */
void     llm_kv_plan_make     (LlmKvPlanChunk     *chunks,
                               guint               n,
                               guint               chunk_slots,
                               guint               n_new,
                               guint               depth,
                               const LlmKvProfile *profile,
                               gboolean            may_recompute,
                               LlmKvPlan          *plan);

G_END_DECLS
