/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the engine can give back, as holders of memory: scratch and context memory
 * at the executor, text that the database also has, compiled constraints, the weights of a draft,
 * those that running calls don't use, the chunks of these, and the weights. */

#include "base/llm-clock.h"
#include "engine/memory/llm-engine-memory.h"
#include "engine/models/llm-engine-models.h"

/* Who called so lately is likely to call again. */
#define RECENT_US (60 * G_USEC_PER_SEC)

/* Forgets text until @bytes are freed; with 0 only counts what could be. */
static guint64
forget_text (LlmEngine *self,
             guint64    bytes)
{
  GHashTableIter iter;
  LlmContext *context;
  guint64 n = 0;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while ((bytes == 0 || n < bytes) && g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      guint64 held = llm_context_get_forgettable (context);

      if (bytes > 0 && held > 0)
        llm_context_forget (context);
      n += held;
    }
  return n;
}

static guint64
get_held (gpointer data)
{
  const LlmEngineHolder *holder = data;
  LlmEngine *self = holder->engine;
  const LlmExecutorFigures figures = llm_engine_get_figures (self);
  /* those that a running call uses are not given: it would read them again at once */
  guint64 page_bytes = self->loading.is_loading ? 0 : figures.page_bytes;

  switch (holder->kind)
    {
    case LLM_ENGINE_SCRATCH:
      return figures.scratch_bytes;
    case LLM_ENGINE_KV:
      return figures.idle_kv_bytes;
    case LLM_ENGINE_TEXT:
      return forget_text (self, 0);
    case LLM_ENGINE_CONSTRAINTS:
      return llm_constraint_cache_get_unused (self->use.constraints);
    case LLM_ENGINE_DRAFT:
      /* the one that the configuration names: it comes back with a call when there is room */
      return self->calls.n_requests_running == 0 && self->drafts.draft_id != NULL
               ? llm_engine_get_draft_bytes (self)
               : 0;
    case LLM_ENGINE_TAIL:
      return figures.tail_bytes;
    case LLM_ENGINE_CALLS:
      return figures.busy_kv_bytes;
    case LLM_ENGINE_PAGES:
      return page_bytes;
    case LLM_ENGINE_WEIGHTS:
    default:
      /* What a running call uses can't be given. Once its pages are given there is still what the
       * ledger does not count, the vocabulary. */
      if (self->calls.n_requests_running > 0 || self->loading.is_loading || self->use.model == NULL
          || page_bytes > 0)
        return 0;
      return MAX (llm_ledger_get (self->ledger, LLM_HOLDER_WEIGHTS), 1);
    }
}

static void
reclaim (gpointer       data,
         guint64        bytes,
         gint64         deadline_us,
         LlmReclaimDone done,
         gpointer       done_data)
{
  const LlmEngineHolder *holder = data;
  LlmEngine *self = holder->engine;

  switch (holder->kind)
    {
    case LLM_ENGINE_SCRATCH:
      llm_executor_give_scratch (self->executor, done, done_data);
      break;
    case LLM_ENGINE_KV:
      llm_executor_give_kv (self->executor, bytes, deadline_us, done, done_data);
      break;
    case LLM_ENGINE_TEXT:
      done (bytes > 0 ? forget_text (self, bytes) : 0, done_data);
      break;
    case LLM_ENGINE_CONSTRAINTS:
      done (llm_constraint_cache_drop_unused (self->use.constraints, bytes), done_data);
      break;
    case LLM_ENGINE_DRAFT:
      done (self->calls.n_requests_running == 0 ? llm_engine_drop_draft (self) : 0, done_data);
      break;
    case LLM_ENGINE_TAIL:
      llm_executor_give_tails (self->executor, done, done_data);
      break;
    case LLM_ENGINE_CALLS:
      llm_executor_give_busy_kv (self->executor, bytes, done, done_data);
      break;
    case LLM_ENGINE_PAGES:
      llm_executor_give_pages (self->executor, bytes, done, done_data);
      break;
    case LLM_ENGINE_WEIGHTS:
    default:
      llm_engine_unload (self, done, done_data);
      break;
    }
}

/* Only for who used them a short while ago. */
static void
take_pages (gpointer data,
            guint64  bytes)
{
  LlmEngine *self = ((const LlmEngineHolder *) data)->engine;
  guint64 missing = llm_engine_get_figures (self).missing_bytes;

  if (missing > 0 && missing <= bytes && self->use.model != NULL
      && llm_clock_now_us () - self->use.idle_since_us < RECENT_US)
    llm_executor_take_pages (self->executor, bytes);
}

static gboolean
has_backed_pages (gpointer data)
{
  return llm_engine_get_figures (((const LlmEngineHolder *) data)->engine).is_backed;
}

void
llm_engine_add_reclaimers (LlmEngine *self)
{
  static const LlmReclaimer all[LLM_N_ENGINE_HOLDERS] = {
    [LLM_ENGINE_SCRATCH] = { "scratch", LLM_RECLAIM_FREE, get_held, reclaim },
    [LLM_ENGINE_KV] = { "kv", LLM_RECLAIM_CHEAP, get_held, reclaim },
    [LLM_ENGINE_TEXT] = { "text", LLM_RECLAIM_CHEAP, get_held, reclaim },
    [LLM_ENGINE_CONSTRAINTS] = { "constraints", LLM_RECLAIM_CHEAP, get_held, reclaim },
    [LLM_ENGINE_DRAFT] = { "draft", LLM_RECLAIM_COSTLY, get_held, reclaim },
    [LLM_ENGINE_TAIL] = { "tail", LLM_RECLAIM_COSTLY, get_held, reclaim, .is_backed = has_backed_pages },
    [LLM_ENGINE_CALLS] = { "calls", LLM_RECLAIM_COSTLY, get_held, reclaim },
    [LLM_ENGINE_PAGES] = { "pages", LLM_RECLAIM_COSTLY, get_held, reclaim, take_pages,
                           has_backed_pages },
    [LLM_ENGINE_WEIGHTS] = { "weights", LLM_RECLAIM_COSTLY, get_held, reclaim },
  };

  for (guint i = 0; i < LLM_N_ENGINE_HOLDERS; i++)
    {
      LlmReclaimer reclaimer = all[i];

      self->memory.holders[i] = (LlmEngineHolder) { self, i };
      reclaimer.holder = &self->memory.holders[i];
      llm_ledger_add_reclaimer (self->ledger, &reclaimer);
    }
}
