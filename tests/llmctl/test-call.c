/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* tree, introspect, call, get, set and complete, with a service that llmctl does not
 * know: what it can do is on the bus only, and help for it in an installed file. */

#define G_LOG_DOMAIN "test-call"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib-unix.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake-service.h"

#define MAX_ARGUMENTS 10

static const char *llmctl;
static FakeService *service;

/* --- running --- */

typedef struct
{
  GBytes *out;
  GBytes *err;
  gboolean is_done;
} Run;

static void
on_ended (GObject      *source,
          GAsyncResult *result,
          gpointer      user_data)
{
  Run *run = user_data;
  g_autoptr(GError) error = NULL;

  g_subprocess_communicate_finish (G_SUBPROCESS (source), result, &run->out, &run->err, &error);
  g_assert_no_error (error);
  run->is_done = TRUE;
}

static char *
take_text (GBytes *bytes)
{
  gsize length = 0;
  const char *data = bytes != NULL ? g_bytes_get_data (bytes, &length) : NULL;
  char *text = g_strndup (data != NULL ? data : "", length);

  g_clear_pointer (&bytes, g_bytes_unref);
  return text;
}

/* The fake service answers meanwhile. */
static GSubprocess *
run (const char *const  *arguments,
     const char         *input,
     char              **out,
     char              **err)
{
  g_autoptr(GPtrArray) words = g_ptr_array_new ();
  g_autoptr(GBytes) bytes = input != NULL ? g_bytes_new (input, strlen (input)) : NULL;
  g_autoptr(GError) error = NULL;
  GSubprocess *process;
  Run state = { NULL };

  g_ptr_array_add (words, (gpointer) llmctl);
  for (gsize i = 0; i < MAX_ARGUMENTS && arguments[i] != NULL; i++)
    g_ptr_array_add (words, (gpointer) arguments[i]);
  g_ptr_array_add (words, NULL);
  process = g_subprocess_newv ((const char *const *) words->pdata,
                               G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE |
                                 (input != NULL ? G_SUBPROCESS_FLAGS_STDIN_PIPE : 0),
                               &error);
  g_assert_no_error (error);
  g_subprocess_communicate_async (process, bytes, NULL, on_ended, &state);
  while (!state.is_done)
    g_main_context_iteration (NULL, TRUE);

  *out = take_text (state.out);
  *err = take_text (state.err);
  return process;
}

/* --- what is said --- */

typedef struct
{
  const char *name;
  const char *arguments[MAX_ARGUMENTS];
  int status;
  const char *said;        /* (nullable): in stdout, or in stderr after a failure */
  const char *not_said;    /* (nullable) */
  const char *input;       /* (nullable): stdin */
} Case;

