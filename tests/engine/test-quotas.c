/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Quotas of applications and of users, with the shipped model. */

#include "common/llmsvc-error.h"
#include "engine-rig.h"

#define MIB (1024 * 1024)

static LlmCaller *
new_caller (guint32     uid,
            const char *app_id)
{
  return llm_caller_new (uid, app_id, ":1.9", LLM_CALLER_REGISTERED);
}

static gboolean
try_quota (Fixture    *fixture,
           guint32     uid,
           const char *app_id,
           const char *text,
           GError    **error)
{
  g_autoptr(LlmCallOptions) options = parse_options (text, LLMSVC_CALL_SET_QUOTA);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_set_quota_async (fixture->engine, uid, app_id, options, on_result, &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_boolean (G_TASK (result), error);
}

static void
set_quota (Fixture    *fixture,
           guint32     uid,
           const char *app_id,
           const char *text)
{
  g_autoptr(GError) error = NULL;

  g_assert_true (try_quota (fixture, uid, app_id, text, &error));
  g_assert_no_error (error);
}

/* Begins to make a context; what came of it is for finish_create(). */
static void
begin_create (Fixture       *fixture,
              LlmCaller     *caller,
              const char    *text,
              GAsyncResult **result)
{
  g_autoptr(LlmCallOptions) options = parse_options (text, LLMSVC_CALL_CREATE_CONTEXT);

  llm_engine_create_context_async (fixture->engine, caller, options, on_result, result);
}

static LlmContext *
finish_create (Fixture       *fixture,
               GAsyncResult **result,
               GError       **error)
{
  LlmContext *context;

  WAIT_FOR (*result != NULL);
  context = g_task_propagate_pointer (G_TASK (*result), error);
  g_clear_object (result);
  return context;
}

/* (nullable) (transfer full): NULL when the quota is exceeded. */
static LlmContext *
try_create (Fixture    *fixture,
            LlmCaller  *caller,
            const char *text)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  LlmContext *context;

  begin_create (fixture, caller, text, &result);
  context = finish_create (fixture, &result, &error);
  if (context == NULL)
    g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
  return context;
}

/* What ListApps says of an application. (transfer full) */
static GVariant *
get_app (Fixture    *fixture,
         guint32     uid,
         const char *app_id)
{
  g_autoptr(GVariant) apps = llm_engine_list_apps (fixture->engine, uid, FALSE);

  for (gsize i = 0; i < g_variant_n_children (apps); i++)
    {
      g_autoptr(GVariant) app = g_variant_get_child_value (apps, i);
      const char *id;

      g_assert_true (g_variant_lookup (app, "app-id", "&s", &id));
      if (g_str_equal (id, app_id))
        return g_steal_pointer (&app);
    }
  g_assert_not_reached ();
}

static guint64
get_number (Fixture    *fixture,
            guint32     uid,
            const char *app_id,
            const char *key)
{
  g_autoptr(GVariant) app = get_app (fixture, uid, app_id);
  guint64 wide = 0;
  guint32 narrow = 0;

  if (g_variant_lookup (app, key, "u", &narrow))
    return narrow;
  g_assert_true (g_variant_lookup (app, key, "t", &wide));
  return wide;
}

/* All applications of a user have named contexts together. */
static void
test_named (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmCaller) one = new_caller (1000, "org.example.One");
  g_autoptr(LlmCaller) two = new_caller (1000, "org.example.Two");
  g_autoptr(LlmCaller) other = new_caller (1001, "org.example.One");
  g_autoptr(LlmContext) a = NULL;
  g_autoptr(LlmContext) b = NULL;
  g_autoptr(LlmContext) c = NULL;
  g_autoptr(LlmContext) unnamed = NULL;
  g_autoptr(LlmContext) others = NULL;
  g_autoptr(LlmContext) again = NULL;
  g_autoptr(GAsyncResult) closed = NULL;

  set_quota (fixture, 0, "", "{'named': <uint32 2>}");
  a = try_create (fixture, one, "{'name': <'a'>}");
  b = try_create (fixture, two, "{'name': <'b'>}");
  g_assert_nonnull (a);
  g_assert_nonnull (b);
  c = try_create (fixture, two, "{'name': <'c'>}");
  g_assert_null (c);
  unnamed = try_create (fixture, two, "{}");
  g_assert_nonnull (unnamed);
  others = try_create (fixture, other, "{'name': <'a'>}");
  g_assert_nonnull (others);
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.Two", "named"), ==, 2);
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.Two", "quota-named"), ==, 2);

  llm_context_close_async (a, on_result, &closed);
  WAIT_FOR (closed != NULL);
  again = try_create (fixture, two, "{'name': <'c'>}");
  g_assert_nonnull (again);
}

