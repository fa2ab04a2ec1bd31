/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-worker-pool.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/llm-sysinfo.h"

/* How often a worker looks for the next run before it sleeps: stages of one
 * step follow each other within microseconds, steps do not. */
#define SPIN_ROUNDS 2000

struct _LlmWorkerPool
{
  guint n_threads;
  gboolean is_background;  /* the caller does not work along */
  int niceness;            /* of workers, when it is */
  GThread **threads;     /* (nullable) (array length=n_threads) (owned): the caller's is NULL */

  GMutex lock;
  GCond woken;
  GCond ended;           /* for a caller that sleeps */
  guint n_sleeping;      /* guarded by lock */

  guint round;           /* atomic: grows by one with every run */
  guint is_open;         /* atomic: workers may enter the round */
  guint n_inside;        /* atomic: workers in the round, or about to look whether it is open */
  gboolean is_ending;    /* atomic */

  /* of the current round; stable while it is open and while a worker is inside */
  LlmWorkFunc func;
  gpointer data;
  guint n_items;
  guint grain;
  guint next;            /* atomic: the first item that is not taken */
  LlmWorkerTimes *times; /* (nullable) */
};

/* A run is at most the part of the remaining items that each thread would take in so many runs. */
#define RUNS_LEFT 2

typedef struct
{
  LlmWorkerPool *pool;
  guint worker;
  guint seen;    /* the last round before it was made */
} Worker;

static inline void
relax (void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause ();
#elif defined(__aarch64__)
  __asm__ volatile ("yield");
#endif
}

static gint64
get_time_ns (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return now.tv_sec * G_GINT64_CONSTANT (1000000000) + now.tv_nsec;
}

static void
work (LlmWorkerPool *self,
      guint          worker)
{
  gint64 began = self->times != NULL ? get_time_ns () : 0;
  guint first = __atomic_load_n (&self->next, __ATOMIC_RELAXED);

  while (first < self->n_items)
    {
      guint left = self->n_items - first;
      guint n = MIN (left, MAX (self->grain, left / (RUNS_LEFT * self->n_threads)));

      if (__atomic_compare_exchange_n (&self->next, &first, first + n, FALSE, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED))
        {
          self->func (first, first + n, worker, self->data);
          first = __atomic_load_n (&self->next, __ATOMIC_RELAXED);
        }
    }
  if (self->times != NULL)
    __atomic_fetch_add (&self->times->busy_ns, get_time_ns () - began, __ATOMIC_RELAXED);
}

/* Returns the number of a round after @seen, having slept if it took long. */
static guint
await_round (LlmWorkerPool *self,
             guint          seen)
{
  guint round;

  for (guint i = 0; i < SPIN_ROUNDS; i++)
    {
      round = __atomic_load_n (&self->round, __ATOMIC_ACQUIRE);
      if (round != seen)
        return round;
      relax ();
    }

  g_mutex_lock (&self->lock);
  self->n_sleeping++;
  while ((round = __atomic_load_n (&self->round, __ATOMIC_ACQUIRE)) == seen)
    g_cond_wait (&self->woken, &self->lock);
  self->n_sleeping--;
  g_mutex_unlock (&self->lock);
  return round;
}

/* Whether all items are taken and every worker that took one has left the round. */
static gboolean
is_round_done (LlmWorkerPool *self)
{
  return __atomic_load_n (&self->next, __ATOMIC_SEQ_CST) >= self->n_items
         && __atomic_load_n (&self->n_inside, __ATOMIC_SEQ_CST) == 0;
}

static void
leave_inside (LlmWorkerPool *self)
{
  if (__atomic_sub_fetch (&self->n_inside, 1, __ATOMIC_SEQ_CST) > 0 || !self->is_background)
    return;

  g_mutex_lock (&self->lock);
  g_cond_signal (&self->ended);
  g_mutex_unlock (&self->lock);
}

static gpointer
run_worker (gpointer data)
{
  g_autofree Worker *worker = data;
  LlmWorkerPool *self = worker->pool;
  guint seen = worker->seen;

  if (self->is_background
      && getpriority (PRIO_PROCESS, (id_t) gettid ()) < self->niceness
      && setpriority (PRIO_PROCESS, (id_t) gettid (), self->niceness) != 0)
    g_debug ("A worker's niceness could not be set");

  for (;;)
    {
      seen = await_round (self, seen);
      if (__atomic_load_n (&self->is_ending, __ATOMIC_ACQUIRE))
        return NULL;

      /* In this order, and with the other order in leave_round(): either the round's
       * end sees us inside, or we see that it has ended. */
      __atomic_fetch_add (&self->n_inside, 1, __ATOMIC_SEQ_CST);
      if (__atomic_load_n (&self->is_open, __ATOMIC_SEQ_CST))
        {
          seen = __atomic_load_n (&self->round, __ATOMIC_ACQUIRE);
          work (self, worker->worker);
        }
      leave_inside (self);
    }
}

