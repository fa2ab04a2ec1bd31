/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the executor share. Its thread owns all of it but for the
 * fields marked atomic and the mailboxes. */

#pragma once

#include "runtime/llm-executor.h"
#include "runtime/llm-lane.h"
#include "runtime/llm-profile.h"
#include "runtime/llm-session.h"
#include "runtime/llm-weight-record.h"
#include "decoding/llm-text-stream.h"

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
  GByteArray *kinds;        /* (owned): LlkRowKind of each token of the prompt */
  LlmJobResult *result;     /* (owned) until it is posted */
  GString *text;            /* (owned): what is to be posted next */
  gint32 next;              /* token to compute when it writes */
  guint length_before;      /* of the session before the running step */
  guint n_known;            /* tokens of the prompt that the session had */
  gboolean is_opening;      /* what storage has of its context is not known yet; no ticket then */
  gboolean has_begun;       /* its chunks are locked; FALSE before there was room for it, and while
                             * it is parked for memory (L9) */
  gint64 resume_us;         /* of a call parked for memory: not before */
  gint64 parked_us;         /* when it was, or first found no room; 0 for never */
  gint64 stuck_us;          /* when it first found no room since its last step; 0 for not */
  gboolean is_urgent;       /* it has waited long enough: the reserve is for it */
  gint64 urgent_us;         /* since when */
  gint64 started_us;        /* when its first rows were begun, 0 before */
  guint64 restore_bytes;    /* of its chunks, being read from storage */
  gint64 restore_us;        /* since when */
  gint64 first_us;          /* time of the first token, 0 before */
  gint64 last_us;
  gint64 due_us;            /* not before, of a job with a reply; 0: now */
} LlmRun;

/* Whether the loaded model's weights are those that K and V on storage were computed with. */
typedef struct
{
  LlmFileIdentity file;     /* of the model, as it is mapped */
  LlmWeightRecord record;   /* of what is on storage; lineage 0 without storage, or a file */
  LlmFileSum *sum;          /* (nullable) (owned): being computed */
  gboolean is_done;         /* nothing is left to find out */
  gboolean holds_back;      /* storage is not used before that */
} LlmWeightCheck;

struct _LlmExecutor
{
  GThread *thread;
  LlmMailbox *inbox;
  LlmMailbox *main_box;     /* (unowned) */
  LlmSessionMoved moved;    /* (nullable): set before the first job */
  gpointer moved_data;
  LlmLedger *ledger;
  const LlkOps *kernels;
  gboolean is_exact;
  guint chunk_slots;
  double kv_ratio;
  char *chunks_folder;      /* (nullable) (owned) */
  char *cache_folder;       /* (nullable) (owned) */
  char *system_cache_folder; /* (nullable) (owned) */
  gboolean shares_cache;
  char *disk;               /* (nullable) (owned) */
  guint64 storage_limit;
  guint64 app_storage_limit;
  LlmWorkerPool *pool;
  LlmWorkerPool *background_pool;
  LlmWorkerPool *slow_pool; /* (nullable) (owned): one thread, for a machine with little power */
  LlmWorkerPool *crowd_pool; /* (nullable) (owned): all threads, for when such calls pile up */
  gboolean may_crowd;       /* their number was not configured */
  int background_niceness;

