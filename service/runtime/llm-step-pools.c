/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-step-pools.h"

/* From this number of background requests on, they use more threads. */
#define CROWD 3

void
llm_step_pools_init (LlmStepPools *self,
                     guint         n_threads,
                     guint         n_background,
                     int           niceness)
{
  *self = (LlmStepPools) {
    .all = llm_worker_pool_new (n_threads),
    .may_crowd = n_background == 0,
    .niceness = niceness,
  };
  if (n_background == 0)
    n_background = (llm_worker_pool_get_n_threads (self->all) + 1) / 2;
  self->background = llm_worker_pool_new_background (n_background, niceness);
}

void
llm_step_pools_clear (LlmStepPools *self)
{
  llm_worker_pool_free (self->all);
  llm_worker_pool_free (self->background);
  g_clear_pointer (&self->slow, llm_worker_pool_free);
  g_clear_pointer (&self->crowd, llm_worker_pool_free);
}

/* Made when it is first needed. */
static LlmWorkerPool *
get_pool (LlmStepPools   *self,
          LlmWorkerPool **pool,
          guint           n_threads)
{
  if (*pool == NULL)
    *pool = llm_worker_pool_new_background (n_threads, self->niceness);
  return *pool;
}

LlmWorkerPool *
llm_step_pools_find_background (LlmStepPools *self,
                                guint         n_requests,
                                gboolean      may_hurry,
                                gboolean      is_slow)
{
  if (self->may_crowd && may_hurry && n_requests >= CROWD)
    return get_pool (self, &self->crowd, llm_worker_pool_get_n_threads (self->all));
  if (is_slow && llm_worker_pool_get_n_threads (self->background) > 1)
    return get_pool (self, &self->slow, 1);
  return self->background;
}
