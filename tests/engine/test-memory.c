/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory, models and quotas, with the shipped model. */

#include "engine-rig.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "engine/llm-engine-private.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

static void
test_trim (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *first = ask (fixture, context, "I want a restaurant in San Jose.", GREEDY);
  g_autofree char *second = ask (fixture, context, "Italian food, please.", GREEDY);
  g_autofree char *again = NULL;
  g_autoptr(GError) error = NULL;
  LlmMemoryFigures figures;

  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.weights, >, 7000000);
  g_assert_cmpuint (figures.kv_resident, >, 0);
  g_assert_cmpuint (figures.reclaimable[0] + figures.reclaimable[1] + figures.reclaimable[2], <=,
                    figures.resident);

  g_assert_cmpuint (trim (fixture, "medium"), >, 0);
  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.kv_resident + figures.kv_compressed, ==, 0);
  g_assert_cmpuint (figures.kv_swapped, >, 0);
  g_assert_cmpuint (figures.weights, >, 0);
  g_assert_cmpstr (llm_context_get_residency (context), ==, "storage");

  g_assert_cmpuint (trim (fixture, "critical"), >, 7000000);
  llm_engine_get_memory (fixture->engine, &figures);
  /* All is gone but the text of a context that lives nowhere else. */
  g_assert_cmpuint (figures.weights + figures.kv_resident + figures.kv_compressed, ==, 0);
  g_assert_cmpuint (figures.resident, <, 2000);
  g_assert_cmpuint (figures.resident, >, 0);
  g_assert_cmpstr (llm_engine_get_availability (fixture->engine), ==, "ready");

  /* Nothing was lost. */
  g_assert_true (rollback (context, 1, &error));
  again = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpstr (again, ==, second);
}

static guint64
get_held (gpointer holder)
{
  return *(guint64 *) holder;
}

static void
release (gpointer       holder,
         guint64        bytes,
         gint64         deadline_us,
         LlmReclaimDone done,
         gpointer       data)
{
  guint64 *held = holder;
  guint64 freed = MIN (bytes, *held);

  *held -= freed;
  done (freed, data);
}

/* A new kind of holder registers itself with the ledger; the engine, which does not know it, asks
 * it and counts what it released. */
static void
test_new_holder (Fixture      *fixture,
                 gconstpointer data)
{
  guint64 held = 12345;
  const LlmReclaimer reclaimer = { "new", LLM_RECLAIM_FREE, get_held, release, .holder = &held };
  g_autoptr(GVariant) statistics = NULL;
  LlmMemoryFigures figures;
  guint64 released = 0;

  llm_ledger_add_reclaimer (fixture->engine->ledger, &reclaimer);
  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.reclaimable[LLM_RECLAIM_FREE], >=, 12345);
  g_assert_cmpuint (trim (fixture, "low"), >=, 12345);
  g_assert_cmpuint (held, ==, 0);
  statistics = read_statistics (fixture->engine);
  g_assert_true (g_variant_lookup (statistics, "given-new-bytes", "t", &released));
  g_assert_cmpuint (released, ==, 12345);
}

