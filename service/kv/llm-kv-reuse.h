/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which context is called next (L8): a chance for each, learned from earlier calls alone. Four
 * predictors: how often a context was called lately, how many others were called since, the same
 * with a geometric decay, and equal chances. Each learns its figures, and counts as far as it
 * predicted the last calls (a Bayesian mixture), so users' habits need not be configured. Entries
 * are embedded in their contexts; nothing is allocated. Owned by a store; the executor's thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Contexts called since the last call of this one: 0, 1, 2, 3, 4–5, 6–7, 8–11, …, 192 and more. */
#define LLM_KV_REUSE_BINS 16
/* Kept histories of contexts that ended. */
#define LLM_KV_REUSE_KEPT 64

typedef enum
{
  LLM_KV_ALL_ALIKE,
  LLM_KV_BY_RECENCY,
  LLM_KV_BY_DECAY,      /* recency, each context less likely than the one before by one factor */
  LLM_KV_BY_FREQUENCY,
  LLM_KV_REUSE_PREDICTORS,
} LlmKvPredictor;

/* Of one context. Time is counted in calls of all contexts. */
typedef struct
{
  double n_calls;       /* old ones count less, see llm-kv-reuse.c */
  guint64 counted;      /* time of that count */
  guint64 first;        /* when it was first seen */
  double n_new;         /* rows of a prompt, on average; 0: not called yet */
} LlmKvHistory;

typedef struct
{
  GList link;
  guint app;
  guint id;
  LlmKvHistory history;
  gboolean is_new;      /* not called since it was added */
  double chance;        /* that it is called next */
} LlmKvReuse;

typedef struct
{
  guint app;            /* hashes; app 0: none */
  guint id;
  LlmKvHistory history;
} LlmKvKept;

/* Zeroed: nothing seen yet. */
typedef struct
{
  GQueue contexts;      /* (element-type LlmKvReuse), the one called last first */
  guint64 now;
  double bins[LLM_KV_REUSE_BINS];  /* calls of a context in each bin, old ones count less */
  double ranks;         /* sum of contexts called since the last call, of calls; likewise */
  double evidence[LLM_KV_REUSE_PREDICTORS]; /* log of how much likelier each made the last calls
                                             * than equal chances would */
  gboolean is_known;    /* chances are up to date */
  LlmKvKept kept[LLM_KV_REUSE_KEPT];
  guint n_kept;         /* so far */
} LlmKvReuseModel;

/* A new context takes over the history of an ended one of its name, or else of the one that the
 * application closed last. @app, @id: (nullable). */
void llm_kv_reuse_add      (LlmKvReuseModel *self,
                            LlmKvReuse      *context,
                            const char      *app,
                            const char      *id);
void llm_kv_reuse_remove   (LlmKvReuseModel *self,
                            LlmKvReuse      *context);
/* It is called now, with so many rows. O(contexts). */
void llm_kv_reuse_call     (LlmKvReuseModel *self,
                            LlmKvReuse      *context,
                            guint            n_new);
/* Sets every context's chance, rounded to steps: their sum is nearly 1. O(contexts) after a change,
 * else nothing. */
void llm_kv_reuse_estimate (LlmKvReuseModel *self);

G_END_DECLS
