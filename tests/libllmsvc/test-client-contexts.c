/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts, of the shipped model. */

#include <string.h>

#include "client-rig.h"

static const LlmTestDaemonSetup setup = { .flags = LLM_TEST_DAEMON_ACTIVATABLE };

typedef struct
{
  ClientRig *rig;
  LlmsvcOptions *brief;  /* for short answers */
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->rig = rig_new (&setup);
  fixture->brief =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 4, "temperature", 0.0, NULL);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  g_object_unref (fixture->brief);
  rig_free (fixture->rig);
}

static void
on_closed (LlmsvcContext *context,
           const char    *reason,
           gpointer       data)
{
  g_assert_true (llmsvc_context_get_is_closed (context));
  g_string_append_printf (data, "%s ", reason);
}

static gboolean
is_closed (gpointer data)
{
  return llmsvc_context_get_is_closed (data);
}

static void
assert_message (GPtrArray  *messages,
                guint       i,
                const char *role,
                const char *text)
{
  LlmsvcMessage *message;

  g_assert_cmpuint (i, <, messages->len);
  message = g_ptr_array_index (messages, i);
  g_assert_cmpstr (llmsvc_message_get_role (message), ==, role);
  g_assert_cmpstr (llmsvc_message_get_text (message), ==, text);
}

static void
test_conversation (Fixture       *fixture,
                   gconstpointer  data)
{
  g_autoptr(LlmsvcOptions) options = llmsvc_options_new ();
  g_autoptr(LlmsvcMessage) added = llmsvc_message_new (LLMSVC_ROLE_USER, "I like tea.");
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  g_autoptr(GPtrArray) fewer = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;
  guint tokens = 0, before;

  g_object_set (options, "system", "Be kind.", NULL);
  context = rig_create (fixture->rig->client, options, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_context_get_name (context), ==, "");
  g_assert_true (llmsvc_context_get_client (context) == fixture->rig->client);
  g_assert_cmpuint (llmsvc_context_get_tokens (context), >, 0);
  g_assert_cmpuint (llmsvc_context_get_revision (context), ==, 0);
  g_assert_cmpstr (llmsvc_context_get_residency (context), !=, "");
  g_assert_false (llmsvc_context_get_is_exact (context));

  answer = rig_ask (context, "Hello!", fixture->brief, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llmsvc_context_get_revision (context), ==, 1);
  before = llmsvc_context_get_tokens (context);

  llmsvc_context_append_async (context, &added, 1, NULL, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_context_append_finish (context, rig_wait (&result), &tokens, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (tokens, >, 0);
  g_assert_cmpuint (llmsvc_context_get_revision (context), ==, 2);
  g_assert_cmpuint (llmsvc_context_get_tokens (context), >, before);

  messages = rig_list_messages (context);
  g_assert_cmpuint (messages->len, ==, 4);
  assert_message (messages, 0, "system", "Be kind.");
  assert_message (messages, 1, "user", "Hello!");
  assert_message (messages, 2, "assistant", llmsvc_answer_get_text (answer));
  assert_message (messages, 3, "user", "I like tea.");

  llmsvc_context_rollback_async (context, 2, NULL, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_context_rollback_finish (context, rig_wait (&result), &error));
  g_assert_no_error (error);
  fewer = rig_list_messages (context);
  g_assert_cmpuint (fewer->len, ==, 1);
  g_assert_cmpuint (llmsvc_context_get_revision (context), ==, 3);

  g_object_set (options, "if-revision", (guint64) 1, NULL);
  llmsvc_context_rollback_async (context, 1, options, NULL, rig_on_ready, &result);
  g_assert_false (llmsvc_context_rollback_finish (context, rig_wait (&result), &error));
  rig_assert_error (error, LLMSVC_ERROR_CONFLICT);
}

/* After an answer each chunk is somewhere, and the sums are those of the parts. */
static void
test_memory (Fixture       *fixture,
             gconstpointer  data)
{
  const guint widths[] = { 32, 16, 8, 4, 3, 2 };
  g_autoptr(LlmsvcContext) context = rig_create (fixture->rig->client, NULL, NULL);
  g_autoptr(LlmsvcContextMemory) fresh = NULL;
  g_autoptr(LlmsvcContextMemory) used = NULL;
  g_autoptr(LlmsvcContextMemory) late = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  guint64 in_memory = 0;

  fresh = rig_get_memory (context, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_context_memory_get_residency (fresh), ==, "text");
  g_assert_cmpuint (llmsvc_context_memory_get_n_chunks (fresh), ==, 0);
  g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes (fresh), ==, 0);

  answer = rig_ask (context, "Hello! How are you today, and what do you like to eat?",
                    fixture->brief, &error);
  g_assert_no_error (error);
  used = rig_get_memory (context, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llmsvc_context_memory_get_chunk_tokens (used), ==, 16);
  g_assert_cmpuint (llmsvc_context_memory_get_n_chunks (used), ==,
                    (llmsvc_context_memory_get_tokens (used) + 15) / 16);
  g_assert_cmpuint (llmsvc_context_memory_get_n_chunks (used), >, 0);
  g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes (used), >, 0);
  for (guint i = 0; i < llmsvc_context_memory_get_n_chunks (used); i++)
    g_assert_cmpint (llmsvc_context_memory_get_chunk_place (used, i), !=,
                     LLMSVC_CHUNK_PLACE_UNKNOWN);
  for (gsize i = 0; i < G_N_ELEMENTS (widths); i++)
    in_memory += llmsvc_context_memory_get_memory_bytes_at (used, widths[i]);
  g_assert_cmpuint (llmsvc_context_memory_get_memory_bytes (used), ==, in_memory);

  rig_close (context);
  late = rig_get_memory (context, &error);
  g_assert_null (late);
  rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);
}

