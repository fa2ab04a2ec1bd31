/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Worker threads of steps: all threads for requests whose caller waits, and others of a lower
 * priority for background requests. One thread. */

#pragma once

#include "base/llm-worker-pool.h"

G_BEGIN_DECLS

typedef struct
{
  LlmWorkerPool *all;         /* (owned) */
  LlmWorkerPool *background;  /* (owned) */
  LlmWorkerPool *slow;        /* (nullable) (owned): one thread, for a machine with little power */
  LlmWorkerPool *crowd;       /* (nullable) (owned): all threads, for many background requests */
  gboolean may_crowd;
  int niceness;               /* of the background's */
} LlmStepPools;

/* @n_threads: 0: as many as the process may use. @n_background: 0: half as many, and all of them
 * when many requests are queued. */
void           llm_step_pools_init            (LlmStepPools *self,
                                               guint         n_threads,
                                               guint         n_background,
                                               int           niceness);
void           llm_step_pools_clear           (LlmStepPools *self);
/* (transfer none): the threads of a background step, with @n_requests of them queued. @is_slow:
 * power is short. */
LlmWorkerPool *llm_step_pools_find_background (LlmStepPools *self,
                                               guint         n_requests,
                                               gboolean      may_hurry,
                                               gboolean      is_slow);

G_END_DECLS
