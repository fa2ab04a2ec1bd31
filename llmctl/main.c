/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl: the service for a shell, over the bus. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "llmctl/llmctl.h"

typedef struct
{
  const char *name;
  const char *summary;
  LlmctlExit (*run) (int   argc,
                     char *argv[]);
} Command;

static const Command commands[] = {
  { "ask", "Ask, and print the answer as it comes", llmctl_cmd_ask },
  { "status", "Show the service, its model and its memory", llmctl_cmd_status },
};

static void
print_help (FILE *out)
{
  fputs ("Usage: llmctl COMMAND [OPTION…]\n\n", out);
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    fprintf (out, "  %-10s %s\n", commands[i].name, commands[i].summary);
  fputs ("\n“llmctl COMMAND --help” tells more. Ends with 0 when all is well, 1 after a failure,\n"
         "2 for wrong usage, 3 when the time is up, 4 when the service or a model is not there,\n"
         "5 when it is not allowed, 6 when too much is asked of the service, 130 when interrupted.\n",
         out);
}

int
main (int   argc,
      char *argv[])
{
  /* Registers the names of the service's errors. */
  (void) LLMSVC_ERROR;

  if (argc < 2)
    {
      print_help (stderr);
      return LLMCTL_EXIT_USAGE;
    }
  if (strcmp (argv[1], "--help") == 0 || strcmp (argv[1], "-h") == 0)
    {
      print_help (stdout);
      return LLMCTL_EXIT_OK;
    }
  if (strcmp (argv[1], "--version") == 0)
    {
      puts ("llmctl " LLM_VERSION);
      return LLMCTL_EXIT_OK;
    }

  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    if (strcmp (argv[1], commands[i].name) == 0)
      return (int) commands[i].run (argc - 1, argv + 1);

  llmctl_complain ("“%s” is no command; see “llmctl --help”", argv[1]);
  return LLMCTL_EXIT_USAGE;
}
