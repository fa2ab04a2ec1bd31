/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a shell waits for: one property read by llmctl from its start to its end,
 * beside the same question by the general tools of the bus, interleaved, while the
 * service runs; and the candidates of a completion.
 */

#include "bench.h"

#include <string.h>

#include "bench-bus.h"
#include "common/llmsvc-names.h"

#define MAX_WORDS 12

static char *opt_llmctl;
static char *opt_daemon;
static char *opt_model;
static char *opt_busctl;
static char *opt_gdbus;
static int opt_runs = 51;

static const GOptionEntry entries[] = {
  { "llmctl", 0, 0, G_OPTION_ARG_FILENAME, &opt_llmctl, "The llmctl to measure", "FILE" },
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd that it asks", "FILE" },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file of the service", "FILE" },
  { "busctl", 0, 0, G_OPTION_ARG_FILENAME, &opt_busctl, "The busctl to compare with (from PATH)",
    "FILE" },
  { "gdbus", 0, 0, G_OPTION_ARG_FILENAME, &opt_gdbus, "The gdbus to compare with (from PATH)",
    "FILE" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (51)", "N" },
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

static gboolean
run_cli (Bench   *bench,
         GError **error)
{
  BenchBus *bus;

  if (opt_llmctl == NULL || opt_daemon == NULL || opt_model == NULL || opt_runs < 1)
    return bench_fail_usage (error, "--llmctl FILE, --daemon FILE and --model FILE are needed");
  if (opt_busctl == NULL)
    opt_busctl = g_find_program_in_path ("busctl");
  if (opt_gdbus == NULL)
    opt_gdbus = g_find_program_in_path ("gdbus");

  /* the programs find the bus in the environment */
  bus = bench_bus_new (opt_daemon, opt_model, NULL);
  g_variant_unref (bench_bus_get (bus, LLMSVC_INTERFACE, "Version"));
  bus->daemon_pid = bench_bus_find_pid (bus, LLMSVC_BUS_NAME);
  for (int run = -1; run < opt_runs; run++)
    for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
      {
        double ms = *commands[i].program != NULL ? time_command (&commands[i]) : 0;

        /* The first one reads the programs from storage. */
        if (run >= 0 && ms > 0)
          bench_add (bench, "ms", ms, "%s", commands[i].name);
      }
  bench_bus_free (bus);
  return TRUE;
}

const BenchCommand bench_cli_command = {
  .name = "cli",
  .summary = "llmctl beside busctl and gdbus",
  .entries = entries,
  .run = run_cli,
};
