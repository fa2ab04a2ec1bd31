/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tokens of contexts are those of the model in use, also after it was changed. */

#include "engine-rig.h"

#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

#define DEMO "llmsvc-demo-8M-Q8_0"
#define QUESTION "I want a restaurant in San Jose."
#define NOTE "I live in Fresno, near the station, and I have no car."

typedef struct
{
  Fixture fixture;
  char *models;    /* folder */
} Models;

static void
start (Models *models)
{
  LlmSettings *settings = new_settings (models->fixture.state, 2);

  g_strfreev (settings->model_folders);
  settings->model_folders =
    g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), models->models, NULL });
  models->fixture.engine = start_engine_with (settings);
}

static void
set_up_models (Models       *models,
               gconstpointer data)
{
  const LlmTestModel shape = { .seed = 1 };
  g_autofree char *path = NULL;

  models->models = llm_test_folder_new ();
  path = g_build_filename (models->models, "tiny.gguf", NULL);
  llm_test_model_write (&shape, path);
  models->fixture.state = llm_test_folder_new ();
  models->fixture.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
  start (models);
}

static void
tear_down_models (Models       *models,
                  gconstpointer data)
{
  tear_down (&models->fixture, NULL);
  llm_test_folder_remove (models->models);
  g_free (models->models);
}

static void
select_model (Models     *models,
              const char *id)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llm_engine_select_model_async (models->fixture.engine, id, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
  g_assert_no_error (error);
}

static guint
append (Models     *models,
        LlmContext *context,
        const char *text)
{
  g_autoptr(LlmCallOptions) options = parse_options ("{'wait': <true>}", LLMSVC_CALL_APPEND);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  guint tokens = 0;

  llm_context_append_async (context, models->fixture.caller, user_message (text), options,
                            on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (take_count (result, &tokens, &error));
  g_assert_no_error (error);
  return tokens;
}

/* What the model in use counts for the text of @context. */
static guint
count (Models     *models,
       LlmContext *context)
{
  g_autoptr(LlmCallOptions) options = parse_options ("{}", LLMSVC_CALL_COUNT_TOKENS);
  g_autoptr(GVariant) messages = get_messages (context);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  guint tokens = 0;

  llm_engine_count_tokens_async (models->fixture.engine, models->fixture.caller, messages, options,
                                 on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (take_count (result, &tokens, &error));
  g_assert_no_error (error);
  return tokens;
}

/* A call goes on with what another model has counted. */
static void
test_calls (Models       *models,
            gconstpointer data)
{
  Fixture *fixture = &models->fixture;
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) noted = create (fixture, "{}");
  g_autoptr(GError) error = NULL;
  guint n_held;
  guint n_added;

  g_free (ask (fixture, context, QUESTION, GREEDY));
  append (models, noted, QUESTION);
  select_model (models, "tiny");
  for (guint turn = 0; turn < 2; turn++)
    {
      g_autoptr(Answer) answer = begin_ask (fixture, context, "Thanks!",
                                            "{'max-tokens': <uint32 4>, 'temperature': <0.0>}");

      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      g_assert_cmpuint (llm_context_get_tokens (context), ==,
                        result_uint (answer, "prompt-tokens") +
                          result_uint (answer, "output-tokens"));
      /* what the first one has settled, the second one does not render again */
      if (turn == 1)
        g_assert_cmpuint (result_uint (answer, "cached-tokens"), >, 0);
    }

  n_held = count (models, noted);
  n_added = append (models, noted, NOTE);
  g_assert_cmpuint (llm_context_get_tokens (noted), ==, count (models, noted));
  g_assert_cmpuint (n_held + n_added, ==, llm_context_get_tokens (noted));
  g_assert_true (rollback (noted, 1, &error));
  WAIT_FOR (llm_context_get_tokens (noted) == n_held);
}

/* All others, in memory or not, are counted without a call. */
static void
test_all (Models       *models,
          gconstpointer data)
{
  Fixture *fixture = &models->fixture;
  g_autoptr(LlmContext) unnamed = create (fixture, "{'system': <'Be kind.'>}");
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(GError) error = NULL;
  guint n_demo;
  guint n_tiny;

  append (models, unnamed, NOTE);
  append (models, context, NOTE);
  append (models, context, QUESTION);
  n_demo = llm_context_get_tokens (context);
  g_assert_cmpuint (n_demo, ==, count (models, context));

  /* with its text on the disk alone */
  g_clear_object (&context);
  g_clear_object (&unnamed);
  stop_engine (&fixture->engine);
  start (models);
  unnamed = create (fixture, "{'system': <'Be kind.'>}");
  append (models, unnamed, NOTE);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, n_demo);
  select_model (models, "tiny");
  n_tiny = count (models, context);
  g_assert_cmpuint (n_tiny, !=, n_demo);
  WAIT_FOR (llm_context_get_tokens (context) == n_tiny);
  WAIT_FOR (llm_context_get_tokens (unnamed) == count (models, unnamed));

  /* and that is stored, too */
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  start (models);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, n_tiny);
  select_model (models, DEMO);
  WAIT_FOR (llm_context_get_tokens (context) == n_demo);
}

static void
set_token_quota (Models *models,
                 guint   tokens)
{
  g_autofree char *text = g_strdup_printf ("{'tokens': <uint64 %u>}", tokens);
  g_autoptr(LlmCallOptions) options = parse_options (text, LLMSVC_CALL_SET_QUOTA);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llm_engine_set_quota_async (models->fixture.engine, 1000, "org.example.App", options, on_result,
                              &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
  g_assert_no_error (error);
}

/* Nobody pays for what another model counted. */
static void
test_quota (Models       *models,
            gconstpointer data)
{
  Fixture *fixture = &models->fixture;
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContext) other = NULL;
  guint n_tiny;
  guint n_demo;

  select_model (models, "tiny");
  context = create (fixture, "{'name': <'notes'>}");
  append (models, context, NOTE);
  n_tiny = llm_context_get_tokens (context);
  select_model (models, DEMO);
  n_demo = count (models, context);
  g_assert_cmpuint (n_tiny, >, n_demo);
  WAIT_FOR (llm_context_get_tokens (context) == n_demo);

  set_token_quota (models, n_demo + 12);
  other = create (fixture, "{}");
  g_assert_cmpuint (append (models, other, "Hello!"), <=, 12);
}

#define ADD(path, func) g_test_add (path, Models, NULL, set_up_models, func, tear_down_models)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/counts/calls", test_calls);
  ADD ("/counts/all", test_all);
  ADD ("/counts/quota", test_quota);
  return g_test_run ();
}
