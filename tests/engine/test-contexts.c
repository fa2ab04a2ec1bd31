/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts: turns, cancels, restarts, with the shipped model. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"

static void
test_begin (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'system': <'Be kind.'>}");
  g_autoptr(LlmContext) history =
    create (fixture, "{'messages': <[('user', 'Hello!', @a{sv} {}), "
                     "('assistant', 'Hi, how are you?', {})]>}");
  g_autoptr(LlmCallOptions) options =
    parse_options ("{'max-tokens': <uint32 5>, 'system': <'Be very kind indeed.'>}",
                   LLMSVC_CALL_CREATE_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;

  g_assert_cmpuint (llm_context_get_tokens (context), >, 5);
  g_assert_cmpuint (llm_context_get_tokens (history), >, 10);
  g_assert_cmpuint (context->revision, ==, 0);
  text = ask (fixture, history, "And now find me a comedy movie.", GREEDY);
  g_assert_cmpuint (count_messages (history), ==, 4);

  llm_engine_create_context_async (fixture->engine, fixture->caller, options, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_null (g_task_propagate_pointer (G_TASK (result), &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
}

static void
test_turns (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>, 'system': <'Be kind.'>}");
  g_autoptr(LlmCallOptions) fork_options = parse_options ("{}", LLMSVC_CALL_FORK);
  g_autofree char *first = ask (fixture, context, "I want a restaurant in San Jose.", GREEDY);
  g_autoptr(Answer) second = begin_ask (fixture, context, "Italian food, please.", GREEDY);
  g_autoptr(LlmContext) fork = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *again = NULL;
  g_autofree char *in_fork = NULL;
  guint tokens;

  WAIT_FOR (second->is_finished);
  g_assert_no_error (second->error);
  g_assert_cmpuint (result_uint (second, "cached-tokens"), >, 10);
  g_assert_cmpuint (context->revision, ==, 2);
  g_assert_cmpuint (count_messages (context), ==, 5);
  g_assert_cmpstr (llm_context_get_residency (context), ==, "memory");
  tokens = llm_context_get_tokens (context);
  g_assert_cmpuint (tokens, ==,
                    result_uint (second, "prompt-tokens") + result_uint (second, "output-tokens"));

  /* Back, and again: the same answer. */
  g_assert_true (rollback (context, 1, &error));
  g_assert_cmpuint (count_messages (context), ==, 3);
  g_assert_cmpuint (context->revision, ==, 3);
  again = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpstr (again, ==, second->text);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, tokens);

  /* A fork goes on alike and does not disturb its source. */
  g_assert_true (rollback (context, 1, &error));
  llm_context_fork_async (context, fixture->caller, fork_options, on_result, &result);
  WAIT_FOR (result != NULL);
  fork = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  in_fork = ask (fixture, fork, "Italian food, please.", GREEDY);
  g_assert_cmpstr (in_fork, ==, second->text);
  g_assert_cmpuint (count_messages (fork), ==, 5);
  g_assert_cmpuint (count_messages (context), ==, 3);

  /* The system text stays. */
  g_assert_false (rollback (context, 2, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);
  g_assert_true (rollback (context, 1, &error));
  g_assert_cmpuint (count_messages (context), ==, 1);
}

static LlmContext *
fork_context (Fixture    *fixture,
              LlmContext *context,
              const char *options)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_FORK);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  LlmContext *fork;

  llm_context_fork_async (context, fixture->caller, parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  fork = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  return fork;
}

/* A fork takes what a new context takes: messages come behind those of its source. */
static void
test_fork (Fixture      *fixture,
           gconstpointer data)
{
  static const char options[] =
    "{'name': <'branch'>, 'slo': <'background'>, 'max-tokens': <uint32 200>,"
    " 'system': <'Be brief.'>, 'messages': <[('user', 'I live in San Jose.', @a{sv} {})]>}";
  g_autoptr(LlmContext) context = create (fixture, "{'system': <'Be kind.'>}");
  g_autofree char *first = ask (fixture, context, "Hello!", GREEDY);
  guint n_tokens = llm_context_get_tokens (context);
  LlmContext *branch = fork_context (fixture, context, options);
  LlmContext *plain = fork_context (fixture, context, "{}");
  g_autoptr(LlmContext) again = NULL;
  g_autoptr(LlmCallOptions) append_options = parse_options ("{}", LLMSVC_CALL_APPEND);
  g_autoptr(GVariant) messages = g_variant_ref_sink (g_variant_new_parsed (
    "[('system', 'Be brief.', @a{sv} {}), ('user', 'I live in San Jose.', {})]"));
  g_autoptr(GVariant) stored = NULL;
  g_autoptr(GVariant) added = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GVariant) expected = NULL;
  g_autoptr(GError) error = NULL;
  guint n_added;

  g_assert_cmpstr (branch->name, ==, "branch");
  g_assert_cmpuint (count_messages (branch), ==, 5);
  g_assert_cmpuint (count_messages (context), ==, 3);
  llm_context_append_async (plain, fixture->caller, messages, append_options, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (take_count (result, &n_added, &error));
  g_assert_cmpuint (llm_context_get_tokens (branch), ==, n_tokens + n_added);
  g_object_unref (branch);
  g_object_unref (plain);

  /* It is a turn of the fork, kept with it. */
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  again = open_context (fixture, "branch", "{}", &error);
  g_assert_no_error (error);
  stored = get_messages (again);
  added = g_variant_get_child_value (stored, 4);
  g_assert_cmpuint (g_variant_n_children (stored), ==, 5);
  expected = g_variant_get_child_value (messages, 1);
  g_assert_true (g_variant_equal (added, expected));
  g_assert_true (rollback (again, 1, &error));
  g_assert_cmpuint (count_messages (again), ==, 3);
}

/* What a fork has read in already is shared; what it begins with besides is read with the first
 * question. */
static void
test_fork_answers (Fixture      *fixture,
                   gconstpointer data)
{
  static const char question[] = "Find a restaurant.";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(LlmCallOptions) none = parse_options ("{}", LLMSVC_CALL_APPEND);
  g_autoptr(LlmContext) branch = NULL;
  g_autoptr(LlmContext) plain = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autofree char *first = ask (fixture, context, "Hello!", GREEDY);
  g_autofree char *expected = NULL;
  g_autofree char *answered = NULL;

  branch = fork_context (fixture, context,
                         "{'messages': <[('user', 'I live in San Jose.', @a{sv} {})]>}");
  plain = fork_context (fixture, context, "{}");
  llm_context_append_async (plain, fixture->caller, user_message ("I live in San Jose."), none,
                            on_result, &result);
  WAIT_FOR (result != NULL);
  answered = ask (fixture, branch, question, GREEDY);
  expected = ask (fixture, plain, question, GREEDY);
  g_assert_cmpstr (answered, ==, expected);
}

/* Memory of what was rolled back is not taken for that of what comes instead. */
static void
test_other_turn (Fixture      *fixture,
                 gconstpointer data)
{
  const char first[] = "I want a restaurant in San Jose.";
  const char instead[] =
    "No, find me a comedy movie with Jim Carrey, please, and a train to Fresno.";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(LlmContext) straight = create (fixture, "{}");
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *expected = NULL;
  guint n_first;

  g_free (ask (fixture, straight, first, GREEDY));
  expected = ask (fixture, straight, instead, GREEDY);

  g_free (ask (fixture, context, first, GREEDY));
  n_first = llm_context_get_tokens (context);
  g_free (ask (fixture, context,
               "Italian food, and cheap, for four people tomorrow at seven, please.", GREEDY));
  g_assert_true (rollback (context, 1, &error));
  answer = begin_ask (fixture, context, instead, GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (answer->text, ==, expected);
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), >=, n_first);
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), <, n_first + 8);
}

