/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <string.h>

static const struct
{
  const char *name;
  int (*run) (int argc, char **argv);
  const char *summary;
} commands[] = {
  { "service", bench_service, "activation, what the bus adds, resident memory" },
  { "cli", bench_cli, "llmctl beside busctl and gdbus" },
  { "model", bench_model, "how fast a model runs, beside the limits and other programs" },
  { "contexts", bench_contexts, "what it costs to switch contexts, by policy" },
  { "contention", bench_contention, "how much of its speed is left beside busy processes" },
  { "load", bench_load, "from activation to the first token, what two services share" },
  { "slo", bench_slo, "calls that meet their latency targets, as the load rises" },
  { "pressure", bench_pressure, "memory given back: traces through the policy, and Trim timed" },
  { "machine", bench_machine, "the machine's limits: memory, caches, computing, disk" },
  { "soak", bench_soak, "many applications for a long time, callers that mean harm" },
  { "storm", bench_storm, "a program that takes memory, beside the service and beside others" },
  { "make-gguf", bench_make_gguf, "files with random weights at the shapes of known models" },
};

int
main (int    argc,
      char **argv)
{
  for (guint i = 0; argc > 1 && i < G_N_ELEMENTS (commands); i++)
    if (strcmp (argv[1], commands[i].name) == 0)
      return commands[i].run (argc - 1, argv + 1);

  g_printerr ("Usage: llmsvc-bench COMMAND [OPTION…]\n\n");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    g_printerr ("  %-11s %s\n", commands[i].name, commands[i].summary);
  return 2;
}
