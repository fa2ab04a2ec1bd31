/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The service around a script: what it says of itself, its availability, what it
 * keeps, how it goes away and comes back, and what it does not start with. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/llmsvc-line.h"
#include "decoding/mock-rig.h"
#include "support/llm-test-folder.h"

#define ECHO "[{\"text\": \"{prompt}\"}]"

/* --- what it says of itself --- */

static void
check_is_mock (MockRig *rig)
{
  g_autoptr(GVariant) features = bus_get (rig->app, NULL, "", "Features");
  g_autofree const char **names = g_variant_get_strv (features, NULL);
  g_autoptr(GVariant) model = NULL;
  g_autoptr(GVariant) id = NULL;
  g_autoptr(GVariant) title = NULL;
  const char *path;

  g_assert_true (g_strv_contains (names, "mock"));
  mock_assert_answer (rig, "hello", "{'require': <['mock', 'named-contexts']>}", "hello");

  model = bus_get (rig->app, NULL, "", "ActiveModel");
  path = g_variant_get_string (model, NULL);
  id = bus_get (rig->app, path, ".Model", "Id");
  g_assert_cmpstr (g_variant_get_string (id, NULL), ==, "mock");
  title = bus_get (rig->app, path, ".Model", "Title");
  g_assert_cmpstr (g_variant_get_string (title, NULL), ==, "Mock model (script.json)");
}

static void
test_unmistakable (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (ECHO);

  check_is_mock (rig);
  g_assert_cmpuint (mock_get_statistic (rig, "requests"), ==, 1);
  g_assert_cmpuint (mock_get_statistic (rig, "output-tokens"), ==, 6);

  /* it is unloaded and loaded as any other, though it is no file */
  g_variant_unref (bus_call_ok (rig->app, NULL, ".Memory", "Trim",
                                g_variant_new ("(s@a{sv})", "critical", bus_options ("{}"))));
  g_variant_unref (bus_call_ok (rig->app, NULL, "", "SelectModel",
                                g_variant_new ("(s@a{sv})", "mock", bus_options ("{}"))));
  mock_assert_answer (rig, "again", "{}", "again");
}

static void
test_system_bus (void)
{
  g_autoptr(MockRig) rig = mock_rig_new_full (ECHO, NULL, LLM_TEST_DAEMON_SYSTEM);

  check_is_mock (rig);
}

/* The real service does not call itself one. */
static void
test_not_mistaken (void)
{
  LlmTestDaemon *daemon = llm_test_daemon_new (NULL);
  GDBusConnection *app = llm_test_daemon_connect (daemon);
  g_autoptr(GVariant) features = bus_get (app, NULL, "", "Features");
  g_autofree const char **names = g_variant_get_strv (features, NULL);

  g_assert_false (g_strv_contains (names, "mock"));
  g_object_unref (app);
  llm_test_daemon_free (daemon);
}

/* --- progress --- */

/* A caller that waits for its first token is told how far it is; cancelling ends that. */
static void
test_progress (void)
{
  g_autoptr(MockRig) rig = mock_rig_new ("[{\"text\": \"late\", \"delay-ms\": 3600000}]");
  g_autofree char *context = bus_create (rig->app, bus_options ("{}"));
  g_autofree char *generation = NULL;
  g_autofree char *rest = NULL;
  g_autoptr(GString) bytes = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line = { 0 };
  const char *phase = "";
  guint64 total = 0;
  char byte = '\0';
  int fd;

  generation = bus_generate (rig->app, context, "hello", bus_options ("{}"), &fd, &error);
  g_assert_no_error (error);
  while (byte != '\n')
    {
      g_assert_cmpint (read (fd, &byte, 1), ==, 1);
      g_string_append_c (bytes, byte);
    }
  g_assert_true (llmsvc_line_parse (bytes->str, bytes->len - 1, &line, &error));
  g_assert_no_error (error);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_PROGRESS);
  g_assert_true (g_variant_lookup (line.results, "phase", "&s", &phase));
  g_assert_cmpstr (phase, ==, "prefill");
  g_assert_true (g_variant_lookup (line.results, "total", "t", &total));
  g_assert_cmpuint (total, ==, 24);
  llmsvc_line_clear (&line);

  g_variant_unref (bus_call_ok (rig->app, generation, ".Generation", "Cancel",
                                g_variant_new ("(@a{sv})", bus_options ("{}"))));
  rest = mock_read_stream (fd);
  g_assert_cmpstr (rest, ==, "error Cancelled");
}

