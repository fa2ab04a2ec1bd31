/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A device with a clock of its own: a thread that computes products with the CPU's kernels, on rows
 * and results in memory of its own, and has an operation done when it is computed and the time that a
 * device of the given rate would need has passed. For measuring and testing what dispatch over
 * two processors gives (N6); it is no faster than a thread, and its times are no speed of anything.
 * Like a device whose graphs are compiled, it runs static shapes only. The executor's thread calls it.
 */

#pragma once

#include "forward/llm-backend.h"

typedef struct
{
  guint n_rows;            /* of all its products */
  double operations_per_us; /* multiplications with additions */
  double submission_us;    /* of each operation, in addition */
} LlmPacedConfig;

typedef struct
{
  guint n_done;
  guint n_late;            /* that were not computed when their time had passed */
  double busy_us;          /* of its clock */
  guint n_prepared;        /* shapes, and buffers beyond one of each */
} LlmPacedFigures;

/* @kernels: (unowned). */
LlmBackend     *llm_paced_new         (const LlkOps         *kernels,
                                       const LlmPacedConfig *config);
/* Waits until an operation is done, or none is left. */
void            llm_paced_wait        (LlmBackend           *backend);
LlmPacedFigures llm_paced_get_figures (LlmBackend           *backend);