static void
test_budget (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(Answer) refused = NULL;
  g_autoptr(GError) error = NULL;
  LlmMemoryFigures figures;

  g_free (complete (fixture, "Hello!", GREEDY));
  g_assert_true (set_budget (fixture, 1000000, &error));
  llm_engine_get_memory (fixture->engine, &figures);
  g_assert_cmpuint (figures.resident, <=, 1000000);
  g_assert_cmpuint (figures.budget, ==, 1000000);
  refused = begin_complete (fixture, "Hello!", GREEDY);
  WAIT_FOR (refused->is_finished);
  g_assert_error (refused->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_assert_true (set_budget (fixture, 0, &error));
  g_free (complete (fixture, "Hello!", GREEDY));
}

/* What the budget limits, without contexts: weights in files also as far as the kernel has taken
 * them. What a call leaves behind goes a moment after its end. */
static guint64
get_counted (Fixture *fixture)
{
  g_autoptr(GVariant) statistics = NULL;
  guint64 anonymous = 0;
  guint64 used = 0;
  LlmMemoryFigures figures;

  do
    {
      g_main_context_iteration (NULL, FALSE);
      llm_engine_get_memory (fixture->engine, &figures);
    }
  while (figures.kv_resident + figures.kv_compressed > 0);
  statistics = read_statistics (fixture->engine);

  g_assert_true (g_variant_lookup (statistics, "held-anonymous-bytes", "t", &anonymous));
  g_assert_true (g_variant_lookup (statistics, "used-backed-bytes", "t", &used));
  return anonymous + used;
}

/* Chunks that must make room before they are written can only be computed again. */
static void
wait_until_written (LlmContext *context)
{
  gboolean is_written;

  do
    {
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(LlmContextMemory) memory = NULL;
      g_autoptr(GError) error = NULL;

      llm_context_get_memory_async (context, on_result, &result);
      WAIT_FOR (result != NULL);
      memory = g_task_propagate_pointer (G_TASK (result), &error);
      g_assert_no_error (error);
      /* the last one may not be full, and is written only when it has to leave */
      is_written = memory->n_chunks > 1
                   && strcspn (memory->places, "mt") >= memory->n_chunks - 1;
    }
  while (!is_written);
}

/* Context memory that no call uses makes room for a call that needs it. */
static void
test_budget_evicts (Fixture      *fixture,
                    gconstpointer data)
{
  /* they begin differently: they have no chunk in common */
  const char *const prompts[] = {
    "I want a restaurant in San Jose.", "Find a film for tonight, please.",
    "Is there a train to Fresno today?", "Will there be any rain tomorrow?",
  };
  g_autoptr(GError) error = NULL;
  LlmContext *contexts[G_N_ELEMENTS (prompts)];

  g_free (complete (fixture, "I want a restaurant in San Jose.", GREEDY));
  /* room for two or three of them beside weights and scratch */
  g_assert_true (set_budget (fixture, get_counted (fixture) + 1100000, &error));
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      contexts[i] = create (fixture, "{}");
      g_free (ask (fixture, contexts[i], prompts[i], GREEDY));
      wait_until_written (contexts[i]);
    }
  WAIT_FOR (g_str_equal (llm_context_get_residency (contexts[0]), "storage"));
  g_assert_cmpstr (llm_context_get_residency (contexts[3]), !=, "storage");
  g_assert_cmpstr (llm_context_get_residency (contexts[3]), !=, "text");
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    g_object_unref (contexts[i]);
}

/* Calls for which there is no room at the same time run one after the other. */
static void
test_budget_waits (Fixture      *fixture,
                   gconstpointer data)
{
  const char *const prompts[] = {
    "I want a restaurant in San Jose.", "Find a film for tonight, please.",
    "Is there a train to Fresno today?", "Will there be any rain tomorrow?",
  };
  g_autoptr(GError) error = NULL;
  LlmContext *contexts[G_N_ELEMENTS (prompts)];
  Answer *answers[G_N_ELEMENTS (prompts)];

  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    answers[i] = begin_complete (fixture, prompts[i], GREEDY);
  for (guint i = 0; i < G_N_ELEMENTS (answers); i++)
    answer_free (answers[i]);
  g_assert_true (set_budget (fixture, get_counted (fixture) + 600000, &error));
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      contexts[i] = create (fixture, "{}");
      answers[i] = begin_ask (fixture, contexts[i], prompts[i], GREEDY);
    }
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    {
      WAIT_FOR (answers[i]->is_finished);
      g_assert_no_error (answers[i]->error);
      answer_free (answers[i]);
      g_object_unref (contexts[i]);
    }
}

static void
test_no_model (void)
{
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST) };
  g_autoptr(Answer) answer = NULL;

  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  answer = begin_complete (&fixture, "Hello!", GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL);
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "no-model");
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
}

/* A file that comes while the service runs is found by the next call; one that is
 * cut while in use makes calls fail, until it is whole again. */