/* --- availability --- */

typedef struct
{
  MockRig *rig;
  const char *availability;
} Awaited;

static gboolean
has_come (gpointer data)
{
  Awaited *awaited = data;
  g_autoptr(GVariant) value = bus_get (awaited->rig->app, NULL, "", "Availability");

  return g_str_equal (g_variant_get_string (value, NULL), awaited->availability);
}

static void
wait_for (MockRig    *rig,
          const char *availability,
          const char *reason)
{
  Awaited awaited = { rig, availability };
  g_autoptr(GVariant) value = NULL;

  bus_wait_until (has_come, &awaited);
  value = bus_get (rig->app, NULL, "", "AvailabilityReason");
  g_assert_nonnull (strstr (g_variant_get_string (value, NULL), reason));
}

/* Calls made meanwhile wait for the end of it. */
static void
test_loading (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "{\"version\": 1, \"availability\": [{\"state\": \"loading\", \"for-ms\": 100},"
    " {\"state\": \"ready\"}], \"rules\": " ECHO "}");

  mock_assert_answer (rig, "hello", "{}", "hello");
  wait_for (rig, "ready", "");
}

static void
test_loading_for_ever (void)
{
  MockRig *rig = mock_rig_new (
    "{\"version\": 1, \"availability\": [{\"state\": \"loading\"}], \"rules\": " ECHO "}");
  g_autoptr(MockCall) call = mock_call_begin (rig->app, "hello");

  for (guint i = 0; i < 20; i++)
    wait_for (rig, "loading", "looking for models");
  g_assert_false (call->is_done);
  llm_test_daemon_kill (rig->daemon, SIGTERM);
  bus_wait_until (mock_call_is_done, call);
  bus_assert_error (call->error, "Cancelled");
  mock_rig_free (rig);
}

static void
test_no_model (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "{\"version\": 1, \"availability\": [{\"state\": \"ready\", \"for-ms\": 1},"
    " {\"state\": \"no-model\"}], \"rules\": " ECHO "}");
  g_autoptr(GVariant) model = NULL;
  g_autofree char *context = NULL;

  wait_for (rig, "no-model", "no model");
  mock_assert_failure (rig, "hello", "{}", "NoModel", "no model");
  model = bus_get (rig->app, NULL, "", "ActiveModel");
  g_assert_cmpstr (g_variant_get_string (model, NULL), ==, "/");
  context = bus_create (rig->app, bus_options ("{}"));
}

static void
test_failed (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "{\"version\": 1, \"availability\": [{\"state\": \"failed\","
    " \"reason\": \"The disk is gone\"}], \"rules\": " ECHO "}");

  wait_for (rig, "failed", "The disk is gone");
  mock_assert_failure (rig, "hello", "{}", "InvalidModel", "The disk is gone");
}

/* From one to the next, also with a call under way. */
static void
test_phases (void)
{
  g_autoptr(MockRig) rig = mock_rig_new (
    "{\"version\": 1, \"availability\": [{\"state\": \"failed\", \"reason\": \"a\", \"for-ms\": 1},"
    " {\"state\": \"loading\", \"for-ms\": 1}, {\"state\": \"no-model\", \"for-ms\": 1},"
    " {\"state\": \"loading\", \"for-ms\": 1}, {\"state\": \"ready\", \"for-ms\": 2000},"
    " {\"state\": \"failed\", \"reason\": \"over\"}],"
    " \"rules\": [{\"pieces\": [\"a\", \"b\"], \"piece-delay-ms\": 2500}]}");
  g_autofree char *context = NULL;
  g_autofree char *stream = NULL;
  g_autoptr(GError) error = NULL;
  int fd;

  wait_for (rig, "ready", "");
  context = bus_create (rig->app, bus_options ("{}"));
  g_free (bus_generate (rig->app, context, "x", bus_options ("{}"), &fd, &error));
  if (error == NULL)
    {
      stream = mock_read_stream (fd);
      g_assert_cmpstr (stream, ==, "a|b|done stop");
    }
  wait_for (rig, "failed", "over");
  mock_assert_failure (rig, "x", "{}", "InvalidModel", "over");
}

