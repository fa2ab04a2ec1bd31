/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A reclaimer made of two functions, for holders that are no objects themselves.
 * Main thread, as all reclaimers.
 */

#pragma once

#include "memory/llm-reclaimer.h"

G_BEGIN_DECLS

typedef struct
{
  const char *name;
  LlmReclaimCost cost;
  guint64 (*get_held) (gpointer       holder);
  /* Calls @done (freed, @data) once, now or later. */
  void    (*give)     (gpointer       holder,
                       guint64        bytes,
                       gint64         deadline_us,
                       LlmReclaimDone done,
                       gpointer       data);
  void     (*grow)      (gpointer     holder,
                         guint64      bytes);   /* (nullable) */
  gboolean (*is_backed) (gpointer     holder);  /* (nullable) */
} LlmReclaimerFuncs;

/* (transfer full): @funcs is static; @holder is not owned and outlives it. */
LlmReclaimer *llm_func_reclaimer_new (const LlmReclaimerFuncs *funcs,
                                      gpointer                 holder);

G_END_DECLS
