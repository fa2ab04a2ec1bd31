/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench/bench-rig.h"

BenchRigRun
bench_rig_run (const char *first,
               ...)
{
  g_autoptr(GPtrArray) argv = g_ptr_array_new ();
  g_autoptr(GError) error = NULL;
  BenchRigRun run = { 0 };
  va_list arguments;

  g_ptr_array_add (argv, (char *) g_getenv ("LLM_BENCH"));
  va_start (arguments, first);
  for (const char *argument = first; argument != NULL; argument = va_arg (arguments, const char *))
    g_ptr_array_add (argv, (char *) argument);
  va_end (arguments);
  g_ptr_array_add (argv, NULL);

  g_spawn_sync (NULL, (char **) argv->pdata, NULL, G_SPAWN_DEFAULT, NULL, NULL, &run.out, &run.err,
                &run.status, &error);
  g_assert_no_error (error);
  g_assert_true (WIFEXITED (run.status));
  run.status = WEXITSTATUS (run.status);
  return run;
}

void
bench_rig_make_gguf (const char *path,
                     const char *shape,
                     const char *type,
                     const char *layers)
{
  g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--shape", shape, "--type", type,
                                           "--layers", layers, path, NULL);

  g_assert_cmpstr (run.err, ==, "");
  g_assert_cmpint (run.status, ==, 0);
}

void
bench_rig_run_clear (BenchRigRun *run)
{
  g_free (run->out);
  g_free (run->err);
}
