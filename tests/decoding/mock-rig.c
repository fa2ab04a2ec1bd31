/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/mock-rig.h"

#include <string.h>
#include <unistd.h>

#include "common/llmsvc-line.h"

MockRig *
mock_rig_new_full (const char        *rules,
                   const char        *config,
                   LlmTestDaemonFlags flags)
{
  MockRig *rig = g_new0 (MockRig, 1);
  g_autofree char *script = NULL;
  LlmTestDaemonSetup setup = { .config = config, .flags = flags };

  script = rules[0] == '{' ? g_strdup (rules)
                           : g_strdup_printf ("{\"version\": 1, \"rules\": %s}", rules);
  setup.script = script;
  rig->daemon = llm_test_daemon_new (&setup);
  rig->app = llm_test_daemon_connect (rig->daemon);
  return rig;
}

MockRig *
mock_rig_new (const char *rules)
{
  return mock_rig_new_full (rules, NULL, LLM_TEST_DAEMON_NONE);
}

void
mock_rig_free (MockRig *rig)
{
  g_object_unref (rig->app);
  llm_test_daemon_free (rig->daemon);
  g_free (rig);
}

static GVariant *
complete (MockRig    *rig,
          const char *prompt,
          const char *options,
          GError    **error)
{
  return bus_call (rig->app, NULL, "", "Complete",
                   g_variant_new ("(s@a{sv})", prompt, bus_options (options)), error);
}

char *
mock_complete (MockRig    *rig,
               const char *prompt,
               const char *options,
               GVariant  **results)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = complete (rig, prompt, options, &error);
  g_autoptr(GVariant) dict = NULL;
  char *text;

  g_assert_no_error (error);
  g_variant_get (reply, "(s@a{sv})", &text, &dict);
  if (results != NULL)
    *results = g_steal_pointer (&dict);
  return text;
}

void
mock_assert_answer (MockRig    *rig,
                    const char *prompt,
                    const char *options,
                    const char *text)
{
  g_autofree char *answer = mock_complete (rig, prompt, options, NULL);

  g_assert_cmpstr (answer, ==, text);
}

void
mock_assert_failure (MockRig    *rig,
                     const char *prompt,
                     const char *options,
                     const char *name,
                     const char *message)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = complete (rig, prompt, options, &error);

  g_assert_null (reply);
  bus_assert_error (error, name);
  g_assert_nonnull (strstr (error->message, message));
}

guint64
mock_get_statistic (MockRig    *rig,
                    const char *key)
{
  g_autoptr(GVariant) reply = bus_call_ok (rig->app, NULL, "", "GetStatistics",
                                           g_variant_new ("(@a{sv})", bus_options ("{}")));
  g_autoptr(GVariant) dict = g_variant_get_child_value (reply, 0);
  guint64 number = 0;

  g_assert_true (g_variant_lookup (dict, key, "t", &number));
  return number;
}

/* --- calls under way --- */

static void
on_reply (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  MockCall *call = data;
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_finish (G_DBUS_CONNECTION (source), result, &call->error);

  call->is_done = TRUE;
  if (reply != NULL)
    g_variant_get (reply, "(sa{sv})", &call->text, NULL);
}

MockCall *
mock_call_begin (GDBusConnection *app,
                 const char      *prompt)
{
  MockCall *call = g_new0 (MockCall, 1);

  g_dbus_connection_call (app, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
                          g_variant_new ("(s@a{sv})", prompt, bus_options ("{}")), NULL,
                          G_DBUS_CALL_FLAGS_NONE, BUS_RIG_TIMEOUT_MS, NULL, on_reply, call);
  return call;
}

gboolean
mock_call_is_done (gpointer call)
{
  return ((MockCall *) call)->is_done;
}

/* Waits for a call that is not over: its answer goes here. */
void
mock_call_free (MockCall *call)
{
  bus_wait_until (mock_call_is_done, call);
  g_clear_error (&call->error);
  g_free (call->text);
  g_free (call);
}

/* --- streams --- */

char *
mock_read_piece (int fd)
{
  g_autoptr(GString) bytes = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine line = { 0 };
  char byte = '\0';
  char *text;

  do
    {
      g_string_truncate (bytes, 0);
      for (byte = '\0'; byte != '\n';)
        {
          g_assert_cmpint (read (fd, &byte, 1), ==, 1);
          g_string_append_c (bytes, byte);
        }
      llmsvc_line_clear (&line);
      g_assert_true (llmsvc_line_parse (bytes->str, bytes->len - 1, &line, &error));
      g_assert_no_error (error);
    }
  while (line.kind == LLMSVC_LINE_PROGRESS);
  g_assert_cmpint (line.kind, ==, LLMSVC_LINE_TEXT);
  text = g_steal_pointer (&line.text);
  llmsvc_line_clear (&line);
  return text;
}

char *
mock_read_stream (int fd)
{
  g_autoptr(GString) bytes = bus_read_all (fd);
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autoptr(GError) error = NULL;
  GString *out = g_string_new (NULL);
  LlmsvcLine line = { 0 };
  gboolean has_end = FALSE;

  g_assert_true (llmsvc_line_reader_push (reader, bytes->str, bytes->len, &error));
  while (llmsvc_line_reader_next (reader, &line, &error))
    {
      g_assert_false (has_end);
      if (line.kind == LLMSVC_LINE_PROGRESS)
        {
          llmsvc_line_clear (&line);
          continue;
        }
      has_end = line.kind != LLMSVC_LINE_TEXT;
      if (line.kind == LLMSVC_LINE_TEXT)
        {
          g_string_append_printf (out, "%s|", line.text);
        }
      else if (line.kind == LLMSVC_LINE_DONE)
        {
          g_autofree char *reason = bus_lookup_s (line.results, "finish-reason");

          g_string_append_printf (out, "done %s", reason);
        }
      else
        {
          g_string_append_printf (out, "error %s", strrchr (line.name, '.') + 1);
        }
      llmsvc_line_clear (&line);
    }
  g_assert_no_error (error);
  if (!has_end)
    g_string_append (out, "gone");
  return g_string_free (out, FALSE);
}
