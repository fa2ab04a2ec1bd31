/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The service goes away at every moment, and what apps are told of it. */

#include <signal.h>
#include <string.h>

#include "client-rig.h"

/* The first start loses what is asked; the second answers it. */
static const char script[] =
  "{\"version\":1,\"rules\":["
  "{\"when\":{\"prompt\":\"lose\",\"start\":1},\"pieces\":[\"The first half\"],"
  "\"exit\":\"before-keep\"},"
  "{\"when\":{\"prompt\":\"keep\",\"start\":1},\"pieces\":[\"Everything.\"],"
  "\"exit\":\"after-keep\"},"
  "{\"when\":{\"prompt\":\"slow\"},\"pieces\":[\"One\",\" two\"],\"piece-delay-ms\":3600000},"
  "{\"when\":{\"prompt\":\"never\"},\"pieces\":[\"x\"],\"delay-ms\":3600000},"
  "{\"text\":\"The whole answer.\"}]}";

static const LlmTestDaemonSetup comes_back = { .script = script,
                                               .flags = LLM_TEST_DAEMON_ACTIVATABLE };
static const LlmTestDaemonSetup stays_away = { .script = script };

static void
on_closed (LlmsvcContext *context,
           const char    *reason,
           gpointer       data)
{
  g_string_append_printf (data, "%s ", reason);
}

static gboolean
is_closed (gpointer data)
{
  return llmsvc_context_get_is_closed (data);
}

static void
assert_n_messages (LlmsvcContext *context,
                   guint          n)
{
  g_autoptr(GPtrArray) messages = rig_list_messages (context);

  g_assert_cmpuint (messages->len, ==, n);
}

/* Reads until it breaks, and asks again with the same id: (transfer full) the answer then. */
static LlmsvcAnswer *
break_and_repeat (LlmsvcContext *context,
                  const char    *prompt,
                  LlmsvcError    expected)
{
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcOptions) again = llmsvc_options_new ();
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;
  LlmsvcAnswer *repeated;

  generation = rig_prompt (context, prompt, NULL, &error);
  g_assert_no_error (error);
  answer = rig_finish (generation, &error);
  rig_assert_error (error, expected);
  g_assert_true (llmsvc_generation_get_is_done (generation));
  g_clear_error (&error);

  g_object_set (again, "request-id", llmsvc_generation_get_request_id (generation), NULL);
  repeated = rig_ask (context, prompt, again, &error);
  g_assert_no_error (error);
  return repeated;
}

static void
test_not_kept (void)
{
  g_autoptr(ClientRig) rig = rig_new (&comes_back);
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(LlmsvcAnswer) answer = NULL;

  answer = break_and_repeat (context, "lose", LLMSVC_ERROR_LOST);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "The whole answer.");
  g_assert_false (llmsvc_answer_get_is_repeated (answer));
  g_assert_cmpuint (llmsvc_answer_get_revision (answer), ==, 1);
  assert_n_messages (context, 2);
  g_assert_false (llmsvc_context_get_is_closed (context));
}

static void
test_kept (void)
{
  g_autoptr(ClientRig) rig = rig_new (&comes_back);
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(LlmsvcAnswer) answer = NULL;

  /* the turn is there, so that asking again gives the same answer and does nothing */
  answer = break_and_repeat (context, "keep", LLMSVC_ERROR_LOST_KEPT);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "Everything.");
  g_assert_true (llmsvc_answer_get_is_repeated (answer));
  assert_n_messages (context, 2);
  rig_refresh_context (context);
  g_assert_cmpuint (llmsvc_context_get_revision (context), ==, 1);
}

