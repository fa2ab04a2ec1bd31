/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every figure that administrators are told: what moves it is done, and it moves. A figure that no
 * case here names fails the test. */

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-statistics.h"
#include "elastic-rig.h"
#include "engine/llm-engine-private.h"
#include "engine/models/llm-engine-models.h"
#include "kernels/llk.h"
#include "runtime/llm-profile.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)
#define SHORT "{'temperature': <0.0>, 'max-tokens': <uint32 4>}"
#define LONG "{'temperature': <0.0>, 'max-tokens': <uint32 200>}"
#define LONG_TEXT                                                                                 \
  "I want a restaurant in San Jose for four people next Monday at seven, with Italian food, not "  \
  "too expensive, near the river, and please tell me whether there is room for a child and a dog " \
  "as well, and how to get there by train or by bus from the airport in the afternoon."
#define N_CALLS 30

/* --- help --- */

/* Some are told later, by other threads. */
static void
wait_above (Fixture    *fixture,
            const char *key,
            guint64     before)
{
  g_test_message ("%s", key);
#ifdef __SANITIZE_ADDRESS__
  /* The sanitizer's allocator tells the C library nothing. */
  if (g_str_equal (key, "heap-bytes"))
    return;
#endif
  while (get_statistic (fixture->engine, key) <= before)
    {
      g_main_context_iteration (NULL, FALSE);
      g_usleep (1000);
    }
}

static void
begin (Fixture *fixture)
{
  fixture->state = llm_test_folder_new ();
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

static LlmSettings *
new_kv_settings (Fixture    *fixture,
                 const char *disk,
                 guint       ratio)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  settings->context_ratio = ratio;
  settings->overload_factor = 0;
  settings->cache_folder = g_build_filename (fixture->state, "cache", NULL);
  g_free (settings->disk);
  settings->disk = g_strdup (disk);
  return settings;
}

static void
start (Fixture    *fixture,
       const char *disk)
{
  fixture->engine = start_engine_with (new_kv_settings (fixture, disk, 100));
}

static void
put (const char *root,
     const char *name,
     const char *format,
     ...) G_GNUC_PRINTF (3, 4);