/* --- what it keeps --- */

static void
test_restart (void)
{
  g_autoptr(MockRig) rig = mock_rig_new ("[{\"when\": {\"turn\": 2}, \"text\": \"two\"},"
                                         " {\"when\": {\"start\": 2}, \"text\": \"later\"},"
                                         " {\"text\": \"one\"}]");
  g_autofree char *path = bus_open (rig->app, "notes");
  g_autofree char *again = NULL;
  g_autofree char *text = bus_ask (rig->app, path, "a", bus_options ("{}"), NULL);
  g_autofree char *second = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GVariant) results = NULL;

  g_assert_cmpstr (text, ==, "one");
  llm_test_daemon_restart (rig->daemon);
  again = bus_open (rig->app, "notes");
  g_assert_cmpstr (again, ==, path);
  g_assert_cmpuint (bus_count_messages (rig->app, path, &last), ==, 2);
  g_assert_cmpstr (last, ==, "one");
  second = bus_ask (rig->app, path, "b", bus_options ("{}"), &results);
  g_assert_cmpstr (second, ==, "two");
  /* the tokens of the first turn are worth as much as before */
  g_assert_cmpuint (bus_lookup_u (results, "prompt-tokens"), ==, 20 + 4 + 1 + 20);
  mock_assert_answer (rig, "x", "{}", "later");
}

static guint
count_files (const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  guint n = 0;

  while (dir != NULL && g_dir_read_name (dir) != NULL)
    n++;
  return n;
}

/* Without --state-dir nothing is on disk, and the next run finds nothing; the
 * user's own settings and contexts are not looked at. */
static void
test_forgets (void)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *home = llm_test_folder_new ();
  g_autofree char *path = NULL;
  g_autofree char *text = NULL;
  MockRig *rig;

  g_assert_no_error (error);
  g_setenv ("XDG_STATE_HOME", home, TRUE);
  g_setenv ("STATE_DIRECTORY", home, TRUE);
  rig = mock_rig_new_full (ECHO, NULL, LLM_TEST_DAEMON_NO_STATE_DIR);
  path = bus_open (rig->app, "notes");
  text = bus_ask (rig->app, path, "a", bus_options ("{}"), NULL);
  g_assert_cmpstr (text, ==, "a");
  llm_test_daemon_restart (rig->daemon);
  g_assert_null (bus_call (rig->app, NULL, "", "OpenContext",
                           g_variant_new ("(s@a{sv})", "notes", bus_options ("{}")), &error));
  bus_assert_error (error, "NotFound");
  g_clear_error (&error);
  mock_rig_free (rig);
  g_unsetenv ("XDG_STATE_HOME");
  g_unsetenv ("STATE_DIRECTORY");
  g_assert_cmpuint (count_files (home), ==, 0);
  llm_test_folder_remove (home);
}

/* --- how it goes away --- */

/* The text came, the turn was not kept: the retry is a first call. */
static void
test_exit_before_keep (void)
{
  g_autoptr(MockRig) rig = mock_rig_new_full (
    "[{\"when\": {\"start\": 1}, \"pieces\": [\"half \", \"an ans\"], \"exit\": \"before-keep\"},"
    " {\"text\": \"a whole answer\"}]", NULL, LLM_TEST_DAEMON_ACTIVATABLE);
  g_autofree char *path = bus_open (rig->app, "notes");
  g_autofree char *stream = NULL;
  g_autofree char *again = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GError) error = NULL;
  gboolean repeated;
  int fd;

  g_free (bus_generate (rig->app, path, "x", bus_options ("{'request-id': <'r1'>}"), &fd, &error));
  g_assert_no_error (error);
  stream = mock_read_stream (fd);
  g_assert_cmpstr (stream, ==, "half |an ans|gone");
  llm_test_daemon_wait_gone (rig->daemon);

  again = bus_open (rig->app, "notes");
  g_assert_cmpstr (again, ==, path);
  g_assert_cmpuint (bus_count_messages (rig->app, path, NULL), ==, 0);
  text = bus_ask (rig->app, path, "x", bus_options ("{'request-id': <'r1'>}"), &results);
  g_assert_cmpstr (text, ==, "a whole answer");
  g_assert_false (g_variant_lookup (results, "repeated", "b", &repeated));
}