  LlmModel *model;          /* (nullable) */
  LlmWeights *weights;      /* (nullable) */
  LlmKvStorage *storage;    /* (nullable) (owned): for the thread's whole life */
  LlmKvStore *store;        /* (nullable) */
  LlmWeightCheck check;
  guint64 kv_identity;      /* of the last store's K and V; 0 before the first */
  GHashTable *ids;          /* (nullable) (owned) (element-type utf8): of contexts, until swept */
  LlmStorageSwept swept;
  gpointer swept_data;
  LlmScheduler *scheduler;
  GHashTable *sessions;     /* (element-type guint64 LlmSession) (owned) */
  GPtrArray *runs;          /* (element-type LlmRun) (owned) */
  GQueue gives;             /* (element-type LlmGive) (owned): memory that was asked for */
  GArray *missing;          /* (element-type guint) (owned): slots, being planned */
  gboolean is_measured;     /* what restoring costs here, or that failed */
  LlmProfileRun *profile_run; /* (nullable) (owned): measures it */
  gint64 ran_us;            /* when a call last ran */
  gint64 published_us;      /* when the atomic figures were brought up to date */
  gint64 worked_us;         /* when the store last had a slice of time beside running calls */
  gboolean is_told;         /* main knows where all sessions are */
  GHashTable *shares_by_app; /* (nullable) (owned) (element-type utf8 double): quotas of memory */
  double default_share;     /* of the other applications; 0 for an equal part */
  gint64 shared_us;         /* when all were last brought to their share */

  LlmLane lanes[LLM_N_LANES];
  LlmShare *shares;         /* (owned) (array length=LLM_BATCH_MAX_ROWS): being planned */
  gboolean is_fifo;         /* the scheduler asks for no targets */
  double overload_factor;   /* a call that would miss its target by more is refused; 0: none is */
  guint pace;               /* atomic LlmPace: of what nobody waits for */
  gboolean is_suspended;    /* nothing runs */
  gpointer suspend;         /* (nullable) (owned): who is to be told when all is written */
  gint64 suspend_end_us;    /* and is told then in any case */
  guint n_steps_kept;       /* what steps cost was saved after so many of them */
  gint64 costs_kept_us;     /* and then */

  guint n_unanswered;       /* main: probes since the last that was seen answered */
  gboolean has_answered;    /* atomic: the last probe */
  guint64 ahead;            /* up to where dropped weights were read ahead; G_MAXUINT64: to the
                             * end */
  gboolean weights_are_backed; /* atomic: the kernel may take their memory */

  gboolean is_ending;       /* atomic */
  gint64 short_wait_us;     /* how long a call may find no room; 0: for ever */
  gboolean is_pressed;      /* atomic: the system is short of memory */
  guint64 keep_bytes;       /* atomic: of weights, stay between steps */
  GThreadPool *measurer;    /* one thread, which asks the kernel what it has of the weights */
  gint64 measure_us;        /* atomic: when it is asked again; G_MAXINT64 while it is */
  guint64 n_moved;          /* how often weights were set, given or taken */
  guint64 backed_bytes;     /* atomic: of weights, of files */
  guint64 page_bytes;       /* atomic: of weights, can be given back while nothing runs */
  guint64 missing_bytes;    /* atomic: of weights, were given back */
  guint64 scratch_bytes;    /* atomic: can be given back */
  guint64 idle_kv_bytes;    /* atomic: can be given back */
  guint64 busy_kv_bytes;    /* atomic: can be given back by parking calls */
  guint64 storage_bytes;    /* atomic */
  guint64 n_steps;          /* atomic */
  guint64 n_rows;           /* atomic */
  guint64 n_read;           /* atomic: of them those of prompts */
  guint64 n_written;        /* atomic: tokens of answers */
  GMutex counters_lock;
  LlmKvCounters counters;   /* guarded by counters_lock: of all stores so far */
  LlmKvCounters earlier;    /* of those that are gone */
};

/* What came of a turn. */
typedef enum
{
  LLM_TURN_NONE,            /* there was nothing to run */
  LLM_TURN_RAN,
  LLM_TURN_WAITS,           /* all that could run waits for weights or context memory */
} LlmTurnEnd;

/* llm-executor-run.c: the life of one job */
void        llm_executor_begin_run   (LlmExecutor   *self,
                                      LlmJob        *job);
/* Goes on with runs of whose contexts it is known by now what storage has. */
void        llm_executor_open_runs   (LlmExecutor   *self);
/* Whether there are others. */
gboolean    llm_executor_has_opening (LlmExecutor   *self);
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
/* The session with that number; made when there is none. */
LlmSession *llm_executor_get_session (LlmExecutor   *self,
                                      guint64        id,
                                      const char    *app,
                                      const char    *context,
                                      gboolean       is_named);