static void
begin_round (LlmWorkerPool *self)
{
  g_mutex_lock (&self->lock);
  __atomic_fetch_add (&self->round, 1, __ATOMIC_RELEASE);
  if (self->n_sleeping > 0)
    g_cond_broadcast (&self->woken);
  g_mutex_unlock (&self->lock);
}

/* Waits for those inside only: a worker that was not scheduled in time, on a busy
 * machine, finds the round closed and is not waited for. */
static void
leave_round (LlmWorkerPool *self)
{
  __atomic_store_n (&self->is_open, FALSE, __ATOMIC_SEQ_CST);
  for (guint i = 0; __atomic_load_n (&self->n_inside, __ATOMIC_SEQ_CST) > 0; i++)
    {
      if (i < SPIN_ROUNDS)
        relax ();
      else
        g_thread_yield ();
    }
}

static void
sleep_until_done (LlmWorkerPool *self)
{
  g_mutex_lock (&self->lock);
  while (!is_round_done (self))
    g_cond_wait (&self->ended, &self->lock);
  g_mutex_unlock (&self->lock);
}

/* Makes the threads of the workers from @first on. */
static void
make_threads (LlmWorkerPool *self,
              guint          first)
{
  self->threads = g_new0 (GThread *, self->n_threads);
  for (guint i = first; i < self->n_threads; i++)
    {
      Worker *worker = g_new (Worker, 1);

      *worker = (Worker) { self, i, self->round };
      self->threads[i] = g_thread_new ("llm-worker", run_worker, worker);
    }
}

static LlmWorkerPool *
make_pool (guint n_threads)
{
  LlmWorkerPool *self = g_new0 (LlmWorkerPool, 1);

  if (n_threads == 0)
    n_threads = llm_sysinfo_n_processors ();
  self->n_threads = CLAMP (n_threads, 1, 256);
  g_mutex_init (&self->lock);
  g_cond_init (&self->woken);
  g_cond_init (&self->ended);
  return self;
}

LlmWorkerPool *
llm_worker_pool_new (guint n_threads)
{
  LlmWorkerPool *self = make_pool (n_threads);

  make_threads (self, 1);
  return self;
}

LlmWorkerPool *
llm_worker_pool_new_background (guint n_threads,
                                int   niceness)
{
  LlmWorkerPool *self = make_pool (n_threads);

  self->is_background = TRUE;
  self->niceness = CLAMP (niceness, 0, 19);
  return self;
}

void
llm_worker_pool_free (LlmWorkerPool *self)
{
  __atomic_store_n (&self->is_ending, TRUE, __ATOMIC_RELEASE);
  begin_round (self);
  for (guint i = 0; self->threads != NULL && i < self->n_threads; i++)
    if (self->threads[i] != NULL)
      g_thread_join (self->threads[i]);
  g_free (self->threads);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->woken);
  g_cond_clear (&self->ended);
  g_free (self);
}

guint
llm_worker_pool_get_n_threads (LlmWorkerPool *self)
{
  return self->n_threads;
}

void
llm_worker_pool_run (LlmWorkerPool *self,
                     guint          n_items,
                     guint          grain,
                     LlmWorkFunc    func,
                     gpointer       data)
{
  gint64 began = self->times != NULL ? get_time_ns () : 0;

  g_assert (grain > 0 && n_items <= G_MAXUINT / 2);

  if (n_items == 0)
    return;
  if (!self->is_background && (self->n_threads == 1 || n_items <= grain))
    {
      func (0, n_items, 0, data);
      return;
    }
  if (self->threads == NULL)
    make_threads (self, 0);

  self->func = func;
  self->data = data;
  self->n_items = n_items;
  self->grain = grain;
  __atomic_store_n (&self->next, 0, __ATOMIC_RELAXED);
  __atomic_store_n (&self->is_open, TRUE, __ATOMIC_SEQ_CST);
  begin_round (self);
  if (self->is_background)
    sleep_until_done (self);
  else
    work (self, 0);
  leave_round (self);
  if (self->times != NULL)
    {
      self->times->n_shared++;
      self->times->shared_ns += get_time_ns () - began;
    }
}

void
llm_worker_pool_set_times (LlmWorkerPool  *self,
                           LlmWorkerTimes *times)
{
  self->times = times;
}