static const Case cases[] = {
  /* tree */
  { "tree", { "tree" }, 0, "/org/llm/Service  org.llm.Service, org.llm.Service.New\n", "Peer" },
  { "tree-order", { "tree" }, 0, "└─ things\n   ├─ 9  org.llm.Service, org.llm.Service.New\n"
                                 "   └─ 10  org.llm.Service, org.llm.Service.New\n" },
  { "tree-all", { "tree", "--all" }, 0, "org.freedesktop.DBus.Peer" },
  { "tree-path", { "tree", "/org/llm/Service/things" }, 0, "/org/llm/Service/things\n├─ 9" },
  { "tree-json", { "tree", "--json" }, 0,
    "{\"version\":1,\"objects\":[{\"path\":\"/org/llm/Service\",\"interfaces\":["
    "\"org.llm.Service\","
    "\"org.llm.Service.New\"]}," },
  { "tree-no-path", { "tree", "things" }, 2, "tree" },
  { "tree-bad-path", { "tree", "/a/" }, 2, "no object path" },

  /* introspect */
  { "introspect", { "introspect" }, 0, "    Version: string = \"1.5\"\n        Which one it is\n" },
  { "introspect-new", { "introspect" }, 0,
    "org.llm.Service.New\n  What came later\n\n  Methods:\n    Paint (colour: string, "
    "layers: unsigned, options: {key: any, …}) → (seen: string)\n        Paints a picture\n" },
  { "introspect-member", { "introspect", "Paint" }, 0,
    "    style: string\n        how it is painted\n    tags: [string, …]\n        words for it\n" },
  { "introspect-interface", { "introspect", "New" }, 0, "What came later", "Version" },
  { "introspect-property", { "introspect", "org.llm.Service.Level" }, 0,
    "Level: unsigned = 3 (read and write)\n" },
  { "introspect-json", { "introspect", "--json", "New.Paint" }, 0,
    "{\"version\":1,\"name\":\"Paint\",\"help\":\"Paints a picture.\",\"in\":[{\"name\":"
    "\"colour\",\"type\":\"string\",\"signature\":\"s\",\"help\":\"The colour of it.\"}," },
  { "introspect-elsewhere", { "introspect", "Hide" }, 0, "Hide ()\n" },
  { "introspect-unknown", { "introspect", "Pant" }, 2, "did you mean “Paint”" },

  /* call */
  { "call-nothing", { "call", "org.llm.Service.Nothing" }, 0, "" },
  { "call-nothing-json", { "call", "--json", "org.llm.Service.Nothing" }, 0,
    "{\"version\":1,\"reply\":{}}\n" },
  { "call-echo", { "call", "Echo", "Grüße" }, 0, "Grüße\n" },
  { "call-echo-path", { "call", "/org/llm/Service/things/9", "org.llm.Service.Echo", "a" }, 0,
    "a\n" },
  { "call-json", { "call", "Echo", "a\"b", "--json" }, 0,
    "{\"version\":1,\"reply\":{\"text\":\"a\\\"b\"}}\n" },
  { "call-stdin", { "call", "Echo", "-" }, 0, "from\nstdin\n", NULL, "from\nstdin" },
  { "call-new", { "call", "Paint", "red", "2", "style=wild", "tags=a", "tags=b", "title=7" }, 0,
    "('red', uint32 2, {" },
  { "call-new-hint", { "call", "Paint", "red", "2", "title=7" }, 0, "{'title': <'7'>})\n" },
  { "call-new-list", { "call", "Paint", "red", "2", "tags=a", "tags=b" }, 0,
    "{'tags': <['a', 'b']>})\n" },
  { "call-new-json", { "call", "Paint", "red", "2", "{\"tags\":[],\"n\":0.5}" }, 0, "'n': <0.5>" },
  { "call-unhinted", { "call", "Paint", "red", "2", "a=7" }, 0, "{'a': <int64 7>})\n" },
  { "call-unhinted-real", { "call", "Paint", "red", "2", "a=0.5" }, 0, "{'a': <0.5>})\n" },
  { "call-unhinted-flag", { "call", "Paint", "red", "2", "a=true" }, 0, "{'a': <true>})\n" },
  { "call-unhinted-quoted", { "call", "Paint", "red", "2", "a=\"7\"" }, 0, "{'a': <'7'>})\n" },
  { "call-unhinted-list", { "call", "Paint", "red", "2", "a=[1,2]" }, 0,
    "{'a': <[int64 1, 2]>})\n" },
  { "call-no-options", { "call", "Paint", "red", "2" }, 0, "@a{sv} {})\n" },
  { "call-messages", { "call", "Say", "system:be brief", "user:hi: there", "x=1" }, 0,
    "([('system', 'be brief', @a{sv} {}), ('user', 'hi: there', {})], {'x': <int64 1>})\n" },
  { "call-messages-json", { "call", "Say", "[[\"user\",\"hi\"]]" }, 0,
    "[('user', 'hi', @a{sv} {})]" },
  { "call-numbers", { "call", "Numbers", "-5", "-0.5", "true", "[\"a\"]", "{\"k\":1}" }, 0,
    "seen: (-5, -0.5, true, ['a'], <{'k': <int64 1>}>)\nn: 7\n" },
  { "call-help", { "call", "Paint", "--help" }, 0,
    "Usage: llmctl call Paint COLOUR LAYERS [KEY=VALUE…]\n\nPaint (colour: string" },
  { "call-help-text", { "call", "--help", "Paint" }, 0,
    "Paints a picture.\n\nArguments:\n  colour: string\n      The colour of it.\n" },
  { "call-help-elsewhere", { "call", "Hide", "--help" }, 0, "Usage: llmctl call PATH Hide\n" },
  { "call-help-itself", { "call", "--help" }, 0, "Call a method" },
  { "call-help-unknown", { "call", "Pant", "--help" }, 2, "did you mean “Paint”" },
  { "call-missing", { "call", "Paint", "red" }, 2,
    "“layers” is missing: unsigned; for example: 1" },
  { "call-missing-help", { "call", "Paint", "red" }, 2, "Paints a picture" },
  { "call-wrong", { "call", "Paint", "red", "two" }, 2, "“layers” must be: unsigned" },
  { "call-negative", { "call", "Paint", "red", "-2" }, 2, "“layers” must be: unsigned" },
  { "call-wrong-option", { "call", "Paint", "red", "2", "wild" }, 2, "key=value" },
  { "call-wrong-json", { "call", "Paint", "red", "2", "{\"a\":" }, 2, "Not JSON" },
  { "call-too-many", { "call", "org.llm.Service.Nothing", "x" }, 2, "takes no argument “x”" },
  { "call-ambiguous", { "call", "Nothing" }, 2,
    "org.llm.Service.Nothing, org.llm.Service.New.Nothing" },
  { "call-unknown", { "call", "Eccho" }, 2, "did you mean “Echo”" },
  { "call-elsewhere", { "call", "Hide" }, 2, "it is one of org.llm.Service.Elsewhere" },
  { "call-no-method", { "call" }, 2, "takes a method" },
  { "call-no-object", { "call", "/org/llm/Nowhere", "Echo", "a" }, 2, "has no method “Echo”" },
  { "call-stream", { "call", "Stream" }, 0, "one\ntwoä\033[2J" },
  { "call-stream-json", { "call", "Stream", "--json" }, 0,
    "{\"version\":1,\"reply\":{\"about\":\"about\"}}\none\n" },
  { "call-no-stream", { "call", "NoStream" }, 1, "lacks the stream" },
  { "call-dashes", { "call", "Echo", "--", "--json" }, 0, "--json\n" },
  { "call-not-utf8", { "call", "Echo", "\xff" }, 2, "UTF-8" },
  { "call-name-not-utf8", { "call", "\xff" }, 2, "UTF-8" },
  { "call-time-limit", { "call", "Late", "--timeout", "0.05" }, 3, "no answer within" },

  /* errors of the service */
  { "fail-failed", { "call", "Fail", "org.llm.Service.Error.Failed" }, 1, "It is" },
  { "fail-option", { "call", "Fail", "org.llm.Service.Error.InvalidOption" }, 2, "It is" },
  { "fail-deadline", { "call", "Fail", "org.llm.Service.Error.DeadlineExceeded" }, 3, "It is" },
  { "fail-no-model", { "call", "Fail", "org.llm.Service.Error.NoModel" }, 4, "It is" },
  { "fail-denied", { "call", "Fail", "org.llm.Service.Error.NotAuthorized" }, 5, "It is" },
  { "fail-bus-denied", { "call", "Fail", "org.freedesktop.DBus.Error.AccessDenied" }, 5, "It is" },
  { "fail-overloaded", { "call", "Fail", "org.llm.Service.Error.Overloaded" }, 6, "It is" },
  { "fail-unknown", { "call", "Fail", "org.example.Other" }, 1, "llmctl: It is" },

  /* get and set */
  { "get", { "get", "Version" }, 0, "1.5\n" },
  { "get-full", { "get", "org.llm.Service.Version" }, 0, "1.5\n" },
  { "get-path", { "get", "/org/llm/Service/things/9", "Version" }, 0, "1.5\n" },
  { "get-json", { "get", "Version", "--json" }, 0, "{\"version\":1,\"value\":\"1.5\"}\n" },
  { "get-dictionary", { "get", "Sizes" }, 0, "large: 18446744073709551615\n" },
  { "get-all", { "get" }, 0, "[org.llm.Service]\n" },
  { "get-all-json", { "--json", "get" }, 0,
    "{\"version\":1,\"org.llm.Service\":{" },
  { "get-nasty-json", { "get", "--json", "Nasty" }, 0,
    "{\"version\":1,\"value\":\"\\u001b[2J\\u009bred\"}\n" },
  { "get-unknown", { "get", "Verison" }, 2, "did you mean “Version”" },
  { "get-unknown-full", { "get", "org.llm.Service.Verison" }, 2, "did you mean “Version”" },
  { "get-unknown-interface", { "get", "org.llm.Nowhere.Version" }, 2, "did you mean" },
  { "set-read-only", { "set", "Version", "2" }, 1, "not changed" },
  { "set-wrong", { "set", "Level", "-2" }, 2, "“Level” must be: unsigned" },
  { "set", { "set", "Level", "42" }, 0, "" },
  { "set-was-set", { "get", "Level" }, 0, "42\n" },
  { "set-short", { "set", "Level" }, 2, "value" },

  /* completion */
  { "complete-commands", { "complete", "--", "intro" }, 0, "introspect\tShow what" },
  { "complete-empty", { "complete", "--", "" }, 0, "call\t", "complete\t" },
  { "complete-none", { "complete" }, 0, "tree\t" },
  { "complete-options", { "complete", "--", "tree", "--" }, 0, "--all\tAlso" },
  { "complete-common", { "complete", "--", "tree", "--se" }, 0, "--session-bus\t", "--all" },
  { "complete-methods", { "complete", "--timeout=60", "--", "call", "" }, 0,
    "Paint\tPaints a picture\n",
    "Introspect" },
  { "complete-interface", { "complete", "--timeout=60", "--", "call", "org.llm.Service.New" }, 0,
    "org.llm.Service.New.Paint\t" },
  { "complete-paths", { "complete", "--timeout=60", "--", "call", "/org/llm/Service/t" }, 0,
    "/org/llm/Service/things/9\t" },
  { "complete-method-of-path",
    { "complete", "--timeout=60", "--", "call", "/org/llm/Service/things/9", "Pa" }, 0, "Paint\t" },
  { "complete-keys",
    { "complete", "--timeout=60", "--", "call", "Paint", "red", "2", "x=1", "" }, 0,
    "style=\thow it is painted\ntags=\twords for it\n" },
  { "complete-choices",
    { "complete", "--timeout=60", "--", "call", "Paint", "red", "2", "style=" }, 0,
    "style=plain\t\nstyle=wild\t\n" },
  { "complete-roles", { "complete", "--timeout=60", "--", "call", "Say", "u" }, 0, "user:\t\n" },
  { "complete-properties", { "complete", "--timeout=60", "--", "get", "Le" }, 0, "Level\t" },
  { "complete-writable", { "complete", "--timeout=60", "--", "set", "" }, 0, "Level\t", "Version" },
  { "complete-introspect", { "complete", "--timeout=60", "--", "introspect", "Pa" }, 0, "Paint\t" },
  { "complete-tree", { "complete", "--timeout=60", "--", "tree", "" }, 0,
    "/org/llm/Service/things\t" },
  { "complete-option-value", { "complete", "--", "ask", "--option", "max-t" }, 0, "max-tokens=\t" },
  { "complete-option-joined", { "complete", "--", "ask", "--option=max-t" }, 0,
    "--option=max-tokens=\t" },
  { "complete-help", { "complete", "--", "help", "ge" }, 0, "get\t" },
  { "complete-unknown", { "complete", "--", "nonsense", "" }, 0, "" },
  { "complete-bad-path", { "complete", "--timeout=60", "--", "call", "/a/", "" }, 0, "" },
  { "complete-not-utf8", { "complete", "--", "\xff" }, 0, "" },

  /* the program */
  { "help-json", { "help", "--json" }, 0,
    "{\"version\":1,\"name\":\"llmctl\",\"program-version\":\"" },
  { "help-command", { "help", "call" }, 0, "Usage: llmctl call [OPTION…] [PATH]" },
  { "help-unknown", { "help", "nonsense" }, 2, "Unknown command" },
  { "option-suggestion", { "tree", "--jsno" }, 2, "did you mean “--json”" },
  { "command-suggestion", { "tere" }, 2, "did you mean “tree”" },
  { "options-first", { "--session-bus", "--json", "get", "Version" }, 0,
    "{\"version\":1,\"value\":\"1.5\"}\n" },
  { "both-buses", { "--session-bus", "get", "--system-bus" }, 2, "exclude" },
  { "other-bus", { "--system-bus", "get" }, 4, NULL },
};

