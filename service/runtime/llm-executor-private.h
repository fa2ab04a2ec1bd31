/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the executor share. Its thread owns all of it but for the fields marked atomic
 * and the mailboxes. The files, in the order in which they may call each other: -post, -figures,
 * -rows, -evict, -weights, -room, -store, -check, -end, -admission, -decode, -power, -step, -reclaim,
 * -idle, and llm-executor.c. */

#pragma once

#include "base/llm-clock.h"
#include "base/llm-each.h"
#include "forward/llm-instance.h"
#include "runtime/llm-command.h"
#include "runtime/llm-executor.h"
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
  gboolean is_done;         /* nothing is left to find out */
  gboolean holds_back;      /* storage is not used before that */
} LlmWeightCheck;

/* An instance, and what runs on it. */
typedef struct _LlmRunner
{
  LlmExecutor *executor;    /* (unowned) */
  guint id;
  LlmInstance *instance;    /* (owned) */
  LlmScheduler *scheduler;  /* (owned): with what steps cost */
  LlmQueueStep steps[LLM_N_QUEUES];
  GHashTable *sessions;     /* (element-type guint64 LlmSession) (owned) */
  GQueue prefixes;          /* (element-type LlmSession) (owned): beginnings that are kept for other
                             * contexts, the last used last */
  guint n_requests;         /* of the executor's */
  gint64 served_us;         /* time of its steps, for the order among instances */

  LlmWeightCheck check;
  guint64 ahead;            /* up to where dropped weights were read ahead; G_MAXUINT64: to the
                             * end, */
  guint64 ahead_end;        /* which is here */
  guint64 n_moved;          /* how often weights were given or taken */
  guint64 given_tail_bytes; /* of weights behind the level in use, are given back now */
  gboolean is_backed;       /* the kernel may take the memory of its weights */
  gboolean is_measured;     /* what restoring costs here */
  gint64 measure_us;        /* not before, as it failed; 0: it has not */
  gint64 measure_wait_us;   /* between the last two times; 0 before */
  LlmProfileRun *profile_run; /* (nullable) (owned): measures it */
  guint n_steps_kept;       /* what steps cost was saved after so many of them */
  gint64 costs_kept_us;     /* and then */
} LlmRunner;

struct _LlmExecutor
{
  GThread *thread;
  LlmMailbox *inbox;
  LlmMailbox *main_box;     /* (unowned) */
  LlmSessionMoved moved;    /* (nullable): set before the first request */
  gpointer moved_data;
  LlmLedger *ledger;
  LlmInstanceConfig instance_config;
  LlmExecutorConfig config; /* its strings are (owned) */
  LlmWorkerPool *pool;
  LlmWorkerPool *background_pool;
  LlmWorkerPool *slow_pool; /* (nullable) (owned): one thread, for a machine with little power */
  LlmWorkerPool *crowd_pool; /* (nullable) (owned): all threads, for when background requests pile
                              * up */

  GPtrArray *runners;       /* (element-type LlmRunner) (owned) */
  LlmAccount *accounts;     /* (owned): what users were served, by all instances */
  GPtrArray *requests;      /* (element-type LlmRequest) (owned) */
  LlmKvStorage *storage;    /* (nullable) (owned): for the thread's whole life */
  LlmDisk *disk;            /* (nullable) (owned): for weights, where there is no storage */
  GHashTable *identities;   /* (element-type guint guint64) (owned): of the last store's K and V, by
                             * runner */
  struct _LlmSweep *sweep;  /* (nullable) (owned): with the contexts' ids, until swept */
  GQueue reclaims;          /* (element-type LlmReclaim) (owned): memory that was asked for */
  GArray *missing;          /* (element-type guint) (owned): slots, being planned */
  LlmRowBudget *budgets;    /* (owned) (array length=LLM_BATCH_MAX_ROWS): being planned */
  gint64 ran_us;            /* when a request last ran */
  gint64 published_us;      /* when the atomic figures were brought up to date */
  gint64 worked_us;         /* when the stores last had a slice of time beside running requests */
  gboolean is_told;         /* main knows where all sessions are */
  gboolean is_narrow;       /* some chunks have fewer bits than they should, which was logged */
  GHashTable *memory_quotas; /* (nullable) (owned) (element-type LlmApp double): fractions */
  double default_quota;     /* of the other applications; 0 for an equal part */
  guint64 displaced_bytes;  /* that calls took from other contexts and no call asked back since */
  gint64 quotas_kept_us;    /* when all were last brought to their quota */
  LlmKvCounters earlier;    /* of stores that are gone */
  LlmStreamFigures earlier_stream; /* counted, of instances that are gone */

