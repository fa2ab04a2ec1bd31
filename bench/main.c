/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const BenchCommand *const commands[] = {
  &bench_model_command, &bench_contention_command, &bench_machine_command, &bench_contexts_command,
  &bench_draft_command, &bench_masks_command, &bench_products_command, &bench_dispatch_command,
  &bench_w8a8_command,
};

/* Programs in Python. */
static const struct
{
  const char *name;
  const char *summary;
} scripts[] = {
  { "service", "activation, what the bus adds, resident memory" },
  { "cli", "llmctl beside busctl and gdbus" },
  { "endpoint", "what the endpoint for OpenAI's HTTP adds to answers" },
  { "load", "from activation to the first token, what two services share" },
  { "contexts", "what it costs to switch contexts, by policy" },
  { "prompts", "prompts of tasks, computed exactly and in W8A8" },
  { "draft", "drafts: methods beside plain decoding, also of a model larger than memory" },
  { "budget", "the memory budget changed in mid-answer: how soon it is followed, how long tokens take" },
  { "active", "sparse answers beside whole weights, of a model larger than memory" },
  { "levels", "calls of sub-models: their part of the whole model's time, and its forecast" },
  { "orders", "what sub-models lose, by how they could have been made" },
  { "strategies", "sub-models, shorter prompts and others for targets of time: who answers right in time" },
  { "slo", "calls that meet their latency targets, as the load rises" },
  { "pressure", "memory given back: traces through the policy, and Trim timed" },
  { "soak", "many applications for a long time, hostile clients" },
  { "storm", "a program that takes memory, beside the service and beside others" },
  { "make-gguf", "files at the shapes of known models: random, or a small model made larger" },
};

/* For these programs only. */
static const struct
{
  const char *name;
  int (*run) (int argc, char **argv);
} helpers[] = {
  { "answers", bench_answers },
  { "draft-group", bench_draft_group },
  { "draft-play", bench_draft_play },
  { "tokens", bench_tokens },
  { "slo-fair", bench_slo_fair },
  { "stream", bench_stream },
  { "pressure-play", bench_pressure_play },
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
    if (strcmp (argv[1], commands[i]->name) == 0)
      return bench_command_run (commands[i], argc - 1, argv + 1);
  for (guint i = 0; argc > 1 && i < G_N_ELEMENTS (scripts); i++)
    if (strcmp (argv[1], scripts[i].name) == 0)
      return run_script (argv + 1);
  for (guint i = 0; argc > 1 && i < G_N_ELEMENTS (helpers); i++)
    if (strcmp (argv[1], helpers[i].name) == 0)
      return helpers[i].run (argc - 1, argv + 1);

  g_printerr ("Usage: llmsvc-bench COMMAND [OPTION…]\n\n");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    if (commands[i]->summary != NULL)
      g_printerr ("  %-11s %s\n", commands[i]->name, commands[i]->summary);
  for (guint i = 0; i < G_N_ELEMENTS (scripts); i++)
    g_printerr ("  %-11s %s\n", scripts[i].name, scripts[i].summary);
  return 2;
}