static void
test_case (gconstpointer data)
{
  const Case *self = data;
  g_autofree char *out = NULL;
  g_autofree char *err = NULL;
  g_autoptr(GSubprocess) process = run (self->arguments, self->input, &out, &err);
  g_autofree char *shown_out = g_strescape (out, NULL);
  g_autofree char *shown_err = g_strescape (err, NULL);
  const char *where = self->status == 0 ? out : err;

  g_test_message ("%s | %s", shown_out, shown_err);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, self->status);
  if (self->said != NULL && *self->said == '\0')
    g_assert_cmpstr (where, ==, "");
  else if (self->said != NULL)
    g_assert_nonnull (strstr (where, self->said));
  if (self->not_said != NULL)
    g_assert_null (strstr (where, self->not_said));
  if (self->status == 0)
    g_assert_cmpstr (err, ==, "");
  else
    g_assert_cmpstr (out, ==, "");
}

/* --- who answers wrongly --- */

static void
test_hostile (void)
{
  static const char *const commands[] = { "introspect", "tree", "get" };

  for (guint i = 0; i < fake_service_count_hostile (); i++)
    for (gsize j = 0; j < G_N_ELEMENTS (commands); j++)
      {
        g_autofree char *path = g_strdup_printf ("/org/llm/Service/hostile/%u", i);
        const char *const arguments[] = { commands[j], path, NULL };
        const char *const completing[] = { "complete", "--timeout=60", "--", "call", path, "",
                                           NULL };
        g_autofree char *out = NULL;
        g_autofree char *err = NULL;
        g_autofree char *candidates = NULL;
        g_autofree char *silence = NULL;
        g_autoptr(GSubprocess) process = run (arguments, NULL, &out, &err);
        g_autoptr(GSubprocess) completion = run (completing, NULL, &candidates, &silence);

        g_test_message ("%s %u: %s%s", commands[j], i, out, err);
        g_assert_true (g_subprocess_get_if_exited (process));
        g_assert_cmpint (g_subprocess_get_exit_status (process), <=, 1);
        g_assert_null (strchr (out, '\033'));
        g_assert_true (g_subprocess_get_successful (completion));
        g_assert_cmpstr (silence, ==, "");
      }
}