/* Those that are being made count: nobody gets past a quota by being quick. */
static void
test_at_once (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmCaller) caller = new_caller (1000, "org.example.Quick");
  GAsyncResult *results[8] = { NULL };
  guint n_made = 0;

  set_quota (fixture, 1000, "org.example.Quick", "{'contexts': <uint32 3>}");
  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    {
      g_autofree char *options = g_strdup_printf ("{'name': <'n%u'>}", i);

      begin_create (fixture, caller, options, &results[i]);
    }
  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context = finish_create (fixture, &results[i], &error);

      n_made += context != NULL;
      if (context == NULL)
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
    }
  g_assert_cmpuint (n_made, ==, 3);
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.Quick", "contexts"), ==, 3);
}

/* Ever new names are ever new applications, of one user. */
static void
test_apps (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(GPtrArray) contexts = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(LlmCaller) known = new_caller (1000, "org.example.N0");
  g_autoptr(LlmCaller) other = new_caller (1001, "org.example.New");
  g_autoptr(LlmContext) more = NULL;
  g_autoptr(LlmContext) others = NULL;

  set_quota (fixture, 0, "", "{'apps': <uint32 3>}");
  for (guint i = 0; i < 6; i++)
    {
      g_autofree char *name = g_strdup_printf ("org.example.N%u", i);
      g_autoptr(LlmCaller) caller = new_caller (1000, name);
      LlmContext *context = try_create (fixture, caller, "{}");

      if (context != NULL)
        g_ptr_array_add (contexts, context);
    }
  g_assert_cmpuint (contexts->len, ==, 3);
  more = try_create (fixture, known, "{}");
  g_assert_nonnull (more);
  others = try_create (fixture, other, "{}");
  g_assert_nonnull (others);
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.N0", "apps"), ==, 3);
}

