/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is in memory: chunks of contexts, shared prefixes, weights. */

#pragma once

#include "runtime/llm-executor.h"
#include "runtime/llm-memory-shares.h"

G_BEGIN_DECLS

typedef struct _LlmRunner LlmRunner;

typedef struct
{
  LlmMemoryShares shares;
  GQueue reclaims;          /* (element-type LlmReclaim) (owned): memory that was asked for */
  guint64 displaced_bytes;  /* that calls took from other contexts and no call asked back since */
  gboolean is_pressed;      /* atomic: the system is under memory pressure */
  LlmDisk *disk;            /* (nullable) (owned): for weights, where there is no storage */
  guint64 keep_bytes;       /* atomic: of weights, stay between steps */
  guint keep_percent;       /* atomic: of each model, stays in memory in any case */
  GThreadPool *measurer;    /* one thread, which asks the kernel what it has of the weights */
  gint64 measure_us;        /* atomic: when it is asked again; G_MAXINT64 while it is */
} LlmExecutorMemory;

/* --- llm-executor-prefix.c: beginnings that contexts have in common (L15) --- */

/* How many of the first @n_max tokens, computed as @states say, the request could share from other
 * sessions. */
guint       llm_request_count_shareable (LlmRequest *request,
                                      const GByteArray *states,
                                      guint          n_max);
/* The request's session has attached and found nothing: shares with it what another session of its
 * application has of the first @n_max tokens of the prompt, computed alike. */
void        llm_request_share_prefix (LlmRequest    *request,
                                      guint          n_max);
/* Keeps the prefix that the first prompt of a context left, for other contexts of its
 * application. */
void        llm_request_keep_prefix  (LlmRequest    *request);
/* Drops prefixes, up to @bytes: they go first. Returns the bytes freed. */
guint64     llm_executor_drop_prefixes (LlmExecutor *self,
                                      guint64        bytes);

/* --- llm-executor-evict.c: making room --- */

/* Memory that contexts may fill: the budget less other holders' memory; G_MAXUINT64 without a
 * budget. */
guint64     llm_executor_get_capacity (LlmExecutor  *self);

/* Evicts chunks that no request uses, and then drops sessions, least recently used first, until
 * @bytes are freed; returns the bytes freed. */
guint64     llm_executor_evict       (LlmExecutor   *self,
                                      guint64        bytes);
/* Returns the free pages that stores keep for their next chunks to the system. */
void        llm_executor_trim_stores (LlmExecutor   *self);
/* The same as llm_executor_evict(), until the budget has room for @bytes. */
guint64     llm_executor_make_room   (LlmExecutor   *self,
                                      guint64        bytes);
/* Evicts up to @bytes of the idle contexts of applications over their quota, the furthest over it
 * first. */
guint64     llm_executor_evict_over_quota (LlmExecutor *self,
                                      guint64        bytes,
                                      gboolean       in_haste);
/* Evicts idle contexts of applications over their quota until they are within it. */
void        llm_executor_keep_quotas (LlmExecutor   *self);
/* (nullable): the request to preempt first, of those that hold chunks: of the class with the least
 * urgency, the one that arrived last. */
LlmRequest *llm_executor_find_preemptible (LlmExecutor *self);
/* The request is preempted between two stages, and others may have its chunks evicted (L9); it goes
 * on a little later, when there is room. */
void        llm_request_preempt      (LlmRequest    *request);

/* --- llm-executor-weights.c: memory of weights --- */

/* (nullable): the queue for weights and contexts, which stays while the storage does. */
LlmDisk    *llm_executor_get_disk    (LlmExecutor   *self);
/* Streams weights that don't stay in memory through that queue; the second stops this before the
 * queue ends. No step is under way. */
void        llm_runner_begin_stream  (LlmRunner     *self);
void        llm_runner_end_stream    (LlmRunner     *self);

/* Before weights are used, up to those of @level: counts them, and begins to restore those that
 * were reclaimed. FALSE when weights that are in no file do not fit. */
gboolean    llm_runner_take_weights  (LlmRunner     *self,
                                      guint          level,
                                      GError       **error);
/* The largest level of the model's table that a running request uses, and no less than that of
 * @percent. */
guint       llm_runner_find_level    (const LlmRunner *self,
                                      guint            percent);
/* Releases the weights behind the level of the running requests, which these don't use: see
 * LlmReclaimer; main thread. */
void        llm_executor_give_tails  (gpointer       executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* While memory is short: releases the weights behind the level in use. */
void        llm_executor_drop_unused_tails (LlmExecutor *self);
/* While nothing runs: when memory has room for all weights again, stops streaming them and frees
 * the stream's buffers. */
void        llm_executor_keep_all_weights (LlmExecutor *self);
/* Sets the instance's part of the weight bytes that stay in memory between steps. */
void        llm_runner_keep_weights  (LlmRunner     *self);
/* Restores a piece of the reclaimed weights; TRUE when more are left. */
gboolean    llm_executor_read_ahead  (LlmExecutor   *self);
void        llm_executor_make_measurer (LlmExecutor *self);

/* --- llm-executor-room.c: requests without room for their chunks --- */

/* Locks the chunks of the request's session and begins to restore those that are missing. Makes
 * room by evicting idle sessions, and by preempting requests of lower classes. */
gboolean    llm_request_lock_chunks  (LlmRequest    *request,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Whether a request that does not fit may wait for the ceiling to rise; if so, sets when it tries
 * again. */
gboolean    llm_request_may_wait     (LlmRequest    *request);
/* Whether a preempted request stays preempted for now; if so, sets when it tries again. */
gboolean    llm_request_stays_preempted (LlmRequest *request,
                                      gint64         now);
/* A request that has waited long enough may use the reserve; TRUE when that is new. */
gboolean    llm_request_make_urgent  (LlmRequest    *request);
/* Whether the request may keep its chunks, because it is urgent and the reserve has room. */
gboolean    llm_request_is_protected (LlmRequest    *request);
/* Its window slides until it has room for @n_tokens (L11); positions that stay. */
guint       llm_request_get_n_slid   (const LlmRequest *request,
                                      guint          n_tokens);
guint       llm_request_get_n_sinks  (const LlmRequest *request);

/* --- llm-executor-reclaim.c: memory that was asked for --- */

/* See LlmReclaimer; main thread. Frees the scratch of steps that are not under way. */
void        llm_executor_give_scratch (gpointer      executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* Evicts chunks that no request uses (L8), until @bytes are freed. Unwritten chunks are written
 * first, until @deadline_us (0: for a moment). */
void        llm_executor_give_kv     (gpointer       executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* Preempts running requests between two stages, the least urgent first, and evicts their chunks
 * until @bytes are freed; the requests resume a little later (L9). */
void        llm_executor_give_busy_kv (gpointer      executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* Continues the pending reclaims. */
void        llm_executor_serve_reclaims (LlmExecutor *self);

G_END_DECLS
