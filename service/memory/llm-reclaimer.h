/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whoever holds memory that can be given back registers one of these with the
 * governor, which sees nothing else of the holder. Called on the main thread;
 * the work happens wherever the holder lives and its end is reported back on
 * the main thread.
 */

#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

/* What giving costs those who use the memory, cheapest first. */
typedef enum
{
  LLM_RECLAIM_FREE,    /* nobody notices */
  LLM_RECLAIM_CHEAP,   /* some work again later, a call starts later */
  LLM_RECLAIM_COSTLY,  /* much work again later: the model is loaded anew */
  LLM_N_RECLAIM_COSTS,
} LlmReclaimCost;

typedef void (*LlmReclaimDone) (guint64  freed,
                                gpointer data);

#define LLM_TYPE_RECLAIMER (llm_reclaimer_get_type ())
G_DECLARE_INTERFACE (LlmReclaimer, llm_reclaimer, LLM, RECLAIMER, GObject)

struct _LlmReclaimerInterface
{
  GTypeInterface parent_iface;

  const char    *(*get_name) (LlmReclaimer *self);
  LlmReclaimCost (*get_cost) (LlmReclaimer *self);
  guint64        (*get_held) (LlmReclaimer *self);
  void           (*give)     (LlmReclaimer  *self,
                              guint64        bytes,
                              gint64         deadline_us,
                              LlmReclaimDone done,
                              gpointer       data);
  void           (*grow)     (LlmReclaimer *self,
                              guint64       bytes);
  /* (nullable): whether what it holds is file pages, which the kernel may take by itself */
  gboolean       (*is_backed) (LlmReclaimer *self);
};

/* Names the holder, for logs and results: `scratch`, `kv`, `weights`. */
const char    *llm_reclaimer_get_name (LlmReclaimer *self);
LlmReclaimCost llm_reclaimer_get_cost (LlmReclaimer *self);

/* Bytes that could be given back now. */
guint64        llm_reclaimer_get_held (LlmReclaimer *self);

/* Gives back @bytes or what there is, until @deadline_us (a time of
 * llm_clock_now_us(), 0 for none); then calls @done once, on the main thread. */
void           llm_reclaimer_give     (LlmReclaimer  *self,
                                       guint64        bytes,
                                       gint64         deadline_us,
                                       LlmReclaimDone done,
                                       gpointer       data);

/* Says that @bytes may be held again: a hint, nothing has to happen. */
void           llm_reclaimer_grow     (LlmReclaimer *self,
                                       guint64       bytes);

/* Whether giving it back eases nobody who needs memory that is not a file's. */
gboolean       llm_reclaimer_is_backed (LlmReclaimer *self);

G_END_DECLS