/* The turn was kept, and nobody was told: the retry gets the same answer. */
static void
test_exit_after_keep (void)
{
  g_autoptr(MockRig) rig = mock_rig_new_full (
    "[{\"when\": {\"start\": 1}, \"text\": \"an answer\", \"exit\": \"after-keep\"},"
    " {\"text\": \"another answer\"}]", NULL, LLM_TEST_DAEMON_ACTIVATABLE);
  g_autofree char *path = bus_open (rig->app, "notes");
  g_autofree char *text = NULL;
  g_autofree char *last = NULL;
  g_autoptr(GVariant) lost = NULL;
  g_autoptr(GVariant) results = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *name = NULL;
  gboolean repeated = FALSE;

  lost = bus_call (rig->app, path, ".Context", "Ask",
                   g_variant_new ("(s@a{sv})", "x", bus_options ("{'request-id': <'r1'>}")),
                   &error);
  g_assert_null (lost);
  name = bus_error_name (error);
  g_assert_cmpstr (name, ==, "org.freedesktop.DBus.Error.NoReply");
  llm_test_daemon_wait_gone (rig->daemon);

  g_assert_cmpuint (bus_count_messages (rig->app, path, &last), ==, 2);
  g_assert_cmpstr (last, ==, "an answer");
  text = bus_ask (rig->app, path, "x", bus_options ("{'request-id': <'r1'>}"), &results);
  g_assert_cmpstr (text, ==, "an answer");
  g_assert_true (g_variant_lookup (results, "repeated", "b", &repeated));
  g_assert_true (repeated);
}

/* --- what it does not start with --- */

static void
check_refused (const char *const *arguments,
               int                status,
               const char        *words)
{
  g_autoptr(GPtrArray) command = g_ptr_array_new ();
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *complaint = NULL;

  g_ptr_array_add (command, (gpointer) g_getenv ("LLM_DAEMON"));
  for (guint i = 0; arguments[i] != NULL; i++)
    g_ptr_array_add (command, (gpointer) arguments[i]);
  g_ptr_array_add (command, NULL);
  process = g_subprocess_newv ((const char *const *) command->pdata,
                               G_SUBPROCESS_FLAGS_STDERR_PIPE, &error);
  g_assert_no_error (error);
  g_assert_true (g_subprocess_communicate_utf8 (process, NULL, NULL, NULL, &complaint, &error));
  g_assert_no_error (error);
  g_test_message ("%s", complaint);
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, status);
  g_assert_true (g_str_has_prefix (complaint, "llmsvcd: "));
  g_assert_nonnull (strstr (complaint, words));
}

static void
test_refused (void)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "bad.json", NULL);
  const char *bad[] = { "--mock", path, NULL };
  const char *both[] = { "--mock", path, "--model", "x.gguf", NULL };
  const char *missing[] = { "--mock", "/nonexistent.json", NULL };

  g_assert_true (g_file_set_contents (path, "{\"version\": 1, \"rules\": [{\"txt\": 1}]}", -1,
                                      NULL));
  check_refused (bad, EX_CONFIG, "bad.json: rules[0]: there is no key “txt” here; there are when,");
  check_refused (both, EXIT_FAILURE, "Only one of --model and --mock");
  check_refused (missing, EX_CONFIG, "/nonexistent.json");
  llm_test_folder_remove (folder);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/mock/service/unmistakable", test_unmistakable);
  g_test_add_func ("/mock/service/system-bus", test_system_bus);
  g_test_add_func ("/mock/service/not-mistaken", test_not_mistaken);
  g_test_add_func ("/mock/service/progress", test_progress);
  g_test_add_func ("/mock/service/loading", test_loading);
  g_test_add_func ("/mock/service/loading-for-ever", test_loading_for_ever);
  g_test_add_func ("/mock/service/no-model", test_no_model);
  g_test_add_func ("/mock/service/failed", test_failed);
  g_test_add_func ("/mock/service/phases", test_phases);
  g_test_add_func ("/mock/service/restart", test_restart);
  g_test_add_func ("/mock/service/forgets", test_forgets);
  g_test_add_func ("/mock/service/exit-before-keep", test_exit_before_keep);
  g_test_add_func ("/mock/service/exit-after-keep", test_exit_after_keep);
  g_test_add_func ("/mock/service/refused", test_refused);
  return g_test_run ();
}