static void
test_model_comes_and_goes (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "tiny.gguf", NULL);
  g_autofree char *half = NULL;
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST) };
  const LlmTestModel shape = { .seed = 1 };
  g_autoptr(Answer) none = NULL;
  g_autoptr(Answer) cut = NULL;
  gsize length;

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { folder, NULL });
  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  none = begin_complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}");
  WAIT_FOR (none->is_finished);
  g_assert_error (none->error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL);

  llm_test_model_write (&shape, path);
  g_free (complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}"));
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "ready");

  g_assert_true (g_file_get_contents (path, &half, &length, NULL));
  g_assert_cmpint (truncate (path, length / 2), ==, 0);
  cut = begin_complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}");
  WAIT_FOR (cut->is_finished);
  g_assert_error (cut->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);

  llm_test_model_write (&shape, path);
  g_free (complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}"));
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
  llm_test_folder_remove (folder);
}

static gboolean
has_model (LlmEngine  *engine,
           const char *id)
{
  return llm_catalogue_find (llm_engine_get_models (engine), id) != NULL;
}

/* A file that comes displaces none, a broken one is never chosen, and one that goes makes room for
 * the first of the rest. */
static void
test_default_model (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *broken = g_build_filename (folder, "a.gguf", NULL);
  g_autofree char *first = g_build_filename (folder, "b.gguf", NULL);
  g_autofree char *second = g_build_filename (folder, "c.gguf", NULL);
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST) };
  const LlmTestModel shape = { .seed = 1 };

  g_assert_true (g_file_set_contents (broken, "no such thing", -1, NULL));
  llm_test_model_write (&shape, second);
  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { folder, NULL });
  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  WAIT_FOR (has_model (fixture.engine, "c"));
  g_assert_true (has_model (fixture.engine, "a"));
  g_assert_cmpstr (llm_engine_get_active_model (fixture.engine)->id, ==, "c");

  llm_test_model_write (&shape, first);
  WAIT_FOR (has_model (fixture.engine, "b"));
  g_assert_cmpstr (llm_engine_get_active_model (fixture.engine)->id, ==, "c");
  g_assert_cmpint (g_unlink (second), ==, 0);
  WAIT_FOR (!has_model (fixture.engine, "c"));
  g_assert_cmpstr (llm_engine_get_active_model (fixture.engine)->id, ==, "b");
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "ready");
  g_free (complete (&fixture, "Hello!", "{'max-tokens': <uint32 3>}"));
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
  llm_test_folder_remove (folder);
}

/* What guesses for others is no model for all, and one that is not there is told. */
static void
test_drafts (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *small = g_build_filename (folder, "a-small.gguf", NULL);
  g_autofree char *large = g_build_filename (folder, "b-large.gguf", NULL);
  g_autofree char *reason = NULL;
  g_autofree char *none = NULL;
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST) };
  const LlmTestModel shape = { .seed = 1 };

  llm_test_model_write (&shape, small);
  llm_test_model_write (&shape, large);
  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { folder, NULL });
  g_strfreev (settings->drafts);
  settings->drafts = g_strdupv ((char *[]) { "b-large:a-small", "a-small:typo", NULL });
  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  WAIT_FOR (has_model (fixture.engine, "b-large"));
  g_assert_cmpstr (llm_engine_get_active_model (fixture.engine)->id, ==, "b-large");
  none = llm_engine_explain_draft (fixture.engine, llm_engine_get_active_model (fixture.engine));
  g_assert_cmpstr (none, ==, "");
  reason = llm_engine_explain_draft (
    fixture.engine, llm_catalogue_find (llm_engine_get_models (fixture.engine), "a-small"));
  g_assert_nonnull (strstr (reason, "“typo”"));
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
  llm_test_folder_remove (folder);
}

static void
test_broken_model (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  LlmSettings *settings = llm_settings_new ();
  Fixture fixture = { .caller = llm_caller_new (0, "", ":1.1", LLM_CALLER_HOST) };
  g_autoptr(Answer) answer = NULL;

  settings->model_file = g_build_filename (folder, "broken.gguf", NULL);
  g_assert_true (g_file_set_contents (settings->model_file, "GGUF\3\0\0\0 what now?", 18, NULL));
  fixture.engine = llm_engine_new (settings);
  llm_engine_start (fixture.engine);
  answer = begin_complete (&fixture, "Hello!", GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (answer->error->message, "broken.gguf"));
  g_assert_cmpstr (llm_engine_get_availability (fixture.engine), ==, "failed");
  g_assert_nonnull (strstr (llm_engine_get_availability_reason (fixture.engine)->message,
                            "broken.gguf"));
  stop_engine (&fixture.engine);
  llm_caller_unref (fixture.caller);
  llm_test_folder_remove (folder);
}

