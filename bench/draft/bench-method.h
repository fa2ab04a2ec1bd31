/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Ways to generate an answer that are compared, by their names on the command line, and the prompts
 * of a task file.
 */

#pragma once

#include <gio/gio.h>

#include "decoding/draft/llm-draft-growth.h"

G_BEGIN_DECLS

typedef enum
{
  BENCH_PLAIN,       /* a row a step */
  BENCH_MODEL,       /* guesses of a draft model, the text is plain's */
  BENCH_LOOKUP,      /* guesses of the context's own text, likewise */
  BENCH_ACTIVE,      /* plain, with a part of the weights left out: another text */
  BENCH_TARGET,      /* plain, with as much left out as meets a target: likewise */
  BENCH_OWN,         /* guesses of the model's smallest sub-model, likewise */
  BENCH_BIG_LITTLE,  /* see draft/bench-big-little.h: another text */
} BenchMethodKind;

typedef struct
{
  BenchMethodKind kind;
  LlmGrowthConfig growth;
  double fallback;   /* BIG_LITTLE */
  double rollback;
  guint sparsity;    /* ACTIVE: percent */
  double share;      /* TARGET: of the whole model's time of a token */
} BenchMethod;

/* "plain", "active:PERCENT" (that it leaves out), "target:PERCENT" (of the whole model's time of a token), "lookup", "own" (as the service does: the tree by cost, and drafting goes on while weights
 * are read); of a draft model: "tree" (by cost), "tree:N" (of N guesses at most),
 * "pipeline" (the tree, and drafting goes on while weights are read), "paper" (threshold, pacer, α),
 * "chain:N", "fixed:A,B,…" (A children of the root, B of each of them, …),
 * "big-little", "big-little:FALLBACK,ROLLBACK". */
gboolean   bench_method_parse (const char   *name,
                               BenchMethod  *method,
                               GError      **error);

typedef struct
{
  char *id;
  char *prompt;
} BenchTask;

/* (transfer full) (element-type BenchTask): @n lines of the file from line @first on, as many as
 * there are; each a JSON object with "id" and "prompt". */
GPtrArray *bench_tasks_read   (const char   *path,
                               guint         first,
                               guint         n,
                               GError      **error);

G_END_DECLS
