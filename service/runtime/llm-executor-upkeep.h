/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is done while nothing runs: stores are opened, written and checked, the machine is
 * measured. */

#pragma once

#include "runtime/llm-executor-private.h"

G_BEGIN_DECLS

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

/* --- llm-executor-check.c: whether what is on storage was computed with these weights --- */

/* Finds out what is known of the model's file. */
void        llm_runner_begin_check   (LlmRunner     *self);
/* A slice of what is left to find out; TRUE when there is more, now or when the disk has answered,
 * for which it waits a moment. Sets @reopens when the store has to be opened anew. */
gboolean    llm_runner_work_check    (LlmRunner     *self,
                                      gboolean      *reopens);
/* When it is time for that, if nothing runs until then; 0 for never. */
gint64      llm_runner_get_check_time (LlmRunner    *self);

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

G_END_DECLS