static void
test_append (Fixture      *fixture,
             gconstpointer data)
{
  const char *const waits[] = { "{'wait': <true>}", "{}" };
  char *texts[2];

  for (guint i = 0; i < G_N_ELEMENTS (waits); i++)
    {
      g_autoptr(LlmContext) context = create (fixture, "{}");
      g_autoptr(LlmCallOptions) options = parse_options (waits[i], LLMSVC_CALL_APPEND);
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(GError) error = NULL;
      g_autoptr(Answer) answer = NULL;
      guint tokens = 0;

      llm_context_append_async (context, fixture->caller, user_message ("I live in San Jose."),
                                options, on_result, &result);
      WAIT_FOR (result != NULL);
      g_assert_true (take_count (result, &tokens, &error));
      g_assert_no_error (error);
      g_assert_cmpuint (tokens, >, 5);
      g_assert_cmpuint (llm_context_get_tokens (context), ==, tokens);
      g_assert_cmpuint (context->revision, ==, 1);
      /* Without `wait` the next call may come before the text was read in. */
      answer = begin_ask (fixture, context, "Find a restaurant.", GREEDY);
      WAIT_FOR (answer->is_finished);
      g_assert_no_error (answer->error);
      if (i == 0)
        g_assert_cmpuint (result_uint (answer, "cached-tokens"), >, 5);
      texts[i] = g_strdup (answer->text);
    }
  g_assert_cmpstr (texts[0], ==, texts[1]);
  g_free (texts[0]);
  g_free (texts[1]);
}

