/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A holder of memory that can be released registers one of these with the ledger it counts its
 * bytes in (llm_ledger_add_reclaimer()); the governor asks all that are registered and knows
 * nothing else of the holder. Called on the main thread; the work happens wherever the holder
 * lives, and its end is reported on the main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Cost of a reclaim for the callers that use the memory, cheapest first. */
typedef enum
{
  LLM_RECLAIM_FREE,    /* no call waits for it: asked whatever kind of memory is short */
  LLM_RECLAIM_CHEAP,   /* some work again later, a call starts later */
  LLM_RECLAIM_COSTLY,  /* much work again later: the model is loaded again */
  LLM_N_RECLAIM_COSTS,
} LlmReclaimCost;

typedef void (*LlmReclaimDone) (guint64  freed,
                                gpointer data);

typedef struct
{
  const char *name;    /* static: for logs and figures: `scratch`, `kv`, `weights` */
  LlmReclaimCost cost;
  /* Bytes that could be reclaimed now. */
  guint64 (*get_held) (gpointer holder);
  /* Releases @bytes, or as much as possible, until @deadline_us (a time of llm_clock_now_us(), 0
   * for none); then calls @done (freed, @data) once, now or later. */
  void (*reclaim) (gpointer       holder,
                   guint64        bytes,
                   gint64         deadline_us,
                   LlmReclaimDone done,
                   gpointer       data);
  /* (nullable): a hint that @bytes may be held again. */
  void (*grow) (gpointer holder,
                guint64  bytes);
  /* (nullable): whether it holds file pages, which the kernel can reclaim by itself. */
  gboolean (*is_backed) (gpointer holder);
  gpointer holder;     /* (unowned): outlives the governor */
  guint64 reclaimed;   /* bytes so far, counted by the governor */
} LlmReclaimer;

G_END_DECLS
