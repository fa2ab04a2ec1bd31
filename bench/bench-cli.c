/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a shell waits for: one property read by llmctl from its start to its end,
 * beside the same question by the general tools of the bus, interleaved, while the
 * service runs; and the candidates of a completion.
 */

#include "bench.h"

#include <string.h>

#include "common/llmsvc-names.h"
#include "support/llm-test-folder.h"

#define MAX_WORDS 12

static char *opt_llmctl;
static char *opt_daemon;
static char *opt_model;
static char *opt_busctl;
static char *opt_gdbus;
static int opt_runs = 51;
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "llmctl", 0, 0, G_OPTION_ARG_FILENAME, &opt_llmctl, "The llmctl to measure", "FILE" },
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd that it asks", "FILE" },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file of the service", "FILE" },
  { "busctl", 0, 0, G_OPTION_ARG_FILENAME, &opt_busctl, "The busctl to compare with (from PATH)",
    "FILE" },
  { "gdbus", 0, 0, G_OPTION_ARG_FILENAME, &opt_gdbus, "The gdbus to compare with (from PATH)",
    "FILE" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (51)", "N" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object", NULL },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  const char *name;
  char **program;                   /* those that are not there are left out */
  const char *words[MAX_WORDS];     /* after the program */
} Command;

static const Command commands[] = {
  { "llmctl get Version", &opt_llmctl, { "get", "Version" } },
  { "llmctl get INTERFACE.Version", &opt_llmctl, { "get", LLMSVC_INTERFACE ".Version" } },
  { "llmctl --session-bus get INTERFACE.Version", &opt_llmctl,
    { "--session-bus", "get", LLMSVC_INTERFACE ".Version" } },
  { "busctl get-property", &opt_busctl,
    { "--user", "get-property", LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "Version" } },
  { "gdbus call Properties.Get", &opt_gdbus,
    { "call", "--session", "-d", LLMSVC_BUS_NAME, "-o", LLMSVC_PATH, "-m",
      "org.freedesktop.DBus.Properties.Get", LLMSVC_INTERFACE, "Version" } },
  { "llmctl --version", &opt_llmctl, { "--version" } },
  { "llmctl complete -- call", &opt_llmctl, { "complete", "--", "call", "" } },
};

/* Milliseconds from the start of a program to its end. */
static double
time_command (const Command *command)
{
  const char *words[MAX_WORDS + 2] = { *command->program };
  g_autoptr(GError) error = NULL;
  gint64 begin;
  int status;

  memcpy (words + 1, command->words, sizeof command->words);
  begin = g_get_monotonic_time ();
  if (!g_spawn_sync (NULL, (char **) words, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL,
                     NULL, &status, &error) ||
      !g_spawn_check_wait_status (status, &error))
    g_error ("%s: %s", command->name, error->message);
  return (double) (g_get_monotonic_time () - begin) / 1000.0;
}

static guint
start_service (GDBusConnection *connection)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) started = NULL;
  g_autoptr(GVariant) reply = NULL;
  guint pid;

  started = g_dbus_connection_call_sync (connection, LLMSVC_BUS_NAME, LLMSVC_PATH,
                                         "org.freedesktop.DBus.Peer", "Ping", NULL, NULL,
                                         G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, &error);
  if (started == NULL)
    g_error ("The service does not start: %s", error->message);
  reply = g_dbus_connection_call_sync (connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                       "org.freedesktop.DBus", "GetConnectionUnixProcessID",
                                       g_variant_new ("(s)", LLMSVC_BUS_NAME),
                                       G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL,
                                       &error);
  if (reply == NULL)
    g_error ("%s", error->message);
  g_variant_get (reply, "(u)", &pid);
  return pid;
}

static void
measure (GPtrArray *figures)
{
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    g_ptr_array_add (figures, bench_figure_new (commands[i].name, "ms"));

  for (int run = -1; run < opt_runs; run++)
    for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
      {
        double ms;

        if (*commands[i].program == NULL)
          continue;
        ms = time_command (&commands[i]);
        /* The first one reads the programs from storage. */
        if (run >= 0)
          bench_figure_add (g_ptr_array_index (figures, i), ms);
      }
}

int
bench_cli (int    argc,
           char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GPtrArray) figures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
  g_autoptr(GTestDBus) dbus = NULL;
  g_autoptr(GDBusConnection) connection = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *folder = NULL;
  g_autofree char *service = NULL;
  g_autofree char *text = NULL;
  guint pid;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_llmctl == NULL ||
      opt_daemon == NULL || opt_model == NULL || opt_runs < 1)
    {
      g_printerr ("llmsvc-bench: %s\n",
                  error != NULL ? error->message
                                : "--llmctl FILE, --daemon FILE and --model FILE are needed");
      return 2;
    }
  if (opt_busctl == NULL)
    opt_busctl = g_find_program_in_path ("busctl");
  if (opt_gdbus == NULL)
    opt_gdbus = g_find_program_in_path ("gdbus");

  folder = llm_test_folder_new ();
  service = g_build_filename (folder, LLMSVC_BUS_NAME ".service", NULL);
  text = g_strdup_printf ("[D-BUS Service]\nName=" LLMSVC_BUS_NAME
                          "\nExec=%s --session --model %s --state-dir %s/state\n",
                          opt_daemon, opt_model, folder);
  if (!g_file_set_contents (service, text, -1, &error))
    g_error ("%s", error->message);
  dbus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_add_service_dir (dbus, folder);
  g_test_dbus_up (dbus);
  connection = g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (dbus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, &error);
  if (connection == NULL)
    g_error ("%s", error->message);

  pid = start_service (connection);
  measure (figures);
  bench_stop_service (pid);
  g_dbus_connection_close_sync (connection, NULL, NULL);
  g_test_dbus_down (dbus);
  llm_test_folder_remove (folder);
  bench_print (figures, opt_json);
  return 0;
}
