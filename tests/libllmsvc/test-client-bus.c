/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finding the service, and the client's view of it. */

#include <signal.h>

#include "client-rig.h"

static const char script[] = "{\"version\":1,\"rules\":[{\"text\":\"Hello.\"}]}";

static GDBusConnection *
find (GBusType   type,
      GBusType  *found,
      gboolean  *is_running,
      GError   **error)
{
  GAsyncResult *result = NULL;

  llmsvc_bus_find_async (type, NULL, rig_on_ready, &result);
  return llmsvc_bus_find_finish (rig_wait (&result), found, is_running, error);
}

static LlmsvcClient *
new_client (GBusType   type,
            GError   **error)
{
  GAsyncResult *result = NULL;

  llmsvc_client_new_async (type, "", NULL, rig_on_ready, &result);
  return llmsvc_client_new_finish (rig_wait (&result), error);
}

static gboolean
is_ready (gpointer data)
{
  return llmsvc_client_get_availability (data) == LLMSVC_AVAILABILITY_READY;
}

static gboolean
is_absent (gpointer data)
{
  return llmsvc_client_get_availability (data) == LLMSVC_AVAILABILITY_ABSENT;
}

static gboolean
is_idle (gpointer data)
{
  return llmsvc_client_get_availability (data) == LLMSVC_AVAILABILITY_IDLE;
}

static void
test_session (void)
{
  const LlmTestDaemonSetup setup = { .script = script };
  g_autoptr(LlmTestDaemon) daemon = llm_test_daemon_new (&setup);
  g_autoptr(GDBusConnection) found = NULL;
  g_autoptr(GDBusConnection) named = NULL;
  g_autoptr(GDBusConnection) none = NULL;
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GError) error = NULL;
  GBusType type = G_BUS_TYPE_NONE;
  gboolean is_running = FALSE;

  found = find (G_BUS_TYPE_NONE, &type, &is_running, &error);
  g_assert_no_error (error);
  g_assert_nonnull (found);
  g_assert_false (g_dbus_connection_get_exit_on_close (found));
  g_assert_cmpint (type, ==, G_BUS_TYPE_SESSION);
  g_assert_true (is_running);

  named = find (G_BUS_TYPE_SESSION, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (named == found);

  none = find (G_BUS_TYPE_SYSTEM, NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_AVAILABLE);
  g_assert_null (none);
  g_clear_error (&error);

  client = new_client (G_BUS_TYPE_NONE, &error);
  g_assert_no_error (error);
  g_assert_cmpint (llmsvc_client_get_bus_type (client), ==, G_BUS_TYPE_SESSION);
  g_assert_true (llmsvc_client_get_connection (client) == found);
  rig_wait_until (is_ready, client);
  g_assert_true (llmsvc_client_has_feature (client, "mock"));
  g_assert_cmpuint (llmsvc_client_get_api_version (client), >=, 1);
  g_assert_cmpstr (llmsvc_client_get_version (client), ==, LLMSVC_VERSION_STRING);

  g_clear_object (&client);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

static void
test_system (void)
{
  const LlmTestDaemonSetup setup = { .script = script, .flags = LLM_TEST_DAEMON_SYSTEM };
  g_autoptr(LlmTestDaemon) daemon = llm_test_daemon_new (&setup);
  g_autoptr(GDBusConnection) found = NULL;
  g_autoptr(GError) error = NULL;
  GBusType type = G_BUS_TYPE_NONE;

  found = find (G_BUS_TYPE_NONE, &type, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (found);
  g_assert_cmpint (type, ==, G_BUS_TYPE_SYSTEM);
}

static void
test_no_bus (void)
{
  g_autoptr(GDBusConnection) found = NULL;
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GError) error = NULL;

  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", TRUE);
  g_setenv ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent/bus", TRUE);
  found = find (G_BUS_TYPE_NONE, NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_AVAILABLE);
  g_clear_error (&error);
  client = new_client (G_BUS_TYPE_NONE, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_AVAILABLE);
}

static void
test_cancelled (void)
{
  const LlmTestDaemonSetup setup = { .script = script };
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GDBusConnection) found = NULL;
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GError) error = NULL;
  GAsyncResult *result = NULL;

  g_cancellable_cancel (cancellable);
  llmsvc_bus_find_async (G_BUS_TYPE_SESSION, cancellable, rig_on_ready, &result);
  found = llmsvc_bus_find_finish (rig_wait (&result), NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
  g_clear_error (&error);

  llmsvc_client_new_for_connection_async (rig->connection, "", cancellable, rig_on_ready, &result);
  client = llmsvc_client_new_for_connection_finish (rig_wait (&result), &error);
  rig_assert_error (error, LLMSVC_ERROR_CANCELLED);
}

