/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the executor share. Its thread owns all of it but for the
 * fields marked atomic and the mailboxes. */

#pragma once

#include "engine/llm-executor.h"
#include "engine/llm-lane.h"
#include "engine/llm-session.h"
#include "exec/llm-text-stream.h"

G_BEGIN_DECLS

/* A job while it runs. */
typedef struct
{
  LlmJob *job;              /* (owned) */
  LlmTicket *ticket;        /* (owned by the scheduler) */
  LlmSession *session;      /* (unowned), or the run's own when the job keeps none */
  LlmSession *own_session;  /* (nullable) (owned) */
  LlmSampler *sampler;      /* (nullable) (owned) */
  LlmTextStream *stream;    /* (nullable) (owned) */
  LlmJobResult *result;     /* (owned) until it is posted */
  GString *text;            /* (owned): what is to be posted next */
  gint32 next;              /* token to compute when it writes */
  guint length_before;      /* of the session before the running step */
  gint64 first_us;          /* time of the first token, 0 before */
  gint64 last_us;
  gint64 due_us;            /* not before, of a job with a reply; 0: now */
} LlmRun;

struct _LlmExecutor
{
  GThread *thread;
  LlmMailbox *inbox;
  LlmMailbox *main_box;     /* (unowned) */
  LlmSessionDropped dropped; /* (nullable): set before the first job */
  gpointer dropped_data;
  LlmLedger *ledger;
  const LlkOps *kernels;
  gboolean is_exact;
  LlmWorkerPool *pool;
  LlmWorkerPool *background_pool;

  LlmModel *model;          /* (nullable) */
  LlmWeights *weights;      /* (nullable) */
  LlmKvStore *store;        /* (nullable) */
  LlmScheduler *scheduler;
  GHashTable *sessions;     /* (element-type guint64 LlmSession) (owned) */
  GPtrArray *runs;          /* (element-type LlmRun) (owned) */

  LlmLane lanes[LLM_N_LANES];
  LlmShare *shares;         /* (owned) (array length=LLM_BATCH_MAX_ROWS): being planned */
  gint64 reading_left_us;   /* of the readers' turn, before the writers go on */
  double row_us;            /* time of one prompt row here, a moving mean; 0 before the first step */

  gboolean is_ending;       /* atomic */
  guint64 scratch_bytes;    /* atomic: can be given back */
  guint64 idle_kv_bytes;    /* atomic: can be given back */
  guint64 n_steps;          /* atomic */
  guint64 n_rows;           /* atomic */
};

/* llm-executor-run.c: the life of one job */
void        llm_executor_begin_run   (LlmExecutor   *self,
                                      LlmJob        *job);
void        llm_executor_end_run     (LlmExecutor   *self,
                                      LlmRun        *run,
                                      LlmJobEnd      end,
                                      const GError  *error);
void        llm_executor_free_run    (LlmRun        *run);
/* Notes when the token after those that came is due. */
void        llm_executor_await_next  (LlmRun        *run);
/* Takes the logits of a row whose token comes next. */
void        llm_executor_take_logits (LlmExecutor   *self,
                                      LlmRun        *run,
                                      const float   *logits);
LlmSession *llm_executor_get_session (LlmExecutor   *self,
                                      guint64        id);

/* llm-executor-step.c: one step */
/* Looks at what main asked of the jobs, at deadlines and at full sinks. */
void        llm_executor_sweep       (LlmExecutor   *self);
/* Gives one lane a turn: some stages of its step. FALSE when there was nothing to run. */
gboolean    llm_executor_run_turn    (LlmExecutor   *self);
/* Leaves the steps that have rows of @run; their other calls begin them again. */
void        llm_executor_leave_lanes (LlmExecutor   *self,
                                      LlmRun        *run);
void        llm_executor_abandon_lanes (LlmExecutor *self);
/* Drops sessions that no job uses, least recently used first, until @bytes are
 * freed; returns what was. */
guint64     llm_executor_evict       (LlmExecutor   *self,
                                      guint64        bytes);
/* Brings the atomic figures up to date. */
void        llm_executor_publish     (LlmExecutor   *self);
/* Calls @done (@freed, @data) on the main thread. */
void        llm_executor_report      (LlmExecutor   *self,
                                      LlmReclaimDone done,
                                      guint64        freed,
                                      gpointer       data);

G_END_DECLS