/* Many messages come in several calls. */
static void
test_many_messages (Fixture       *fixture,
                    gconstpointer  data)
{
  g_autoptr(GPtrArray) given = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr(GPtrArray) messages = NULL;
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;

  context = rig_create (fixture->rig->client, NULL, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 40; i++)
    {
      g_autofree char *text = g_strdup_printf ("Message %u", i);

      g_ptr_array_add (given, llmsvc_message_new (LLMSVC_ROLE_USER, text));
    }
  llmsvc_context_append_async (context, (LlmsvcMessage **) given->pdata, given->len, NULL, NULL,
                               rig_on_ready, &result);
  g_assert_true (llmsvc_context_append_finish (context, rig_wait (&result), NULL, &error));
  g_assert_no_error (error);
  messages = rig_list_messages (context);
  g_assert_cmpuint (messages->len, ==, 40);
  assert_message (messages, 39, "user", "Message 39");
}

static void
test_names (Fixture       *fixture,
            gconstpointer  data)
{
  LlmsvcClient *client = fixture->rig->client;
  g_autoptr(LlmsvcOptions) options =
    g_object_new (LLMSVC_TYPE_OPTIONS, "create", TRUE, "system", "Rhyme.", NULL);
  g_autoptr(LlmsvcOptions) named = g_object_new (LLMSVC_TYPE_OPTIONS, "name", "diary", NULL);
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcContext) again = NULL;
  g_autoptr(LlmsvcContext) missing = NULL;
  g_autoptr(LlmsvcContext) twice = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  g_autoptr(GString) heard = g_string_new (NULL);
  g_autoptr(GError) error = NULL;

  missing = rig_open (client, "diary", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);
  g_clear_error (&error);
  missing = rig_open (client, "di/ary", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  /* made with the options for making, opened as it is the second time */
  context = rig_open (client, "diary", options, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_context_get_name (context), ==, "diary");
  messages = rig_list_messages (context);
  g_assert_cmpuint (messages->len, ==, 1);
  assert_message (messages, 0, "system", "Rhyme.");
  again = rig_open (client, "diary", options, &error);
  g_assert_no_error (error);
  g_assert_true (again != context);
  g_assert_cmpstr (llmsvc_context_get_path (again), ==, llmsvc_context_get_path (context));

  twice = rig_create (client, named, &error);
  rig_assert_error (error, LLMSVC_ERROR_ALREADY_EXISTS);
  g_clear_error (&error);

  /* it is kept when its object goes, and ends for all objects when one closes it */
  g_signal_connect (again, "closed", G_CALLBACK (on_closed), heard);
  g_clear_object (&context);
  rig_wait_n_contexts (fixture->rig, 1);
  context = rig_open_new (client, "diary");
  rig_close (context);
  g_assert_true (llmsvc_context_get_is_closed (context));
  rig_wait_until (is_closed, again);
  rig_settle (fixture->rig);
  g_assert_cmpstr (heard->str, ==, "closed ");
  g_assert_cmpuint (rig_count_contexts (fixture->rig), ==, 0);

  answer = rig_ask (context, "Hello!", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);
  rig_close (context);
}

