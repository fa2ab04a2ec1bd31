/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <string.h>

int
main (int    argc,
      char **argv)
{
  if (argc > 1 && strcmp (argv[1], "service") == 0)
    return bench_service (argc - 1, argv + 1);
  g_printerr ("Usage: llmsvc-bench service [OPTION…]\n\n"
              "  service    activation, what the bus adds, resident memory\n");
  return 2;
}