/* A service that can't be started is absent until somebody starts it, one that can is idle. */
static void
test_absent (void)
{
  const LlmTestDaemonSetup setup = { .script = script };
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(LlmsvcClient) late = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  rig_wait_until (is_ready, rig->client);
  llm_test_daemon_kill (rig->daemon, SIGTERM);
  rig_wait_until (is_absent, rig->client);

  late = rig_new_client (rig->connection, "org.example.Test");
  g_assert_true (is_absent (late));
  answer = rig_complete (late, "Hello?", NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_AVAILABLE);

  llm_test_daemon_start (rig->daemon);
  rig_wait_until (is_ready, rig->client);
  rig_wait_until (is_ready, late);
  g_assert_cmpuint (g_list_model_get_n_items (llmsvc_client_get_models (late)), ==, 1);
}

static void
test_idle (void)
{
  const LlmTestDaemonSetup setup = { .script = script, .flags = LLM_TEST_DAEMON_ACTIVATABLE };
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(LlmsvcClient) late = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  llm_test_daemon_kill (rig->daemon, SIGTERM);
  rig_wait_until (is_idle, rig->client);
  late = rig_new_client (rig->connection, "org.example.Test");
  g_assert_true (is_idle (late));
  /* neither asking nor making a client starts it */
  g_assert_cmpint (llm_test_daemon_get_pid (rig->daemon), ==, 0);

  answer = rig_complete (late, "Hello?", NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (llmsvc_answer_get_text (answer), ==, "Hello.");
  rig_wait_until (is_ready, rig->client);

  llm_test_daemon_kill (rig->daemon, SIGKILL);
  rig_wait_until (is_idle, late);
  g_assert_true (rig_refresh (late, &error));
  g_assert_no_error (error);
  rig_wait_until (is_ready, late);
}

/* The connection itself may end. */
static void
test_connection_closed (void)
{
  const LlmTestDaemonSetup setup = { .script = script };
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  context = rig_create (rig->client, NULL, &error);
  g_assert_no_error (error);
  g_dbus_connection_close_sync (rig->connection, NULL, &error);
  g_assert_no_error (error);
  rig_wait_until (is_absent, rig->client);
  g_assert_true (llmsvc_context_get_is_closed (context));

  answer = rig_complete (rig->client, "Hello?", NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_NOT_AVAILABLE);
}

/* What the service says of itself comes as it changes. */
static void
note_availability (LlmsvcClient *client,
                   GParamSpec   *pspec,
                   gpointer      data)
{
  g_autoptr(GEnumClass) states = g_type_class_ref (LLMSVC_TYPE_AVAILABILITY);

  g_string_append_printf (
    data, "%s ",
    g_enum_get_value (states, (int) llmsvc_client_get_availability (client))->value_nick);
}

static gboolean
is_failed (gpointer data)
{
  return llmsvc_client_get_availability (data) == LLMSVC_AVAILABILITY_FAILED;
}

static void
test_availability (void)
{
  const LlmTestDaemonSetup setup = {
    .script = "{\"version\":1,\"availability\":[{\"state\":\"loading\",\"for-ms\":300},"
              "{\"state\":\"ready\",\"for-ms\":100},{\"state\":\"no-model\",\"for-ms\":100},"
              "{\"state\":\"failed\",\"reason\":\"The disk is gone\"}],"
              "\"rules\":[{\"text\":\"Hello.\"}]}",
    .flags = LLM_TEST_DAEMON_ACTIVATABLE,
  };
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(GString) seen = g_string_new (NULL);
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  llm_test_daemon_kill (rig->daemon, SIGTERM);
  rig_wait_until (is_idle, rig->client);
  g_signal_connect (rig->client, "notify::availability", G_CALLBACK (note_availability), seen);
  g_assert_true (rig_refresh (rig->client, &error));
  rig_wait_until (is_failed, rig->client);
  g_assert_cmpstr (seen->str, ==, "loading ready no-model failed ");
  g_assert_cmpstr (llmsvc_client_get_availability_reason (rig->client), ==, "The disk is gone");
  answer = rig_complete (rig->client, "Hello?", NULL, NULL, &error);
  rig_assert_error (error, LLMSVC_ERROR_INVALID_MODEL);
}

static void
test_app_id (void)
{
  const LlmTestDaemonSetup setup = { .script = script };
  g_autoptr(ClientRig) rig = rig_new (&setup);
  g_autoptr(LlmsvcClient) bad = NULL;
  g_autoptr(LlmsvcClient) other = NULL;
  g_autoptr(LlmsvcClient) same = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *app_id = NULL;
  GAsyncResult *result = NULL;

  g_object_get (rig->client, "app-id", &app_id, NULL);
  g_assert_cmpstr (app_id, ==, "org.example.Test");
  llmsvc_client_new_for_connection_async (rig->connection, "../x", NULL, rig_on_ready, &result);
  bad = llmsvc_client_new_for_connection_finish (rig_wait (&result), &error);
  rig_assert_error (error, LLMSVC_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error);

  /* a connection has one name */
  g_assert_true (rig_refresh (rig->client, &error));
  g_assert_no_error (error);
  same = rig_new_client (rig->connection, "org.example.Test");
  g_assert_true (rig_refresh (same, &error));
  g_assert_no_error (error);
  other = rig_new_client (rig->connection, "org.example.Other");
  g_assert_false (rig_refresh (other, &error));
  rig_assert_error (error, LLMSVC_ERROR_CONFLICT);
}

/* In a thread without a main context of its own: waited for. */
static gpointer
ask_in_thread (gpointer data)
{
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(LlmsvcContext) context = NULL;
  g_autoptr(LlmsvcAnswer) answer = NULL;
  g_autoptr(GError) error = NULL;

  client = llmsvc_client_new_for_connection_sync (data, "org.example.Test", NULL, &error);
  g_assert_no_error (error);
  context = llmsvc_client_create_context_sync (client, NULL, NULL, &error);
  g_assert_no_error (error);
  answer = llmsvc_context_ask_sync (context, "Hello?", NULL, NULL, &error);
  g_assert_no_error (error);
  return g_strdup (llmsvc_answer_get_text (answer));
}

/* In a thread with one: its signals come there. */
static gpointer
follow_in_thread (gpointer data)
{
  g_autoptr(GMainContext) context = g_main_context_new ();
  g_autoptr(LlmsvcClient) client = NULL;
  g_autoptr(GError) error = NULL;

  g_main_context_push_thread_default (context);
  client = llmsvc_client_new_for_connection_sync (data, "org.example.Test", NULL, &error);
  g_assert_no_error (error);
  while (!is_ready (client))
    g_main_context_iteration (context, TRUE);
  g_clear_object (&client);
  while (g_main_context_iteration (context, FALSE))
    ;
  g_main_context_pop_thread_default (context);
  return g_strdup ("Hello.");
}

static void
test_threads (void)
{
  const LlmTestDaemonSetup setup = {
    .script = "{\"version\":1,\"availability\":[{\"state\":\"loading\",\"for-ms\":100},"
              "{\"state\":\"ready\"}],\"rules\":[{\"text\":\"Hello.\"}]}",
  };
  const GThreadFunc functions[] = { follow_in_thread, ask_in_thread };
  g_autoptr(ClientRig) rig = rig_new (&setup);

  /* as in an app, where the main loop runs */
  g_assert_true (g_main_context_acquire (NULL));
  for (gsize i = 0; i < G_N_ELEMENTS (functions); i++)
    {
      GThread *thread = g_thread_new ("app", functions[i], rig->connection);
      g_autofree char *text = g_thread_join (thread);

      g_assert_cmpstr (text, ==, "Hello.");
    }
  g_main_context_release (NULL);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/libllmsvc/bus/session", test_session);
  g_test_add_func ("/libllmsvc/bus/system", test_system);
  g_test_add_func ("/libllmsvc/bus/none", test_no_bus);
  g_test_add_func ("/libllmsvc/bus/cancelled", test_cancelled);
  g_test_add_func ("/libllmsvc/bus/absent", test_absent);
  g_test_add_func ("/libllmsvc/bus/idle", test_idle);
  g_test_add_func ("/libllmsvc/bus/connection-closed", test_connection_closed);
  g_test_add_func ("/libllmsvc/bus/availability", test_availability);
  g_test_add_func ("/libllmsvc/bus/threads", test_threads);
  g_test_add_func ("/libllmsvc/bus/app-id", test_app_id);

  return g_test_run ();
}
