/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The threads of steps: all for those that a caller waits for, and others of a lower priority for
 * requests that run in the background. One thread. */

#pragma once

#include "base/llm-worker-pool.h"

G_BEGIN_DECLS

typedef struct
{
  LlmWorkerPool *all;         /* (owned) */
  LlmWorkerPool *background;  /* (owned) */
  LlmWorkerPool *slow;        /* (nullable) (owned): one thread, for a machine with little power */
  LlmWorkerPool *crowd;       /* (nullable) (owned): as many as there are, for when background
                               * requests pile up */
  gboolean may_crowd;
  int niceness;               /* of the background's */
} LlmStepPools;

/* @n_threads: 0: as many as the process may use. @n_background: 0: half as many, and all of them when
 * requests pile up. */
void           llm_step_pools_init            (LlmStepPools *self,
                                               guint         n_threads,
                                               guint         n_background,
                                               int           niceness);
void           llm_step_pools_clear           (LlmStepPools *self);
/* (transfer none): of a background step while @n_requests are there. @is_slow: power is short. */
LlmWorkerPool *llm_step_pools_find_background (LlmStepPools *self,
                                               guint         n_requests,
                                               gboolean      may_hurry,
                                               gboolean      is_slow);

G_END_DECLS
