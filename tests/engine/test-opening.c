/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slow storage: while the files of one context are opened, and what describes them is read, other
 * calls go on. The calls of the system that do so wait here until the test lets them. */

#include "engine-rig.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

ssize_t __real_pread64 (int fd, void *bytes, size_t length, off64_t offset);
int     __real_openat64 (int folder, const char *name, int flags, ...);
ssize_t __wrap_pread64 (int fd, void *bytes, size_t length, off64_t offset);
int     __wrap_openat64 (int folder, const char *name, int flags, ...);

#define LONG \
  "{'temperature': <1.5>, 'top-k': <uint32 0>, 'top-p': <1.0>, 'min-p': <0.0>, " \
  "'seed': <uint64 5>, 'max-tokens': <uint32 40>}"

static const char *const questions[] = {
  "I want a restaurant in San Jose, with a table outside for four people at seven.",
  "Italian food, please, and not too expensive.",
  "What is their address, and do they have live music in the evening?",
};
#define N_QUESTIONS G_N_ELEMENTS (questions)

/* --- the gate --- */

static GMutex lock;
static GCond changed;
static gboolean is_watching;   /* guarded by lock */
static gboolean is_closed;     /* guarded by lock */
static guint n_waited;         /* guarded by lock: calls that came to the closed gate */
static guint n_on_executor;    /* guarded by lock: that were made on the executor's thread */

static void
pass (void)
{
  char name[16] = "";

  pthread_getname_np (pthread_self (), name, sizeof name);
  g_mutex_lock (&lock);
  if (is_watching && g_str_equal (name, "llm-executor"))
    n_on_executor++;
  else if (is_watching && is_closed)
    {
      n_waited++;
      while (is_closed)
        g_cond_wait (&changed, &lock);
    }
  g_mutex_unlock (&lock);
}

static void
set_gate (gboolean watches,
          gboolean closes)
{
  g_mutex_lock (&lock);
  is_watching = watches;
  is_closed = closes;
  g_cond_broadcast (&changed);
  g_mutex_unlock (&lock);
}

static guint
get_locked (const guint *value)
{
  guint n;

  g_mutex_lock (&lock);
  n = *value;
  g_mutex_unlock (&lock);
  return n;
}

ssize_t
__wrap_pread64 (int     fd,
                void   *bytes,
                size_t  length,
                off64_t offset)
{
  g_autofree char *link = g_strdup_printf ("/proc/self/fd/%d", fd);
  g_autofree char *path = g_file_read_link (link, NULL);

  if (path != NULL && g_str_has_suffix (path, ".kv") && offset == 0)
    pass ();
  return __real_pread64 (fd, bytes, length, offset);
}

int
__wrap_openat64 (int         folder,
                 const char *name,
                 int         flags,
                 ...)
{
  va_list args;
  mode_t mode;

  va_start (args, flags);
  mode = (flags & O_CREAT) != 0 ? va_arg (args, mode_t) : 0;
  va_end (args);
  if (g_str_has_suffix (name, ".kv") && (flags & O_ACCMODE) == O_RDONLY)
    pass ();
  return __real_openat64 (folder, name, flags, mode);
}

/* --- help --- */

static void
restart (Fixture *fixture)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  stop_engine (&fixture->engine);
  settings->context_ratio = 0;
  fixture->engine = start_engine_with (settings);
}

static LlmContext *
open_notes (Fixture *fixture)
{
  g_autoptr(GError) error = NULL;
  LlmContext *context = open_context (fixture, "notes", "{'create': <true>}", &error);

  g_assert_no_error (error);
  return context;
}

/* A context with files from several turns, on storage, and the answer that comes next if nothing
 * is in the way. */
static char *
prepare (Fixture *fixture)
{
  g_autoptr(LlmContext) context = open_notes (fixture);
  g_autoptr(GError) error = NULL;
  char *expected;

  for (guint i = 0; i + 1 < N_QUESTIONS; i++)
    {
      g_free (ask (fixture, context, questions[i], LONG));
      trim (fixture, "medium");
    }
  expected = ask (fixture, context, questions[N_QUESTIONS - 1], LONG);
  g_assert_true (rollback (context, 1, &error));
  g_assert_no_error (error);
  g_clear_object (&context);
  restart (fixture);
  return expected;
}

/* --- tests --- */

static void
test_other_calls (Fixture      *fixture,
                  gconstpointer data)
{
  g_autofree char *expected = prepare (fixture);
  g_autofree char *plain = complete (fixture, questions[0], GREEDY);
  g_autofree char *meanwhile = NULL;
  g_autoptr(LlmContext) context = open_notes (fixture);
  g_autoptr(Answer) answer = NULL;
  guint64 n_steps;

  set_gate (TRUE, TRUE);
  answer = begin_ask (fixture, context, questions[N_QUESTIONS - 1], LONG);
  while (get_locked (&n_waited) + get_locked (&n_on_executor) == 0)
    {
      g_main_context_iteration (NULL, FALSE);
      g_usleep (1000);
    }
  n_steps = get_statistic (fixture->engine, "steps");
  meanwhile = complete (fixture, questions[0], GREEDY);
  g_assert_cmpuint (get_locked (&n_on_executor), ==, 0);
  g_assert_cmpstr (meanwhile, ==, plain);
  g_assert_cmpuint (get_statistic (fixture->engine, "steps"), >, n_steps + 5);
  g_assert_false (answer->is_finished);

  set_gate (TRUE, FALSE);
  WAIT_FOR (answer->is_finished);
  set_gate (FALSE, FALSE);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (answer->text, ==, expected);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >, 0);
  g_assert_cmpuint (get_locked (&n_on_executor), ==, 0);
}

/* A call that can't wait so long ends as any other; the next one of the context finds what the disk
 * has answered by then. */
static void
test_deadline (Fixture      *fixture,
               gconstpointer data)
{
  g_autofree char *expected = prepare (fixture);

  g_autoptr(LlmContext) context = open_notes (fixture);
  g_autoptr(Answer) answer = NULL;

  g_free (complete (fixture, questions[0], GREEDY));
  set_gate (TRUE, TRUE);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(Answer) early = begin_ask (fixture, context, questions[N_QUESTIONS - 1],
                                           "{'deadline-ms': <uint32 20>}");

      WAIT_FOR (early->is_finished);
      g_assert_error (early->error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED);
    }
  answer = begin_ask (fixture, context, questions[N_QUESTIONS - 1], LONG);
  g_free (complete (fixture, questions[0], GREEDY));
  g_assert_false (answer->is_finished);
  set_gate (TRUE, FALSE);
  WAIT_FOR (answer->is_finished);
  set_gate (FALSE, FALSE);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (answer->text, ==, expected);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/engine/opening/other-calls", Fixture, NULL, set_up_floats, test_other_calls,
              tear_down);
  g_test_add ("/engine/opening/deadline", Fixture, NULL, set_up_floats, test_deadline, tear_down);
  return g_test_run ();
}
