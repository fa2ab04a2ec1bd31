/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A queue of reclaims, one after the other: each asks the reclaimers that are registered with the
 * ledger, cheapest first, until it has what it wants. Main thread.
 */

#pragma once

#include "memory/llm-ledger.h"
#include "memory/llm-pressure.h"

G_BEGIN_DECLS

typedef struct _LlmReclaimQueue LlmReclaimQueue;

/* Which reclaimers are asked. */
typedef enum
{
  LLM_RECLAIM_ALL,
  LLM_RECLAIM_ANONYMOUS,  /* those whose memory only the service can release */
  LLM_RECLAIM_BACKED,     /* those that hold file pages; of LLM_RECLAIM_FREE all in both cases */
} LlmReclaimScope;

typedef struct
{
  LlmReclaimScope scope;
  LlmPressure level;   /* low: LLM_RECLAIM_FREE only; medium: CHEAP too; critical: all */
  guint64 target;      /* bytes, 0 for as much as possible */
  gint64 deadline_us;  /* when it ends, done or not: a time of llm_clock_now_us(), 0 for none */
  gint64 patience_us;  /* how long a holder may write before it drops what is unwritten, 0 for the
                        * holder's own limit */
} LlmReclaimRequest;

typedef struct
{
  guint64 freed;               /* bytes */
  double duration_ms;
  const char *const *steps;    /* names of the reclaimers that released something, in order */
} LlmReclaimResult;

/* @result is valid during the call. */
typedef void (*LlmReclaimFunc) (const LlmReclaimResult *result,
                                gpointer                data);

LlmReclaimQueue *llm_reclaim_queue_new  (LlmLedger               *ledger);
/* No reclaim may be under way. */
void             llm_reclaim_queue_free (LlmReclaimQueue         *self);
/* @func is called once, never before this returns. */
void             llm_reclaim_queue_push (LlmReclaimQueue         *self,
                                         const LlmReclaimRequest *request,
                                         LlmReclaimFunc           func,
                                         gpointer                 data);

G_END_DECLS
