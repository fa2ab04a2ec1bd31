/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <string.h>

int
main (int    argc,
      char **argv)
{
  if (argc > 1 && strcmp (argv[1], "service") == 0)
    return bench_service (argc - 1, argv + 1);
  if (argc > 1 && strcmp (argv[1], "cli") == 0)
    return bench_cli (argc - 1, argv + 1);
  g_printerr ("Usage: llmsvc-bench service|cli [OPTION…]\n\n"
              "  service    activation, what the bus adds, resident memory\n"
              "  cli        llmctl beside busctl and gdbus\n");
  return 2;
}
