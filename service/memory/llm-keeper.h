/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Keeps the service within what memory there is: waits for pressure sources, reads, asks the
 * policy, sets the ledger's ceiling, and has the governor give back. The user of it owns it. Main
 * thread.
 */

#pragma once

#include "memory/llm-governor.h"
#include "memory/llm-memory-policy.h"
#include "memory/llm-pressure-source.h"

G_BEGIN_DECLS

typedef struct _LlmKeeper LlmKeeper;

/* What it asks of its user, and tells. */
typedef struct
{
  gboolean (*is_busy)    (gpointer data);  /* calls run */
  gboolean (*is_trimmed) (gpointer data);  /* somebody holds a trim */
  void     (*looked)     (gpointer data);  /* after each look */
  gpointer data;
} LlmKeeperUser;

typedef struct
{
  const char *root;      /* (nullable): stands for / when kernel files are read; for tests */
  gboolean reacts;       /* FALSE: it looks, and does nothing */
  guint64 reserve;       /* bytes, 0: a share of the limit */
} LlmKeeperConfig;

LlmKeeper *llm_keeper_new          (LlmGovernor           *governor,
                                    LlmLedger             *ledger,
                                    const LlmKeeperConfig *config,
                                    const LlmKeeperUser   *user);
void       llm_keeper_free         (LlmKeeper             *self);

/* The administrator's budget in bytes, 0 for the service's share of the machine: three quarters. */
void       llm_keeper_set_allowed  (LlmKeeper             *self,
                                    guint64                bytes);
/* Adds the sources that this machine has. */
void       llm_keeper_find_sources (LlmKeeper             *self);
/* From here on it does nothing any more. */
void       llm_keeper_stop         (LlmKeeper             *self);
/* Looks now, as after a signal of a source. */
void       llm_keeper_look         (LlmKeeper             *self);

/* For people: what was seen and done so far. */
typedef struct
{
  LlmMemoryReading reading;
  LlmMemoryAction action;
  guint64 allowed;       /* bytes */
  guint64 n_cuts;
  gint64 cut_us;         /* when the last one was, 0 for never */
  guint64 n_trims;       /* that the keeper asked for */
  guint64 regrown;       /* bytes that the budget grew by after cuts */
} LlmKeeperState;

const LlmKeeperState *llm_keeper_get_state (LlmKeeper     *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKeeper, llm_keeper_free)

G_END_DECLS
