/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The scheduler's view of a request, which embeds it: numbers only. The owner fills in the first
 * part before llm_scheduler_add() and changes it through the functions below afterwards. The
 * executor's thread owns it from then on.
 */

#pragma once

#include "base/llm-app.h"
#include "sched/llm-slo.h"

G_BEGIN_DECLS

typedef struct _LlmScheduler LlmScheduler;

/* Batch queues: a step of each may be under way. Requests that decode share one; those that prefill
 * have one by class, or a separate one when they are far ahead. */
typedef enum
{
  LLM_QUEUE_DECODE,
  LLM_QUEUE_PREFILL,        /* + LlmSloClass */
  LLM_QUEUE_AHEAD = LLM_QUEUE_PREFILL + LLM_N_SLO_CLASSES,
  LLM_N_QUEUES,
  LLM_QUEUE_NONE = LLM_N_QUEUES,
} LlmQueueKind;

typedef struct
{
  LlmApp *app;              /* (unowned): outlives the entry */
  LlmSlo slo;
  gint64 arrived_us;
  guint n_prompt;           /* rows of prefill that are left; 0: it decodes */
  guint n_decode;           /* rows that it would have in a decode step; at least 1 */
  guint depth;              /* positions before the next row */
  guint lacking;            /* levels of the model's table that its sub-model lacks: 0 for the whole
                             * model; see llm-level-costs.h */
  guint sparse;             /* number of the sparsity with which its answer's rows are read; 0: they
                             * are read whole */
  guint64 restore_bytes;    /* being read from storage */

  /*< private >: the scheduler's */
  LlmScheduler *scheduler;  /* (unowned) (nullable): NULL before it is added */
  struct _LlmAccount *account; /* (unowned): its parent is the user's */
  guint n_running;          /* rows in a step under way */
  LlmQueueKind queue;       /* of that step */
  gboolean is_suspended;
  gint64 suspended_us;      /* since when; 0: it is not, or it was not noticed yet */
  guint64 arrival;          /* running number */
  guint64 last_turn;        /* running number of the step that served it last */
  gint64 first_us;          /* of the first token, 0 before */
  gint64 last_us;
  guint n_tokens;

  /* as of the last look, llm_scheduler_look() */
  double left_us;           /* of work, until its prefill has ended */
  gint64 due_us;            /* when its next token is due */
  guint ahead;              /* LlmAhead */
  guint over;               /* LlmAhead: of those that are over their share */
  gboolean is_held;         /* it decodes, but its user or application already has its row in the
                             * step */
  gboolean is_lost;         /* its first token will be late in any case */
  gboolean is_taken;        /* while decodes are chosen */
} LlmSchedEntry;

/* How many rows of prefill are left now. */
void llm_sched_entry_set_n_prompt  (LlmSchedEntry *self,
                                    guint          n_prompt);
/* How many rows it would have in its next step of decode; at least 1. */
void llm_sched_entry_set_n_decode  (LlmSchedEntry *self,
                                    guint          n_decode);
/* Its next rows are of this sub-model, and so sparse. */
void llm_sched_entry_set_level     (LlmSchedEntry *self,
                                    guint          lacking,
                                    guint          sparse);
/* Of the rows of its last decode step, @n were not kept. */
void llm_sched_entry_take_back     (LlmSchedEntry *self,
                                    guint          n);
/* A suspended request gets no rows; nothing else changes for it or others. */
void llm_sched_entry_set_suspended (LlmSchedEntry *self,
                                    gboolean       is_suspended);
/* The chunks that were read from storage have arrived. */
void llm_sched_entry_set_restored  (LlmSchedEntry *self);
/* It generated a token. */
void llm_sched_entry_note_token    (LlmSchedEntry *self,
                                    gint64         now_us);

G_END_DECLS
