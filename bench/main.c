/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const struct
{
  const char *name;
  int (*run) (int argc, char **argv);   /* NULL: a program in Python */
  const char *summary;                  /* NULL: for these programs only */
} commands[] = {
  { "service", bench_service, "activation, what the bus adds, resident memory" },
  { "cli", bench_cli, "llmctl beside busctl and gdbus" },
  { "model", bench_model, "how fast a model runs, beside the limits and other programs" },
  { "contexts", bench_contexts, "what it costs to switch contexts, by policy" },
  { "contention", bench_contention, "how much of its speed is left beside busy processes" },
  { "load", bench_load, "from activation to the first token, what two services share" },
  { "slo", NULL, "calls that meet their latency targets, as the load rises" },
  { "pressure", NULL, "memory given back: traces through the policy, and Trim timed" },
  { "machine", bench_machine, "the machine's limits: memory, caches, computing, disk" },
  { "soak", NULL, "many applications for a long time, callers that mean harm" },
  { "storm", NULL, "a program that takes memory, beside the service and beside others" },
  { "make-gguf", bench_make_gguf, "files with random weights at the shapes of known models" },
  { "tokens", bench_tokens, NULL },
  { "slo-fair", bench_slo_fair, NULL },
  { "pressure-play", bench_pressure_play, NULL },
};

/* Becomes run.py, which finds this program by LLMSVC_BENCH. Returns only when that fails. */
static int
run_script (char **argv)
{
  g_autofree char *own = g_file_read_link ("/proc/self/exe", NULL);
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) words = NULL;

  g_strv_builder_add_many (builder, BENCH_PYTHON, "-B", BENCH_FOLDER "/run.py", NULL);
  g_strv_builder_addv (builder, (const char **) argv);
  words = g_strv_builder_end (builder);
  g_setenv ("LLMSVC_BENCH", own != NULL ? own : "llmsvc-bench", TRUE);
  execv (words[0], words);
  g_printerr ("llmsvc-bench: %s: %s\n", words[0], g_strerror (errno));
  return 1;
}

int
main (int    argc,
      char **argv)
{
  for (guint i = 0; argc > 1 && i < G_N_ELEMENTS (commands); i++)
    if (strcmp (argv[1], commands[i].name) == 0)
      return commands[i].run != NULL ? commands[i].run (argc - 1, argv + 1)
                                     : run_script (argv + 1);

  g_printerr ("Usage: llmsvc-bench COMMAND [OPTION…]\n\n");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    if (commands[i].summary != NULL)
      g_printerr ("  %-11s %s\n", commands[i].name, commands[i].summary);
  return 2;
}