static void
test_unnamed (Fixture       *fixture,
              gconstpointer  data)
{
  LlmsvcClient *client = fixture->rig->client;
  g_autoptr(LlmsvcContext) one = rig_create (client, NULL, NULL);
  g_autoptr(LlmsvcContext) other = rig_create (client, NULL, NULL);

  g_assert_cmpuint (rig_count_contexts (fixture->rig), ==, 2);
  /* listing them has closed none */
  g_assert_cmpuint (rig_count_contexts (fixture->rig), ==, 2);
  g_clear_object (&one);
  rig_wait_n_contexts (fixture->rig, 1);
}

static void
test_list (Fixture       *fixture,
           gconstpointer  data)
{
  LlmsvcClient *client = fixture->rig->client;
  g_autoptr(LlmsvcContext) context = rig_open_new (client, "one");
  g_autoptr(GPtrArray) contexts = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;

  answer = rig_ask (context, "Hello!", fixture->brief, &error);
  g_assert_no_error (error);
  llmsvc_client_list_contexts_async (client, NULL, rig_on_ready, &result);
  contexts = llmsvc_client_list_contexts_finish (client, rig_wait (&result), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (contexts->len, ==, 1);
  g_assert_cmpstr (llmsvc_context_get_name (g_ptr_array_index (contexts, 0)), ==, "one");
  g_assert_cmpuint (llmsvc_context_get_revision (g_ptr_array_index (contexts, 0)), ==, 1);
  g_assert_cmpuint (llmsvc_context_get_tokens (g_ptr_array_index (contexts, 0)), ==,
                    llmsvc_context_get_tokens (context));
}

static LlmsvcContext *
fork_context (LlmsvcContext  *context,
              LlmsvcOptions  *options,
              GError        **error)
{
  GAsyncResult *result = NULL;

  llmsvc_context_fork_async (context, options, NULL, rig_on_ready, &result);
  return llmsvc_context_fork_finish (context, rig_wait (&result), error);
}

static void
test_fork (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(LlmsvcOptions) named = g_object_new (LLMSVC_TYPE_OPTIONS, "name", "copy", NULL);
  g_autoptr(LlmsvcContext) context = rig_create (fixture->rig->client, NULL, NULL);
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(LlmsvcAnswer) other_answer = NULL;
  g_autoptr(LlmsvcContext) fork = NULL;
  g_autoptr(LlmsvcContext) kept = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  g_autoptr(GPtrArray) kept_messages = NULL;
  g_autoptr(GError) error = NULL;

  answer = rig_ask (context, "Hello!", fixture->brief, &error);
  g_assert_no_error (error);
  fork = fork_context (context, NULL, &error);
  g_assert_no_error (error);
  kept = fork_context (context, named, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_context_get_name (kept), ==, "copy");

  other_answer = rig_ask (fork, "And you?", fixture->brief, &error);
  g_assert_no_error (error);
  messages = rig_list_messages (context);
  g_assert_cmpuint (messages->len, ==, 2);
  kept_messages = rig_list_messages (kept);
  g_assert_cmpuint (kept_messages->len, ==, 2);
  assert_message (kept_messages, 1, "assistant", llmsvc_answer_get_text (answer));

  g_clear_object (&fork);
  rig_close (kept);
  rig_wait_n_contexts (fixture->rig, 1);
}

/* The same context, while it answers, does nothing else. */
static void
test_busy (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(LlmsvcContext) context = rig_create (fixture->rig->client, NULL, NULL);
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) refused = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *first = NULL;
  GAsyncResult *second = NULL;

  llmsvc_context_prompt_async (context, "Hello!", fixture->brief, NULL, rig_on_ready, &first);
  llmsvc_context_ask_async (context, "Hello?", fixture->brief, NULL, rig_on_ready, &second);
  while (first == NULL || second == NULL)
    g_main_context_iteration (NULL, TRUE);
  refused = llmsvc_context_ask_finish (context, rig_wait (&second), &error);
  rig_assert_error (error, LLMSVC_ERROR_CONTEXT_BUSY);
  g_clear_error (&error);
  generation = llmsvc_context_prompt_finish (context, rig_wait (&first), &error);
  g_assert_no_error (error);
  answer = rig_finish (generation, &error);
  g_assert_no_error (error);
}