/* --- streams --- */

static void
on_waited (GObject      *source,
           GAsyncResult *result,
           gpointer      user_data)
{
  gboolean *is_done = user_data;

  g_assert_true (g_subprocess_wait_finish (G_SUBPROCESS (source), result, NULL));
  *is_done = TRUE;
}

static void
wait_for (GSubprocess *process)
{
  gboolean is_done = FALSE;

  g_subprocess_wait_async (process, NULL, on_waited, &is_done);
  while (!is_done)
    g_main_context_iteration (NULL, TRUE);
}

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      user_data)
{
  gssize *n = user_data;

  *n = g_input_stream_read_finish (G_INPUT_STREAM (source), result, NULL);
}

/* Bytes that come first. */
static gssize
read_async (GInputStream *stream)
{
  char buffer[64];
  gssize n = -2;

  g_input_stream_read_async (stream, buffer, sizeof buffer, G_PRIORITY_DEFAULT, NULL, on_read, &n);
  while (n == -2)
    g_main_context_iteration (NULL, TRUE);
  return n;
}

/* Ctrl-C while @method is waited for, or its stream. */
static void
test_interrupt (gconstpointer method)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GSubprocess) process = NULL;
  char buffer[64];

  fake_service_take_hanging (service);
  process = g_subprocess_new (G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                              &error, llmctl, "call", method, NULL);
  g_assert_no_error (error);
  while (!fake_service_take_hanging (service))
    g_main_context_iteration (NULL, TRUE);
  if (g_str_equal (method, "Endless"))
    {
      /* What was said so far has been written: it has the stream. */
      g_assert_cmpint (read_async (g_subprocess_get_stdout_pipe (process)), ==, 6);
    }
  g_subprocess_send_signal (process, SIGINT);
  wait_for (process);

  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 130);
  g_assert_cmpint (g_input_stream_read (g_subprocess_get_stderr_pipe (process), buffer,
                                        sizeof buffer, NULL, NULL), ==, 0);
}

