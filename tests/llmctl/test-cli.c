/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How llmctl ends when it is called wrongly or there is no service. */

#define G_LOG_DOMAIN "test-cli"

#include <gio/gio.h>
#include <string.h>

#define MAX_ARGUMENTS 8

static const char *llmctl;

typedef struct
{
  const char *name;
  const char *arguments[MAX_ARGUMENTS];
  int status;
  const char *said;   /* (nullable): in stderr, or in stdout when the status is 0 */
} Case;

static const Case cases[] = {
  { "nothing", { NULL }, 4, "Start it with" },
  { "help", { "--help" }, 0, "ask" },
  { "version", { "--version" }, 0, "llmctl " },
  { "unknown-command", { "aks", "x" }, 2, "Unknown command “aks”" },
  { "ask-help", { "ask", "--help" }, 0, "--max-tokens" },
  { "status-help", { "status", "--help" }, 0, "--json" },
  { "no-prompt", { "ask" }, 2, "no prompt" },
  { "two-prompts", { "ask", "a", "b" }, 2, "quotes" },
  { "unknown-flag", { "ask", "--colour", "x" }, 2, "ask --help" },
  { "flag-without-value", { "ask", "--max-tokens" }, 2, "--help" },
  { "two-buses", { "ask", "--system-bus", "--session-bus", "x" }, 2, "exclude" },
  { "max-tokens-word", { "ask", "--max-tokens", "many", "x" }, 2,
    "“max-tokens” is “many”, it must be a number" },
  { "max-tokens-range", { "ask", "--max-tokens", "0", "x" }, 2, "from 1 to 16777216" },
  { "max-tokens-negative", { "ask", "--max-tokens", "-1", "x" }, 2, "-1" },
  { "temperature-range", { "ask", "--temperature", "9", "x" }, 2, "from 0 to 5" },
  { "temperature-nan", { "ask", "--temperature", "nan", "x" }, 2, "not a number" },
  { "seed-half", { "ask", "--seed", "1.5", "x" }, 2, "whole number" },
  { "share-word", { "ask", "--ttft-share", "half", "x" }, 2, "from 1 to 100 percent" },
  { "share-part", { "ask", "--call-share", "0.4", "x" }, 2, "--call-share is “0.4”" },
  { "share-nan", { "ask", "--tpot-share", "nan", "x" }, 2, "from 1 to 100 percent" },
  { "sub-model-range", { "ask", "--least-sub-model", "10", "x" }, 2, "from 20 to 100" },
  { "option-without-value", { "ask", "--option", "slo", "x" }, 2, "KEY=VALUE" },
  { "option-wrong-choice", { "ask", "--option", "slo=soon", "x" }, 2, "interactive" },
  { "option-wrong-boolean", { "ask", "--raw", "--option", "raw=maybe", "x" }, 2,
    "“true” or “false”" },
  { "option-wrong-dict", { "ask", "--option", "logit-bias=[1]", "x" }, 2,
    "“logit-bias” can't be read" },
  { "raw-and-system", { "ask", "--raw", "--system", "s", "x" }, 2, "--raw" },
  { "raw-and-context", { "ask", "--raw", "--context", "c", "x" }, 2, "--raw" },
  { "timeout-negative", { "ask", "--timeout", "-3", "x" }, 2, "--timeout" },
  { "timeout-word", { "ask", "--timeout", "long", "x" }, 2, "--help" },
  { "empty-stdin", { "ask", "-" }, 2, "no prompt" },
  { "status-argument", { "status", "x" }, 2, "no argument" },
  { "not-utf8", { "ask", "\xff" }, 2, "UTF-8" },
  { "no-service", { "ask", "--session-bus", "x" }, 4, "Start it with “systemctl --user" },
  { "no-service-anywhere", { "ask", "x" }, 4, "Start it with" },
  { "no-system-bus", { "ask", "--system-bus", "x" }, 4, "bus can be reached" },
  { "no-service-status", { "status" }, 4, "Start it with" },
  { "no-service-raw", { "ask", "--raw", "x" }, 4, "Start it with" },
  { "not-ascii", { "ask", "Grüße" }, 4, "Start it with" },
};

static void
test_case (gconstpointer data)
{
  const Case *self = data;
  g_autoptr(GPtrArray) arguments = g_ptr_array_new ();
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GBytes) output = NULL;
  g_autoptr(GBytes) complaint = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *said = NULL;
  GBytes *where;

  g_ptr_array_add (arguments, (gpointer) llmctl);
  for (gsize i = 0; i < MAX_ARGUMENTS && self->arguments[i] != NULL; i++)
    g_ptr_array_add (arguments, (gpointer) self->arguments[i]);
  g_ptr_array_add (arguments, NULL);

  process = g_subprocess_newv ((const char *const *) arguments->pdata,
                               G_SUBPROCESS_FLAGS_STDOUT_PIPE | G_SUBPROCESS_FLAGS_STDERR_PIPE,
                               &error);
  g_assert_no_error (error);
  /* The standard input is /dev/null. */
  g_assert_true (g_subprocess_communicate (process, NULL, NULL, &output, &complaint, &error));
  g_assert_no_error (error);

  where = self->status == 0 ? output : complaint;
  said = g_strndup (g_bytes_get_data (where, NULL) != NULL ? g_bytes_get_data (where, NULL) : "",
                    g_bytes_get_size (where));
  g_test_message ("%s", said);
  g_assert_true (g_subprocess_get_if_exited (process));
  g_assert_cmpint (g_subprocess_get_exit_status (process), ==, self->status);
  if (self->said != NULL)
    g_assert_nonnull (strstr (said, self->said));
  if (self->status != 0)
    g_assert_cmpuint (g_bytes_get_size (output), ==, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr(GTestDBus) bus = NULL;
  int result;

  g_test_init (&argc, &argv, NULL);
  if (argc < 2)
    g_error ("The path of llmctl is missing");
  llmctl = argv[1];

  g_test_set_nonfatal_assertions ();
  /* A session bus without the service, and no system bus. */
  bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_up (bus);
  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", TRUE);
  g_setenv ("LC_ALL", "C.UTF-8", TRUE);

  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/cli/", cases[i].name, NULL);

      g_test_add_data_func (path, &cases[i], test_case);
    }

  result = g_test_run ();
  g_test_dbus_down (bus);
  return result;
}