  guint pace;               /* atomic LlmPace: of background requests */
  gboolean is_suspended;    /* the machine sleeps, nothing runs */
  struct _LlmHold *suspend; /* (nullable) (owned): who is to be told when all is written */
  gint64 suspend_end_us;    /* and is told then in any case */

  guint n_unanswered;       /* main: heartbeats since the last that was seen answered */
  gboolean has_answered;    /* atomic: the last heartbeat */
  gboolean is_ending;       /* atomic */
  gboolean is_pressed;      /* atomic: the system is under memory pressure */
  guint64 keep_bytes;       /* atomic: of weights, stay between steps */
  guint keep_percent;       /* atomic: of each model, stays in memory in any case */
  GThreadPool *measurer;    /* one thread, which asks the kernel what it has of the weights */
  gint64 measure_us;        /* atomic: when it is asked again; G_MAXINT64 while it is */
  LlmExecutorFigures figures; /* guarded by figures_lock */
  GMutex figures_lock;
};

/* A slice of work while nothing runs: what a request that arrives may have to wait for. */
#define SLICE_US 2000
/* How long the thread waits for the disk before it looks at its inbox again. */
#define DISK_WAIT_US 2000

/* What came of a turn. */
typedef enum
{
  LLM_TURN_NONE,            /* there was nothing to run */
  LLM_TURN_RAN,
  LLM_TURN_WAITS,           /* all that could run waits for weights or chunks */
} LlmTurnEnd;

/* --- llm-executor-post.c: what main is told of requests and sessions --- */

/* Sends what has come together of an answer. */
void        llm_executor_post_text   (LlmExecutor   *self,
                                      LlmRequest    *request);
void        llm_executor_post_admission (LlmExecutor *self,
                                      LlmRequest    *request);
void        llm_executor_post_end    (LlmExecutor   *self,
                                      LlmRequest    *request);
/* Calls moved (@session, @residency, @bytes) on the main thread. */
void        llm_executor_post_moved  (LlmExecutor   *self,
                                      guint64        session,
                                      LlmResidency   residency,
                                      guint64        bytes);

/* --- llm-executor-figures.c: what others are told --- */

/* Brings the figures up to date. */
void        llm_executor_publish     (LlmExecutor   *self);
/* Does that, and calls its done (nullable) on the main thread. */
void        llm_executor_report      (LlmReclaim    *reclaim,
                                      guint64        freed);
/* Tells main where the session is, if that has changed; and all of them. */
void        llm_executor_tell        (LlmExecutor   *self,
                                      LlmSession    *session);
void        llm_executor_tell_all    (LlmExecutor   *self);
void        llm_kv_counters_add      (LlmKvCounters *sum,
                                      const LlmKvCounters *counters);
LlmRunner  *llm_executor_find_runner (LlmExecutor   *self,
                                      guint          id);
/* Whether a request of @runner (nullable: any) has its chunks locked. */
gboolean    llm_executor_is_running  (LlmExecutor   *self,
                                      const LlmRunner *runner);

/* --- llm-executor-rows.c: the rows of a request in steps --- */

/* What a request still has to compute before its next token comes: @n_missing (nullable) positions
 * that it had, and then new ones. */
guint       llm_request_count_left   (LlmRequest    *request,
                                      guint         *n_missing);
gboolean    llm_request_is_in_step   (LlmRequest    *request,
                                      const LlmQueueStep *step);
/* Its rows of a step under way were not computed: what the step added is taken back. */
void        llm_queue_step_take_back       (LlmQueueStep       *step);
/* Abandons the steps of the request, or of all. */
void        llm_request_leave_steps  (LlmRequest    *request);
void        llm_runner_abandon_steps (LlmRunner     *self);

/* --- llm-executor-prefix.c: beginnings that contexts have in common (L15) --- */

/* Gives the request's session, which has attached and found nothing, what another of its application
 * has of the first @n_max tokens of the prompt, computed alike. */
/* llm-executor-strategy.c */
/* Tells the scheduler what levels the model has, and what they should cost. */
void        llm_runner_load_levels   (LlmRunner     *self);
/* Its prompt behind earlier turns, and its answer, are computed by what lacks so many levels of the
 * whole model. */
void        llm_request_set_lacking  (LlmRequest    *request,
                                      guint          lacking);
/* Whether a smaller sub-model than its own may compute it, to be in time. */
gboolean    llm_request_has_choice   (const LlmRequest *request);
/* What computes a request with such an entry, which the scheduler does not know yet. @may_share: its
 * session, where it has nothing of the prompt, may begin with another's memory. */
guint       llm_request_choose_lacking (LlmRequest  *request,
                                        gboolean     may_share);
/* What the whole model takes for the whole prompt, alone, nothing of it being there: parts are of
 * that. */