/* Cancelled: the context is as before, unless the caller wants the part kept. */
static void
test_cancel (Fixture      *fixture,
             gconstpointer data)
{
  const char long_answer[] =
    "{'temperature': <2.0>, 'top-k': <uint32 0>, 'min-p': <0.0>, 'top-p': <1.0>, "
    "'seed': <uint64 3>, 'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>}";
  const char keeping[] =
    "{'temperature': <2.0>, 'top-k': <uint32 0>, 'min-p': <0.0>, 'top-p': <1.0>, "
    "'seed': <uint64 3>, 'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>, "
    "'on-cancel': <'keep'>}";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *before = ask (fixture, context, "Hello!", GREEDY);
  g_autofree char *after = NULL;

  for (guint keeps = 0; keeps < 2; keeps++)
    {
      g_autoptr(Answer) answer =
        begin_ask (fixture, context, "Tell me a story.", keeps ? keeping : long_answer);
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(Answer) busy = NULL;

      WAIT_FOR (answer->generation != NULL || answer->is_finished);
      g_assert_no_error (answer->error);
      WAIT_FOR (llm_generation_get_state (answer->generation) == LLM_GENERATION_DECODE);
      busy = begin_ask (fixture, context, "And I?", GREEDY);
      WAIT_FOR (busy->is_finished);
      g_assert_error (busy->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_BUSY);

      llm_generation_cancel_async (answer->generation, on_result, &result);
      WAIT_FOR (result != NULL);
      g_assert_true (answer->is_finished);
      g_assert_cmpint (llm_generation_get_state (answer->generation), ==, LLM_GENERATION_DONE);

      /* Cancelling is idempotent, also behind the end. */
      g_clear_object (&result);
      llm_generation_cancel_async (
        llm_engine_lookup_generation (fixture->engine, fixture->caller,
                                      llm_generation_get_id (answer->generation)),
        on_result, &result);
      WAIT_FOR (result != NULL);
      g_assert_true (g_task_propagate_boolean (G_TASK (result), NULL));
      if (keeps && answer->error == NULL)
        {
          g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "cancelled");
          g_assert_cmpuint (context->revision, ==, 2);
          g_assert_cmpuint (count_messages (context), ==, 4);
        }
      else
        {
          g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);
          g_assert_cmpuint (context->revision, ==, 1);
          g_assert_cmpuint (count_messages (context), ==, 2);
        }
    }
  after = ask (fixture, context, "Hello!", GREEDY);
}