/* Another model: contexts go on from their text. */
static void
test_select_model (Fixture      *fixture,
                   gconstpointer data)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "tiny.gguf", NULL);
  g_autofree char *broken = g_build_filename (folder, "broken.gguf", NULL);
  LlmSettings *settings = llm_settings_new ();
  const LlmTestModel shape = { .seed = 1 };
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GAsyncResult) wrong = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  guint n_demo;

  llm_test_model_write (&shape, path);
  g_assert_true (g_file_set_contents (broken, "no such thing", -1, NULL));
  stop_engine (&fixture->engine);
  g_strfreev (settings->model_folders);
  settings->model_folders =
    g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), folder, NULL });
  settings->state_folder = g_strdup (fixture->state);
  fixture->engine = llm_engine_new (settings);
  llm_engine_start (fixture->engine);

  context = create (fixture, "{'name': <'notes'>}");
  g_free (ask (fixture, context, "Hello!", GREEDY));
  n_demo = llm_context_get_tokens (context);
  llm_engine_select_model_async (fixture->engine, "nothing", on_result, &wrong);
  WAIT_FOR (wrong != NULL);
  g_assert_false (g_task_propagate_boolean (G_TASK (wrong), &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_clear_object (&wrong);
  llm_engine_select_model_async (fixture->engine, "broken", on_result, &wrong);
  WAIT_FOR (wrong != NULL);
  g_assert_false (g_task_propagate_boolean (G_TASK (wrong), &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_clear_error (&error);

  llm_engine_select_model_async (fixture->engine, "tiny", on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
  g_assert_no_error (error);
  g_assert_cmpstr (llm_engine_get_active_model (fixture->engine)->id, ==, "tiny");
  g_free (ask (fixture, context, "And now?", "{'max-tokens': <uint32 4>}"));
  g_assert_cmpuint (count_messages (context), ==, 4);
  g_assert_cmpuint (llm_context_get_tokens (context), !=, n_demo);

  /* The choice survives, too. */
  stop_engine (&fixture->engine);
  settings = llm_settings_new ();
  g_strfreev (settings->model_folders);
  settings->model_folders =
    g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), folder, NULL });
  settings->state_folder = g_strdup (fixture->state);
  fixture->engine = llm_engine_new (settings);
  llm_engine_start (fixture->engine);
  g_free (complete (fixture, "Hello!", "{'max-tokens': <uint32 4>}"));
  g_assert_cmpstr (llm_engine_get_active_model (fixture->engine)->id, ==, "tiny");
  stop_engine (&fixture->engine);
  llm_test_folder_remove (folder);
}

static void
test_quota (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmCallOptions) options =
    parse_options ("{'contexts': <uint32 1>, 'calls': <uint32 1>}", LLMSVC_CALL_SET_QUOTA);
  g_autoptr(LlmCallOptions) none = parse_options ("{}", LLMSVC_CALL_CREATE_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GAsyncResult) refused = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(Answer) first = NULL;
  g_autoptr(Answer) second = NULL;

  llm_engine_set_quota_async (fixture->engine, 1000, "org.example.App", options, on_result,
                              &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));

  context = create (fixture, "{}");
  llm_engine_create_context_async (fixture->engine, fixture->caller, none, on_result, &refused);
  WAIT_FOR (refused != NULL);
  g_assert_null (g_task_propagate_pointer (G_TASK (refused), &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);

  first = begin_complete (fixture, "Hello!", GREEDY);
  second = begin_complete (fixture, "Hello!", GREEDY);
  WAIT_FOR (second->is_finished);
  g_assert_error (second->error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
  WAIT_FOR (first->is_finished);
  g_assert_no_error (first->error);
}

/* --- applications --- */

/* How many applications are known, and what is known of one. */
static guint
count_apps (Fixture    *fixture,
            const char *app_id,
            GVariant  **known)
{
  g_autoptr(GVariant) apps = llm_engine_list_apps (fixture->engine, 0, TRUE);

  g_clear_pointer (known, g_variant_unref);
  for (gsize i = 0; i < g_variant_n_children (apps); i++)
    {
      g_autoptr(GVariant) app = g_variant_get_child_value (apps, i);
      const char *id = NULL;

      g_assert_true (g_variant_lookup (app, "app-id", "&s", &id));
      if (g_str_equal (id, app_id))
        *known = g_steal_pointer (&app);
    }
  return (guint) g_variant_n_children (apps);
}

/* Calls once, under a name of its own. */
static void
call_as (Fixture    *fixture,
         const char *app_id)
{
  g_autoptr(LlmCaller) caller = llm_caller_new (1000, app_id, ":1.9", LLM_CALLER_HOST);
  LlmCaller *own = fixture->caller;
  g_autoptr(Answer) answer = NULL;

  /* how it ends does not matter, only that it does so soon */
  fixture->caller = caller;
  answer = begin_complete (fixture, "Hello!", "{'deadline-ms': <uint32 1>}");
  WAIT_FOR (answer->is_finished);
  fixture->caller = own;
}

/* Callers choose their names: who comes under ever new ones can't fill the table, and
 * pushes nobody out who has something here. */
static void
test_many_names (Fixture      *fixture,
                 gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(LlmCallOptions) options = parse_options ("{'calls': <uint32 3>}",
                                                     LLMSVC_CALL_SET_QUOTA);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GAsyncResult) closed = NULL;
  g_autoptr(GVariant) known = NULL;
  g_autoptr(GError) error = NULL;
  guint n_contexts = 0;
  guint n_known;

  llm_engine_set_quota_async (fixture->engine, 1000, "org.example.Quota", options, on_result,
                              &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));

  call_as (fixture, "org.example.Once");
  call_as (fixture, "org.example.Often");
  for (guint i = 0; i < 200; i++)
    {
      g_autofree char *name = g_strdup_printf ("org.example.N%u", i);

      call_as (fixture, name);
      if (i % 20 == 0)
        call_as (fixture, "org.example.Often");
    }
  n_known = count_apps (fixture, "org.example.Once", &known);
  g_assert_cmpuint (n_known, <, 100);
  g_assert_null (known);
  count_apps (fixture, "org.example.Often", &known);
  g_assert_nonnull (known);
  count_apps (fixture, "org.example.N199", &known);
  g_assert_nonnull (known);
  count_apps (fixture, "org.example.Quota", &known);
  g_assert_nonnull (known);
  count_apps (fixture, "org.example.App", &known);
  g_assert_nonnull (known);
  g_assert_true (g_variant_lookup (known, "contexts", "u", &n_contexts));
  g_assert_cmpuint (n_contexts, ==, 1);

  /* Without its context it is like the others. */
  llm_context_close_async (context, on_result, &closed);
  WAIT_FOR (closed != NULL);
  for (guint i = 0; i < 300; i++)
    {
      g_autofree char *name = g_strdup_printf ("org.example.M%u", i);

      call_as (fixture, name);
    }
  g_assert_cmpuint (count_apps (fixture, "org.example.App", &known), <=, n_known);
  g_assert_null (known);
}

#define ADD(path, func) g_test_add (path, Fixture, NULL, set_up, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  /* compares texts: see set_up_floats() */
  g_test_add ("/engine/trim", Fixture, NULL, set_up_floats, test_trim, tear_down);
  ADD ("/engine/new-holder", test_new_holder);
  ADD ("/engine/budget", test_budget);
  /* compressed, all of them have room */
  g_test_add ("/engine/budget-evicts", Fixture, NULL, set_up_floats, test_budget_evicts, tear_down);
  ADD ("/engine/select-model", test_select_model);
  g_test_add ("/engine/budget-waits", Fixture, NULL, set_up_floats, test_budget_waits, tear_down);
  ADD ("/engine/quota", test_quota);
  ADD ("/engine/many-names", test_many_names);
  g_test_add_func ("/engine/no-model", test_no_model);
  g_test_add_func ("/engine/model-comes-and-goes", test_model_comes_and_goes);
  g_test_add_func ("/engine/default-model", test_default_model);
  g_test_add_func ("/engine/draft-is-no-default", test_drafts);
  g_test_add_func ("/engine/broken-model", test_broken_model);
  return g_test_run ();
}