/* Locks the chunks of the run's session and begins to bring back what is missing of them; makes
 * room at the expense of idle sessions. */
gboolean    llm_executor_begin_call  (LlmExecutor   *self,
                                      LlmRun        *run,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* What a run still has to compute before its next token comes: @n_missing (nullable) slots that it
 * had, and then new ones. */
guint       llm_executor_count_left  (LlmExecutor   *self,
                                      LlmRun        *run,
                                      guint         *n_missing);

/* llm-executor-step.c: one step */
/* Looks at what main asked of the jobs, at deadlines and at full sinks. */
void        llm_executor_sweep       (LlmExecutor   *self);
/* Gives one lane a turn: some stages of its step. */
LlmTurnEnd  llm_executor_run_turn    (LlmExecutor   *self);
/* Leaves the steps that have rows of @run; their other calls begin them again. */
void        llm_executor_leave_lanes (LlmExecutor   *self,
                                      LlmRun        *run);
void        llm_executor_abandon_lanes (LlmExecutor *self);

/* llm-executor-store.c: the store of the loaded model, and storage */
void        llm_executor_open_storage (LlmExecutor  *self);
void        llm_executor_close_storage (LlmExecutor *self);
/* For the model that was set. */
void        llm_executor_make_store  (LlmExecutor   *self);
/* The same, once it is known whether its weights are those of what is on storage. */
void        llm_executor_open_store  (LlmExecutor   *self);
/* With all sessions; what is not yet written is, for a moment. */
void        llm_executor_drop_store  (LlmExecutor   *self);
/* A slice of what is done while nothing runs: what calls left behind is packed and written. TRUE
 * when there is more, now or when the disk has answered, for which it waits a moment. */
gboolean    llm_executor_work        (LlmExecutor   *self);
/* The same in passing, beside running calls. */
void        llm_executor_work_beside (LlmExecutor   *self);
/* Nothing can run until the disk has answered. */
void        llm_executor_wait_for_disk (LlmExecutor *self);
/* When it is time to measure the machine, if nothing runs until then; 0 for never. */
gint64      llm_executor_get_measure_time (LlmExecutor *self);
void        llm_executor_publish_counters (LlmExecutor *self);

/* llm-executor-weights.c: whether what is on storage was computed with these weights */
/* Finds out what is known of the loaded model's file. */
void        llm_executor_begin_check (LlmExecutor   *self);
/* A slice of what is left to find out; TRUE when there is more, now or when the disk has answered,
 * for which it waits a moment. The store may be another one afterwards. */
gboolean    llm_executor_check_weights (LlmExecutor *self);
/* When it is time for that, if nothing runs until then; 0 for never. */
gint64      llm_executor_get_check_time (LlmExecutor *self);
/* The model goes. */
void        llm_executor_end_check   (LlmExecutor   *self);

/* llm-executor-admission.c: what a call will have to wait */
/* Fills in what the run is held to, and its ticket but for what is to be read from storage. FALSE
 * when so much waits that the call is refused. */
gboolean    llm_executor_admit       (LlmExecutor   *self,
                                      LlmRun        *run,
                                      LlmTicketConfig *config,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;

/* llm-executor-costs.c: what steps cost, over restarts */
void        llm_executor_load_costs  (LlmExecutor   *self);
/* If enough was learned since, and not too often. */
void        llm_executor_keep_costs  (LlmExecutor   *self);
LlmProfileKey llm_executor_get_profile_key (LlmExecutor *self);

/* llm-executor-power.c: with little power, and none */
/* Whether the machine is about to sleep, or sleeps: no turns then. */
gboolean    llm_executor_is_suspended (LlmExecutor  *self);
/* Writes what there is; TRUE when there is more. */
gboolean    llm_executor_work_suspended (LlmExecutor *self);
void        llm_executor_end_suspend (LlmExecutor   *self);
/* For rows that nobody waits for. */
LlmWorkerPool *llm_executor_get_background_pool (LlmExecutor *self);

/* llm-executor-pressure.c: while memory is short */
/* Whether a parked call does so a little longer; then sets when it looks again. */
gboolean    llm_executor_stands_still (LlmExecutor  *self,
                                      LlmRun        *run,
                                      gint64         now);
/* Whether a call that finds no room may wait for the ceiling to rise; then sets when it looks
 * again. */
gboolean    llm_executor_may_wait    (LlmExecutor   *self,
                                      LlmRun        *run);
/* Lets a call that has waited long enough have the reserve; TRUE when that is new. */
gboolean    llm_executor_make_urgent (LlmExecutor   *self,
                                      LlmRun        *run);
/* After a call ended: the reserve is nobody's again, unless another one has it. */
void        llm_executor_settle_urgent (LlmExecutor *self);
/* Whether the call may keep what it has, as it is urgent and the reserve has room. */
gboolean    llm_executor_is_protected (LlmExecutor  *self,
                                      LlmRun        *run);
/* Before weights are used: counts them, and begins to bring back what was given. FALSE when there
 * is no room for those that are no file's. */
gboolean    llm_executor_take_weights (LlmExecutor  *self,
                                      GError       **error);
/* A piece of what was given; TRUE when there is more. */
gboolean    llm_executor_read_ahead  (LlmExecutor   *self);
void        llm_executor_publish_pages (LlmExecutor *self);
/* Has the kernel asked what it has of the weights, and then the ledger told; at last @done
 * (nullable) is called on the main thread. */
void        llm_executor_measure     (LlmExecutor   *self,
                                      LlmReclaimDone done,
                                      guint64        freed,
                                      gpointer       data);
void        llm_executor_make_measurer (LlmExecutor *self);

/* llm-executor-memory.c: taking memory, and saying where it is */
/* Takes chunks that no call uses, and then sessions, least recently used first, until @bytes are
 * freed; returns what was. */
guint64     llm_executor_evict       (LlmExecutor   *self,
                                      guint64        bytes);
/* The same, until the budget has room for @bytes. */
guint64     llm_executor_make_room   (LlmExecutor   *self,
                                      guint64        bytes);
/* (nullable): of the calls that hold chunks the one that can wait best: of the class that waits
 * longest, the one that came last. */
LlmRun     *llm_executor_find_parkable (LlmExecutor *self);
/* The call stands still between two stages, and others may take its chunks (L9); it goes on a
 * little later, when there is room. */
void        llm_executor_park        (LlmExecutor   *self,
                                      LlmRun        *run);
/* Goes on with memory that was asked for. */
void        llm_executor_serve_gives (LlmExecutor   *self);
/* llm-executor-shares.c: takes up to @bytes from the idle contexts of applications that hold more
 * than their share, those that are over it most first. */
guint64     llm_executor_evict_shares (LlmExecutor  *self,
                                      guint64        bytes,
                                      gboolean       in_haste);
/* Brings idle contexts of applications with a quota back to it. */
void        llm_executor_keep_shares (LlmExecutor   *self);
/* Brings the atomic figures up to date. */
void        llm_executor_publish     (LlmExecutor   *self);
/* Tells main where the session is, if that has changed; and all of them. */
void        llm_executor_tell        (LlmExecutor   *self,
                                      LlmSession    *session);
void        llm_executor_tell_all    (LlmExecutor   *self);
/* Calls moved (@session, @residency, @bytes) on the main thread. */
void        llm_executor_tell_moved  (LlmExecutor   *self,
                                      guint64        session,
                                      LlmResidency   residency,
                                      guint64        bytes);
/* Calls @done (@freed, @data) on the main thread. */
void        llm_executor_report      (LlmExecutor   *self,
                                      LlmReclaimDone done,
                                      guint64        freed,
                                      gpointer       data);

G_END_DECLS