static void
test_deadline (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(Answer) answer = begin_ask (fixture, context, "Tell me a story.",
                                        "{'deadline-ms': <uint32 1>, "
                                        "'logit-bias': <{uint32 4: -100.0}>}");

  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED);
  g_assert_cmpuint (context->revision, ==, 0);
}

static void
test_request_id (Fixture      *fixture,
                 gconstpointer data)
{
  const char once[] = "{'request-id': <'r1'>, 'max-tokens': <uint32 9>, 'if-revision': <uint64 0>}";
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *first = ask (fixture, context, "Tell me a story.", once);
  g_autofree char *second = ask (fixture, context, "Tell me a story.", once);
  g_autoptr(Answer) conflict =
    begin_ask (fixture, context, "Hello!", "{'if-revision': <uint64 0>}");

  g_assert_cmpstr (first, ==, second);
  g_assert_cmpuint (context->revision, ==, 1);
  g_assert_cmpuint (count_messages (context), ==, 2);
  WAIT_FOR (conflict->is_finished);
  g_assert_error (conflict->error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT);
}

/* With the id of an answered request comes the same answer, or what is wrong with that. */
static void
check_conflict (Fixture    *fixture,
                LlmContext *context,
                const char *prompt,
                const char *options)
{
  g_autoptr(Answer) answer = begin_ask (fixture, context, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT);
  g_assert_nonnull (strstr (answer->error->message, "r1"));
}

static void
test_request_id_conflict (Fixture      *fixture,
                          gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autofree char *first =
    ask (fixture, context, "Hello!", "{'request-id': <'r1'>, 'max-tokens': <uint32 9>}");
  g_autofree char *again = NULL;

  check_conflict (fixture, context, "Hello?", "{'request-id': <'r1'>, 'max-tokens': <uint32 9>}");
  check_conflict (fixture, context, "Hello!", "{'request-id': <'r1'>, 'max-tokens': <uint32 8>}");
  check_conflict (fixture, context, "Hello!", "{'request-id': <'r1'>}");
  g_assert_cmpuint (count_messages (context), ==, 2);

  /* How soon the answer comes, and in which order options are named, is not what was asked. */
  again = ask (fixture, context, "Hello!",
               "{'deadline-ms': <uint32 60000>, 'max-tokens': <9.0>, 'slo': <'background'>,"
               " 'request-id': <'r1'>}");
  g_assert_cmpstr (again, ==, first);
  g_assert_cmpuint (count_messages (context), ==, 2);
}

/* Returns the tokens; 0 with @error set. */
static guint
append (Fixture    *fixture,
        LlmContext *context,
        const char *text,
        const char *options,
        GError    **error)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_APPEND);
  g_autoptr(GAsyncResult) result = NULL;
  guint tokens;

  llm_context_append_async (context, fixture->caller, user_message (text), parsed, on_result,
                            &result);
  WAIT_FOR (result != NULL);
  return take_count (result, &tokens, error) ? tokens : 0;
}

/* Text with the id of an earlier request is added once, also when that was before a restart. */
static void
test_append_again (Fixture      *fixture,
                   gconstpointer data)
{
  static const char *const waits[] = {
    "{'request-id': <'r1'>, 'wait': <true>}", "{'request-id': <'r2'>}",
  };
  LlmContext *context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(GError) error = NULL;
  guint tokens[G_N_ELEMENTS (waits)];

  for (guint i = 0; i < G_N_ELEMENTS (waits); i++)
    {
      tokens[i] = append (fixture, context, "I live in San Jose.", waits[i], &error);
      g_assert_no_error (error);
      g_assert_cmpuint (append (fixture, context, "I live in San Jose.", waits[i], &error), ==,
                        tokens[i]);
      g_assert_no_error (error);
      g_assert_cmpuint (count_messages (context), ==, i + 1);
    }
  g_object_unref (context);
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);

  context = open_context (fixture, "notes", "{}", &error);
  for (guint i = 0; i < G_N_ELEMENTS (waits); i++)
    {
      g_assert_cmpuint (append (fixture, context, "I live in San Jose.", waits[i], &error), ==,
                        tokens[i]);
      g_assert_no_error (error);
    }
  g_assert_cmpuint (append (fixture, context, "I live in Fresno.", waits[0], &error), ==, 0);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT);
  check_conflict (fixture, context, "I live in San Jose.", "{'request-id': <'r1'>}");
  g_assert_cmpuint (count_messages (context), ==, 2);
  g_assert_cmpuint (context->revision, ==, 2);

  /* What was rolled back is not there to be repeated. */
  g_clear_error (&error);
  g_assert_true (rollback (context, 2, &error));
  g_assert_cmpuint (append (fixture, context, "I live in Fresno.", waits[0], &error), >, 0);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (context), ==, 1);
  g_object_unref (context);
}