static void
put (const char *root,
     const char *name,
     const char *format,
     ...)
{
  g_autofree char *path = g_build_filename (root, name, NULL);
  g_autofree char *folder = g_path_get_dirname (path);
  g_autofree char *text = NULL;
  va_list arguments;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
trim_some (Fixture *fixture)
{
  g_autoptr(LlmCallOptions) options =
      parse_options ("{'target-bytes': <uint64 1>}", LLMSVC_CALL_TRIM);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_trim_async (fixture->engine, fixture->caller, LLM_PRESSURE_MEDIUM, options, on_result,
                         &result);
  WAIT_FOR (result != NULL);
}

/* Nothing is left to quantize or to write. */
static void
wait_packed (Fixture    *fixture,
             const char *key,
             guint64     before)
{
  guint64 n = before;

  do
    {
      n = get_statistic (fixture->engine, key);
      for (guint i = 0; i < 50; i++)
        {
          g_main_context_iteration (NULL, FALSE);
          g_usleep (1000);
        }
    }
  while (n == before || get_statistic (fixture->engine, key) != n);
}

/* --- cases: each begins with no engine --- */

/* The figures of @keys have risen when it returns. */
typedef struct
{
  const char *name;
  void (*run) (Fixture           *fixture,
               const char *const *keys);
  const char *keys[24];
} Case;

/* By what is done since @before. */
static void
wait_all (Fixture           *fixture,
          const char *const *keys,
          GVariant          *before)
{
  for (; *keys != NULL; keys++)
    {
      guint64 value = 0;

      g_assert_true (g_variant_lookup (before, *keys, "t", &value));
      wait_above (fixture, *keys, value);
    }
}

/* A first call, and one that goes on. */
static void
run_calls (Fixture           *fixture,
           const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;

  start (fixture, "threads");
  before = read_statistics (fixture->engine);
  context = create (fixture, "{'name': <'a'>}");
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  g_free (ask (fixture, context, "And a film?", SHORT));
  wait_all (fixture, keys, before);
}

/* Of prompts that grow, not all are forecast to the millisecond. */
static void
run_forecasts (Fixture           *fixture,
               const char *const *keys)
{
  GString *prompt = g_string_new (NULL);

  start (fixture, "off");
  for (guint i = 0; i < MAX_ATTEMPTS && get_statistic (fixture->engine, keys[1]) == 0; i++)
    {
      g_string_append (prompt, "A pot of tea is warm and old, and the cup is red. ");
      g_free (complete (fixture, prompt->str, SHORT));
    }
  g_string_free (prompt, TRUE);
  for (; *keys != NULL; keys++)
    wait_above (fixture, *keys, 0);
}

/* What it is for the moment is seen in the moment. */
static gboolean
is_seen (Fixture    *fixture,
         const char *key,
         const char *prompt)
{
  Answer *answer = begin_complete (fixture, prompt, LONG);
  gboolean is_seen = FALSE;

  while (!answer->is_finished)
    {
      is_seen = is_seen || get_statistic (fixture->engine, key) > 0;
      g_main_context_iteration (NULL, FALSE);
    }
  answer_free (answer);
  return is_seen;
}

static void
run_states (Fixture           *fixture,
            const char *const *keys)
{
  GString *prompt = g_string_new (NULL);

  for (guint i = 0; i < 60; i++)
    g_string_append (prompt, "A pot of tea is warm and old. ");
  start (fixture, "off");
  g_free (complete (fixture, "Hello", SHORT));
  for (; *keys != NULL; keys++)
    {
      gboolean was_seen = FALSE;

      g_test_message ("%s", *keys);
      g_assert_cmpuint (get_statistic (fixture->engine, *keys), ==, 0);
      for (guint i = 0; i < MAX_ATTEMPTS && !was_seen; i++)
        was_seen = is_seen (fixture, *keys, prompt->str);
      g_assert_true (was_seen);
    }
  g_string_free (prompt, TRUE);
}

/* Its text is not read. */
static void
run_parked (Fixture           *fixture,
            const char *const *keys)
{
  gboolean was_parked = FALSE;

  start (fixture, "off");
  for (guint i = 0; i < MAX_ATTEMPTS && !was_parked; i++)
    {
      g_autoptr(LlmCallOptions) options = parse_options (LONG, LLMSVC_CALL_COMPLETE);
      g_autoptr(TestSink) sink = test_sink_new ();
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(LlmGeneration) generation = NULL;

      sink->is_full = TRUE;
      llm_engine_complete_async (fixture->engine, fixture->caller, "Hello!", options,
                                 &sink->parent, on_result, &result);
      WAIT_FOR (result != NULL);
      generation = g_task_propagate_pointer (G_TASK (result), NULL);
      g_assert_nonnull (generation);
      WAIT_FOR (llm_generation_get_state (generation) >= LLM_GENERATION_STALLED);
      was_parked = get_statistic (fixture->engine, keys[0]) > 0;
      sink->is_full = FALSE;
      llm_sink_drained (&sink->parent);
      WAIT_FOR (sink->is_finished);
    }
  g_assert_true (was_parked);
}

static void
run_cancelled (Fixture           *fixture,
               const char *const *keys)
{
  g_autoptr(GVariant) before = NULL;
  gboolean was_cancelled = FALSE;

  start (fixture, "off");
  g_free (complete (fixture, "Hello", SHORT));
  before = read_statistics (fixture->engine);
  for (guint i = 0; i < MAX_ATTEMPTS && !was_cancelled; i++)
    {
      Answer *answer = begin_complete (fixture, "Hello", LONG);
      g_autoptr(GAsyncResult) result = NULL;

      WAIT_FOR (answer->generation != NULL || answer->is_finished);
      if (answer->generation != NULL)
        {
          llm_generation_cancel_async (answer->generation, on_result, &result);
          WAIT_FOR (result != NULL);
        }
      WAIT_FOR (answer->is_finished);
      was_cancelled = answer->error != NULL;
      if (was_cancelled)
        g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);
      answer_free (answer);
    }
  wait_all (fixture, keys, before);
}

