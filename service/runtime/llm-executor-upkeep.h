/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Work of the idle phase: stores are opened, written and checked, the machine is measured. */

#pragma once

#include "runtime/llm-executor.h"
#include "runtime/llm-profile.h"

G_BEGIN_DECLS

typedef struct _LlmRunner LlmRunner;

typedef struct
{
  LlmKvStorage *storage;    /* (nullable) (owned): for the thread's whole life */
  GHashTable *identities;   /* (element-type guint guint64) (owned): of the last store's K and V, by
                             * runner */
  struct _LlmSweep *sweep;  /* (nullable) (owned): with the contexts' ids, until swept */
  gint64 worked_us;         /* when the stores last had a slice of time beside running requests */
} LlmExecutorUpkeep;

/* --- llm-executor-store.c: KV stores and what is kept of them --- */

void        llm_executor_open_storage (LlmExecutor  *self);
/* Opens storage again, after the folder could not be used at the start, or was replaced. */
void        llm_executor_reopen_storage (LlmExecutor *self);
/* Removes from storage all that belongs to no context of self->sweep. */
void        llm_executor_sweep_ids   (LlmExecutor   *self);
void        llm_executor_forget_sweep (LlmExecutor  *self);
LlmProfileKey llm_runner_get_profile_key (LlmRunner *self);
void        llm_runner_open_store    (LlmRunner     *self);
/* Closes the store with all sessions; unwritten chunks are written, for a moment at most. */
void        llm_runner_close_store   (LlmRunner     *self);
/* Step costs, kept over restarts: saved after enough new measurements, and not too often. */
void        llm_runner_load_costs    (LlmRunner     *self);
void        llm_runner_save_costs    (LlmRunner     *self);

/* --- llm-executor-check.c: whether what is on storage was computed with these weights --- */

/* Begins to check the model's file against the record. */
void        llm_runner_begin_check   (LlmRunner     *self);
/* A slice of that check; TRUE when more is left, now or when the disk has answered, for which it
 * waits a moment. Sets @reopens when the store has to be opened again. */
gboolean    llm_runner_work_check    (LlmRunner     *self,
                                      gboolean      *reopens);
/* When the check is due, if nothing runs until then; 0 for never. */
gint64      llm_runner_get_check_time (LlmRunner    *self);

/* --- llm-executor-idle.c: what requests leave behind --- */

/* A slice of idle work. TRUE when more is left, now or when the disk has answered, for which it
 * waits a moment. */
gboolean    llm_executor_work        (LlmExecutor   *self);
/* A slice of it beside running requests. */
void        llm_executor_work_beside (LlmExecutor   *self);
/* Called when nothing can run until the disk has answered. */
void        llm_executor_wait_for_disk (LlmExecutor *self);
/* When idle work is due, if nothing runs until then; 0 for never. */
gint64      llm_executor_get_idle_time (LlmExecutor *self);

G_END_DECLS