/* Without a service that could be asked nobody knows; afterwards the turn is done once. */
static void
test_unknown (gconstpointer data)
{
  g_autoptr(ClientRig) rig = rig_new (&stays_away);
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(LlmsvcOptions) again = llmsvc_options_new ();
  g_autoptr(GError) error = NULL;
  const char *prompt = data;

  generation = rig_prompt (context, prompt, NULL, &error);
  g_assert_no_error (error);
  answer = rig_finish (generation, &error);
  rig_assert_error (error, LLMSVC_ERROR_LOST_UNKNOWN);
  g_assert_nonnull (strstr (error->message, "request-id"));
  g_clear_error (&error);
  g_assert_false (llmsvc_context_get_is_closed (context));

  llm_test_daemon_start (rig->daemon);
  g_object_set (again, "request-id", llmsvc_generation_get_request_id (generation), NULL);
  answer = rig_ask (context, prompt, again, &error);
  g_assert_no_error (error);
  assert_n_messages (context, 2);
  g_assert_cmpuint (llmsvc_answer_get_revision (answer), ==, 1);
}

/* A context without a name goes with the service, whoever comes then. */
static void
test_unnamed (gconstpointer data)
{
  g_autoptr(ClientRig) rig = rig_new (data);
  g_autoptr(LlmsvcContext) context = rig_create (rig->client, NULL, NULL);
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GString) heard = g_string_new (NULL);
  g_autoptr(GError) error = NULL;

  g_signal_connect (context, "closed", G_CALLBACK (on_closed), heard);
  answer = rig_ask (context, "lose", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_LOST);
  g_clear_error (&error);
  rig_wait_until (is_closed, context);
  g_assert_cmpstr (heard->str, ==, "lost ");

  answer = rig_ask (context, "lose", NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, "restarted"));
  g_clear_error (&error);

  /* a single question has nothing to lose but itself */
  if (llm_test_daemon_get_pid (rig->daemon) == 0)
    llm_test_daemon_start (rig->daemon);
  answer = rig_complete (rig->client, "Hello", NULL, NULL, &error);
  g_assert_no_error (error);
}

/* The real service is killed in the middle of an answer. */
static void
test_kill (gconstpointer data)
{
  const LlmTestDaemonSetup setup = { .flags = LLM_TEST_DAEMON_ACTIVATABLE };
  gboolean is_named = GPOINTER_TO_INT (data);
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(LlmsvcOptions) brief =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 4, "temperature", 0.0, NULL);
  g_autoptr(LlmsvcOptions) endless =
    g_object_new (LLMSVC_TYPE_OPTIONS, "max-tokens", 400, "temperature", 1.0, NULL);
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcAnswer) first = NULL;
  g_autoptr(LlmsvcAnswer) lost = NULL;
  g_autoptr(LlmsvcAnswer) again = NULL;
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *piece = NULL;

  /* Without the tokens that end an answer it goes on, however slow this client is. */
  g_assert_true (llmsvc_options_set_from_string (endless, "logit-bias", "{2: -100, 4: -100}",
                                                 &error));
  g_assert_no_error (error);
  context =
    is_named ? rig_open_new (rig->client, "talk") : rig_create (rig->client, NULL, NULL);
  first = rig_ask (context, "Hello!", brief, &error);
  g_assert_no_error (error);
  generation = rig_prompt (context, "Tell me a very long story.", endless, &error);
  g_assert_no_error (error);
  piece = rig_next (generation, NULL, &error);
  g_assert_no_error (error);
  llm_test_daemon_kill (rig->daemon, SIGKILL);
  lost = rig_finish (generation, &error);
  rig_assert_error (error, LLMSVC_ERROR_LOST);
  g_clear_error (&error);

  again = rig_ask (context, "How are you?", brief, &error);
  if (!is_named)
    {
      rig_assert_error (error, LLMSVC_ERROR_NOT_FOUND);
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpuint (llmsvc_answer_get_revision (again), ==, 2);
  assert_n_messages (context, 4);
}