/* There is no room for it. */
static void
run_failed (Fixture           *fixture,
            const char *const *keys)
{
  g_autoptr(GVariant) before = NULL;
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;

  start (fixture, "off");
  g_free (complete (fixture, "Hello", SHORT));
  before = read_statistics (fixture->engine);
  g_assert_true (set_budget (fixture, 1000000, &error));
  answer = begin_complete (fixture, "Hello!", SHORT);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  wait_all (fixture, keys, before);
}

/* --- the time that calls have --- */

static const char *const classes[] = { "interactive", "responsive", "background" };

static Answer *
begin_class (Fixture    *fixture,
             const char *slo_class,
             const char *prompt,
             guint       ms)
{
  g_autofree char *options = g_strdup_printf (
      "{'temperature': <0.0>, 'max-tokens': <uint32 2>, 'slo': <'%s'>, 'ttft-ms': <uint32 %u>, "
      "'tpot-ms': <uint32 %u>}", slo_class, ms, ms);

  return begin_complete (fixture, prompt, options);
}

/* In a minute they are met on any machine, in a millisecond on none. */
static void
run_slo (Fixture           *fixture,
         const char *const *keys)
{
  g_autoptr(GVariant) before = NULL;

  start (fixture, "off");
  g_free (complete (fixture, "Hello", SHORT));
  before = read_statistics (fixture->engine);
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    for (guint ms = 1; ms <= 60000; ms += 59999)
      {
        Answer *answer = begin_class (fixture, classes[i], LONG_TEXT LONG_TEXT LONG_TEXT, ms);

        WAIT_FOR (answer->is_finished);
        g_assert_no_error (answer->error);
        answer_free (answer);
      }
  wait_all (fixture, keys, before);
}

static void
run_refused (Fixture           *fixture,
             const char *const *keys)
{
  g_autoptr(GVariant) before = NULL;
  LlmSettings *settings;

  settings = new_settings (fixture->state, 2);
  settings->quotas.max_calls = 1000;
  fixture->engine = start_engine_with (settings);
  for (guint i = 0; i < 4; i++)
    for (guint c = 0; c < G_N_ELEMENTS (classes); c++)
      {
        Answer *answer = begin_class (fixture, classes[c], "A pot of tea", 60000);

        WAIT_FOR (answer->is_finished);
        answer_free (answer);
      }
  before = read_statistics (fixture->engine);
  for (guint c = 0; !g_str_equal (classes[c], "background"); c++)
    {
      Answer *answers[N_CALLS];

      for (guint i = 0; i < N_CALLS; i++)
        answers[i] = begin_class (fixture, classes[c], LONG_TEXT LONG_TEXT LONG_TEXT, 1);
      for (guint i = 0; i < N_CALLS; i++)
        {
          WAIT_FOR (answers[i]->is_finished);
          answer_free (answers[i]);
        }
    }
  wait_all (fixture, keys, before);
}

/* --- drafts --- */

/* Answers that repeat what was said, with guesses of that; and a draft model that is loaded, and
 * goes again. */
static void
run_drafts (Fixture           *fixture,
            const char *const *keys)
{
  g_autofree char *models = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models", NULL);
  LlmSettings *settings = new_settings (fixture->state, 2);
  g_autoptr(GVariant) before = NULL;

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv (
      (char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), models, NULL });
  g_strfreev (settings->drafts);
  settings->drafts = g_strsplit ("llmsvc-demo-draft-1M-F16", ";", -1);
  fixture->engine = start_engine_with (settings);
  before = read_statistics (fixture->engine);
  g_free (complete (fixture, "Hello", SHORT));
  for (guint i = 0; i < MAX_ATTEMPTS && get_statistic (fixture->engine, "accepted-tokens") == 0; i++)
    {
      make_rows_free (fixture);
      g_free (complete (fixture, "Red, green, blue. Red, green, blue. Red, green, blue. Red, green,",
                        "{'temperature': <0.0>, 'max-tokens': <uint32 200>, 'raw': <true>, "
                        "'draft': <'lookup'>, "
                        "'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>}"));
    }
  WAIT_FOR (get_statistic (fixture->engine, "draft-loads") > 0);
  trim (fixture, "critical");
  wait_all (fixture, keys, before);
}

