/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The weights of the model in use, as a memory holder: pages, after which the model stays usable,
 * and then the whole model. */

#include "base/llm-clock.h"
#include "engine/models/llm-engine-models.h"

/* A model that was used so recently is likely to be used again. */
#define RECENT_US (60 * G_USEC_PER_SEC)

/* Pages that a running call uses are not released: it would read them again at once. */
static guint64
get_page_bytes (gpointer holder)
{
  LlmEngine *self = holder;

  return self->loading.is_loading ? 0 : llm_engine_get_figures (self).page_bytes;
}

static void
give_pages (gpointer       holder,
            guint64        bytes,
            gint64         deadline_us,
            LlmReclaimDone done,
            gpointer       data)
{
  LlmEngine *self = holder;

  llm_executor_give_pages (self->executor, bytes, done, data);
}

/* Only if the model was used recently. */
static void
take_pages (gpointer holder,
            guint64  bytes)
{
  LlmEngine *self = holder;
  guint64 missing = llm_engine_get_figures (self).missing_bytes;

  if (missing > 0 && missing <= bytes && self->use.model != NULL
      && llm_clock_now_us () - self->use.idle_since_us < RECENT_US)
    llm_executor_take_pages (self->executor, bytes);
}

static gboolean
are_backed (gpointer holder)
{
  return llm_engine_get_figures (holder).is_backed;
}

/* The weights of a running call can't be released. Once the pages are, unloading still frees what
 * the ledger does not count, the vocabulary. */
static guint64
get_model_bytes (gpointer holder)
{
  LlmEngine *self = holder;

  if (self->calls.n_requests_running > 0 || self->loading.is_loading || self->use.model == NULL
      || get_page_bytes (self) > 0)
    return 0;
  return MAX (llm_ledger_get (self->ledger, LLM_HOLDER_WEIGHTS), 1);
}

static void
give_model (gpointer       holder,
            guint64        bytes,
            gint64         deadline_us,
            LlmReclaimDone done,
            gpointer       data)
{
  llm_engine_unload (holder, done, data);
}

void
llm_engine_add_weight_reclaimers (LlmEngine *self)
{
  const LlmReclaimer pages = {
    "pages", LLM_RECLAIM_COSTLY, get_page_bytes, give_pages, take_pages, are_backed, self,
  };
  const LlmReclaimer weights = {
    "weights", LLM_RECLAIM_COSTLY, get_model_bytes, give_model, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &pages);
  llm_ledger_add_reclaimer (self->ledger, &weights);
}
