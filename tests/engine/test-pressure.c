/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory given back by the whole engine, by what the kernel says to another process; and calls
 * while the system is short of memory, made up by files. */

#include "engine-rig.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "engine/llm-engine-private.h"
#include "io/llm-file-map.h"
#include "runtime/llm-executor-private.h"
#include "support/llm-test-folder.h"
#include "weights/llm-weights-file-private.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)

/* Resident bytes of this process, as another one reads them. */
static guint64
read_resident (void)
{
  const char *const argv[] = { "sh", "-c", "grep ^Rss: /proc/$PPID/smaps_rollup", NULL };
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_true (g_spawn_sync (NULL, (char **) argv, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &text,
                               NULL, NULL, &error));
  g_assert_true (g_str_has_prefix (text, "Rss:"));
  return g_ascii_strtoull (text + strlen ("Rss:"), NULL, 10) * 1024;
}

static char *
make_prompt (guint n_words)
{
  GString *text = g_string_new ("Find a film for tonight, please.");

  for (guint i = 0; i < n_words; i++)
    g_string_append_printf (text, " It begins at %u o'clock.", i % 24);
  return g_string_free (text, FALSE);
}

typedef enum { IN_FILE, IN_MEMORY } Place;

static void
start_with_disk (Fixture    *fixture,
                 Place       place,
                 const char *root,
                 guint       short_wait_s,
                 const char *disk)
{
  LlmSettings *settings;

  fixture->state = llm_test_folder_new_on_disk ();
  settings = new_settings (fixture->state, 2);
  settings->context_ratio = 0;
  if (place == IN_FILE)
    settings->cache_folder = g_build_filename (fixture->state, "cache", NULL);
  settings->root = g_strdup (root);
  settings->short_wait_s = short_wait_s;
  g_free (settings->disk);
  settings->disk = g_strdup (disk);
  settings->reacts_to_pressure = root != NULL;
  fixture->engine = start_engine_with (settings);
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static void
start (Fixture    *fixture,
       Place       place,
       const char *root,
       guint       short_wait_s)
{
  start_with_disk (fixture, place, root, short_wait_s, "auto");
}

/* What a trim says came free, is gone; and the model works as before. */
static void
test_given_is_gone (gconstpointer data)
{
  Fixture fixture = { 0 };
  g_autoptr(LlmContext) context = NULL;
  g_autofree char *first = NULL;
  g_autofree char *again = NULL;
  g_autoptr(GError) error = NULL;
  guint64 before, after, freed;

  start (&fixture, GPOINTER_TO_UINT (data), NULL, 0);
  context = create (&fixture, "{}");
  first = ask (&fixture, context, "I want a restaurant in San Jose.", GREEDY);
  before = read_resident ();
  freed = trim (&fixture, "critical");
  after = read_resident ();
  g_assert_cmpuint (freed, >, 8 * MIB);
  g_assert_cmpuint (before, >, after);
  /* of scratch and chunks, the ledger counts pages too that nobody has touched yet */
  g_assert_cmpuint (before - after, >=, freed / 4 * 3);

  g_assert_true (rollback (context, 1, &error));
  again = ask (&fixture, context, "I want a restaurant in San Jose.", GREEDY);
  g_assert_cmpstr (again, ==, first);
  g_clear_object (&context);
  tear_down (&fixture, NULL);
}

static gboolean
is_near (guint64 figure,
         guint64 wanted)
{
  return MAX (figure, wanted) - MIN (figure, wanted) <= wanted / 20;
}

/* The kernel takes pages of the weights by itself: the figure follows, and again when a
 * call has read them. */
static void
test_follows_kernel (void)
{
  Fixture fixture = { 0 };
  g_autofree char *root = llm_test_folder_new ();
  g_autofree char *path = NULL;
  guint8 *copy;
  gsize size = 0;
  gsize kept;
  LlmMemoryFigures figures, before;
  int fd;

  put_available (root, 6000 * MIB);
  start (&fixture, IN_FILE, root, 0);
  g_free (complete (&fixture, "I want a restaurant in San Jose.", GREEDY));
  WAIT_FOR ((copy = find_prepared_copy (&size, &path)) != NULL);
  WAIT_FOR (count_in_memory (copy, size) == size);
  llm_engine_get_memory (fixture.engine, &before);

  /* the end of it goes, in whole huge pages, and nobody tells */
  kept = size / 2 / LLM_FILE_MAP_HUGE * LLM_FILE_MAP_HUGE;
  fd = open (path, O_RDONLY | O_CLOEXEC);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (fsync (fd), ==, 0);
  g_assert_cmpint (madvise (copy + kept, size - kept, MADV_DONTNEED), ==, 0);
  g_assert_cmpint (posix_fadvise (fd, (off_t) (LLM_FILE_MAP_HUGE + kept), 0,
                                   POSIX_FADV_DONTNEED), ==, 0);
  close (fd);
  g_assert_cmpuint (count_in_memory (copy, size), <=, kept + MIB);
  do
    {
      g_main_context_iteration (NULL, TRUE);
      llm_engine_get_memory (fixture.engine, &figures);
    }
  while (!is_near (figures.weights, before.weights - (size - count_in_memory (copy, size))));
  g_assert_cmpuint (figures.weights, <, before.weights / 4 * 3);
  g_assert_cmpuint (figures.resident, <=, before.resident);
  g_assert_cmpuint (get_statistic (fixture.engine, "used-backed-bytes"), >=, before.weights);

  /* used again, it is there again */
  g_free (complete (&fixture, "I want a restaurant in San Jose.", GREEDY));
  do
    {
      g_main_context_iteration (NULL, TRUE);
      llm_engine_get_memory (fixture.engine, &figures);
    }
  while (!is_near (figures.weights, before.weights - (size - count_in_memory (copy, size))));
  tear_down (&fixture, NULL);
  llm_test_folder_remove (root);
}

/* A trim in the middle of a call: it stands still, its chunks and the weights go, and then it goes
 * on with the same words. */
static void
test_trim_while_running (gconstpointer data)
{
  Fixture fixture = { 0 };
  g_autoptr(LlmContext) other = NULL;
  g_autofree char *prompt = make_prompt (60);
  g_autofree char *expected = NULL;
  guint64 before, given;

  start (&fixture, GPOINTER_TO_UINT (data), NULL, 0);
  other = create (&fixture, "{}");
  expected = ask (&fixture, other, prompt, GREEDY);
  g_assert_cmpuint (trim (&fixture, "critical"), >, 0);
  before = get_statistic (fixture.engine, "given-calls-bytes");
  given = before;
  /* a call may come to its end between two trims, where this process waits for a processor */
  for (guint i = 0; i < MAX_ATTEMPTS && given == before; i++)
    {
      g_autoptr(LlmContext) context = create (&fixture, "{}");
      Answer *answer = begin_ask (&fixture, context, prompt, GREEDY);

      while (!answer->is_finished && given == before)
        {
          g_main_context_iteration (NULL, FALSE);
          trim (&fixture, "critical");
          given = get_statistic (fixture.engine, "given-calls-bytes");
        }
      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      g_assert_cmpstr (answer->text, ==, expected);
      answer_free (answer);
    }
  g_assert_cmpuint (given, >, before);
  g_clear_object (&other);
  tear_down (&fixture, NULL);
}

/* --- made-up pressure --- */

/* Nobody asks: the service gives by itself, says so, and answers as before once there is room. */
static void
test_short (gconstpointer data)
{
  Fixture fixture = { 0 };
  g_autofree char *root = llm_test_folder_new ();
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmCallOptions) options = parse_options (GREEDY, LLMSVC_CALL_COMPLETE);
  g_autoptr(TestSink) sink = test_sink_new ();
  g_autoptr(GAsyncResult) result = NULL;
  LlmMemoryFigures figures;
  Answer *answer;

  put_available (root, 6000 * MIB);
  start (&fixture, GPOINTER_TO_UINT (data), root, 0);
  context = create (&fixture, "{}");
  g_free (ask (&fixture, context, "I want a restaurant in San Jose.", GREEDY));
  g_assert_cmpuint (get_statistic (fixture.engine, "held-anonymous-bytes"), >, 0);

  put_available (root, 0);
  WAIT_FOR (get_statistic (fixture.engine, "given-kv-bytes") > 0);
  WAIT_FOR (get_statistic (fixture.engine, "held-backed-bytes") == 0);
  llm_engine_get_memory (fixture.engine, &figures);
  g_assert_cmpstr (figures.pressure, ==, "critical");
  g_assert_cmpuint (get_statistic (fixture.engine, "cuts"), >, 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "budget-now-bytes"), ==, 0);

  /* a call waits for room, says so, and is not refused */
  answer = begin_ask (&fixture, context, "Italian food, please.", GREEDY);
  llm_engine_complete_async (fixture.engine, fixture.caller, "Find me a comedy movie.", options,
                             &sink->parent, on_result, &result);
  WAIT_FOR (g_strcmp0 (sink->waits_for, "memory") == 0);
  g_assert_false (answer->is_finished);
  put_available (root, 6000 * MIB);
  WAIT_FOR (answer->is_finished && sink->is_finished);
  g_assert_no_error (answer->error);
  answer_free (answer);
  g_clear_object (&result);
  g_clear_object (&context);
  tear_down (&fixture, NULL);
  llm_test_folder_remove (root);
}