/* What came in time has been written. */
static void
test_time_limit_stream (void)
{
  const char *const arguments[] = { "call", "Endless", "--timeout", "2", NULL };
  g_autofree char *out = NULL;
  g_autofree char *err = NULL;
  g_autoptr(GSubprocess) process = run (arguments, NULL, &out, &err);

  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 3);
  g_assert_cmpstr (out, ==, "so far");
  g_assert_nonnull (strstr (err, "not whole within"));
}

/* @redirection: of a shell, for the standard output. */
static GSubprocess *
run_redirected (const char  *redirection,
                char       **err)
{
  g_autofree char *script = g_strdup_printf ("exec \"$0\" get %s", redirection);
  g_autoptr(GError) error = NULL;
  GSubprocess *process = g_subprocess_new (G_SUBPROCESS_FLAGS_STDERR_PIPE, &error, "/bin/sh", "-c",
                                           script, llmctl, NULL);
  char buffer[1024];
  gssize n;

  g_assert_no_error (error);
  wait_for (process);
  n = g_input_stream_read (g_subprocess_get_stderr_pipe (process), buffer, sizeof buffer, NULL,
                           &error);
  g_assert_no_error (error);
  *err = g_strndup (buffer, (gsize) n);
  g_test_message ("%s: %s", redirection, *err);
  return process;
}

