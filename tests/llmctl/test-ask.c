/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl ask and status against a service that lives in this program, on a
 * private bus: it answers by the book of the interface, and the prompt chooses
 * what happens.
 */

#define G_LOG_DOMAIN "test-ask"

#include <fcntl.h>
#include <gio/gio.h>
#include <gio/gunixfdlist.h>
#include <glib-unix.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"
#include "support/llm-test-bus.h"

#define CONTEXT_PATH LLMSVC_CONTEXTS_PATH "/c1"

static const char *llmctl;

typedef struct
{
  GTestDBus *dbus;
  GDBusConnection *bus;
  GDBusNodeInfo *node;
  GPtrArray *calls;      /* (element-type utf8): methods in their order */
  char *prompt;          /* (nullable): of the last call */
  GVariant *options;     /* (nullable): of the last answer asked for */
  GVariant *made_with;   /* (nullable): options of CreateContext */
  int held_fd;           /* writing end of an answer that hangs, or -1 */
} Fixture;

typedef struct
{
  int status;
  char *output;
  char *complaint;
} Outcome;

static void
outcome_clear (Outcome *outcome)
{
  g_clear_pointer (&outcome->output, g_free);
  g_clear_pointer (&outcome->complaint, g_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Outcome, outcome_clear)

/* What the prompt asks for, onto the pipe. */
static void
write_answer (Fixture *fixture,
              int      fd)
{
  g_autoptr(GString) lines = g_string_new (NULL);
  g_autoptr(GVariant) results = g_variant_ref_sink (
      g_variant_new_parsed ("{'finish-reason': <'stop'>, 'output-tokens': <uint32 2>,"
                            " 'ignored': <['colour']>}"));

  if (g_str_equal (fixture->prompt, "wait"))
    g_string_append (lines,
                     "{\"progress\":{\"phase\":\"queued\",\"waits-for\":\"memory\",\"ahead\":2}}\n"
                     "{\"progress\":{\"phase\":\"queued\",\"waits-for\":\"storage\",\"ahead\":2}}\n"
                     "{\"progress\":{\"phase\":\"queued\",\"waits-for\":\"turn\",\"ahead\":0}}\n"
                     "{\"progress\":{\"phase\":\"queued\",\"ahead\":2,\"forecast-ms\":4200}}\n"
                     "{\"progress\":{\"phase\":\"restoring\",\"total\":1048576}}\n"
                     "{\"progress\":{\"phase\":\"of-tomorrow\",\"total\":7}}\n"
                     "{\"progress\":{\"phase\":\"prefill\",\"done\":320,\"total\":969}}\n");
  if (g_str_equal (fixture->prompt, "think"))
    llmsvc_line_write_reasoning (lines, "Let me see", 10);
  llmsvc_line_write_text (lines, "Hello", 5);
  if (g_str_equal (fixture->prompt, "hang"))
    {
      fixture->held_fd = fd;
    }
  else if (g_str_equal (fixture->prompt, "fail"))
    {
      llmsvc_line_write_error (lines, LLMSVC_ERROR_PREFIX "NoMemory", "no room");
    }
  else if (g_str_equal (fixture->prompt, "nonsense"))
    {
      g_string_append (lines, "not a line\n");
    }
  else if (!g_str_equal (fixture->prompt, "break"))
    {
      g_autoptr(GVariant) slid = g_variant_ref_sink (
          g_variant_new_parsed ("{'finish-reason': <'stop'>, 'prompt-tokens': <uint32 1200>, "
                                "'output-tokens': <uint32 2>, 'kept-tokens': <uint32 900>}"));

      llmsvc_line_write_text (lines, " world", 6);
      llmsvc_line_write_done (lines, g_str_equal (fixture->prompt, "slide") ? slid : results);
    }

  g_assert_cmpint (write (fd, lines->str, lines->len), ==, (gssize) lines->len);
  if (fixture->held_fd != fd)
    close (fd);
}

static void
reply_generate (Fixture               *fixture,
                GVariant              *parameters,
                GDBusMethodInvocation *invocation)
{
  g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr(GVariant) messages = NULL;
  g_autoptr(GError) error = NULL;
  int ends[2];

  g_clear_pointer (&fixture->options, g_variant_unref);
  g_clear_pointer (&fixture->prompt, g_free);
  g_variant_get (parameters, "(@a(ssa{sv})@a{sv})", &messages, &fixture->options);
  g_assert_cmpuint (g_variant_n_children (messages), ==, 1);
  g_variant_get_child (messages, 0, "(&ss@a{sv})", NULL, &fixture->prompt, NULL);

  if (g_str_equal (fixture->prompt, "busy"))
    {
      g_dbus_method_invocation_return_error (invocation, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED,
                                             "too much to do");
      return;
    }

  g_assert_true (g_unix_open_pipe (ends, FD_CLOEXEC, &error));
  g_assert_cmpint (g_unix_fd_list_append (fds, ends[0], &error), ==, 0);
  close (ends[0]);
  g_dbus_method_invocation_return_value_with_unix_fd_list (
      invocation, g_variant_new ("(oh)", LLMSVC_GENERATIONS_PATH "/g1", 0), fds);
  write_answer (fixture, ends[1]);
}

static void
tell_load_progress (Fixture *fixture,
                    guint64  done,
                    guint64  total)
{
  g_assert_true (g_dbus_connection_emit_signal (
    fixture->bus, NULL, LLMSVC_PATH, "org.freedesktop.DBus.Properties", "PropertiesChanged",
    g_variant_new_parsed ("(%s, {'LoadProgress': <(%t, %t)>}, @as [])", LLMSVC_INTERFACE, done,
                          total),
    NULL));
}

/* The model's name chooses how the load ends. */
static void
answer_select (Fixture               *fixture,
               GVariant              *parameters,
               GDBusMethodInvocation *invocation)
{
  const char *id;

  g_variant_get (parameters, "(&s@a{sv})", &id, NULL);
  tell_load_progress (fixture, 1 << 20, 3 << 20);
  if (g_str_equal (id, "hang"))
    {
      /* No answer will follow. */
      g_object_unref (invocation);
    }
  else if (g_str_equal (id, "broken"))
    {
      g_dbus_method_invocation_return_error (invocation, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL,
                                             "its file is damaged");
    }
  else
    {
      g_dbus_method_invocation_return_value (invocation, NULL);
    }
}

static void
on_call (GDBusConnection       *bus,
         const char            *sender,
         const char            *path,
         const char            *interface,
         const char            *method,
         GVariant              *parameters,
         GDBusMethodInvocation *invocation,
         gpointer               data)
{
  Fixture *fixture = data;

  /* the library lets go of a context without a name, if there is time for it */
  if (g_str_equal (method, "Close"))
    {
      g_dbus_method_invocation_return_value (invocation, NULL);
      return;
    }

  g_ptr_array_add (fixture->calls, g_strdup (method));
  if (g_str_equal (method, "Prewarm"))
    {
      tell_load_progress (fixture, 1 << 20, 3 << 20);
      tell_load_progress (fixture, 0, 0);
      g_dbus_method_invocation_return_value (invocation, NULL);
      return;
    }
  if (g_str_equal (method, "SelectModel"))
    {
      answer_select (fixture, parameters, invocation);
      return;
    }
  if (g_str_equal (method, "CreateContext"))
    {
      g_clear_pointer (&fixture->made_with, g_variant_unref);
      g_variant_get (parameters, "(@a{sv})", &fixture->made_with);
      g_dbus_method_invocation_return_value (invocation, g_variant_new ("(o)", CONTEXT_PATH));
    }
  else if (g_str_equal (method, "OpenContext"))
    {
      const char *name;

      g_variant_get (parameters, "(&sa{sv})", &name, NULL);
      if (g_str_equal (name, "old"))
        g_dbus_method_invocation_return_value (invocation, g_variant_new ("(o)", CONTEXT_PATH));
      else
        g_dbus_method_invocation_return_error (invocation, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                                               "no context “%s”", name);
    }
  else if (g_str_equal (method, "Complete"))
    {
      g_clear_pointer (&fixture->options, g_variant_unref);
      g_clear_pointer (&fixture->prompt, g_free);
      g_variant_get (parameters, "(s@a{sv})", &fixture->prompt, &fixture->options);
      g_dbus_method_invocation_return_value (
          invocation, g_variant_new ("(s@a{sv})", "whole\n",
                                     g_variant_new_parsed ("{'output-tokens': <uint32 1>}")));
    }
  else if (g_str_equal (method, "GetStatistics"))
    {
      g_dbus_method_invocation_return_value (
          invocation, g_variant_new_parsed ("({'kv-restored-chunks': <uint64 12>, "
                                            "'kv-evicted-chunks': <uint64 9>},)"));
    }
  else
    {
      g_assert_cmpstr (method, ==, "Generate");
      reply_generate (fixture, parameters, invocation);
    }
}

static GVariant *
on_get (GDBusConnection  *bus,
        const char       *sender,
        const char       *path,
        const char       *interface,
        const char       *property,
        GError          **error,
        gpointer          data)
{
  Fixture *fixture = data;
  const GDBusPropertyInfo *info = g_dbus_interface_info_lookup_property (
      g_dbus_node_info_lookup_interface (fixture->node, interface), property);

  if (g_str_equal (property, "Availability"))
    return g_variant_new_string ("ready");
  if (g_str_equal (property, "Resident"))
    return g_variant_new_uint64 (3 * 1024 * 1024);
  if (g_str_equal (property, "Title"))
    return g_variant_new_string ("A model");

  switch (info->signature[0])
    {
    case 's':
      return g_variant_new_string ("x");
    case 'u':
      return g_variant_new_uint32 (1);
    case 'b':
      return g_variant_new_boolean (FALSE);
    case 't':
      return g_variant_new_uint64 (0);
    case '(':
      return g_variant_new ("(tt)", (guint64) 0, (guint64) 0);
    case 'o':
      return g_variant_new_object_path (LLMSVC_MODELS_PATH "/m1");
    default:
      return g_variant_new_array (
          g_variant_type_element (G_VARIANT_TYPE (info->signature)), NULL, 0);
    }
}

static void
export (Fixture    *fixture,
        const char *path,
        const char *interface)
{
  static const GDBusInterfaceVTable vtable = { on_call, on_get, NULL, { NULL } };
  g_autoptr(GError) error = NULL;

  g_assert_cmpuint (
      g_dbus_connection_register_object (
          fixture->bus, path, g_dbus_node_info_lookup_interface (fixture->node, interface),
          &vtable, fixture, NULL, &error),
      !=, 0);
  g_assert_no_error (error);
}

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  g_autofree char *path =
      g_test_build_filename (G_TEST_DIST, "..", "service", "bus", "org.llm.Service.xml", NULL);
  g_autofree char *xml = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = NULL;

  fixture->calls = g_ptr_array_new_with_free_func (g_free);
  fixture->held_fd = -1;
  fixture->dbus = g_test_dbus_new (G_TEST_DBUS_NONE);
  llm_test_bus_up (fixture->dbus);
  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", TRUE);

  g_assert_true (g_file_get_contents (path, &xml, NULL, &error));
  fixture->node = g_dbus_node_info_new_for_xml (xml, &error);
  g_assert_no_error (error);
  fixture->bus = llm_test_bus_connect (fixture->dbus);

  export (fixture, LLMSVC_PATH, LLMSVC_INTERFACE);
  export (fixture, LLMSVC_PATH, LLMSVC_MEMORY_INTERFACE);
  export (fixture, LLMSVC_MODELS_PATH "/m1", LLMSVC_MODEL_INTERFACE);
  export (fixture, CONTEXT_PATH, LLMSVC_CONTEXT_INTERFACE);
  reply = g_dbus_connection_call_sync (fixture->bus, "org.freedesktop.DBus",
                                       "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                       "RequestName", g_variant_new ("(su)", LLMSVC_BUS_NAME, 0),
                                       NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  if (fixture->held_fd >= 0)
    close (fixture->held_fd);
  g_dbus_connection_close_sync (fixture->bus, NULL, NULL);
  g_clear_object (&fixture->bus);
  g_clear_pointer (&fixture->node, g_dbus_node_info_unref);
  g_clear_pointer (&fixture->calls, g_ptr_array_unref);
  g_clear_pointer (&fixture->prompt, g_free);
  g_clear_pointer (&fixture->options, g_variant_unref);
  g_clear_pointer (&fixture->made_with, g_variant_unref);
  llm_test_bus_down (fixture->dbus);
  g_clear_object (&fixture->dbus);
}

static void
on_finished (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  GAsyncResult **place = data;

  *place = g_object_ref (result);
}

/* Without @has_input its standard input is empty. */
static GSubprocess *
start (const char *const *arguments,
       gboolean           has_input)
{
  g_autoptr(GPtrArray) all = g_ptr_array_new ();
  g_autoptr(GError) error = NULL;
  GSubprocess *process;

  g_ptr_array_add (all, (gpointer) llmctl);
  for (gsize i = 0; arguments[i] != NULL; i++)
    g_ptr_array_add (all, (gpointer) arguments[i]);
  g_ptr_array_add (all, NULL);

  process = g_subprocess_newv ((const char *const *) all->pdata,
                               (has_input ? G_SUBPROCESS_FLAGS_STDIN_PIPE
                                          : G_SUBPROCESS_FLAGS_NONE) |
                                   G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                               &error);
  g_assert_no_error (error);
  return process;
}

/* Serves the bus until llmctl has ended. */
static void
finish (GSubprocess *process,
        const char  *input,
        Outcome     *outcome)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  g_subprocess_communicate_utf8_async (process, input, NULL, on_finished, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (g_subprocess_communicate_utf8_finish (process, result, &outcome->output,
                                                       &outcome->complaint, &error));
  g_assert_no_error (error);
  g_test_message ("%s%s", outcome->output, outcome->complaint);
  g_assert_true (g_subprocess_get_if_exited (process));
  outcome->status = g_subprocess_get_exit_status (process);
}

static void
run (Outcome           *outcome,
     const char        *input,
     const char *const *arguments)
{
  g_autoptr(GSubprocess) process = start (arguments, input != NULL);

  finish (process, input, outcome);
}

#define RUN(outcome, input, ...) run (outcome, input, (const char *const[]) { __VA_ARGS__, NULL })

static void
test_stream (Fixture       *fixture,
             gconstpointer  data)
{
  g_auto(Outcome) outcome = { 0 };
  guint32 max_tokens = 0;
  const char *system = NULL;
  const char *stream = NULL;

  RUN (&outcome, NULL, "ask", "--system", "be kind", "--max-tokens", "7", "Hi there");

  g_assert_cmpint (outcome.status, ==, 0);
  g_assert_cmpstr (outcome.output, ==, "Hello world\n");
  g_assert_nonnull (strstr (outcome.complaint, "colour"));
  g_assert_cmpstr (fixture->prompt, ==, "Hi there");
  g_assert_cmpstr (g_ptr_array_index (fixture->calls, 0), ==, "CreateContext");
  g_assert_cmpstr (g_ptr_array_index (fixture->calls, 1), ==, "Generate");
  g_assert_true (g_variant_lookup (fixture->made_with, "system", "&s", &system));
  g_assert_cmpstr (system, ==, "be kind");
  g_assert_true (g_variant_lookup (fixture->options, "stream", "&s", &stream));
  g_assert_cmpstr (stream, ==, "jsonl");
  g_assert_true (g_variant_lookup (fixture->options, "max-tokens", "u", &max_tokens));
  g_assert_cmpuint (max_tokens, ==, 7);
}

static void
test_json (Fixture       *fixture,
           gconstpointer  data)
{
  g_auto(Outcome) outcome = { 0 };

  RUN (&outcome, NULL, "ask", "--json", "--session-bus", "x");

  g_assert_cmpint (outcome.status, ==, 0);
  g_assert_true (g_str_has_prefix (outcome.output,
                                   "{\"version\":1,\"t\":\"Hello\"}\n{\"t\":\" world\"}\n{\"done\":{"));
  g_assert_nonnull (strstr (outcome.output, "\"finish-reason\":\"stop\""));
}

/* What the model thinks is no part of what other programs read, unless they ask. */
static void
test_thinking (Fixture       *fixture,
               gconstpointer  data)
{
  g_auto(Outcome) plain = { 0 };
  g_auto(Outcome) shown = { 0 };
  g_auto(Outcome) json = { 0 };
  g_auto(Outcome) wrong = { 0 };
  const char *thinking = NULL;

  RUN (&plain, NULL, "ask", "--thinking", "12", "think");
  g_assert_cmpint (plain.status, ==, 0);
  g_assert_cmpstr (plain.output, ==, "Hello world\n");
  g_assert_true (g_variant_lookup (fixture->options, "thinking", "&s", &thinking));
  g_assert_cmpstr (thinking, ==, "12");

  RUN (&shown, NULL, "ask", "--thinking", "on", "--show-thinking", "think");
  g_assert_cmpstr (shown.output, ==, "Let me see\n\nHello world\n");

  RUN (&json, NULL, "ask", "--json", "think");
  g_assert_true (g_str_has_prefix (json.output, "{\"version\":1,\"reasoning\":\"Let me see\"}\n"
                                   "{\"t\":\"Hello\"}\n{\"t\":\" world\"}\n{\"done\":{"));

  RUN (&wrong, NULL, "ask", "--thinking", "much", "think");
  g_assert_cmpint (wrong.status, !=, 0);
  g_assert_nonnull (strstr (wrong.complaint, "thinking"));
}

/* What has slid out of the model's sight is told. */
static void
test_slide (Fixture       *fixture,
            gconstpointer  data)
{
  g_auto(Outcome) outcome = { 0 };
  const char *on_overflow = NULL;

  RUN (&outcome, NULL, "ask", "-v", "-o", "on-overflow=slide", "slide");

  g_assert_cmpint (outcome.status, ==, 0);
  g_assert_true (g_variant_lookup (fixture->options, "on-overflow", "&s", &on_overflow));
  g_assert_cmpstr (on_overflow, ==, "slide");
  g_assert_nonnull (strstr (outcome.complaint, "prompt 1200 tokens (0 cached), generated 2, of which "
                                               "the model still sees 900; first token after"));
}

static void
test_input (Fixture       *fixture,
            gconstpointer  data)
{
  g_auto(Outcome) before = { 0 };
  g_auto(Outcome) alone = { 0 };

  RUN (&before, "a text", "ask", "Shorter");
  g_assert_cmpint (before.status, ==, 0);
  g_assert_cmpstr (fixture->prompt, ==, "a text\n\nShorter");

  RUN (&alone, "all of it", "ask", "-");
  g_assert_cmpint (alone.status, ==, 0);
  g_assert_cmpstr (fixture->prompt, ==, "all of it");
}

static void
test_options (Fixture       *fixture,
              gconstpointer  data)
{
  g_auto(Outcome) outcome = { 0 };
  g_autofree const char **stops = NULL;
  const char *slo = NULL;
  g_autoptr(GVariant) colour = NULL;
  double first = 0, further = 0, call = 0;
  guint32 least = 0;

  RUN (&outcome, NULL, "ask", "-o", "stop=a", "-o", "stop=b", "-o", "slo=background", "-o",
       "colour=dark red", "--ttft-share", "40", "--tpot-share", "62.5", "--call-share=100",
       "--least-sub-model", "20", "x");

  g_assert_cmpint (outcome.status, ==, 0);
  g_assert_true (g_variant_lookup (fixture->options, "stop", "^a&s", &stops));
  g_assert_cmpstr (stops[0], ==, "a");
  g_assert_cmpstr (stops[1], ==, "b");
  g_assert_true (g_variant_lookup (fixture->options, "slo", "&s", &slo));
  g_assert_true (g_variant_lookup (fixture->options, "ttft-share", "d", &first));
  g_assert_true (g_variant_lookup (fixture->options, "tpot-share", "d", &further));
  g_assert_true (g_variant_lookup (fixture->options, "call-share", "d", &call));
  g_assert_true (g_variant_lookup (fixture->options, "least-sub-model", "u", &least));
  g_assert_cmpfloat_with_epsilon (first, 0.4, 1e-9);
  g_assert_cmpfloat_with_epsilon (further, 0.625, 1e-9);
  g_assert_cmpfloat_with_epsilon (call, 1, 1e-9);
  g_assert_cmpuint (least, ==, 20);
  colour = g_variant_lookup_value (fixture->options, "colour", G_VARIANT_TYPE_STRING);
  g_assert_nonnull (colour);
}

static void
test_context (Fixture       *fixture,
              gconstpointer  data)
{
  g_auto(Outcome) old = { 0 };
  g_auto(Outcome) made = { 0 };
  g_auto(Outcome) clash = { 0 };
  const char *name = NULL;

  RUN (&old, NULL, "ask", "--context", "old", "x");
  g_assert_cmpint (old.status, ==, 0);
  g_assert_cmpstr (g_ptr_array_index (fixture->calls, 0), ==, "OpenContext");
  g_assert_cmpstr (g_ptr_array_index (fixture->calls, 1), ==, "Generate");

  RUN (&made, NULL, "ask", "--context", "new", "--system", "s", "x");
  g_assert_cmpint (made.status, ==, 0);
  g_assert_cmpstr (g_ptr_array_index (fixture->calls, 3), ==, "CreateContext");
  g_assert_true (g_variant_lookup (fixture->made_with, "name", "&s", &name));
  g_assert_cmpstr (name, ==, "new");

  RUN (&clash, NULL, "ask", "--context", "old", "--system", "s", "x");
  g_assert_cmpint (clash.status, ==, 2);
}

static void
test_raw (Fixture       *fixture,
          gconstpointer  data)
{
  g_auto(Outcome) outcome = { 0 };
  gboolean is_raw = FALSE;

  RUN (&outcome, NULL, "ask", "--raw", "Once upon");

  g_assert_cmpint (outcome.status, ==, 0);
  g_assert_cmpstr (outcome.output, ==, "whole\n");
  g_assert_true (g_variant_lookup (fixture->options, "raw", "b", &is_raw));
  g_assert_true (is_raw);
  g_assert_cmpuint (fixture->calls->len, ==, 1);
}

static void
test_failures (Fixture       *fixture,
               gconstpointer  data)
{
  const struct
  {
    const char *prompt;
    int status;
    const char *said;
  } cases[] = {
    { "busy", 6, "too much to do" },
    { "fail", 6, "no room" },
    { "break", 4, "broke off" },
    { "nonsense", 1, "can't be read" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_auto(Outcome) outcome = { 0 };

      RUN (&outcome, NULL, "ask", cases[i].prompt);
      g_assert_cmpint (outcome.status, ==, cases[i].status);
      g_assert_nonnull (strstr (outcome.complaint, cases[i].said));
    }
}

static void
test_time_limit (Fixture       *fixture,
                 gconstpointer  data)
{
  g_auto(Outcome) outcome = { 0 };

  RUN (&outcome, NULL, "ask", "--timeout", "0.3", "hang");

  g_assert_cmpint (outcome.status, ==, 3);
  g_assert_true (g_str_has_prefix (outcome.output, "Hello"));
}

/* Text comes before the answer is whole, and Ctrl-C closes the pipe. */
static void
test_interrupt (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(GSubprocess) process = start ((const char *const[]) { "ask", "hang", NULL }, FALSE);
  GInputStream *output = g_subprocess_get_stdout_pipe (process);
  g_auto(Outcome) outcome = { 0 };
  g_autoptr(GError) error = NULL;
  char seen[6] = "";

  while (fixture->held_fd < 0)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (g_input_stream_read_all (output, seen, 5, NULL, NULL, &error));
  g_assert_cmpstr (seen, ==, "Hello");

  g_subprocess_send_signal (process, SIGINT);
  finish (process, NULL, &outcome);
  g_assert_cmpint (outcome.status, ==, 130);

  signal (SIGPIPE, SIG_IGN);
  g_assert_cmpint (write (fixture->held_fd, "x", 1), ==, -1);
}

static gboolean
on_terminal (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  char buffer[4096];
  ssize_t n = read (fd, buffer, sizeof buffer);

  if (n <= 0)
    return G_SOURCE_REMOVE;
  g_string_append_len (data, buffer, n);
  return G_SOURCE_CONTINUE;
}

/* (transfer full): what a terminal of @columns is sent. Ctrl-C comes after @interrupt_at
 * (nullable). */
static char *
run_on_terminal (guint              columns,
                 const char        *term,
                 const char        *interrupt_at,
                 int                status,
                 const char *const *arguments)
{
  g_autoptr(GStrvBuilder) command = g_strv_builder_new ();
  g_auto(GStrv) words = NULL;
  g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  struct winsize size = { .ws_row = 24, .ws_col = (unsigned short) columns };
  GString *text = g_string_new (NULL);
  int terminal, end;
  guint source;

  g_assert_cmpint (openpty (&terminal, &end, NULL, NULL, &size), ==, 0);
  fcntl (terminal, F_SETFD, FD_CLOEXEC);
  g_subprocess_launcher_setenv (launcher, "TERM", term, TRUE);
  g_subprocess_launcher_setenv (launcher, "NO_COLOR", "1", TRUE);
  g_subprocess_launcher_unsetenv (launcher, "COLUMNS");
  g_subprocess_launcher_take_stdin_fd (launcher, dup (end));
  g_subprocess_launcher_take_stderr_fd (launcher, dup (end));
  g_subprocess_launcher_take_stdout_fd (launcher, end);
  g_strv_builder_add (command, llmctl);
  g_strv_builder_addv (command, (const char **) arguments);
  words = g_strv_builder_end (command);
  process = g_subprocess_launcher_spawnv (launcher, (const char *const *) words, &error);
  g_assert_no_error (error);
  g_clear_object (&launcher);

  source = g_unix_fd_add (terminal, G_IO_IN | G_IO_HUP, on_terminal, text);
  g_subprocess_wait_async (process, NULL, on_finished, &result);
  while (result == NULL || g_main_context_find_source_by_id (NULL, source) != NULL)
    {
      if (interrupt_at != NULL && strstr (text->str, interrupt_at) != NULL)
        {
          g_subprocess_send_signal (process, SIGINT);
          interrupt_at = NULL;
        }
      g_main_context_iteration (NULL, TRUE);
    }
  close (terminal);
  g_test_message ("%s", text->str);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, status);
  return g_string_free (text, FALSE);
}

#define RUN_ON_TERMINAL(columns, term, interrupt_at, status, ...) \
  run_on_terminal (columns, term, interrupt_at, status, (const char *const[]) { __VA_ARGS__, NULL })
#define LOADING "\r\033[KLoading the model: 1.0 MiB of 3.0 MiB"

/* Each line of progress replaces the one before, and nothing of them is left when the answer
 * begins. */
static void
test_progress (Fixture       *fixture,
               gconstpointer  data)
{
  g_autofree char *wide = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "ask", "wait");
  g_autofree char *narrow = RUN_ON_TERMINAL (40, "xterm", NULL, 0, "ask", "wait");
  g_autofree char *hidden = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "ask", "wait", "--no-progress");
  g_autofree char *dumb = RUN_ON_TERMINAL (80, "dumb", NULL, 0, "ask", "wait");
  g_auto(Outcome) piped = { 0 };
  guint n_prewarms = 0;

  /* a slow start has a line before that */
  g_assert_nonnull (strstr (wide, LOADING "\r\033[K"
                                  "\r\033[KWaiting for memory"
                                  "\r\033[KWaiting for what storage has of the context"
                                  "\r\033[KWaiting for its turn"
                                  "\r\033[KWaiting for its turn behind 2 requests, first token in "
                                  "about 4 s"
                                  "\r\033[KRestoring the context: 1.0 MiB from storage"
                                  "\r\033[KPrefill: 320 of 969 tokens"
                                  "\r\033[KHello world\r\n"));
  g_assert_nonnull (strstr (narrow, "\r\033[KWaiting for its turn behind 2 requests,\r\033[K"));
  g_assert_true (g_str_has_prefix (hidden, "Hello world\r\n"));
  g_assert_true (g_str_has_prefix (dumb, "Hello world\r\n"));

  RUN (&piped, NULL, "ask", "wait");
  g_assert_cmpstr (piped.output, ==, "Hello world\n");
  g_assert_null (strstr (piped.complaint, "Prefill"));
  for (guint i = 0; i < fixture->calls->len; i++)
    n_prewarms += g_str_equal (g_ptr_array_index (fixture->calls, i), "Prewarm");
  g_assert_cmpuint (n_prewarms, ==, 2);
}

