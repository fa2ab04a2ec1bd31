/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The executor: the thread that owns context memory and weights. It takes jobs,
 * asks the scheduler whose rows run next, gives the lanes (llm-lane.h) turns at
 * their steps of the forward pass, samples, and posts text and ends back to main.
 *
 * The functions here are called on the main thread and return at once.
 */

#pragma once

#include "base/llm-ledger.h"
#include "base/llm-mailbox.h"
#include "base/llm-reclaimer.h"
#include "engine/llm-job.h"
#include "kernels/llk.h"
#include "model/llm-model.h"
#include "model/llm-weights.h"

G_BEGIN_DECLS

typedef struct _LlmExecutor LlmExecutor;

typedef struct
{
  const LlkOps *kernels;
  guint n_threads;            /* 0: as many as the process may use */
  guint n_background_threads; /* for calls that nobody waits for; 0: half as many */
  int background_niceness;    /* of these */
  gboolean is_exact;          /* prompts are computed as carefully as answers */
} LlmExecutorConfig;

/* @main_box: where results are posted, dispatched by the main thread. */
LlmExecutor *llm_executor_new          (LlmMailbox   *main_box,
                                        LlmLedger    *ledger,
                                        const LlmExecutorConfig *config);
/* Ends all jobs as cancelled, without calling back, and waits for the thread. */
void         llm_executor_free         (LlmExecutor  *self);

/* Told on the main thread when a session was dropped to make room. */
typedef void (*LlmSessionDropped) (guint64  session,
                                   gpointer data);
void         llm_executor_set_dropped  (LlmExecutor      *self,
                                        LlmSessionDropped dropped,
                                        gpointer          data);

/* Gives the executor another model, or none with NULL. Sessions of the old one
 * are dropped. No job may be under way. Takes @weights. */
void         llm_executor_set_model    (LlmExecutor  *self,
                                        LlmModel     *model,
                                        LlmWeights   *weights,
                                        LlmReclaimDone done,
                                        gpointer      data);

/* Takes a reference; calls job->on_done once, in the end. */
void         llm_executor_submit       (LlmExecutor  *self,
                                        LlmJob       *job);
/* Tells it to look at the atomic fields of its jobs again. */
void         llm_executor_poke         (LlmExecutor  *self);

/* Drops what a session keeps in memory. */
void         llm_executor_drop_session (LlmExecutor  *self,
                                        guint64       session);
/* Gives @to the same content as @from, sharing memory. */
void         llm_executor_fork_session (LlmExecutor  *self,
                                        guint64       from,
                                        guint64       to);

/* Bytes that can be given back: scratch, and context memory that no job uses. */
guint64      llm_executor_get_scratch  (LlmExecutor  *self);
guint64      llm_executor_get_idle_kv  (LlmExecutor  *self);
void         llm_executor_give_scratch (LlmExecutor  *self,
                                        LlmReclaimDone done,
                                        gpointer      data);
/* Least recently used sessions first, until @bytes are freed. */
void         llm_executor_give_kv      (LlmExecutor  *self,
                                        guint64       bytes,
                                        LlmReclaimDone done,
                                        gpointer      data);

/* Steps and rows computed since the start. Any thread. */
guint64      llm_executor_get_n_steps  (LlmExecutor  *self);
guint64      llm_executor_get_n_rows   (LlmExecutor  *self);

G_END_DECLS
