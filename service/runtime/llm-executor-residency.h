/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is in memory: chunks of contexts, beginnings that are shared, weights. */

#pragma once

#include "runtime/llm-executor-private.h"

G_BEGIN_DECLS

/* --- llm-executor-prefix.c: beginnings that contexts have in common (L15) --- */

/* How many of the first @n_max tokens, computed as @states say, it could have from others. */
guint       llm_request_count_shareable (LlmRequest *request,
                                      const GByteArray *states,
                                      guint          n_max);
/* Gives the request's session, which has attached and found nothing, what another of its application
 * has of the first @n_max tokens of the prompt, computed alike. */
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
/* Gives back what requests that run don't use, as it is behind their level: as LlmReclaimer has
 * it; main thread. */
void        llm_executor_give_tails  (gpointer       executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
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

/* --- llm-executor-reclaim.c: memory that was asked for --- */

/* As LlmReclaimer has it; main thread. Scratch of steps that are not under way. */
void        llm_executor_give_scratch (gpointer      executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* Chunks that no request uses (L8), until @bytes are freed. What is not on storage yet is written
 * first, as long as that takes until @deadline_us (0: a moment). */
void        llm_executor_give_kv     (gpointer       executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* Preempts running requests between two stages, those that can wait first, and evicts their chunks
 * until @bytes are freed; they go on a little later (L9). */
void        llm_executor_give_busy_kv (gpointer      executor,
                                      guint64        bytes,
                                      gint64         deadline_us,
                                      LlmReclaimDone done,
                                      gpointer       data);
/* Goes on with it. */
void        llm_executor_serve_reclaims (LlmExecutor *self);

G_END_DECLS