/* However often it dies, the app stays the same app to the next one: the context is found. */
static void
test_storm (void)
{
  g_autoptr(ClientRig) rig = rig_new (&comes_back);
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");

  for (guint i = 0; i < 20; i++)
    {
      g_autoptr(LlmsvcGeneration) generation = NULL;
      g_autoptr(LlmsvcAnswer) lost = NULL;
      g_autoptr(LlmsvcAnswer) answer = NULL;
      g_autoptr(GError) error = NULL;

      generation = rig_prompt (context, "slow", NULL, &error);
      g_assert_no_error (error);
      /* the bus may not know of it yet when the next call is made */
      g_assert_cmpint (kill (llm_test_daemon_get_pid (rig->daemon), SIGKILL), ==, 0);
      if (i % 2 == 0)
        {
          lost = rig_finish (generation, &error);
          rig_assert_error (error, LLMSVC_ERROR_LOST);
          g_clear_error (&error);
        }
      else
        {
          g_clear_object (&generation);
          rig_settle (rig);
        }
      answer = rig_ask (context, "Hello", NULL, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (llmsvc_answer_get_revision (answer), ==, i + 1);
    }
  assert_n_messages (context, 40);
}

/* The service dies before it has replied at all. */
static void
test_before_reply (void)
{
  g_autoptr(ClientRig) rig = rig_new (&comes_back);
  g_autoptr(LlmsvcMessage) message = llmsvc_message_new (LLMSVC_ROLE_USER, "Hello");
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(GError) error = NULL;
  GAsyncResult *count = NULL, *list = NULL, *append = NULL, *prompt = NULL, *prewarm = NULL;
  GAsyncResult *refresh = NULL, *create = NULL;
  g_autoptr(LlmsvcContext) created = NULL;
  g_autoptr(GPtrArray) messages = NULL;
  guint tokens = 0;
  int pid = llm_test_daemon_get_pid (rig->daemon);

  /* it takes no more calls */
  g_assert_cmpint (kill (pid, SIGSTOP), ==, 0);
  llmsvc_client_count_tokens_async (rig->client, &message, 1, NULL, NULL, rig_on_ready, &count);
  llmsvc_client_prewarm_async (rig->client, NULL, NULL, rig_on_ready, &prewarm);
  llmsvc_client_refresh_async (rig->client, NULL, rig_on_ready, &refresh);
  llmsvc_client_create_context_async (rig->client, NULL, NULL, rig_on_ready, &create);
  llmsvc_context_list_messages_async (context, NULL, rig_on_ready, &list);
  llmsvc_context_append_async (context, &message, 1, NULL, NULL, rig_on_ready, &append);
  llmsvc_context_prompt_async (context, "Hello", NULL, NULL, rig_on_ready, &prompt);
  g_assert_true (g_dbus_connection_flush_sync (rig->connection, NULL, NULL));
  llm_test_daemon_kill (rig->daemon, SIGKILL);
  while (count == NULL || list == NULL || append == NULL || prompt == NULL || prewarm == NULL ||
         refresh == NULL || create == NULL)
    g_main_context_iteration (NULL, TRUE);

  /* what may be done twice was repeated, the rest was not done */
  g_assert_true (llmsvc_client_count_tokens_finish (rig->client, rig_wait (&count), &tokens,
                                                    &error));
  g_assert_no_error (error);
  g_assert_true (llmsvc_client_prewarm_finish (rig->client, rig_wait (&prewarm), &error));
  g_assert_true (llmsvc_client_refresh_finish (rig->client, rig_wait (&refresh), &error));
  g_assert_no_error (error);
  created = llmsvc_client_create_context_finish (rig->client, rig_wait (&create), &error);
  g_assert_no_error (error);
  messages = llmsvc_context_list_messages_finish (context, rig_wait (&list), &error);
  g_assert_no_error (error);
  g_assert_cmpuint (messages->len, ==, 0);
  g_assert_false (llmsvc_context_append_finish (context, rig_wait (&append), &tokens, &error));
  rig_assert_error (error, LLMSVC_ERROR_LOST);
  g_clear_error (&error);
  g_assert_null (llmsvc_context_prompt_finish (context, rig_wait (&prompt), &error));
  rig_assert_error (error, LLMSVC_ERROR_LOST);
}

/* A named context is known to the next service without a call of the app's: its end is told. */
static gboolean
is_ready (gpointer data)
{
  return llmsvc_client_get_availability (data) == LLMSVC_AVAILABILITY_READY;
}

static gboolean
is_away (gpointer data)
{
  return llmsvc_client_get_availability (data) == LLMSVC_AVAILABILITY_ABSENT;
}

static void
test_reopened (void)
{
  g_autoptr(ClientRig) rig = rig_new (&stays_away);
  g_autoptr(GDBusConnection) elsewhere = llm_test_daemon_connect (rig->daemon);
  g_autoptr(LlmsvcClient) other = rig_new_client (elsewhere, "org.example.Test");
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(LlmsvcContext) their = NULL;
  g_autoptr(GString) heard = g_string_new (NULL);
  g_autoptr(GError) error = NULL;

  g_signal_connect (context, "closed", G_CALLBACK (on_closed), heard);
  llm_test_daemon_kill (rig->daemon, SIGTERM);
  rig_wait_until (is_away, rig->client);
  llm_test_daemon_start (rig->daemon);
  rig_wait_until (is_ready, rig->client);
  rig_settle (rig);

  their = rig_open (other, "talk", NULL, &error);
  g_assert_no_error (error);
  rig_close (their);
  rig_wait_until (is_closed, context);
  g_assert_cmpstr (heard->str, ==, "closed ");
}

/* An ordinary stop tells the answers that are under way. */
static void
test_stopped (void)
{
  g_autoptr(ClientRig) rig = rig_new (&comes_back);
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(LlmsvcAnswer) again = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *piece = NULL;

  generation = rig_prompt (context, "slow", NULL, &error);
  g_assert_no_error (error);
  piece = rig_next (generation, NULL, &error);
  llm_test_daemon_kill (rig->daemon, SIGTERM);
  answer = rig_finish (generation, &error);
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);
  again = rig_ask (context, "Hello", NULL, &error);
  g_assert_no_error (error);
  assert_n_messages (context, 2);
}

