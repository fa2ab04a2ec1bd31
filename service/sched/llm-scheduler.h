/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decides whose rows run next. Calls that write go together, one row each. Calls
 * that read their prompt go in steps of many rows, one SLO class at a time, and
 * inside a class the application that was served least comes first, so that no
 * application gains by asking more often. Steps of several classes, and of the
 * writers, may be under way at once; the executor gives them turns, and asks here
 * whose is next. Knows numbers only, no tensors.
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

/* @max_rows: of one step. */
LlmScheduler *llm_scheduler_new         (guint          max_rows);
void          llm_scheduler_free        (LlmScheduler  *self);
/* From the next step on; how many rows a machine computes in a reasonable time is
 * learned while it runs. */
void          llm_scheduler_set_rows    (LlmScheduler  *self,
                                         guint          max_rows);

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
/* What it read before has to be read again, or less has to be read than was thought. */
void          llm_ticket_set_n_prompt   (LlmTicket     *ticket,
                                         guint          n_prompt);
/* A parked call gets no rows; nothing else changes for it or others. */
void          llm_ticket_set_parked     (LlmTicket     *ticket,
                                         gboolean       is_parked);

/* Fill in @shares with at most @n_max_shares entries of at least one row each, of
 * calls that write, or that read and are of @slo_class; return how many. Nothing is
 * charged yet. */
guint         llm_scheduler_plan_writers (LlmScheduler *self,
                                         LlmShare      *shares,
                                         guint          n_max_shares);
guint         llm_scheduler_plan_readers (LlmScheduler *self,
                                         LlmSloClass    slo_class,
                                         LlmShare      *shares,
                                         guint          n_max_shares);
/* The class of readers whose turn is next; FALSE when nobody reads. */
gboolean      llm_scheduler_choose_class (LlmScheduler *self,
                                         LlmSloClass   *slo_class);
/* Readers of @slo_class had a turn, whether or not their step has ended. */
void          llm_scheduler_note_turn   (LlmScheduler  *self,
                                         LlmSloClass    slo_class);
/* Charges @share after its rows were computed. */
void          llm_scheduler_charge      (LlmScheduler  *self,
                                         const LlmShare *share);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmScheduler, llm_scheduler_free)

G_END_DECLS
