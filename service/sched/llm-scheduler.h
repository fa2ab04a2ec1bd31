/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decides whose rows run in the next step. Calls that write get their one row
 * each; the rest of the step goes to calls that read their prompt, by SLO class,
 * and inside a class to the application that was served least, so that no
 * application gains by asking more often. Knows numbers only, no tensors.
 *
 * The executor's thread owns it.
 */

#pragma once

#include "sched/llm-slo.h"

G_BEGIN_DECLS

typedef struct _LlmScheduler LlmScheduler;
typedef struct _LlmTicket LlmTicket;

/* What one call gets in the next step. */
typedef struct
{
  LlmTicket *ticket;
  guint n_rows;
} LlmShare;

/* @max_rows: of one step. @mixed_rows: of prompts in a step that also writes,
 * so that reading a long prompt does not slow the writers down much. */
LlmScheduler *llm_scheduler_new         (guint          max_rows,
                                         guint          mixed_rows);
void          llm_scheduler_free        (LlmScheduler  *self);
/* From the next step on; how many rows a machine computes in a reasonable time is
 * learned while it runs. */
void          llm_scheduler_set_rows    (LlmScheduler  *self,
                                         guint          max_rows,
                                         guint          mixed_rows);

/* Admits a call of @app (a key for accounting, copied) with @n_prompt rows to
 * read. @data is the owner's. The ticket lives until llm_scheduler_remove(). */
LlmTicket    *llm_scheduler_add         (LlmScheduler  *self,
                                         const char    *app,
                                         LlmSloClass    slo_class,
                                         guint          n_prompt,
                                         gpointer       data);
void          llm_scheduler_remove      (LlmScheduler  *self,
                                         LlmTicket     *ticket);
gpointer      llm_ticket_get_data       (LlmTicket     *ticket);
guint         llm_ticket_get_n_prompt   (LlmTicket     *ticket);
/* A parked call gets no rows; nothing else changes for it or others. */
void          llm_ticket_set_parked     (LlmTicket     *ticket,
                                         gboolean       is_parked);

/* Fills in @shares with at most @n_max_rows entries of at least one row each;
 * returns how many. Nothing is charged yet. */
guint         llm_scheduler_plan        (LlmScheduler  *self,
                                         LlmShare      *shares,
                                         guint          n_max_shares);
/* Charges @share after its rows were computed. */
void          llm_scheduler_charge      (LlmScheduler  *self,
                                         const LlmShare *share);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmScheduler, llm_scheduler_free)

G_END_DECLS