/* --- chunks --- */

/* Evicted, read back, and in the end damaged. */
static void
run_storage (Fixture           *fixture,
             const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;

  start (fixture, "threads");
  before = read_statistics (fixture->engine);
  context = create (fixture, "{'name': <'a'>}");
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  wait_packed (fixture, "kv-written-chunks", 0);
  trim (fixture, "medium");
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-evicted-chunks"), >, 0);
  g_free (ask (fixture, context, "And a film?", SHORT));
  wait_all (fixture, keys, before);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-faulted-chunks"), ==, 0);
  g_clear_object (&context);
}

/* Halves of files, which are large enough that reading is planned. */
static guint
damage_folder (const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  guint n = 0;

  g_assert_nonnull (dir);
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      g_autofree char *bytes = NULL;
      gsize length = 0;

      if (!g_str_has_suffix (name, ".kv"))
        continue;
      g_assert_true (g_file_get_contents (path, &bytes, &length, NULL));
      for (gsize i = length / 2; i < length; i += 512)
        bytes[i] ^= 0x55;
      g_assert_true (g_file_set_contents (path, bytes, (gssize) length, NULL));
      n++;
    }
  return n;
}

static void
run_damaged (Fixture           *fixture,
             const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *folder = NULL;

  fixture->engine = start_engine_with (new_kv_settings (fixture, "threads", 0));
  context = create (fixture, "{'name': <'a'>}");
  folder = g_build_filename (fixture->state, "chunks", context->id, NULL);
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  wait_packed (fixture, "kv-written-chunks", 0);
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  g_assert_cmpuint (damage_folder (folder), >, 0);

  fixture->engine = start_engine_with (new_kv_settings (fixture, "threads", 0));
  before = read_statistics (fixture->engine);
  context = open_context (fixture, "a", "{}", &error);
  g_assert_no_error (error);
  g_free (ask (fixture, context, "And a film?", SHORT));
  wait_all (fixture, keys, before);
}

/* Without storage chunks lose bits, then they are dropped and computed again. */
static void
run_narrow (Fixture           *fixture,
            const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;

  start (fixture, "off");
  context = create (fixture, "{}");
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  wait_packed (fixture, "kv-packed-chunks", 0);
  before = read_statistics (fixture->engine);
  while (get_statistic (fixture->engine, "kv-narrow-chunks") == 0)
    trim_some (fixture);
  wait_all (fixture, keys, before);
}

static void
run_dropped (Fixture           *fixture,
             const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;

  start (fixture, "off");
  before = read_statistics (fixture->engine);
  context = create (fixture, "{}");
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  wait_packed (fixture, "kv-packed-chunks", 0);
  trim (fixture, "medium");
  g_free (ask (fixture, context, "And a film?", SHORT));
  wait_all (fixture, keys, before);
}