static void
test_full_disk (void)
{
  g_autofree char *err = NULL;
  g_autoptr(GSubprocess) process = run_redirected (">/dev/full", &err);

  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 1);
  g_assert_nonnull (strstr (err, "standard output"));
}

static void
test_closed_stdout (void)
{
  g_autofree char *err = NULL;
  g_autoptr(GSubprocess) process = run_redirected (">&-", &err);

  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, 1);
  /* Nothing else has got its number. */
  g_assert_nonnull (strstr (err, g_strerror (EBADF)));
}

static void
test_closed_pipe (void)
{
  g_autoptr(GSubprocessLauncher) launcher =
      g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_STDERR_PIPE);
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GError) error = NULL;
  char buffer[64];
  int ends[2];

  g_assert_cmpint (pipe2 (ends, O_CLOEXEC), ==, 0);
  close (ends[0]);
  g_subprocess_launcher_take_stdout_fd (launcher, ends[1]);
  process = g_subprocess_launcher_spawn (launcher, &error, llmctl, "introspect", NULL);
  g_assert_no_error (error);
  wait_for (process);

  g_assert_true (g_subprocess_get_if_signaled (process));
  g_assert_cmpint (g_subprocess_get_term_sig (process), ==, SIGPIPE);
  g_assert_cmpint (g_input_stream_read (g_subprocess_get_stderr_pipe (process), buffer,
                                        sizeof buffer, NULL, NULL), ==, 0);
}