/* A named context survives the service, and goes on as if nothing had happened. */
static void
test_restart (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *id = NULL;
  g_autofree char *next = NULL;
  g_autofree char *undisturbed = NULL;
  LlmContext *context = create (fixture, "{'name': <'notes'>}");
  LlmContext *unnamed = create (fixture, "{}");
  guint tokens;

  g_free (ask (fixture, context, "I want a restaurant in San Jose.", GREEDY));
  undisturbed = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_true (rollback (context, 1, &error));
  id = g_strdup (context->id);
  tokens = llm_context_get_tokens (context);
  g_object_unref (context);
  g_object_unref (unnamed);

  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (context->id, ==, id);
  g_assert_cmpuint (llm_context_get_tokens (context), ==, tokens);
  g_assert_cmpuint (context->revision, ==, 3);
  WAIT_FOR (g_str_equal (llm_context_get_residency (context), "storage"));
  g_assert_cmpuint (count_messages (context), ==, 2);
  next = ask (fixture, context, "Italian food, please.", GREEDY);
  g_assert_cmpstr (next, ==, undisturbed);
  g_object_unref (context);
}

/* Two calls open the same new name at once: both get the same context. */
static void
test_open_at_once (Fixture      *fixture,
                   gconstpointer data)
{
  g_autoptr(LlmCallOptions) options =
    parse_options ("{'create': <true>}", LLMSVC_CALL_OPEN_CONTEXT);
  g_autoptr(GAsyncResult) first = NULL;
  g_autoptr(GAsyncResult) second = NULL;
  g_autoptr(LlmContext) one = NULL;
  g_autoptr(LlmContext) other = NULL;
  g_autoptr(GError) error = NULL;

  llm_engine_open_context_async (fixture->engine, fixture->caller, "notes", options, on_result,
                                 &first);
  llm_engine_open_context_async (fixture->engine, fixture->caller, "notes", options, on_result,
                                 &second);
  WAIT_FOR (first != NULL && second != NULL);
  one = g_task_propagate_pointer (G_TASK (first), &error);
  g_assert_no_error (error);
  other = g_task_propagate_pointer (G_TASK (second), &error);
  g_assert_no_error (error);
  g_assert_true (one == other);
}

