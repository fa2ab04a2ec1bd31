/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the executor share. Its thread owns all of it but for the
 * fields marked atomic and the mailboxes. */

#pragma once

#include "engine/llm-executor.h"
#include "engine/llm-lane.h"
#include "engine/llm-profile.h"
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
  GByteArray *kinds;        /* (owned): LlkRowKind of each token of the prompt */
  LlmJobResult *result;     /* (owned) until it is posted */
  GString *text;            /* (owned): what is to be posted next */
  gint32 next;              /* token to compute when it writes */
  guint length_before;      /* of the session before the running step */
  guint n_known;            /* tokens of the prompt that the session had */
  gboolean has_begun;       /* its chunks are locked; FALSE before there was room for it, and while
                             * it is parked for memory (L9) */
  gint64 resume_us;         /* of a call parked for memory: not before */
  gint64 first_us;          /* time of the first token, 0 before */
  gint64 last_us;
  gint64 due_us;            /* not before, of a job with a reply; 0: now */
} LlmRun;

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

  LlmModel *model;          /* (nullable) */
  LlmWeights *weights;      /* (nullable) */
  LlmKvStorage *storage;    /* (nullable) (owned): for the thread's whole life */
  LlmKvStore *store;        /* (nullable) */
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

  LlmLane lanes[LLM_N_LANES];
  LlmShare *shares;         /* (owned) (array length=LLM_BATCH_MAX_ROWS): being planned */
  gint64 reading_left_us;   /* of the readers' turn, before the writers go on */
  double row_us;            /* time of one prompt row here, a moving mean; 0 before the first step */

  gboolean is_ending;       /* atomic */
  guint64 scratch_bytes;    /* atomic: can be given back */
  guint64 idle_kv_bytes;    /* atomic: can be given back */
  guint64 busy_kv_bytes;    /* atomic: can be given back by parking calls */
  guint64 storage_bytes;    /* atomic */
  guint64 n_steps;          /* atomic */
  guint64 n_rows;           /* atomic */
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
void        llm_executor_make_store  (LlmExecutor   *self);
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
/* The call stands still between two stages, and others may take its chunks (L9); it goes on a little
 * later, when there is room. */
void        llm_executor_park        (LlmExecutor   *self,
                                      LlmRun        *run);
/* Goes on with memory that was asked for. */
void        llm_executor_serve_gives (LlmExecutor   *self);
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