/* --- terminals --- */

static gboolean
on_terminal (int          fd,
             GIOCondition condition,
             gpointer     user_data)
{
  GString *text = user_data;
  char buffer[4096];
  gssize n = read (fd, buffer, sizeof buffer);

  if (n > 0)
    g_string_append_len (text, buffer, n);
  return n > 0;
}

/* (transfer full): what a terminal gets to see. */
static char *
run_on_terminal (const char *variable,
                 const char *value,
                 const char *command,
                 const char *argument)
{
  g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) text = g_string_new (NULL);
  gboolean is_done = FALSE;
  int terminal, end;
  guint source;

  g_assert_cmpint (openpty (&terminal, &end, NULL, NULL, NULL), ==, 0);
  fcntl (terminal, F_SETFD, FD_CLOEXEC);
  g_subprocess_launcher_setenv (launcher, "TERM", "xterm", TRUE);
  g_subprocess_launcher_unsetenv (launcher, "NO_COLOR");
  if (variable != NULL)
    g_subprocess_launcher_setenv (launcher, variable, value, TRUE);
  g_subprocess_launcher_take_stderr_fd (launcher, dup (end));
  g_subprocess_launcher_take_stdout_fd (launcher, end);
  process = g_subprocess_launcher_spawn (launcher, &error, llmctl, command, argument, NULL);
  g_assert_no_error (error);
  /* The launcher keeps the end of the program. */
  g_clear_object (&launcher);

  source = g_unix_fd_add (terminal, G_IO_IN | G_IO_HUP, on_terminal, text);
  g_subprocess_wait_async (process, NULL, on_waited, &is_done);
  while (!is_done)
    g_main_context_iteration (NULL, TRUE);
  while (g_main_context_find_source_by_id (NULL, source) != NULL)
    g_main_context_iteration (NULL, TRUE);
  close (terminal);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static void
test_terminal (void)
{
  g_autofree char *coloured = run_on_terminal (NULL, NULL, "introspect", "Version");
  g_autofree char *no_colour = run_on_terminal ("NO_COLOR", "1", "introspect", "Version");
  g_autofree char *dumb = run_on_terminal ("TERM", "dumb", "introspect", "Version");
  g_autofree char *nasty = run_on_terminal ("NO_COLOR", "1", "get", "Nasty");
  g_autofree char *json = run_on_terminal ("NO_COLOR", "1", "get", "--json");
  g_autofree char *stream = run_on_terminal ("NO_COLOR", "1", "call", "Stream");
  g_autofree char *long_stream = run_on_terminal ("NO_COLOR", "1", "call", "Long");

  g_assert_nonnull (strstr (coloured, "\033[1mVersion\033[0m"));
  g_assert_null (strchr (no_colour, '\033'));
  g_assert_nonnull (strstr (no_colour, "Version: string"));
  g_assert_null (strchr (dumb, '\033'));
  g_assert_cmpstr (nasty, ==, "\xef\xbf\xbd[2J\xef\xbf\xbdred\r\n");
  /* Indented for people. */
  g_assert_true (g_str_has_prefix (json, "{\r\n  \"version\": 1,\r\n  \"org.llm.Service\": {\r\n"));
  g_assert_cmpstr (stream, ==, "one\r\ntwoä\xef\xbf\xbd[2J\r\n");
  /* A character that came in two parts. */
  g_assert_true (g_str_has_suffix (long_stream, "xxxä\r\n"));
}

