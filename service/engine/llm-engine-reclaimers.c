/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the engine can give back, as holders of memory: scratch and context memory
 * at the executor, text that the database also has, the chunks of running calls, and the
 * weights. */

#include "base/llm-clock.h"
#include "engine/llm-context-private.h"

/* Who called so lately is likely to call again. */
#define RECENT_US (60 * G_USEC_PER_SEC)

/* --- scratch of the forward pass --- */

static guint64
get_scratch (gpointer holder)
{
  return llm_engine_get_figures (holder).scratch_bytes;
}

static void
give_scratch (gpointer       holder,
              guint64        bytes,
              gint64         deadline_us,
              LlmReclaimDone done,
              gpointer       data)
{
  llm_executor_give_scratch (((LlmEngine *) holder)->executor, done, data);
}

/* --- context memory that no call uses --- */

static guint64
get_kv (gpointer holder)
{
  return llm_engine_get_figures (holder).idle_kv_bytes;
}

static void
give_kv (gpointer       holder,
         guint64        bytes,
         gint64         deadline_us,
         LlmReclaimDone done,
         gpointer       data)
{
  llm_executor_give_kv (((LlmEngine *) holder)->executor, bytes, deadline_us, done, data);
}

/* --- context memory of running calls --- */

static guint64
get_busy_kv (gpointer holder)
{
  return llm_engine_get_figures (holder).busy_kv_bytes;
}

static void
give_busy_kv (gpointer       holder,
              guint64        bytes,
              gint64         deadline_us,
              LlmReclaimDone done,
              gpointer       data)
{
  llm_executor_give_busy_kv (((LlmEngine *) holder)->executor, bytes, done, data);
}

/* --- text --- */

static guint64
get_text (gpointer holder)
{
  LlmEngine *self = holder;
  GHashTableIter iter;
  LlmContext *context;
  guint64 held = 0;

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    held += llm_context_get_forgettable (context);
  return held;
}

static void
give_text (gpointer       holder,
           guint64        bytes,
           gint64         deadline_us,
           LlmReclaimDone done,
           gpointer       data)
{
  LlmEngine *self = holder;
  GHashTableIter iter;
  LlmContext *context;
  guint64 freed = 0;

  g_hash_table_iter_init (&iter, self->contexts);
  while (freed < bytes && g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      guint64 held = llm_context_get_forgettable (context);

      if (held > 0)
        llm_context_forget (context);
      freed += held;
    }
  done (freed, data);
}

/* --- weights that stay usable --- */

/* Those that a running call uses are not given: it would read them again at once. */
static guint64
get_pages (gpointer holder)
{
  LlmEngine *self = holder;

  return self->is_loading || self->is_unloading ? 0 : llm_engine_get_figures (holder).page_bytes;
}

static void
give_pages (gpointer       holder,
            guint64        bytes,
            gint64         deadline_us,
            LlmReclaimDone done,
            gpointer       data)
{
  llm_executor_give_pages (((LlmEngine *) holder)->executor, bytes, done, data);
}

/* Only for who used them a short while ago. */
static void
take_pages (gpointer holder,
            guint64  bytes)
{
  LlmEngine *self = holder;
  guint64 missing = llm_engine_get_figures (holder).missing_bytes;

  if (missing > 0 && missing <= bytes && self->model != NULL
      && llm_clock_now_us () - self->idle_since_us < RECENT_US)
    llm_executor_take_pages (self->executor, bytes);
}

static gboolean
has_backed_pages (gpointer holder)
{
  return llm_engine_get_figures (holder).is_backed;
}

/* --- the model --- */

/* What a running call uses can't be given. Once its pages are given there is still what the ledger
 * does not count, the vocabulary. */
static guint64
get_weights (gpointer holder)
{
  LlmEngine *self = holder;

  if (self->n_requests_running > 0 || self->is_loading || self->model == NULL
      || get_pages (self) > 0)
    return 0;
  return MAX (llm_ledger_get (self->ledger, LLM_HOLDER_WEIGHTS), 1);
}

static void
give_weights (gpointer       holder,
              guint64        bytes,
              gint64         deadline_us,
              LlmReclaimDone done,
              gpointer       data)
{
  llm_engine_unload (holder, done, data);
}

void
llm_engine_add_reclaimers (LlmEngine *self)
{
  const LlmReclaimer all[] = {
    { "scratch", LLM_RECLAIM_FREE, get_scratch, give_scratch },
    { "kv", LLM_RECLAIM_CHEAP, get_kv, give_kv },
    { "text", LLM_RECLAIM_CHEAP, get_text, give_text },
    { "calls", LLM_RECLAIM_COSTLY, get_busy_kv, give_busy_kv },
    { "pages", LLM_RECLAIM_COSTLY, get_pages, give_pages, take_pages, has_backed_pages },
    { "weights", LLM_RECLAIM_COSTLY, get_weights, give_weights },
  };

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    {
      LlmReclaimer reclaimer = all[i];

      reclaimer.holder = self;
      llm_ledger_add_reclaimer (self->ledger, &reclaimer);
    }
}