/* Storage that reads a byte a millisecond: what is written can't come back in time. */
static void
run_widened (Fixture           *fixture,
             const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *cache = g_build_filename (fixture->state, "cache", NULL);
  LlmKvProfile profile = { .read_bytes_per_us = 1e-3, .write_bytes_per_us = 1, .depth_us = 1 };
  LlmProfileKey key = { .kernels = llk_ops_best ()->name, .n_threads = 2 };

  start (fixture, "threads");
  g_free (complete (fixture, "Hello", SHORT));
  key.identity = llm_model_get_identity (fixture->engine->use.model);
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 1000 * (i + 1);
  g_assert_true (llm_profile_save (cache, FALSE, &key, &profile, &error));
  stop_engine (&fixture->engine);

  start (fixture, "threads");
  before = read_statistics (fixture->engine);
  context = create (fixture, "{'name': <'a'>}");
  g_free (ask (fixture, context, LONG_TEXT,
               "{'temperature': <0.0>, 'max-tokens': <uint32 4>, 'ttft-ms': <uint32 1>}"));
  wait_packed (fixture, "kv-written-chunks", 0);
  while (get_statistic (fixture->engine, "kv-narrowed-chunks") == 0)
    trim_some (fixture);
  wait_all (fixture, keys, before);
}

static void
run_shared (Fixture           *fixture,
            const char *const *keys)
{
  g_autoptr(LlmContext) first = NULL;
  g_autoptr(LlmContext) second = NULL;
  g_autoptr(GVariant) before = NULL;

  start (fixture, "off");
  before = read_statistics (fixture->engine);
  first = create (fixture, "{'system': <'" LONG_TEXT "'>}");
  second = create (fixture, "{'system': <'" LONG_TEXT "'>}");
  g_free (ask (fixture, first, "Hello", SHORT));
  g_free (ask (fixture, second, "Good morning", SHORT));
  wait_all (fixture, keys, before);
}

/* --- memory --- */

/* A trim takes all there is: the text of a context that the database has, what a call left, the
 * pages of the weights, and with the model what it knows of contexts. */
static void
run_trim (Fixture           *fixture,
          const char *const *keys)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;

  start (fixture, "off");
  before = read_statistics (fixture->engine);
  context = create (fixture, "{'name': <'a'>}");
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  g_assert_cmpuint (trim (fixture, "critical"), >, 0);
  wait_all (fixture, keys, before);
}

/* What an answer was held to is kept for the next one, until memory is wanted. */
static void
run_constraints (Fixture           *fixture,
                 const char *const *keys)
{
  start (fixture, "off");
  g_free (complete (fixture, "Hello", "{'regex': <'[a-z]{3}'>}"));
  wait_above (fixture, "constraint-bytes", 0);
  for (guint i = 0; i < MAX_ATTEMPTS && get_statistic (fixture->engine, "constraint-bytes") > 0; i++)
    trim (fixture, "critical");
  g_assert_cmpuint (get_statistic (fixture->engine, "constraint-bytes"), ==, 0);
  wait_above (fixture, "given-constraints-bytes", 0);
}

/* The chunks of a call that runs. */
static void
run_trim_calls (Fixture           *fixture,
                const char *const *keys)
{
  guint64 before;

  start (fixture, "off");
  g_free (complete (fixture, "Hello", SHORT));
  before = get_statistic (fixture->engine, keys[0]);
  for (guint i = 0; i < MAX_ATTEMPTS && get_statistic (fixture->engine, keys[0]) == before; i++)
    {
      g_autoptr(LlmContext) context = create (fixture, "{}");
      Answer *answer = begin_ask (fixture, context, LONG_TEXT, LONG);

      while (!answer->is_finished && get_statistic (fixture->engine, keys[0]) == before)
        {
          g_main_context_iteration (NULL, FALSE);
          trim (fixture, "critical");
        }
      answer_free (answer);
    }
  wait_above (fixture, keys[0], before);
}

