/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asks the holders of memory to give back, cheapest first. It knows reclaimers
 * and the ledger, nothing of what they hold. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "base/llm-ledger.h"
#include "base/llm-reclaimer.h"
#include "governor/llm-pressure.h"

G_BEGIN_DECLS

#define LLM_TYPE_GOVERNOR (llm_governor_get_type ())
G_DECLARE_FINAL_TYPE (LlmGovernor, llm_governor, LLM, GOVERNOR, GObject)

/* What a trim did. */
typedef struct
{
  guint64 freed;       /* bytes */
  double duration_ms;
  GStrv steps;         /* names of the reclaimers that gave something, in order */
} LlmTrimResult;

LlmGovernor *llm_governor_new           (LlmLedger          *ledger);

/* Takes a reference. The order of registration breaks ties between equal costs. */
void         llm_governor_add           (LlmGovernor        *self,
                                         LlmReclaimer       *reclaimer);
/* Bytes that could be given back at @cost. */
guint64      llm_governor_get_reclaimable (LlmGovernor      *self,
                                           LlmReclaimCost    cost);

/* Asks all holders up to what @level allows (low: what nobody notices; medium:
 * also what is cheap to have again; critical: all) until @target bytes are freed
 * (0: as much as there is) or @deadline_us (0: none) has passed. Trims run one
 * after the other. */
void         llm_governor_trim_async    (LlmGovernor        *self,
                                         LlmPressure         level,
                                         guint64             target,
                                         gint64              deadline_us,
                                         GAsyncReadyCallback callback,
                                         gpointer            data);
/* (transfer full) */
LlmTrimResult *llm_governor_trim_finish (LlmGovernor        *self,
                                         GAsyncResult       *result,
                                         GError            **error);
void         llm_trim_result_free       (LlmTrimResult      *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTrimResult, llm_trim_result_free)

G_END_DECLS
