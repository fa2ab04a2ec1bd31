/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executor as a memory holder: what it can release. Main thread. */

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"

static LlmExecutorFigures
get_figures (gpointer holder)
{
  LlmExecutorFigures figures;

  llm_executor_get_figures (holder, &figures);
  return figures;
}

static guint64
get_scratch (gpointer holder)
{
  return get_figures (holder).scratch_bytes;
}

static guint64
get_idle_kv (gpointer holder)
{
  return get_figures (holder).idle_kv_bytes;
}

static guint64
get_busy_kv (gpointer holder)
{
  return get_figures (holder).busy_kv_bytes;
}

static guint64
get_tails (gpointer holder)
{
  return get_figures (holder).tail_bytes;
}

static gboolean
is_backed (gpointer holder)
{
  return get_figures (holder).is_backed;
}

void
llm_executor_add_idle_reclaimers (LlmExecutor *self)
{
  const LlmReclaimer scratch = {
    "scratch", LLM_RECLAIM_FREE, get_scratch, llm_executor_give_scratch, .holder = self,
  };
  const LlmReclaimer kv = {
    "kv", LLM_RECLAIM_CHEAP, get_idle_kv, llm_executor_give_kv, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &scratch);
  llm_ledger_add_reclaimer (self->ledger, &kv);
}

void
llm_executor_add_busy_reclaimers (LlmExecutor *self)
{
  const LlmReclaimer tails = {
    "tail", LLM_RECLAIM_COSTLY, get_tails, llm_executor_give_tails, .is_backed = is_backed,
    .holder = self,
  };
  const LlmReclaimer calls = {
    "calls", LLM_RECLAIM_COSTLY, get_busy_kv, llm_executor_give_busy_kv, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &tails);
  llm_ledger_add_reclaimer (self->ledger, &calls);
}