/* Places in the queue are a user's with all applications; counting tokens takes one, too. */
static void
test_queue (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmCaller) own = new_caller (1000, "org.example.Other");
  g_autoptr(LlmCallOptions) none = parse_options ("{}", LLMSVC_CALL_COUNT_TOKENS);
  g_autoptr(Answer) one = NULL;
  g_autoptr(Answer) two = NULL;
  g_autoptr(Answer) three = NULL;
  g_autoptr(GAsyncResult) counted = NULL;
  g_autoptr(GError) error = NULL;
  LlmCaller *first = fixture->caller;
  guint n;

  set_quota (fixture, 0, "", "{'queue': <uint32 2>}");
  one = begin_complete (fixture, "Hello!", GREEDY);
  fixture->caller = own;
  two = begin_complete (fixture, "Hello!", GREEDY);
  three = begin_complete (fixture, "Hello!", GREEDY);
  fixture->caller = first;
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.Other", "queue"), ==, 2);
  llm_engine_count_tokens_async (fixture->engine, own, user_message ("Hello"), none, on_result,
                                 &counted);
  WAIT_FOR (three->is_finished && counted != NULL);
  g_assert_error (three->error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
  g_assert_false (take_count (counted, &n, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
  WAIT_FOR (one->is_finished && two->is_finished);
  g_assert_no_error (one->error);
  g_assert_no_error (two->error);

  g_clear_error (&error);
  g_clear_object (&counted);
  llm_engine_count_tokens_async (fixture->engine, own, user_message ("Hello"), none, on_result,
                                 &counted);
  WAIT_FOR (counted != NULL);
  g_assert_true (take_count (counted, &n, &error));
  g_clear_object (&counted);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.Other", "queue"), ==, 0);
}

/* Calls that open the same new name at once make one context, also where there is room for one. */
static void
test_open_at_once (Fixture      *fixture,
                   gconstpointer data)
{
  static const char *const quotas[] = { "{'contexts': <uint32 1>}", "{'named': <uint32 1>}" };
  g_autoptr(LlmCallOptions) options =
    parse_options ("{'create': <true>}", LLMSVC_CALL_OPEN_CONTEXT);
  g_autoptr(LlmCaller) again =
    llm_caller_new (1000, "org.example.App", ":1.2", LLM_CALLER_HOST);
  LlmCaller *callers[] = { fixture->caller, again, fixture->caller, again };

  for (guint i = 0; i < G_N_ELEMENTS (quotas); i++)
    {
      GAsyncResult *results[G_N_ELEMENTS (callers)] = { NULL };
      LlmContext *contexts[G_N_ELEMENTS (callers)];
      g_autoptr(GAsyncResult) closed = NULL;
      g_autoptr(GPtrArray) all = NULL;

      set_quota (fixture, 0, "", "{'contexts': <uint32 64>, 'named': <uint32 64>}");
      set_quota (fixture, 0, "", quotas[i]);
      for (guint j = 0; j < G_N_ELEMENTS (callers); j++)
        llm_engine_open_context_async (fixture->engine, callers[j], "notes", options, on_result,
                                       &results[j]);
      for (guint j = 0; j < G_N_ELEMENTS (callers); j++)
        {
          g_autoptr(GError) error = NULL;

          WAIT_FOR (results[j] != NULL);
          contexts[j] = g_task_propagate_pointer (G_TASK (results[j]), &error);
          g_assert_no_error (error);
          g_assert_true (contexts[j] == contexts[0]);
          g_object_unref (results[j]);
        }
      all = llm_engine_get_contexts (fixture->engine, fixture->caller);
      g_assert_cmpuint (all->len, ==, 1);

      llm_context_close_async (contexts[0], on_result, &closed);
      WAIT_FOR (closed != NULL);
      for (guint j = 0; j < G_N_ELEMENTS (callers); j++)
        g_object_unref (contexts[j]);
    }
}

/* Who waits for a context that another call makes under this name makes it when that one fails. */
static void
test_open_behind (Fixture      *fixture,
                  gconstpointer data)
{
  g_autoptr(LlmCallOptions) options =
    parse_options ("{'create': <true>}", LLMSVC_CALL_OPEN_CONTEXT);
  static const char *const begins[] = {
    "{'name': <'notes'>, 'max-tokens': <uint32 5>, 'system': <'Be very kind indeed.'>}",
    "{'name': <'notes'>, 'system': <'Be kind.'>}",
  };

  for (guint i = 0; i < G_N_ELEMENTS (begins); i++)
    {
      g_autoptr(GAsyncResult) made = NULL;
      g_autoptr(GAsyncResult) opened = NULL;
      g_autoptr(GAsyncResult) closed = NULL;
      g_autoptr(LlmContext) first = NULL;
      g_autoptr(LlmContext) context = NULL;
      g_autoptr(GError) error = NULL;

      begin_create (fixture, fixture->caller, begins[i], &made);
      llm_engine_open_context_async (fixture->engine, fixture->caller, "notes", options, on_result,
                                     &opened);
      first = finish_create (fixture, &made, &error);
      g_assert_cmpint (first == NULL, ==, i == 0);
      if (i == 0)
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL);
      else
        g_assert_no_error (error);
      g_clear_error (&error);

      WAIT_FOR (opened != NULL);
      context = g_task_propagate_pointer (G_TASK (opened), &error);
      g_assert_no_error (error);
      g_assert_true (first == NULL || first == context);
      llm_context_close_async (context, on_result, &closed);
      WAIT_FOR (closed != NULL);
    }
}

/* An unknown caller has a quarter of everything, and is called so. */
static void
test_unknown (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(LlmCaller) unknown = llm_caller_new (1000, "unknown:1.7", ":1.7", LLM_CALLER_UNKNOWN);
  g_autoptr(LlmCaller) known = new_caller (1000, "org.example.Known");
  g_autoptr(GPtrArray) contexts = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GVariant) app = NULL;
  LlmAppLimits quarter, whole;
  LlmContext *context;
  const char *kind;

  set_quota (fixture, 0, "", "{'contexts': <uint32 8>, 'rate': <uint32 100>, 'share': <0.4>}");
  while ((context = try_create (fixture, unknown, "{}")) != NULL)
    g_ptr_array_add (contexts, context);
  g_assert_cmpuint (contexts->len, ==, 2);
  g_assert_cmpuint (get_number (fixture, 1000, "unknown:1.7", "quota-contexts"), ==, 2);
  g_assert_cmpuint (get_number (fixture, 1000, "unknown:1.7", "quota-rate"), ==, 25);
  app = get_app (fixture, 1000, "unknown:1.7");
  g_assert_true (g_variant_lookup (app, "kind", "&s", &kind));
  g_assert_cmpstr (kind, ==, "unknown");

  llm_engine_get_limits (fixture->engine, unknown, &quarter);
  llm_engine_get_limits (fixture->engine, known, &whole);
  g_assert_cmpuint (quarter.rate, ==, 25);
  g_assert_cmpuint (whole.rate, ==, 100);
  g_assert_cmpuint (quarter.message, ==, whole.message / 4);
  g_assert_cmpuint (quarter.calls, ==, whole.calls / 4);
}