/* Nothing is left of the line when what came of the load is said. */
static void
test_use (Fixture       *fixture,
          gconstpointer  data)
{
  g_autofree char *drawn = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "model", "use", "m1");
  g_autofree char *hidden = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "model", "use", "m1",
                                             "--no-progress");
  g_autofree char *broken = RUN_ON_TERMINAL (80, "xterm", NULL, 4, "model", "use", "broken");
  g_autofree char *stopped = RUN_ON_TERMINAL (80, "xterm", "Loading", 130, "model", "use", "hang");
  g_auto(Outcome) piped = { 0 };
  g_auto(Outcome) json = { 0 };

  g_assert_true (g_str_has_prefix (drawn, LOADING "\r\033[K“m1” is the model now, for everyone"));
  g_assert_true (g_str_has_prefix (hidden, "“m1” is the model now, for everyone"));
  g_assert_true (g_str_has_prefix (broken, LOADING "\r\033[Kllmctl: "));
  g_assert_nonnull (strstr (broken, "its file is damaged"));
  g_assert_cmpstr (stopped, ==, LOADING "\r\033[K");

  RUN (&piped, NULL, "model", "use", "m1");
  g_assert_true (g_str_has_prefix (piped.output, "“m1” is the model now, for everyone"));
  g_assert_cmpstr (piped.complaint, ==, "");
  RUN (&json, NULL, "model", "use", "m1", "--json");
  g_assert_cmpstr (json.output, ==, "{\"version\":1,\"id\":\"m1\"}\n");
}