static void
test_close (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(Answer) answer =
    begin_ask (fixture, context, "Tell me a story.", "{'logit-bias': <{uint32 4: -100.0}>}");
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  /* Closing cancels what runs. */
  WAIT_FOR (answer->generation != NULL);
  llm_context_close_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
  g_assert_true (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED);

  g_assert_null (llm_engine_lookup_context (fixture->engine, fixture->caller,
                                            context->id));
  g_assert_null (open_context (fixture, "notes", "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  g_clear_error (&error);
  g_assert_null (open_context (fixture, "notes", "{}", &error));
}

static void
test_isolation (Fixture      *fixture,
                gconstpointer data)
{
  g_autoptr(LlmCaller) app = llm_caller_new (1000, "org.example.Other", ":1.2", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) user = llm_caller_new (1001, "org.example.App", ":1.3", LLM_CALLER_HOST);
  g_autoptr(LlmCaller) same = llm_caller_new (1000, "org.example.App", ":1.4", LLM_CALLER_HOST);
  g_autoptr(LlmContext) named = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) unnamed = create (fixture, "{}");
  g_autoptr(GPtrArray) mine = llm_engine_get_contexts (fixture->engine, same);
  g_autoptr(GPtrArray) others = llm_engine_get_contexts (fixture->engine, app);

  g_assert_cmpuint (mine->len, ==, 2);
  g_assert_cmpuint (others->len, ==, 0);
  g_assert_null (llm_engine_lookup_context (fixture->engine, app, named->id));
  g_assert_null (llm_engine_lookup_context (fixture->engine, user, named->id));
  g_assert_nonnull (llm_engine_lookup_context (fixture->engine, same, named->id));

  /* Whoever leaves takes along only what is unnamed. */
  llm_engine_caller_gone (fixture->engine, ":1.4");
  g_assert_nonnull (llm_engine_lookup_context (fixture->engine, same,
                                               unnamed->id));
  llm_engine_caller_gone (fixture->engine, ":1.1");
  g_assert_null (llm_engine_lookup_context (fixture->engine, same, unnamed->id));
  g_assert_nonnull (llm_engine_lookup_context (fixture->engine, same, named->id));
}

static void
test_full (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'max-tokens': <uint32 40>}");
  g_autoptr(GString) text = g_string_new (NULL);
  g_autoptr(Answer) too_long = NULL;
  g_autoptr(Answer) filling = NULL;

  for (guint i = 0; i < 100; i++)
    g_string_append (text, "word ");
  too_long = begin_ask (fixture, context, text->str, GREEDY);
  WAIT_FOR (too_long->is_finished);
  g_assert_error (too_long->error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
  g_assert_nonnull (strstr (too_long->error->message, "40"));

  filling = begin_ask (fixture, context, "Hello!",
                       "{'temperature': <0.0>, "
                       "'logit-bias': <{uint32 4: -100.0, uint32 2: -100.0}>}");
  WAIT_FOR (filling->is_finished);
  g_assert_no_error (filling->error);
  g_assert_cmpstr (result_string (filling, "finish-reason"), ==, "context-full");
  g_assert_cmpuint (llm_context_get_tokens (context), <=, 41);
}

/* A letter with its accent is one name, written as one character or as two; and what joins letters is
 * part of a name. */
static void
test_names (Fixture      *fixture,
            gconstpointer data)
{
  static const char two[] = "Zoe\xcc\x88 \xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae";
  static const char one[] = "Zo\xc3\xab \xd9\x85\xdb\x8c\xe2\x80\x8c\xd8\xae";
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContext) made = open_context (fixture, two, "{'create': <true>}", &error);
  g_autoptr(LlmContext) found = open_context (fixture, one, "{}", &error);

  g_assert_no_error (error);
  g_assert_true (found == made);
}

#define ADD(path, func) g_test_add (path, Fixture, NULL, set_up_floats, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/engine/begin", test_begin);
  ADD ("/engine/names", test_names);
  ADD ("/engine/turns", test_turns);
  ADD ("/engine/fork", test_fork);
  ADD ("/engine/fork-answers", test_fork_answers);
  ADD ("/engine/other-turn", test_other_turn);
  ADD ("/engine/append", test_append);
  ADD ("/engine/cancel", test_cancel);
  ADD ("/engine/deadline", test_deadline);
  ADD ("/engine/request-id", test_request_id);
  ADD ("/engine/request-id-conflict", test_request_id_conflict);
  ADD ("/engine/append-again", test_append_again);
  ADD ("/engine/restart", test_restart);
  ADD ("/engine/open-at-once", test_open_at_once);
  ADD ("/engine/close", test_close);
  ADD ("/engine/isolation", test_isolation);
  ADD ("/engine/full", test_full);
  return g_test_run ();
}