/* What all applications have together, none has alone. */
static void
test_of_user (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(GError) error = NULL;

  g_assert_false (try_quota (fixture, 1000, "org.example.App",
                             "{'contexts': <uint32 1>, 'queue': <uint32 3>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION);
  set_quota (fixture, 1000, "org.example.App", "{'message': <uint64 77>, 'rate': <uint32 5>}");
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.App", "quota-message"), ==, 77);
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.App", "quota-rate"), ==, 5);
  /* nothing of the refused one was taken */
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.App", "quota-contexts"), ==, 64);
}

/* --- the share of memory --- */

static char *
make_text (const char *word)
{
  g_autoptr(GString) text = g_string_new (NULL);

  for (guint i = 0; i < 120; i++)
    g_string_append_printf (text, "%s %u and ", word, i % 10);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* A context that was used; its executor has told where it is. */
static LlmContext *
make_used (Fixture    *fixture,
           LlmCaller  *caller,
           const char *word)
{
  LlmCaller *own = fixture->caller;
  g_autofree char *text = make_text (word);
  LlmContext *context;

  fixture->caller = caller;
  context = create (fixture, "{}");
  g_free (ask (fixture, context, text, "{'max-tokens': <uint32 4>, 'temperature': <0.0>}"));
  fixture->caller = own;
  return context;
}

/* An application with a quota keeps no more than that while nobody uses its contexts; they go on
 * all the same. Others' are left alone. */
static void
test_share (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmCaller) greedy = new_caller (1000, "org.example.Greedy");
  g_autoptr(LlmCaller) modest = new_caller (1000, "org.example.Modest");
  g_autoptr(LlmContext) a = NULL;
  g_autoptr(LlmContext) b = NULL;
  g_autoptr(LlmContext) c = NULL;
  g_autofree char *answer = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_true (set_budget (fixture, 400 * MIB, &error));
  a = make_used (fixture, modest, "apple");
  b = make_used (fixture, greedy, "pear");
  c = make_used (fixture, greedy, "plum");
  WAIT_FOR (get_number (fixture, 1000, "org.example.Greedy", "memory") > 0 &&
            get_number (fixture, 1000, "org.example.Modest", "memory") > 0);

  /* less than a chunk: nothing stays */
  set_quota (fixture, 1000, "org.example.Greedy", "{'share': <0.0000001>}");
  answer = ask (fixture, c, "And now?", "{'max-tokens': <uint32 4>, 'temperature': <0.0>}");
  WAIT_FOR (get_number (fixture, 1000, "org.example.Greedy", "memory") == 0);
  g_assert_cmpuint (get_number (fixture, 1000, "org.example.Modest", "memory"), >, 0);
  g_assert_cmpuint (count_messages (c), ==, 4);
  g_clear_pointer (&answer, g_free);
  answer = ask (fixture, b, "And now?", "{'max-tokens': <uint32 4>, 'temperature': <0.0>}");
  g_assert_cmpuint (count_messages (b), ==, 4);
}

/* --- the length of answers --- */

static Answer *
run (Fixture    *fixture,
     LlmContext *context,
     const char *options)
{
  Answer *answer = begin_ask (fixture, context, "Tell me a long story.", options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return answer;
}

/* It ends answers of an application that says nothing of their length, and lengthens none. */
static void
test_answer (Fixture      *fixture,
             gconstpointer data)
{
  const LlmApp *app = fixture->caller->app;
  g_autoptr(LlmContext) context = try_create (fixture, fixture->caller, "{}");
  Answer *answer;

  set_quota (fixture, app->uid, "org.example.Other", "{'answer': <uint32 2>}");
  answer = run (fixture, context, "{'temperature': <0.0>, 'max-tokens': <uint32 8>}");
  g_assert_cmpuint (result_uint (answer, "output-tokens"), >, 4);
  answer_free (answer);
  set_quota (fixture, app->uid, app->id, "{'answer': <uint32 4>}");
  answer = run (fixture, context, "{'temperature': <0.0>}");
  g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, 4);
  g_assert_cmpstr (result_string (answer, "finish-reason"), ==, "length");
  answer_free (answer);
  answer = run (fixture, context, "{'temperature': <0.0>, 'max-tokens': <uint32 3>}");
  g_assert_cmpuint (result_uint (answer, "output-tokens"), ==, 3);
  answer_free (answer);
}

int
main (int   argc,
      char *argv[])
{
#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, tear_down)
  g_test_init (&argc, &argv, NULL);
  ADD ("/quotas/named", test_named);
  ADD ("/quotas/at-once", test_at_once);
  ADD ("/quotas/open-at-once", test_open_at_once);
  ADD ("/quotas/open-behind", test_open_behind);
  ADD ("/quotas/apps", test_apps);
  ADD ("/quotas/queue", test_queue);
  ADD ("/quotas/unknown", test_unknown);
  ADD ("/quotas/of-user", test_of_user);
  ADD ("/quotas/share", test_share);
  ADD ("/quotas/answer", test_answer);
  return g_test_run ();
}