/* It stays short: the call goes on in the end, with what the reserve has. */
static void
test_stays_short (gconstpointer data)
{
  Fixture fixture = { 0 };
  g_autofree char *root = llm_test_folder_new ();
  g_autofree char *text = NULL;
  g_autoptr(LlmContext) context = NULL;

  put_available (root, 6000 * MIB);
  start (&fixture, GPOINTER_TO_UINT (data), root, 0);
  context = create (&fixture, "{}");
  g_free (ask (&fixture, context, "I want a restaurant in San Jose.", GREEDY));
  put_available (root, SYSTEM_RESERVE / 2 - MIB);
  WAIT_FOR (get_statistic (fixture.engine, "pressure-level") == 3);
  text = ask (&fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpint (strlen (text), >, 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "pressure-level"), ==, 3);
  g_clear_object (&context);
  tear_down (&fixture, NULL);
  llm_test_folder_remove (root);
}

/* There is room for nothing at all: the call says so in the end, and the next one is answered. */
static void
test_gives_up (gconstpointer data)
{
  Fixture fixture = { 0 };
  g_autofree char *root = llm_test_folder_new ();
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(Answer) refused = NULL;

  put_available (root, 6000 * MIB);
  start (&fixture, GPOINTER_TO_UINT (data), root, 3);
  context = create (&fixture, "{}");
  g_free (ask (&fixture, context, "I want a restaurant in San Jose.", GREEDY));
  put_available (root, 0);
  WAIT_FOR (get_statistic (fixture.engine, "pressure-level") == 3);
  refused = begin_ask (&fixture, context, "Italian food, please.", GREEDY);
  WAIT_FOR (refused->is_finished);
  g_assert_error (refused->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_assert_nonnull (strstr (refused->error->message, "short of memory"));

  put_available (root, 6000 * MIB);
  WAIT_FOR (get_statistic (fixture.engine, "pressure-level") == 0);
  g_free (ask (&fixture, context, "Italian food, please.", GREEDY));
  g_clear_object (&context);
  tear_down (&fixture, NULL);
  llm_test_folder_remove (root);
}

/* Another program takes what the weights would need, and there is no group: they stream, and answers
 * are the same; when it has ended they stay again. */
static void
test_hog (gconstpointer data)
{
  guint64 left = GPOINTER_TO_UINT (data) * MIB;
  guint64 used;
  Fixture fixture = { 0 };
  g_autofree char *root = llm_test_folder_new ();
  g_autofree char *prompt = make_prompt (10);
  g_autofree char *expected = NULL;
  g_autofree char *found = NULL;

  put_available (root, 6000 * MIB);
  start (&fixture, IN_FILE, root, 0);
  expected = complete (&fixture, prompt, GREEDY);
  g_assert_cmpuint (get_statistic (fixture.engine, "streaming-bytes"), ==, 0);
  used = get_statistic (fixture.engine, "used-backed-bytes");
  put_available (root, SYSTEM_RESERVE + left);
  WAIT_FOR (get_statistic (fixture.engine, "keep-backed-bytes") < used);
  found = complete (&fixture, prompt, GREEDY);
  g_assert_cmpstr (found, ==, expected);
  g_assert_cmpuint (get_statistic (fixture.engine, "streamed-bytes"), >, 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "streaming-bytes"), >, 0);
  put_available (root, 6000 * MIB);
  WAIT_FOR (get_statistic (fixture.engine, "streaming-bytes") == 0);
  tear_down (&fixture, NULL);
  llm_test_folder_remove (root);
}

