/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The executor: the thread that owns loaded models (LlmInstance). It takes requests, asks the
 * scheduler whose rows run next, gives turns to steps of the forward pass (llm-queue-step.h), lets
 * decoders choose tokens, and posts text and results to main.
 *
 * The functions here are called on the main thread and return at once.
 */

#pragma once

#include "base/llm-mailbox.h"
#include "kernels/llk.h"
#include "kv/llm-context-memory.h"
#include "memory/llm-ledger.h"
#include "memory/llm-reclaimer.h"
#include "model/llm-model.h"
#include "runtime/llm-request.h"
#include "sched/llm-scheduler.h"
#include "weights/llm-w8-weights.h"
#include "weights/llm-weights.h"

G_BEGIN_DECLS

typedef struct _LlmExecutor LlmExecutor;

typedef struct
{
  const LlkOps *kernels;
  guint n_threads;            /* 0: as many as the process may use */
  guint n_background_threads; /* for background requests; 0: half as many */
  int background_niceness;    /* of these */
  gboolean is_exact;          /* the weights are those of the file, in floats */
  guint chunk_slots;          /* tokens of a chunk: 16, 32, 48 or 64 */
  double kv_ratio;            /* bytes of a context, of its bytes with 8 bits; 0: floats, as
                               * computed */
  const char *chunks_folder;  /* (nullable): where chunks are written; NULL: nowhere */
  const char *cache_folder;   /* (nullable): where measurements are saved */
  const char *system_cache_folder; /* (nullable): likewise, by the administrator */
  gboolean shares_cache;      /* all users may read cache_folder */
  const char *disk;           /* (nullable): "uring" or "threads"; NULL for what works */
  guint64 storage_limit;      /* bytes there, 0 for half of what is free */
  guint64 app_storage_limit;  /* of one application's contexts, 0 for none */
  guint short_wait_s;         /* how long a request may wait for memory under memory pressure; 0:
                               * for ever */
  gboolean is_fifo;           /* requests run in the order of arrival, whatever their targets are */
  double overload_factor;     /* a request whose first token would be later than its target by this
                               * factor is refused; 0: none is */
} LlmExecutorConfig;

/* @main_box: where results are posted, dispatched by the main thread. */
LlmExecutor *llm_executor_new          (LlmMailbox   *main_box,
                                        LlmLedger    *ledger,
                                        const LlmExecutorConfig *config);
/* Ends all requests as cancelled, without calling back; writes unwritten chunks, for a moment at
 * most; and waits for the thread. Later calls do nothing. */
void         llm_executor_stop         (LlmExecutor  *self);
/* Stops it first. */
void         llm_executor_free         (LlmExecutor  *self);

/* Tells on the main thread where most of a session's chunks are now, and how many @bytes of memory
 * they take; @session 0: all contexts are text, because their KV cache is of another model. */
typedef void (*LlmSessionMoved) (guint64      session,
                                 LlmResidency residency,
                                 guint64      bytes,
                                 gpointer     data);
void         llm_executor_set_moved    (LlmExecutor      *self,
                                        LlmSessionMoved   moved,
                                        gpointer          data);

/* Tells on the main thread, once, which contexts have chunks on storage (element-type utf8, as a
 * set). */
typedef void (*LlmStorageSwept) (GHashTable *stored,
                                 gpointer    data);
/* Removes from storage, when idle, all that belongs to none of the contexts @ids (transfer full)
 * (element-type utf8, as a set). */
void         llm_executor_sweep_storage (LlmExecutor     *self,
                                        GHashTable       *ids,
                                        LlmStorageSwept   swept,
                                        gpointer          data);

/* Loads another model as number @instance, or none with NULL. Drops the sessions of the model that
 * had the number; none of its requests may be under way. Takes @weights. */
void         llm_executor_set_model    (LlmExecutor  *self,
                                        guint         instance,
                                        LlmModel     *model,
                                        LlmWeights   *weights,
                                        LlmReclaimDone done,
                                        gpointer      data);

/* The weights of model @instance for prompts in W8A8 are prepared: (transfer full). Dropped where the
 * model is another by now. */
void         llm_executor_set_w8_weights (LlmExecutor  *self,
                                        guint         instance,
                                        LlmW8Weights *weights);
/* The weights of model @instance by channel are prepared: (transfer full). Likewise. */
void         llm_executor_set_channels (LlmExecutor  *self,
                                        guint         instance,
                                        LlmChannels  *channels);
/* Releases them all but those in use, see LlmReclaimer; the second reads them again, if they are no
 * more than @bytes. Main thread. */
void         llm_executor_give_w8      (gpointer      executor,
                                        guint64       bytes,
                                        gint64        deadline_us,
                                        LlmReclaimDone done,
                                        gpointer      data);
void         llm_executor_take_w8      (LlmExecutor  *self,
                                        guint64       bytes);

/* Takes a reference; calls request->on_done once, at the end. */
void         llm_executor_submit       (LlmExecutor  *self,
                                        LlmRequest   *request);
/* Tells it to look at the atomic fields of its requests again. */
void         llm_executor_poke         (LlmExecutor  *self);
/* Sends the thread a heartbeat, unless the last one is unanswered; returns how often it was called
 * since the last answer. The thread answers between two stages, and at once when it is idle. */
guint        llm_executor_probe        (LlmExecutor  *self);

/* The context has ended: drops its session's KV cache in memory and on storage. */
void         llm_executor_drop_session (LlmExecutor  *self,
                                        guint64       session,
                                        const char   *context);