void        llm_request_price_whole  (const LlmRequest *request,
                                      double       *first_us,
                                      double       *token_us);
/* Tokens of the prompt that it may use again: all but the last one, whose logits choose the first
 * token of the answer. */
guint       llm_request_count_reusable (const LlmRequest *request);
/* Chooses again before its first row is computed: it may have waited longer than was forecast. */
void        llm_request_review_level (LlmRequest    *request);

/* How many of the first @n_max tokens, computed as @states say, it could have from others. */
guint       llm_request_count_shareable (LlmRequest *request,
                                      const GByteArray *states,
                                      guint          n_max);
void        llm_request_share_prefix (LlmRequest    *request,
                                      guint          n_max);
/* Keeps what the first prompt of a context left, for others of its application. */
void        llm_request_keep_prefix  (LlmRequest    *request);
/* Takes up to @bytes from what is kept: the first to go. Returns what came free. */
guint64     llm_executor_drop_prefixes (LlmExecutor *self,
                                      guint64        bytes);

/* --- llm-executor-evict.c: making room --- */

/* What contexts may fill: the budget without what is something else's; G_MAXUINT64 without a
 * budget. */
guint64     llm_executor_get_capacity (LlmExecutor  *self);

/* Evicts chunks that no request uses, and then drops sessions, least recently used first, until
 * @bytes are freed; returns what was. */
guint64     llm_executor_evict       (LlmExecutor   *self,
                                      guint64        bytes);
/* Gives the system the pages that stores keep for their next chunks. */
void        llm_executor_trim_stores (LlmExecutor   *self);
/* The same as llm_executor_evict(), until the budget has room for @bytes. */
guint64     llm_executor_make_room   (LlmExecutor   *self,
                                      guint64        bytes);
/* Evicts up to @bytes of the idle contexts of applications that hold more than their quota, those
 * that are over it most first. */
guint64     llm_executor_evict_over_quota (LlmExecutor *self,
                                      guint64        bytes,
                                      gboolean       in_haste);
/* Brings idle contexts of applications with a quota back to it. */
void        llm_executor_keep_quotas (LlmExecutor   *self);
/* (nullable): of the requests that hold chunks the one that can wait best: of the class that waits
 * longest, the one that came last. */
LlmRequest *llm_executor_find_preemptible (LlmExecutor *self);
/* The request is preempted between two stages, and others may have its chunks evicted (L9); it goes
 * on a little later, when there is room. */
void        llm_request_preempt      (LlmRequest    *request);

/* --- llm-executor-weights.c: memory of weights --- */

/* (nullable): the queue for weights and contexts, which stays while the storage does. */
LlmDisk    *llm_executor_get_disk    (LlmExecutor   *self);
/* Weights that don't stay stream through that queue; or no longer, before it goes. No step is under
 * way. */
void        llm_runner_begin_stream  (LlmRunner     *self);
void        llm_runner_end_stream    (LlmRunner     *self);

/* Before weights are used, up to those of @level: counts them, and begins to bring back what was
 * reclaimed. FALSE when there is no room for those that are no file's. */
gboolean    llm_runner_take_weights  (LlmRunner     *self,
                                      guint          level,
                                      GError       **error);
/* The largest level of the model's table that a running request uses, and no less than that of
 * @percent. */
guint       llm_runner_find_level    (const LlmRunner *self,
                                      guint            percent);
/* While memory is short: releases the weights behind the level in use. */
void        llm_executor_drop_unused_tails (LlmExecutor *self);
/* While nothing runs: where memory has room for all weights again they don't stream any more, and the
 * buffers for that are given back. */
void        llm_executor_keep_all_weights (LlmExecutor *self);
/* Of the bytes of weights that stay between steps the instance has its part. */
void        llm_runner_keep_weights  (LlmRunner     *self);
/* A piece of what was reclaimed; TRUE when there is more. */
gboolean    llm_executor_read_ahead  (LlmExecutor   *self);
void        llm_executor_make_measurer (LlmExecutor *self);

/* --- llm-executor-room.c: requests without room for their chunks --- */

/* Locks the chunks of the request's session and begins to bring back what is missing of them; makes
 * room at the expense of idle sessions, and of requests of lower classes. */