/* A context whose text is counted with the model waits for it, too. */
static void
test_new (Fixture       *fixture,
          gconstpointer  data)
{
  g_autofree char *drawn = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "context", "new", "c", "--system",
                                            "Be brief");
  g_autofree char *hidden = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "context", "new", "c",
                                             "--no-progress", "--system", "Be brief");
  g_autofree char *empty = RUN_ON_TERMINAL (80, "xterm", NULL, 0, "context", "new", "c");

  g_assert_true (g_str_has_prefix (drawn, LOADING "\r\033[K"));
  g_assert_null (strstr (hidden, "Loading"));
  g_assert_null (strstr (empty, "Loading"));
}

static void
test_status (Fixture       *fixture,
             gconstpointer  data)
{
  g_auto(Outcome) plain = { 0 };
  g_auto(Outcome) json = { 0 };

  RUN (&plain, NULL, "status");
  g_assert_cmpint (plain.status, ==, 0);
  g_assert_nonnull (strstr (plain.output, "Service: ready"));
  g_assert_nonnull (strstr (plain.output, "Model: A model"));
  g_assert_nonnull (strstr (plain.output, "session bus"));
  g_assert_nonnull (strstr (plain.output,
                            "12 read back, 0 computed again, 9 evicted, 0 faulted\n"));

  RUN (&json, NULL, "status", "--json");
  g_assert_cmpint (json.status, ==, 0);
  g_assert_nonnull (strstr (json.output, "\"resident\":3145728"));
  g_assert_nonnull (strstr (json.output, "\"kv-restored-chunks\":12"));
  g_assert_nonnull (strstr (json.output, "\"availability\":\"ready\""));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  if (argc < 2)
    g_error ("The path of llmctl is missing");
  llmctl = argv[1];

#define ADD(path, function) g_test_add (path, Fixture, NULL, set_up, function, tear_down)
  ADD ("/ask/stream", test_stream);
  ADD ("/ask/json", test_json);
  ADD ("/ask/thinking", test_thinking);
  ADD ("/ask/slide", test_slide);
  ADD ("/ask/input", test_input);
  ADD ("/ask/options", test_options);
  ADD ("/ask/context", test_context);
  ADD ("/ask/raw", test_raw);
  ADD ("/ask/failures", test_failures);
  ADD ("/ask/time-limit", test_time_limit);
  ADD ("/ask/interrupt", test_interrupt);
  ADD ("/ask/progress", test_progress);
  ADD ("/model/use", test_use);
  ADD ("/context/new", test_new);
  ADD ("/status", test_status);

  return g_test_run ();
}
