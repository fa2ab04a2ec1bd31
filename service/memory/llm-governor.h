/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decides how much memory the service holds: waits for pressure sources, reads, asks the policy,
 * sets the ledger's ceiling, and asks holders to release memory. Main thread.
 */

#pragma once

#include "memory/llm-memory-policy.h"
#include "memory/llm-reclaim-queue.h"

G_BEGIN_DECLS

typedef struct _LlmGovernor LlmGovernor;

typedef struct
{
  const char *root;      /* (nullable): stands for / when kernel files are read; for tests */
  gboolean reacts;       /* FALSE: it measures, but does not reclaim */
  guint64 reserve;       /* bytes, 0: a fraction of the limit */
} LlmGovernorConfig;

/* @wake (@data): asks for a call of llm_governor_look(). */
LlmGovernor *llm_governor_new         (LlmLedger               *ledger,
                                       const LlmGovernorConfig *config,
                                       void                   (*wake) (gpointer data),
                                       gpointer                 data);
void         llm_governor_free        (LlmGovernor             *self);

/* The administrator's budget in bytes, 0 for the service's part of the machine: three quarters. */
void         llm_governor_set_allowed (LlmGovernor             *self,
                                       guint64                  bytes);
/* Bytes that requests get beside weights, whatever is allowed. */
void         llm_governor_set_work    (LlmGovernor             *self,
                                       guint64                  bytes);
/* Waits for the sources that this machine has. */
void         llm_governor_start       (LlmGovernor             *self);
/* After this it does nothing, and does not call @wake. */
void         llm_governor_stop        (LlmGovernor             *self);
/* Reads, decides, acts. @is_busy: requests run; @is_held: a client holds a trim. */
void         llm_governor_look        (LlmGovernor             *self,
                                       gboolean                 is_busy,
                                       gboolean                 is_held);
/* Bytes over what is allowed, as of the last look. Of those with @is_busy not what goes by itself: while
 * requests run, pages that don't stay are released by those who run them. */
guint64      llm_governor_get_excess  (LlmGovernor             *self,
                                       gboolean                 is_busy);
/* Asks holders to release memory, after earlier requests. @func is called once, later. */
void         llm_governor_reclaim     (LlmGovernor             *self,
                                       const LlmReclaimRequest *request,
                                       LlmReclaimFunc           func,
                                       gpointer                 data);

/* Figures for users: readings and actions so far. */
typedef struct
{
  LlmMemoryReading reading;
  LlmMemoryAction action;
  guint64 allowed;       /* bytes */
  guint64 n_cuts;
  gint64 cut_us;         /* when the last one was, 0 for never */
  guint64 n_reclaims;    /* that the governor asked for */
  guint64 regrown;       /* bytes that the budget grew by after cuts */
} LlmGovernorState;

const LlmGovernorState *llm_governor_get_state (LlmGovernor    *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmGovernor, llm_governor_free)

G_END_DECLS