static void
put (const char *root,
     const char *name,
     const char *text)
{
  g_autofree char *path = g_build_filename (root, name, NULL);
  g_autofree char *folder = g_path_get_dirname (path);

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

/* A control group without room for what a call needs: the kernel would kill the service. */
static void
test_small_group (void)
{
  Fixture fixture = { 0 };
  g_autofree char *root = llm_test_folder_new ();
  g_autoptr(Answer) refused = NULL;

  put_available (root, 6000 * MIB);
  put (root, "proc/self/cgroup", "0::/app\n");
  put (root, "proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put (root, "sys/fs/cgroup/app/memory.max", "5000000\n");
  put (root, "sys/fs/cgroup/app/memory.current", "250000\n");
  put (root, "sys/fs/cgroup/app/memory.stat", "active_file 0\ninactive_file 0\n");
  start (&fixture, IN_FILE, root, 0);
  refused = begin_complete (&fixture, "Hello!", GREEDY);
  WAIT_FOR (refused->is_finished);
  g_assert_error (refused->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_assert_nonnull (strstr (refused->error->message, "control group, whose limit is 5000000"));

  put (root, "sys/fs/cgroup/app/memory.max", "400000000\n");
  WAIT_FOR (get_statistic (fixture.engine, "group-limit-bytes") == 400000000);
  g_free (complete (&fixture, "Hello!", GREEDY));
  tear_down (&fixture, NULL);
  llm_test_folder_remove (root);
}

#define ADD(path, func)                                                                    \
  g_test_add_data_func ("/pressure/file/" path, GUINT_TO_POINTER (IN_FILE), func);         \
  g_test_add_data_func ("/pressure/memory/" path, GUINT_TO_POINTER (IN_MEMORY), func)

/* Contexts that are not written are no reason to read weights page by page. */
static void
test_streams (gconstpointer data)
{
  Fixture fixture = { 0 };
  const LlmRunner *runner;

  start_with_disk (&fixture, IN_FILE, NULL, 0, data);
  g_free (complete (&fixture, "I want a restaurant in San Jose.", GREEDY));
  runner = g_ptr_array_index (fixture.engine->executor->runners, 0);
  g_assert_nonnull (((const LlmFileWeights *) runner->instance->weights)->stream);
  tear_down (&fixture, NULL);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("given-is-gone", test_given_is_gone);
  g_test_add_func ("/pressure/follows-kernel", test_follows_kernel);
  ADD ("trim-while-running", test_trim_while_running);
  ADD ("short", test_short);
  ADD ("stays-short", test_stays_short);
  ADD ("gives-up", test_gives_up);
  g_test_add_data_func ("/pressure/streams/auto", "auto", test_streams);
  g_test_add_data_func ("/pressure/streams/off", "off", test_streams);
  g_test_add_data_func ("/pressure/hog/2", GUINT_TO_POINTER (2), test_hog);
  g_test_add_data_func ("/pressure/hog/7", GUINT_TO_POINTER (7), test_hog);
  g_test_add_func ("/pressure/small-group", test_small_group);
  return g_test_run ();
}