/* Cancelling an answer whose service is gone is no error, and starts none. */
static void
test_cancel_nothing (void)
{
  g_autoptr(ClientRig) rig = rig_new (&comes_back);
  g_autoptr(LlmsvcContext) context = rig_open_new (rig->client, "talk");
  g_autoptr(LlmsvcGeneration) generation = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;

  generation = rig_prompt (context, "slow", NULL, &error);
  g_assert_no_error (error);
  llm_test_daemon_kill (rig->daemon, SIGKILL);
  llmsvc_generation_cancel_async (generation, NULL, rig_on_ready, &result);
  g_assert_true (llmsvc_generation_cancel_finish (generation, rig_wait (&result), &error));
  g_assert_no_error (error);
  g_assert_cmpint (llm_test_daemon_get_pid (rig->daemon), ==, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/libllmsvc/restarts/not-kept", test_not_kept);
  g_test_add_func ("/libllmsvc/restarts/kept", test_kept);
  g_test_add_data_func ("/libllmsvc/restarts/unknown/not-kept", "lose", test_unknown);
  g_test_add_data_func ("/libllmsvc/restarts/unknown/kept", "keep", test_unknown);
  g_test_add_data_func ("/libllmsvc/restarts/unnamed/comes-back", &comes_back, test_unnamed);
  g_test_add_data_func ("/libllmsvc/restarts/unnamed/stays-away", &stays_away, test_unnamed);
  g_test_add_data_func ("/libllmsvc/restarts/kill/named", GINT_TO_POINTER (TRUE), test_kill);
  g_test_add_data_func ("/libllmsvc/restarts/kill/unnamed", GINT_TO_POINTER (FALSE), test_kill);
  g_test_add_func ("/libllmsvc/restarts/storm", test_storm);
  g_test_add_func ("/libllmsvc/restarts/before-reply", test_before_reply);
  g_test_add_func ("/libllmsvc/restarts/reopened", test_reopened);
  g_test_add_func ("/libllmsvc/restarts/stopped", test_stopped);
  g_test_add_func ("/libllmsvc/restarts/cancel-nothing", test_cancel_nothing);

  return g_test_run ();
}
