/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Fork-join workers for kernels. The calling thread works along, but for a
 * background pool's. Items are
 * handed out in runs from one counter, smaller towards the end, so a slow core does not
 * set the pace; as each item's result depends on the item alone, results do not depend
 * on the number of threads. Workers spin briefly between runs, then sleep.
 *
 * One thread (the executor's) may call llm_worker_pool_run().
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmWorkerPool LlmWorkerPool;

/* Where the time of runs went, summed. Threads wait for each other for the rest of shared × their
 * number. */
typedef struct
{
  guint64 n_shared;    /* runs that threads shared */
  gint64 shared_ns;    /* from their beginning to their end */
  gint64 busy_ns;      /* of all threads, in the function */
} LlmWorkerTimes;

/* Works on items [@first, @end). @worker is below llm_worker_pool_get_n_threads(),
 * for scratch memory of each worker's own. */
typedef void (*LlmWorkFunc) (guint    first,
                             guint    end,
                             guint    worker,
                             gpointer data);

/* @n_threads: 0 for as many as this process may use. */
LlmWorkerPool *llm_worker_pool_new           (guint n_threads);
/* For work that must not slow others down: all workers are threads of their own
 * that run at @niceness (0 to 19), and the caller sleeps meanwhile. Threads are
 * made with the first run. */
LlmWorkerPool *llm_worker_pool_new_background (guint n_threads,
                                              int   niceness);
void           llm_worker_pool_free          (LlmWorkerPool *self);
guint          llm_worker_pool_get_n_threads (LlmWorkerPool *self);

/* Runs @func over [0, @n_items) in runs of at least @grain items; returns when all are done. */
void           llm_worker_pool_run           (LlmWorkerPool *self,
                                              guint          n_items,
                                              guint          grain,
                                              LlmWorkFunc    func,
                                              gpointer       data);

/* From now on the time of runs is added to @times, (nullable) for none. Between runs. */
void           llm_worker_pool_set_times     (LlmWorkerPool  *self,
                                              LlmWorkerTimes *times);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWorkerPool, llm_worker_pool_free)

G_END_DECLS
