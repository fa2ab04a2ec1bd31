/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The one place where every byte the service holds is counted, by what holds
 * it, and where holders register that can release some. Counted at allocation, in bytes. Any
 * thread, but for the reclaimers.
 */

#pragma once

#include "memory/llm-reclaimer.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_HOLDER_WEIGHTS,        /* model weights in memory, file-backed or not */
  LLM_HOLDER_KV,             /* the KV cache at full precision */
  LLM_HOLDER_KV_COMPRESSED,  /* the KV cache held compressed */
  LLM_HOLDER_SCRATCH,        /* activations and logits of steps, and what devices made for them */
  LLM_HOLDER_TEXT,           /* token ids and text of contexts and answers */
  LLM_HOLDER_CONSTRAINTS,    /* compiled schemas and grammars, and their masks of tokens */
  LLM_N_HOLDERS,

  /* Marks on what is counted already. BACKED: memory of files, which the kernel can reclaim by
   * itself and read again; it causes no memory pressure. ABSENT: what of it is not in memory now,
   * as the kernel says (part of LLM_HOLDER_WEIGHTS). Figures for users leave it out; budget and
   * room include it, as it comes back when it is used. SPARE: of BACKED, what is released before
   * anything else, so that the room of others is counted as if it were not there. */
  LLM_LEDGER_BACKED = LLM_N_HOLDERS,
  LLM_LEDGER_ABSENT,
  LLM_LEDGER_SPARE,
  LLM_N_LEDGER_ENTRIES,
} LlmHolder;

typedef struct _LlmLedger LlmLedger;

LlmLedger  *llm_ledger_new        (void);
LlmLedger  *llm_ledger_ref        (LlmLedger *self);
void        llm_ledger_unref      (LlmLedger *self);

/* Counts @bytes as held by @holder, or marks them. */
void        llm_ledger_add        (LlmLedger *self,
                                   LlmHolder  holder,
                                   guint64    bytes);
void        llm_ledger_remove     (LlmLedger *self,
                                   LlmHolder  holder,
                                   guint64    bytes);
/* Without what is absent: in memory now. */
guint64     llm_ledger_get        (LlmLedger *self,
                                   LlmHolder  holder);
guint64     llm_ledger_get_total  (LlmLedger *self);
/* File-backed bytes that requests use, absent ones included; not what is spare. */
guint64     llm_ledger_get_used_backed (LlmLedger *self);
/* All other bytes: only the service can release them. */
guint64     llm_ledger_get_anonymous (LlmLedger *self);

/* The most that the service may hold, 0 for no limit of its own. Weights in files beyond it are
 * released after their use (llm_weights_keep()). */
void        llm_ledger_set_budget (LlmLedger *self,
                                   guint64    bytes);
guint64     llm_ledger_get_budget (LlmLedger *self);
/* The anonymous part of the budget; G_MAXUINT64 without a budget. */
guint64     llm_ledger_get_limit  (LlmLedger *self);

/* The free memory of the machine, a second limit beside the budget: for anonymous bytes. */
typedef struct
{
  guint64 now;      /* bytes; G_MAXUINT64 for no limit */
  guint64 urgent;   /* for a request that has waited too long */
  guint64 most;     /* if all others released theirs */
} LlmCeiling;

void        llm_ledger_set_ceiling (LlmLedger        *self,
                                    const LlmCeiling *ceiling);
/* Whether the urgent ceiling applies; set by the executor. */
void        llm_ledger_set_urgent  (LlmLedger *self,
                                    gboolean   is_urgent);

/* Whether @bytes more would still be within budget and ceiling. */
gboolean    llm_ledger_has_room   (LlmLedger *self,
                                   guint64    bytes);
/* Within the budget, whatever the ceiling. */
gboolean    llm_ledger_has_budget (LlmLedger *self,
                                   guint64    bytes);
/* Bytes that the ceiling leaves beside all anonymous memory; G_MAXUINT64 without one. */
guint64     llm_ledger_get_headroom (LlmLedger *self);
/* Bytes held beyond budget or ceiling. */
guint64     llm_ledger_get_excess (LlmLedger *self);
/* Whether waiting for @bytes makes sense: they fit the budget, and the ceiling, which is too low
 * now, may rise that far. */
gboolean    llm_ledger_may_wait   (LlmLedger *self,
                                   guint64    bytes);

/* Registers a holder that can release memory; copied. The order breaks ties between equal costs.
 * These two on the main thread. */
void        llm_ledger_add_reclaimer  (LlmLedger          *self,
                                       const LlmReclaimer *reclaimer);
/* (transfer none) (element-type LlmReclaimer): in the order in which they were registered. */
GPtrArray  *llm_ledger_get_reclaimers (LlmLedger          *self);
/* Bytes that could be reclaimed at @cost. */
guint64     llm_ledger_get_reclaimable (LlmLedger         *self,
                                        LlmReclaimCost     cost);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmLedger, llm_ledger_unref)

G_END_DECLS
