/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The one place where every byte the service holds is counted, by what holds
 * it. Counted at allocation, in bytes. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_HOLDER_WEIGHTS,        /* model weights in memory, file-backed or not */
  LLM_HOLDER_KV,             /* context memory at full precision */
  LLM_HOLDER_KV_COMPRESSED,  /* context memory held compressed */
  LLM_HOLDER_SCRATCH,        /* activations and logits of the running step */
  LLM_HOLDER_TEXT,           /* token ids and text of contexts and answers */
  LLM_N_HOLDERS,
} LlmHolder;

typedef struct _LlmLedger LlmLedger;

LlmLedger  *llm_ledger_new        (void);
LlmLedger  *llm_ledger_ref        (LlmLedger *self);
void        llm_ledger_unref      (LlmLedger *self);

/* Counts @bytes as held by @holder. */
void        llm_ledger_add        (LlmLedger *self,
                                   LlmHolder  holder,
                                   guint64    bytes);
void        llm_ledger_remove     (LlmLedger *self,
                                   LlmHolder  holder,
                                   guint64    bytes);
guint64     llm_ledger_get        (LlmLedger *self,
                                   LlmHolder  holder);
guint64     llm_ledger_get_total  (LlmLedger *self);

/* The most the service may hold, 0 for no limit of its own. */
void        llm_ledger_set_budget (LlmLedger *self,
                                   guint64    bytes);
guint64     llm_ledger_get_budget (LlmLedger *self);

/* Whether @bytes more would still be within the budget. */
gboolean    llm_ledger_has_room   (LlmLedger *self,
                                   guint64    bytes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmLedger, llm_ledger_unref)

G_END_DECLS
