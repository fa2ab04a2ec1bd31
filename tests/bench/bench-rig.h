/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs llmsvc-bench ($LLM_BENCH) for tests. */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  int status;   /* of the exit */
  char *out;
  char *err;
} BenchRigRun;

/* With these arguments, NULL-terminated; whatever it says. */
BenchRigRun bench_rig_run       (const char  *first,
                                 ...) G_GNUC_NULL_TERMINATED;
/* A file of a shape and type, which must succeed. */
void        bench_rig_make_gguf (const char  *path,
                                 const char  *shape,
                                 const char  *type,
                                 const char  *layers);
void        bench_rig_run_clear (BenchRigRun *run);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (BenchRigRun, bench_rig_run_clear)

G_END_DECLS