/* What comes from outside into a complaint. */
static void
test_terminal_errors (void)
{
  g_autofree char *unknown = run_on_terminal (NULL, NULL, "call", "a\033[2J");
  g_autofree char *option = run_on_terminal (NULL, NULL, "call", "--\033[2J");

  g_assert_nonnull (strstr (unknown, "\xef\xbf\xbd[2J"));
  g_assert_null (strchr (unknown, '\033'));
  g_assert_null (strchr (option, '\033'));
}

/* --- without the service --- */

static void
test_not_running (void)
{
  const char *const completing[] = { "complete", "--timeout=60", "--", "call", "", NULL };
  const char *const keys[] = { "complete", "--timeout=60", "--", "call", "Paint", "a", "1", "",
                               NULL };
  const char *const contexts[] = { "complete", "--timeout=60", "--", "context", "show", "", NULL };
  const char *const paths[] = { "complete", "--timeout=60", "--", "tree", "", NULL };
  const char *const getting[] = { "get", "Version", NULL };
  g_autofree char *out = NULL;
  g_autofree char *err = NULL;
  g_autofree char *key_out = NULL;
  g_autofree char *key_err = NULL;
  g_autofree char *context_out = NULL;
  g_autofree char *context_err = NULL;
  g_autofree char *path_out = NULL;
  g_autofree char *path_err = NULL;
  g_autofree char *get_out = NULL;
  g_autofree char *get_err = NULL;
  g_autoptr(GSubprocess) process = run (completing, NULL, &out, &err);
  g_autoptr(GSubprocess) key_process = run (keys, NULL, &key_out, &key_err);
  g_autoptr(GSubprocess) context_process = run (contexts, NULL, &context_out, &context_err);
  g_autoptr(GSubprocess) path_process = run (paths, NULL, &path_out, &path_err);
  g_autoptr(GSubprocess) get_process = NULL;

  /* From the interface file, and nobody was started for it. */
  g_assert_true (g_subprocess_get_successful (process));
  g_assert_nonnull (strstr (out, "Paint\tPaints a picture\n"));
  g_assert_nonnull (strstr (key_out, "style=\t"));
  g_assert_nonnull (strstr (path_out, "/org/llm/Service\t"));
  g_assert_cmpstr (err, ==, "");
  g_assert_cmpstr (key_err, ==, "");
  g_assert_cmpstr (path_err, ==, "");
  g_assert_cmpstr (context_err, ==, "");
  g_assert_false (fake_service_was_started (service));

  /* It can be started, though this one ends at once. */
  get_process = run (getting, NULL, &get_out, &get_err);
  g_assert_cmpint (g_subprocess_get_exit_status (get_process), ==, 4);
  g_assert_true (fake_service_was_started (service));
}

/* From here on it runs. */
static void
test_start (void)
{
  fake_service_start (service);
}

int
main (int   argc,
      char *argv[])
{
  int result;

  g_test_init (&argc, &argv, NULL);
  if (argc < 2)
    g_error ("The path of llmctl is missing");
  llmctl = argv[1];
  g_setenv ("LC_ALL", "C.UTF-8", TRUE);
  g_test_set_nonfatal_assertions ();
  service = fake_service_new ();

  /* In this order. */
  g_test_add_func ("/call/not-running", test_not_running);
  g_test_add_func ("/call/start", test_start);
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/call/", cases[i].name, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/call/hostile", test_hostile);
  g_test_add_data_func ("/call/interrupt", "Hang", test_interrupt);
  g_test_add_data_func ("/call/interrupt-stream", "Endless", test_interrupt);
  g_test_add_func ("/call/time-limit-stream", test_time_limit_stream);
  g_test_add_func ("/call/full-disk", test_full_disk);
  g_test_add_func ("/call/closed-stdout", test_closed_stdout);
  g_test_add_func ("/call/closed-pipe", test_closed_pipe);
  g_test_add_func ("/call/terminal", test_terminal);
  g_test_add_func ("/call/terminal-errors", test_terminal_errors);

  result = g_test_run ();
  fake_service_free (service);
  return result;
}
