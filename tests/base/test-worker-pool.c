/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-worker-pool.h"

#include <sys/resource.h>
#include <unistd.h>

typedef struct
{
  guint n_threads;
  guint counts[1000];
} Work;

static void
count_items (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  Work *work = data;

  g_assert_cmpuint (worker, <, work->n_threads);
  for (guint i = first; i < end; i++)
    __atomic_fetch_add (&work->counts[i], 1, __ATOMIC_RELAXED);
}

/* Every item is worked on once, for all numbers of threads, items and grains,
 * also when rounds follow each other fast and when workers have fallen asleep. */
static void
check_each_item_once (LlmWorkerPool *pool,
                      guint          n_threads,
                      guint          n_rounds)
{
  g_assert_cmpuint (llm_worker_pool_get_n_threads (pool), ==, n_threads);
  for (guint round = 0; round < n_rounds; round++)
    {
      Work work = { .n_threads = n_threads };
      guint n_items = (round * 37) % 1000;

      if (round % 100 == 99)
        g_usleep (5000);
      llm_worker_pool_run (pool, n_items, 1 + round % 13, count_items, &work);
      for (guint i = 0; i < 1000; i++)
        g_assert_cmpuint (work.counts[i], ==, i < n_items ? 1 : 0);
    }
}

static void
test_each_item_once (void)
{
  for (guint n_threads = 1; n_threads <= 5; n_threads++)
    {
      g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new (n_threads);

      check_each_item_once (pool, n_threads, 300);
    }
}

static void
test_background_each_item_once (void)
{
  for (guint n_threads = 1; n_threads <= 4; n_threads++)
    {
      g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new_background (n_threads, 5);

      check_each_item_once (pool, n_threads, 200);
    }
}

static void
note_niceness (guint    first,
               guint    end,
               guint    worker,
               gpointer data)
{
  int *found = data;

  __atomic_store_n (found, getpriority (PRIO_PROCESS, (id_t) gettid ()), __ATOMIC_RELAXED);
}

/* Background work runs on threads of its own, at the niceness asked for; the
 * caller keeps its own. */
static void
test_background_is_nice (void)
{
  g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new_background (1, 12);
  int before = getpriority (PRIO_PROCESS, (id_t) gettid ());
  int found = -1;

  llm_worker_pool_run (pool, 1, 1, note_niceness, &found);
  g_assert_cmpint (found, ==, MAX (before, 12));
  g_assert_cmpint (getpriority (PRIO_PROCESS, (id_t) gettid ()), ==, before);
}

static void
test_default_threads (void)
{
  g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new (0);

  g_assert_cmpuint (llm_worker_pool_get_n_threads (pool), >=, 1);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/worker-pool/each-item-once", test_each_item_once);
  g_test_add_func ("/worker-pool/background-each-item-once", test_background_each_item_once);
  g_test_add_func ("/worker-pool/background-is-nice", test_background_is_nice);
  g_test_add_func ("/worker-pool/default-threads", test_default_threads);
  return g_test_run ();
}