gboolean    llm_request_lock_chunks  (LlmRequest    *request,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Whether a request that finds no room may wait for the ceiling to rise; then sets when it looks
 * again. */
gboolean    llm_request_may_wait     (LlmRequest    *request);
/* Whether a preempted request stays so a little longer; then sets when it looks again. */
gboolean    llm_request_stays_preempted (LlmRequest *request,
                                      gint64         now);
/* One that has waited long enough may have the reserve; TRUE when that is new. */
gboolean    llm_request_make_urgent  (LlmRequest    *request);
/* Whether the request may keep what it has, as it is urgent and the reserve has room. */
gboolean    llm_request_is_protected (LlmRequest    *request);
/* Its window slides until it has room for @n_tokens (L11); positions that stay. */
guint       llm_request_get_n_slid   (const LlmRequest *request,
                                      guint          n_tokens);
guint       llm_request_get_n_sinks  (const LlmRequest *request);

/* --- llm-executor-check.c: whether what is on storage was computed with these weights --- */

/* Finds out what is known of the model's file. */
void        llm_runner_begin_check   (LlmRunner     *self);
/* A slice of what is left to find out; TRUE when there is more, now or when the disk has answered,
 * for which it waits a moment. Sets @reopens when the store has to be opened anew. */
gboolean    llm_runner_work_check    (LlmRunner     *self,
                                      gboolean      *reopens);
/* When it is time for that, if nothing runs until then; 0 for never. */
gint64      llm_runner_get_check_time (LlmRunner    *self);

/* --- llm-executor-store.c: KV stores and what is kept of them --- */

void        llm_executor_open_storage (LlmExecutor  *self);
/* The folder could not be used at the start, or is another one by now. */
void        llm_executor_reopen_storage (LlmExecutor *self);
/* Removes from storage what belongs to none of the contexts of self->sweep. */
void        llm_executor_sweep_ids   (LlmExecutor   *self);
void        llm_executor_forget_sweep (LlmExecutor  *self);
LlmProfileKey llm_runner_get_profile_key (LlmRunner *self);
void        llm_runner_open_store    (LlmRunner     *self);
/* With all sessions; what is not yet written is, for a moment. */
void        llm_runner_close_store   (LlmRunner     *self);
/* What steps cost, over restarts: saved if enough was learned since, and not too often. */
void        llm_runner_load_costs    (LlmRunner     *self);
void        llm_runner_save_costs    (LlmRunner     *self);

/* --- llm-executor-end.c: the end of a request --- */

void        llm_request_end          (LlmRequest    *request,
                                      LlmFinish      finish,
                                      const GError  *error);

/* --- llm-executor-admission.c: its beginning --- */

void        llm_executor_begin_request (LlmExecutor *self,
                                      LlmRequest    *request);
/* Goes on with requests of whose contexts it is known by now what storage has. */
void        llm_executor_open_requests (LlmExecutor *self);
/* Whether there are others. */
gboolean    llm_executor_has_opening (LlmExecutor   *self);

/* --- llm-executor-decode.c: its answer --- */

/* Has its decoder guess what comes, and notes when that will propose the rows of the next token. */
void        llm_request_await_next   (LlmRequest    *request);
/* While all steps wait: has one of the answers whose rows they are guess what may come behind them
 * (C7). FALSE when none does. */
gboolean    llm_executor_draft_ahead (LlmExecutor   *self);
/* Takes the logits of its rows of a step: of decode from row @first of @forward on; of the prompt
 * that of its last, @first. */
void        llm_request_take_logits  (LlmRequest    *request,
                                      LlmForward    *forward,
                                      guint          first);

/* --- llm-executor-step.c: steps --- */

/* Looks at what main asked of the requests, at deadlines and at full sinks. */
void        llm_executor_sweep       (LlmExecutor   *self);
/* Gives one queue of one instance a turn: some stages of its step. */
LlmTurnEnd  llm_executor_run_turn    (LlmExecutor   *self);

/* --- llm-executor-reclaim.c: memory that was asked for --- */

/* Goes on with it. */
void        llm_executor_serve_reclaims (LlmExecutor *self);

/* --- llm-executor-idle.c: what requests leave behind --- */

/* A slice of what is done while nothing runs. TRUE when there is more, now or when the disk has
 * answered, for which it waits a moment. */
gboolean    llm_executor_work        (LlmExecutor   *self);
/* The same in passing, beside running requests. */
void        llm_executor_work_beside (LlmExecutor   *self);
/* Nothing can run until the disk has answered. */
void        llm_executor_wait_for_disk (LlmExecutor *self);
/* When there is something to do if nothing runs until then; 0 for never. */
gint64      llm_executor_get_idle_time (LlmExecutor *self);

/* --- llm-executor-power.c: with little power, and none --- */

/* Writes what there is; TRUE when there is more. */
gboolean    llm_executor_work_suspended (LlmExecutor *self);
void        llm_executor_end_suspend (LlmExecutor   *self);
/* The threads of a step. */
void        llm_runner_choose_pool   (LlmRunner     *self,
                                      LlmQueueStep       *step);

G_END_DECLS
