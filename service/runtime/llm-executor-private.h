/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executor and what runs in it. Its thread owns all of it, except fields marked atomic, the
 * mailboxes and the board. Headers by subject: llm-executor-news.h (reports to main),
 * llm-executor-steps.h (a request from admission to its end), llm-executor-residency.h (what is in
 * memory), llm-executor-upkeep.h (what is done while nothing runs), llm-executor-prefill.h (how prompts are computed). The files, in the order in
 * which they may call each other: -post, -figures, -prefill, -rows, -evict, -weights, -room, -store, -check,
 * -end, -admission, -decode, -power, -step, -reclaim, -idle, and llm-executor.c. */

#pragma once

#include "base/llm-clock.h"
#include "base/llm-each.h"
#include "forward/llm-instance.h"
#include "runtime/llm-command.h"
#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-prefill.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-executor-upkeep.h"
#include "runtime/llm-profile.h"
#include "runtime/llm-queue-step.h"
#include "runtime/llm-weight-record.h"

G_BEGIN_DECLS

/* Whether a loaded model's weights are those that K and V on storage were computed with. */
typedef struct
{
  LlmFileIdentity file;     /* of the model, as it is mapped */
  LlmWeightRecord record;   /* of what is on storage; lineage 0 without storage, or a file */
  LlmFileSum *sum;          /* (nullable) (owned): being computed */
  gboolean is_done;         /* the check has ended */
  gboolean holds_back;      /* storage is not used until then */
} LlmWeightCheck;

/* An instance, and its requests, steps and checks. */
struct _LlmRunner
{
  LlmExecutor *executor;    /* (unowned) */
  guint id;
  LlmInstance *instance;    /* (owned) */
  LlmScheduler *scheduler;  /* (owned): with what steps cost */
  LlmQueueStep steps[LLM_N_QUEUES];
  GHashTable *sessions;     /* (element-type guint64 LlmSession) (owned) */
  GQueue prefixes;          /* (element-type LlmSession) (owned): prefixes that are kept for other
                             * contexts, least recently used first */
  guint n_requests;         /* how many of the executor's requests are its own */
  gint64 served_us;         /* time of its steps, for the order among instances */

  LlmRunnerPrefill prefill;
  LlmWeightCheck check;
  guint64 ahead;            /* dropped weights are read ahead up to here; G_MAXUINT64: up to
                             * ahead_end */
  guint64 ahead_end;        /* where the weights end */
  guint64 n_moved;          /* how often weights were dropped or restored */
  guint64 given_tail_bytes; /* of weights behind the level in use, being released now */
  double channel_parts[LLM_MAX_SPARSITIES]; /* of the bytes of whole rows that sparse ones read, by
                             * place */
  gboolean is_backed;       /* the kernel may reclaim the memory of its weights */
  gboolean is_measured;     /* the cost of restoring is known for this machine */
  gint64 measure_us;        /* time of the next try after a failure; 0: none failed */
  gint64 measure_wait_us;   /* between the last two tries; 0 before */
  LlmProfileRun *profile_run; /* (nullable) (owned): measures it */
  guint n_steps_kept;       /* n_steps when the step costs were last saved */
  gint64 costs_kept_us;     /* when they were last saved */
};

struct _LlmExecutor
{
  GThread *thread;
  LlmMailbox *inbox;
  LlmLedger *ledger;
  LlmInstanceConfig instance_config;
  LlmExecutorConfig config; /* its strings are (owned) */
  gboolean is_ending;       /* atomic */

  GPtrArray *runners;       /* (element-type LlmRunner) (owned) */
  GPtrArray *requests;      /* (element-type LlmRequest) (owned) */

  LlmExecutorNews news;
  LlmExecutorSteps steps;
  LlmExecutorMemory memory;
  LlmExecutorUpkeep upkeep;
};

/* A slice of idle work: a request that arrives may have to wait this long. */
#define SLICE_US 2000
/* How long the thread waits for the disk before it looks at its inbox again. */
#define DISK_WAIT_US 2000

/* --- llm-executor-figures.c --- */

LlmRunner  *llm_executor_find_runner (LlmExecutor   *self,
                                      guint          id);
/* Whether a request of @runner (nullable: any) has its chunks locked. */
gboolean    llm_executor_is_running  (LlmExecutor   *self,
                                      const LlmRunner *runner);

G_END_DECLS