/* Files say that the machine is short of memory, and then that it is not. */
static void
run_pressure (Fixture           *fixture,
              const char *const *keys)
{
  g_autofree char *root = llm_test_folder_new ();
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GVariant) before = NULL;
  LlmSettings *settings = new_kv_settings (fixture, "off", 100);
  const char *const *key = keys;

  put (root, "proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 6000000 kB\n");
  put (root, "proc/pressure/memory",
       "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\n"
       "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  settings->root = g_strdup (root);
  settings->reacts_to_pressure = TRUE;
  fixture->engine = start_engine_with (settings);
  context = create (fixture, "{}");
  g_free (ask (fixture, context, LONG_TEXT, SHORT));
  before = read_statistics (fixture->engine);

  put (root, "proc/pressure/memory",
       "some avg10=50.00 avg60=0.00 avg300=0.00 total=9000000\n"
       "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  put (root, "proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 0 kB\n");
  for (; !g_str_equal (*key, "machine-available-bytes"); key++)
    wait_above (fixture, *key, 0);
  put (root, "proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 7000000 kB\n");
  wait_all (fixture, key, before);
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  llm_test_folder_remove (root);
}

static void
run_group (Fixture           *fixture,
           const char *const *keys)
{
  g_autofree char *root = llm_test_folder_new ();
  LlmSettings *settings = new_kv_settings (fixture, "off", 100);

  put (root, "proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 6000000 kB\n");
  put (root, "proc/self/cgroup", "0::/app\n");
  put (root, "proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put (root, "sys/fs/cgroup/app/memory.max", "4000000000\n");
  put (root, "sys/fs/cgroup/app/memory.current", "250000000\n");
  put (root, "sys/fs/cgroup/app/memory.stat", "active_file 0\ninactive_file 0\n");
  settings->root = g_strdup (root);
  settings->reacts_to_pressure = TRUE;
  fixture->engine = start_engine_with (settings);
  for (; *keys != NULL; keys++)
    wait_above (fixture, *keys, 0);
  stop_engine (&fixture->engine);
  llm_test_folder_remove (root);
}

static void
run_budget (Fixture           *fixture,
            const char *const *keys)
{
  g_autoptr(GVariant) before = NULL;
  g_autoptr(GError) error = NULL;

  start (fixture, "off");
  g_assert_true (set_budget (fixture, 100 * MIB, &error));
  WAIT_FOR (get_statistic (fixture->engine, "budget-now-bytes") == 100 * MIB);
  before = read_statistics (fixture->engine);
  g_assert_true (set_budget (fixture, 200 * MIB, &error));
  wait_all (fixture, keys, before);
}

/* What stays is said again with each look at memory. @model: (nullable): a file. */
static void
stream (Fixture           *fixture,
        const char        *model,
        const char *const *keys)
{
  LlmSettings *settings = new_kv_settings (fixture, "auto", 100);

  settings->model_file = g_strdup (model);
  fixture->engine = start_engine_with (settings);
  for (; *keys != NULL; keys++)
    while (get_statistic (fixture->engine, *keys) == 0)
      {
        g_autofree char *text = NULL;

        llm_executor_keep_weights (
          fixture->engine->executor,
          llm_ledger_get_used_backed (fixture->engine->ledger) / 4 * 3);
        text = complete (fixture, "Hello", "{'max-tokens': <uint32 4>, 'raw': <true>}");
      }
}

static void
run_streaming (Fixture           *fixture,
               const char *const *keys)
{
  stream (fixture, NULL, keys);
}

static void
run_experts (Fixture           *fixture,
             const char *const *keys)
{
  const LlmTestModel shape = { .n_layers = 4, .n_experts = 8, .type = LLK_Q8_0, .seed = 3 };
  g_autofree char *path = g_build_filename (fixture->state, "experts.gguf", NULL);

  llm_test_model_write (&shape, path);
  stream (fixture, path, keys);
}

/* --- power --- */

static void
run_power (Fixture           *fixture,
           const char *const *keys)
{
  LlmSettings *settings = new_settings (fixture->state, 2);
  g_autoptr(GVariant) before = NULL;
  g_autoptr(GAsyncResult) result = NULL;

  settings->pace_on_battery = LLM_PACE_SLOW;
  fixture->engine = start_engine_with (settings);
  before = read_statistics (fixture->engine);
  llm_engine_set_power (fixture->engine, TRUE, TRUE);
  llm_engine_suspend_async (fixture->engine, on_result, &result);
  WAIT_FOR (result != NULL);
  llm_engine_resume (fixture->engine);
  wait_all (fixture, keys, before);
}

/* Of a model that has sub-models. */
static void
run_lowered (Fixture           *fixture,
             const char *const *keys)
{
  static const char small[] = "{'max-tokens': <uint32 200>, 'sub-model': <uint32 40>}";
  Elastic elastic = { 0 };

  set_up_elastic (&elastic, NULL);
  g_assert_cmpuint (get_statistic (elastic.fixture.engine, "held-sub-model"), ==, 100);
  /* a call may come to its end before it is asked for what it does not use */
  for (guint i = 0; i < MAX_ATTEMPTS && get_statistic (elastic.fixture.engine, "given-tail-bytes") == 0; i++)
    {
      guint64 written;
      Answer *answer;

      g_free (complete (&elastic.fixture, "Hello", SHORT));
      written = get_statistic (elastic.fixture.engine, "generated-tokens");
      answer = begin_complete (&elastic.fixture, "Hello", small);
      WAIT_FOR (get_statistic (elastic.fixture.engine, "generated-tokens") > written);
      trim (&elastic.fixture, "critical");
      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      answer_free (answer);
    }
  wait_above (&elastic.fixture, "given-tail-bytes", 0);
  g_free (complete (&elastic.fixture, "Hello", SHORT));
  llm_engine_set_lowered (elastic.fixture.engine, LLM_LOWERED_RESPONSIVE);
  g_free (complete (&elastic.fixture, "Hello", "{'max-tokens': <uint32 2>, 'slo': <'background'>}"));
  wait_above (&elastic.fixture, "lowered-classes", LLM_LOWERED_BACKGROUND);
  wait_above (&elastic.fixture, "lowered-calls", 0);
  wait_above (&elastic.fixture, "unused-tail-bytes", 0);
  WAIT_FOR (get_statistic (elastic.fixture.engine, "held-sub-model") == 40);
  tear_down_elastic (&elastic, NULL);
}

static void
run_prefill (Fixture           *fixture,
             const char *const *keys)
{
  Elastic elastic = { .has_cache = TRUE };

  set_up_elastic (&elastic, "prefill");
  for (guint i = 0; i < MAX_ATTEMPTS * MAX_ATTEMPTS
                    && get_statistic (elastic.fixture.engine, "prefill-w8a8-tokens") == 0; i++)
    {
      g_free (complete (&elastic.fixture, "Hello", "{'max-tokens': <uint32 1>, 'prefill': <'w8a8'>}"));
      iterate ();
    }
  wait_above (&elastic.fixture, "prefill-w8a8-tokens", 0);
  wait_above (&elastic.fixture, "prompt-weights-bytes", 0);
  trim (&elastic.fixture, "low");
  wait_above (&elastic.fixture, "given-prompt-weights-bytes", 0);
  g_assert_cmpuint (get_statistic (elastic.fixture.engine, "prompt-weights-bytes"), ==, 0);
  tear_down_elastic (&elastic, NULL);
}

static void
run_channels (Fixture           *fixture,
              const char *const *keys)
{
  Elastic elastic = { .has_cache = TRUE };

  set_up_elastic (&elastic, "active");
  for (; *keys != NULL; keys++)
    while (get_statistic (elastic.fixture.engine, *keys) == 0)
      {
        g_autofree char *text = NULL;

        llm_executor_keep_weights (elastic.fixture.engine->executor, 1 << 20);
        text = complete (&elastic.fixture, "Hello", "{'max-tokens': <uint32 4>, 'active': <uint32 50>}");
      }
  tear_down_elastic (&elastic, NULL);
}

/* --- --- */

static const Case cases[] = {
  { "calls", run_calls,
    { "requests", "prompt-tokens", "cached-tokens", "output-tokens", "model-loads",
      "steps", "rows", "multiplications", "prefill-tokens", "generated-tokens",
      "kv-packed-chunks", "kv-written-chunks", "kv-written-bytes", "kv-storage-bytes", "contexts",
      "apps", "heap-bytes", "process-resident-bytes", "held-anonymous-bytes",
      "held-backed-bytes", "used-backed-bytes", "keep-backed-bytes" } },
  { "forecasts", run_forecasts, { "ttft-forecasts", "ttft-forecast-error-ms" } },
  { "states", run_states, { "calls", "queued-calls", "prefill-calls", "decode-calls" } },
  { "stalled", run_parked, { "stalled-calls" } },
  { "cancelled", run_cancelled, { "cancelled" } },
  { "failed", run_failed, { "failed" } },
  { "slo", run_slo,
    { "slo-met", "slo-missed", "slo-interactive-calls", "slo-interactive-met",
      "slo-interactive-missed", "slo-responsive-calls", "slo-responsive-met",
      "slo-responsive-missed", "slo-background-calls", "slo-background-met",
      "slo-background-missed" } },
  { "refused", run_refused,
    { "refused", "slo-interactive-refused", "slo-responsive-refused" } },
  { "drafts", run_drafts,
    { "drafted-tokens", "accepted-tokens", "draft-passes", "draft-loads", "given-draft-bytes" } },
  { "storage", run_storage, { "kv-evicted-chunks", "kv-restored-chunks", "kv-read-bytes" } },
  { "damaged", run_damaged, { "kv-faulted-chunks" } },
  { "narrow", run_narrow, { "kv-narrowed-chunks", "kv-narrow-chunks" } },
  { "dropped", run_dropped, { "kv-dropped-chunks", "kv-recomputed-chunks" } },
  { "widened", run_widened, { "kv-widened-chunks" } },
  { "shared", run_shared, { "kv-shared-chunks", "kv-kept-bytes" } },
  { "trim", run_trim,
    { "trims", "trimmed-bytes", "given-scratch-bytes", "given-kv-bytes", "given-text-bytes",
      "given-pages-bytes", "given-weights-bytes", "model-unloads" } },
  { "constraints", run_constraints, { "constraint-bytes", "given-constraints-bytes" } },
  { "trim-calls", run_trim_calls, { "given-calls-bytes" } },
  { "pressure", run_pressure,
    { "pressure-level", "cuts", "cut-bytes", "since-cut-ms", "own-trims", "stall-ms",
      "machine-available-bytes", "regrown-bytes" } },
  { "lowered", run_lowered,
    { "lowered-classes", "lowered-calls", "held-sub-model", "unused-tail-bytes",
      "given-tail-bytes" } },
  { "prefill", run_prefill,
    { "prefill-w8a8-tokens", "prompt-weights-bytes", "given-prompt-weights-bytes" } },
  { "group", run_group, { "group-limit-bytes", "group-usage-bytes" } },
  { "streaming", run_streaming, { "streaming-bytes", "streamed-bytes", "stream-ring-bytes" } },
  { "experts", run_experts, { "expert-uses", "expert-hits", "expert-room-bytes" } },
  { "channels", run_channels, { "channel-bytes", "channels-read", "channels-left-out" } },
  { "budget", run_budget, { "budget-now-bytes", "budget-allowed-bytes" } },
  { "power", run_power, { "on-battery", "power-saver", "background-pace", "suspends" } },
};

static void
test_case (gconstpointer data)
{
  const Case *c = data;
  Fixture fixture = { 0 };

  begin (&fixture);
  c->run (&fixture, c->keys);
  tear_down (&fixture, NULL);
}

static gboolean
has_case (const char *key)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    if (g_strv_contains (cases[i].keys, key))
      return TRUE;
  return FALSE;
}

static void
test_all (void)
{
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    {
      const char *key = llmsvc_statistic_get_info (i)->key;

      /* bus/statistics moves that one */
      if (i != LLMSVC_STATISTIC_REFUSED_FLOODS && !has_case (key))
        g_error ("Nothing here moves the statistic “%s”", key);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/statistics/all", test_all);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/statistics/", cases[i].name, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }
  return g_test_run ();
}