/* A context that was asked for and is not wanted any more does not stay. */
static void
test_cancelled_creation (Fixture       *fixture,
                         gconstpointer  data)
{
  LlmsvcClient *client = fixture->rig->client;

  for (guint i = 0; i < 10; i++)
    {
      g_autoptr(GCancellable) cancellable = g_cancellable_new ();
      g_autoptr(LlmsvcContext) context = NULL;
      g_autoptr(GError) error = NULL;
      GAsyncResult *result = NULL;

      llmsvc_client_create_context_async (client, NULL, cancellable, rig_on_ready, &result);
      if (i % 2 == 1)
        rig_settle (fixture->rig);
      g_cancellable_cancel (cancellable);
      context = llmsvc_client_create_context_finish (client, rig_wait (&result), &error);
      if (context == NULL)
        rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
    }

  rig_wait_n_contexts (fixture->rig, 0);
}

static void
test_client_calls (Fixture       *fixture,
                   gconstpointer  data)
{
  LlmsvcClient *client = fixture->rig->client;
  g_autoptr(LlmsvcMessage) message = llmsvc_message_new (LLMSVC_ROLE_USER, "How are you?");
  g_autoptr(LlmsvcOptions) raw = g_object_new (LLMSVC_TYPE_OPTIONS, "raw", TRUE, "max-tokens", 3,
                                               "temperature", 0.0, NULL);
  g_autoptr(LlmsvcOptions) full =
    g_object_new (LLMSVC_TYPE_OPTIONS, "system", "Be brief.", "max-tokens", 3, "temperature", 0.0,
                  "request-id", "x", NULL);
  g_autoptr(LlmsvcAnswer) raw_answer = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;
  LlmsvcModel *model;
  guint one = 0, two = 0;
  LlmsvcMessage *both[] = { message, message };

  llmsvc_client_prewarm_async (client, NULL, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_client_prewarm_finish (client, rig_wait (&result), &error));
  g_assert_no_error (error);
  rig_settle (fixture->rig);
  g_assert_cmpint (llmsvc_client_get_availability (client), ==, LLMSVC_AVAILABILITY_READY);
  g_assert_cmpstr (llmsvc_client_get_availability_reason (client), ==, "");

  llmsvc_client_count_tokens_async (client, both, 1, NULL, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_client_count_tokens_finish (client, rig_wait (&result), &one, &error));
  llmsvc_client_count_tokens_async (client, both, 2, NULL, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_client_count_tokens_finish (client, rig_wait (&result), &two, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (one, >, 0);
  g_assert_cmpuint (two, >, one);

  model = llmsvc_client_get_active_model (client);
  g_assert_nonnull (model);
  g_assert_cmpstr (llmsvc_model_get_id (model), !=, "");
  g_assert_cmpstr (llmsvc_model_get_title (model), !=, "");
  g_assert_cmpstr (llmsvc_model_get_architecture (model), ==, "llama");
  g_assert_cmpuint (llmsvc_model_get_context_length (model), >, 0);
  g_assert_cmpuint (llmsvc_model_get_file_bytes (model), >, 0);
  g_assert_cmpuint (llmsvc_model_get_n_parameters (model), >, 0);
  g_assert_cmpstr (llmsvc_model_get_quantization (model), !=, "");
  g_assert_cmpuint (g_variant_n_children (llmsvc_model_get_info (model)), >, 3);

  raw_answer = rig_complete (client, "Once upon", raw, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llmsvc_answer_get_output_tokens (raw_answer), ==, 3);
  answer = rig_complete (client, "Hello!", full, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (llmsvc_answer_get_revision (answer), ==, 0);
  g_assert_cmpstr (llmsvc_answer_get_model_id (answer), ==, llmsvc_model_get_id (model));
  g_assert_cmpstr (llmsvc_answer_get_ignored (answer)[0], ==, "request-id");
  g_assert_null (llmsvc_answer_get_ignored (answer)[1]);

  llmsvc_options_require (full, "request-id");
  g_clear_object (&answer);
  answer = rig_complete (client, "Hello!", full, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_UNSUPPORTED);
  g_clear_error (&error);

  llmsvc_client_select_model_async (client, "no-such-model", NULL, rig_on_ready, &result);
  g_assert_false (llmsvc_client_select_model_finish (client, rig_wait (&result), &error));
  rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);

  rig_wait_n_contexts (fixture->rig, 0);
}

/* A question that is cancelled stops at the service and leaves no context. A short answer may
 * be there before a late cancel; the first two come before anything was sent. */
static void
test_cancelled_question (Fixture       *fixture,
                         gconstpointer  data)
{
  g_autoptr(LlmsvcOptions) long_one =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 200, NULL);
  guint n_cancelled = 0;

  for (guint i = 0; i < 6; i++)
    {
      g_autoptr(GCancellable) cancellable = g_cancellable_new ();
      g_autoptr(LlmsvcAnswer) answer = NULL;
      g_autoptr(GError) error = NULL;
      GAsyncResult *result = NULL;

      if (i == 0)
        g_cancellable_cancel (cancellable);
      llmsvc_client_complete_async (fixture->rig->client, "Tell me a long story.", long_one,
                                    cancellable, rig_on_ready, &result);
      for (guint round = 1; round < i; round++)
        rig_settle (fixture->rig);
      g_cancellable_cancel (cancellable);
      answer = llmsvc_client_complete_finish (fixture->rig->client, rig_wait (&result), &error);
      if (answer != NULL)
        continue;
      rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
      n_cancelled++;
    }

  g_assert_cmpuint (n_cancelled, >=, 2);
  rig_wait_n_contexts (fixture->rig, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

#define ADD(path, function) \
  g_test_add ("/libllmsvc/contexts/" path, Fixture, NULL, set_up, function, tear_down)
  ADD ("conversation", test_conversation);
  ADD ("memory", test_memory);
  ADD ("many-messages", test_many_messages);
  ADD ("names", test_names);
  ADD ("unnamed", test_unnamed);
  ADD ("list", test_list);
  ADD ("fork", test_fork);
  ADD ("busy", test_busy);
  ADD ("cancelled-creation", test_cancelled_creation);
  ADD ("client-calls", test_client_calls);
  ADD ("cancelled-question", test_cancelled_question);

  return g_test_run ();
}
