/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Asks the holders of memory to give back, cheapest first. It knows reclaimers
 * and the ledger, nothing of what they hold. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "memory/llm-ledger.h"
#include "memory/llm-reclaimer.h"
#include "memory/llm-pressure.h"

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

/* Whom a trim asks. */
typedef enum
{
  LLM_TRIM_ALL,
  LLM_TRIM_ANONYMOUS,  /* those whose memory only we can give back */
  LLM_TRIM_BACKED,     /* those who hold file pages */
} LlmTrimScope;

typedef struct
{
  LlmTrimScope scope;
  LlmPressure level;   /* how dear giving may be: low: what nobody notices; medium: also what is
                        * cheap to have again; critical: all */
  guint64 target;      /* bytes, 0 for as much as there is */
  gint64 deadline_us;  /* when it ends, done or not: a time of llm_clock_now_us(), 0 for none */
  gint64 patience_us;  /* what a holder may take to write what it gives before it drops it, 0
                        * for what it thinks right */
} LlmTrimRequest;

LlmGovernor *llm_governor_new           (LlmLedger          *ledger);

/* Takes a reference. The order of registration breaks ties between equal costs. */
void         llm_governor_add           (LlmGovernor        *self,
                                         LlmReclaimer       *reclaimer);
/* Bytes that could be given back at @cost. */
guint64      llm_governor_get_reclaimable (LlmGovernor      *self,
                                           LlmReclaimCost    cost);

/* Bytes that the reclaimer of that name gave since the start. */
guint64      llm_governor_get_given     (LlmGovernor        *self,
                                         const char         *name);
/* Tells all holders that @bytes may be held again. */
void         llm_governor_grow          (LlmGovernor        *self,
                                         guint64             bytes);

/* Asks the holders, cheapest first. Trims run one after the other. */
void         llm_governor_trim_async    (LlmGovernor        *self,
                                         const LlmTrimRequest *request,
                                         GAsyncReadyCallback callback,
                                         gpointer            data);
/* (transfer full) */
LlmTrimResult *llm_governor_trim_finish (LlmGovernor        *self,
                                         GAsyncResult       *result,
                                         GError            **error);
void         llm_trim_result_free       (LlmTrimResult      *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTrimResult, llm_trim_result_free)

G_END_DECLS
