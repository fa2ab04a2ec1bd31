/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Ways to compute prompts with 8 bits that are compared. */

#pragma once

#include "tool/llm-w8-lab.h"

typedef enum
{
  BENCH_W8_SMOOTH,    /* like SmoothQuant: inputs and weights made as large as each other, one scale */
  BENCH_W8_ROWS,      /* like LLM.int8(): a scale for each row, large channels in floats */
  BENCH_W8_NAIVE,     /* one scale, up to the largest activation */
  BENCH_W8_CLIPPED,   /* one scale, up to the quantile of the next one */
  BENCH_W8_SHADOW,    /* and what is beyond in floats */
  BENCH_W8_PRUNED,    /* and that only at the sites that need it */
  BENCH_W8_N_METHODS,
} BenchW8Method;

/* What a backend needs for a method. */
typedef struct
{
  guint n_sites;
  LlmW8Site *sites;        /* (owned), as what follows */
  LlmW8Method *methods;
  float **factors;
  guint16 **hot;           /* channels that stay floats, as LlmW8Site has them */
} BenchW8Table;

BenchW8Table *bench_w8_table_new  (const LlmW8Lab         *lab,
                                   const LlmW8Findings *calibration,
                                   BenchW8Method             method,
                                   GError                  **error);
void          bench_w8_table_free (BenchW8Table             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchW8Table, bench_w8_table_free)
