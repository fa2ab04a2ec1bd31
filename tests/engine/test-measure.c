/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What restoring costs is measured while nothing runs; and again where that failed. */

#include "base/llm-clock.h"
#include "engine-rig.h"
#include "engine/llm-engine-private.h"
#include "support/llm-test-folder.h"

#define SECOND G_GINT64_CONSTANT (1000000)

static gboolean has_failed;   /* atomic */

static GLogWriterOutput
look_at_log (GLogLevelFlags   level,
             const GLogField *fields,
             gsize            n_fields,
             gpointer         data)
{
  for (gsize i = 0; i < n_fields; i++)
    if (g_str_equal (fields[i].key, "MESSAGE")
        && g_strstr_len (fields[i].value, fields[i].length, "was not measured") != NULL)
      __atomic_store_n (&has_failed, TRUE, __ATOMIC_RELEASE);
  return g_log_writer_default (level, fields, n_fields, data);
}

static gboolean
has_profile (Fixture *fixture)
{
  g_autofree char *cache = g_build_filename (fixture->state, "cache", NULL);
  g_autoptr(GDir) dir = g_dir_open (cache, 0, NULL);
  const char *name;
  gboolean is_there = FALSE;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    is_there = is_there || g_str_has_prefix (name, "profile-");
  return is_there;
}

/* A look at a context: the executor wakes. */
static void
wake (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;

  llm_context_get_memory_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  llm_context_memory_free (g_task_propagate_pointer (G_TASK (result), NULL));
}

static void
test_again (void)
{
  Fixture fixture = { .state = llm_test_folder_new () };
  LlmSettings *settings = new_settings (fixture.state, 2);
  g_autoptr(LlmContext) context = NULL;
  gint64 now;

  settings->cache_folder = g_build_filename (fixture.state, "cache", NULL);
  g_free (settings->disk);
  settings->disk = g_strdup ("threads");
  fixture.engine = start_engine_with (settings);
  fixture.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
  context = create (&fixture, "{}");
  g_free (ask (&fixture, context, "Hello", "{'max-tokens': <uint32 1>}"));

  /* there is no room for what it measures with */
  g_assert_true (set_budget (&fixture, llm_ledger_get_total (fixture.engine->ledger) + 4096, NULL));
  now = llm_clock_now_us ();
  while (!__atomic_load_n (&has_failed, __ATOMIC_ACQUIRE))
    {
      llm_clock_set_for_test (now += 30 * SECOND);
      wake (context);
    }
  g_assert_false (has_profile (&fixture));
  g_assert_true (set_budget (&fixture, 0, NULL));
  /* what the small budget took of the weights comes back with a call */
  g_free (ask (&fixture, context, "Hello", "{'max-tokens': <uint32 1>}"));
  while (!has_profile (&fixture))
    {
      llm_clock_set_for_test (now += 30 * SECOND);
      wake (context);
    }
  llm_clock_set_for_test (-1);
  g_clear_object (&context);
  tear_down (&fixture, NULL);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_log_set_writer_func (look_at_log, NULL, NULL);
  g_test_add_func ("/measure/again", test_again);
  return g_test_run ();
}