/* Gives @to, of the same application, the same content as @from, sharing memory and storage. */
void         llm_executor_fork_session (LlmExecutor  *self,
                                        guint64       from,
                                        guint64       to,
                                        const char   *context,
                                        gboolean      is_named);

/* Registers with the ledger what it can release: scratch and the chunks of contexts that no request
 * uses; the second does so for running requests: weights behind their level, and their chunks. */
void         llm_executor_add_idle_reclaimers (LlmExecutor *self);
void         llm_executor_add_busy_reclaimers (LlmExecutor *self);

/* Updates the ledger with the weight bytes that the kernel has in memory, a moment later and off
 * both threads; once a second, however often it is called, and less often where that takes long. */
void         llm_executor_look_at_weights (LlmExecutor *self);
/* Releases @bytes of weights, or more, while no request runs: the model stays loaded, and they are
 * read again when they are used. */
void         llm_executor_give_pages   (LlmExecutor  *self,
                                        guint64       bytes,
                                        LlmReclaimDone done,
                                        gpointer      data);
/* Under memory pressure; 100 when there is none: the sub-model of each model with at least @percent
 * stays in memory, and the rest of the weights only while a request uses it. */
void         llm_executor_keep_level   (LlmExecutor  *self,
                                        guint         percent);
/* Reads released weights again, if they are no more than @bytes. */
void         llm_executor_take_pages   (LlmExecutor  *self,
                                        guint64       bytes);
/* Whether the system is under memory pressure: requests that were preempted for it stay preempted
 * until it ends, or for some seconds. */
void         llm_executor_set_pressed  (LlmExecutor  *self,
                                        gboolean      is_pressed);
/* The pressure has been over for long enough: chunks that were quantized further are restored,
 * where storage has them and they fit, while nothing runs. */
void         llm_executor_widen_kv     (LlmExecutor  *self);
/* Bytes of weights in files that stay in memory between steps; those behind them are read again for
 * each step. G_MAXUINT64 for all. */
void         llm_executor_keep_weights (LlmExecutor  *self,
                                        guint64       bytes);

/* Calls @done on the main thread with where the KV cache of a session is (transfer full); of one
 * not used since the start, what storage has of @context. */
typedef void (*LlmMemoryTold) (LlmContextMemory *memory,
                               gpointer          data);
void         llm_executor_ask_memory   (LlmExecutor  *self,
                                        guint64       session,
                                        const char   *context,
                                        LlmMemoryTold done,
                                        gpointer      data);

/* The quotas of memory: @quotas (transfer full) (element-type LlmApp double), fractions; all other
 * applications have @default_quota, 0 for an equal part when memory is short. */
void         llm_executor_set_memory_quotas (LlmExecutor *self,
                                        double        default_quota,
                                        GHashTable   *quotas);

/* KV bytes of contexts while no request uses them, as a part of their bytes with 8 bits; more than
 * 0, and not if it was 0 from the start. Chunks that are already quantized get fewer bits, never
 * more. */
void         llm_executor_set_kv_ratio (LlmExecutor  *self,
                                        double        ratio);

/* How much of the background requests is computed, from the next turn on. Any thread. */
void         llm_executor_set_pace     (LlmExecutor  *self,
                                        LlmPace       background);

/* The machine is about to sleep: requests are suspended between two stages and unwritten chunks are
 * written; then @held is called on the main thread, after two seconds at most.
 * llm_executor_resume() continues the requests, and calls @held if it was not called yet. */
typedef void (*LlmExecutorHeld) (gpointer data);
void         llm_executor_suspend      (LlmExecutor  *self,
                                        LlmExecutorHeld held,
                                        gpointer      data);
void         llm_executor_resume       (LlmExecutor  *self);

/* Removes the KV cache from storage, least recently used first, until @bytes are free again there,
 * and waits for that; returns the free bytes, 0 without storage. Any thread but its own and main;
 * llm_executor_stop() must not be called before it returns. */
guint64      llm_executor_trim_storage (LlmExecutor *self,
                                        guint64       bytes);

typedef struct
{
  guint64 n_steps;          /* since the start */
  guint64 n_rows;
  guint64 n_prompt;         /* of them those of prefill */
  guint64 n_prompt_w8;      /* of these in W8A8 */
  guint64 n_generated;      /* generated tokens */
  guint64 n_multiplied;     /* products of two numbers that steps which ended computed */
  LlmKvCounters kv;
  guint64 storage_bytes;    /* of contexts on storage */
  guint64 kept_bytes;       /* of shared prefixes */
  guint64 n_narrow;         /* chunks in memory with fewer bits than the ratio gives */

  /* can be reclaimed: */
  guint64 scratch_bytes;
  guint64 idle_kv_bytes;    /* chunks that no request uses */
  guint64 busy_kv_bytes;    /* by preempting requests */
  guint64 w8_bytes;         /* of weights for prompts in W8A8 */
  double w8_speedup;        /* of their products, measured; 0: the weights are not prepared */
  guint64 page_bytes;       /* of weights, in memory while nothing runs */

  guint64 tail_bytes;       /* of weights, behind the level that running requests use */

  guint64 missing_bytes;    /* of weights that were reclaimed */
  guint64 given_tail_bytes; /* of weights behind the level in use, being released now */
  guint sub_model;          /* percent of the service's own model that is held */
  guint64 backed_bytes;     /* of file-backed weights, in memory or not */
  gboolean is_backed;       /* the weights are file-backed */
  LlmStreamFigures stream;  /* of all instances; pass_us and shares are not */
} LlmExecutorFigures;

/* Any thread. */
void         llm_executor_get_figures  (LlmExecutor        *self,
                                        LlmExecutorFigures *figures);

G_END_DECLS
