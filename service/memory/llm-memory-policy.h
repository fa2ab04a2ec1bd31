/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What to do about a reading: how much the service may hold now, what it releases, and how dear
 * that may be. Acts fast, returns slowly. A pure function of its state and what it is told; it
 * reads no file, asks no clock, and is the same in the service, in tests and in simulations. Any
 * thread.
 */

#pragma once

#include "memory/llm-memory-reading.h"

G_BEGIN_DECLS

/* What the service holds. */
typedef struct
{
  guint64 anonymous;        /* bytes that only we can release, */
  guint64 idle;             /* and of these, that no call uses: they go before weights do */
  guint64 backed;           /* bytes of files in memory: the kernel may take them too */
  guint64 used;             /* bytes of files that calls read, in memory or not */
  guint64 allowed;          /* bytes: the administrator's budget, or the service's share of the
                             * machine */
  guint64 work;             /* bytes of allowed that calls find beside weights */
  guint64 reserve;          /* bytes to leave free under the tightest limit, 0 for a share of it */
  gboolean is_deaf;         /* only what is allowed counts */
  gboolean is_busy;         /* calls run */
  gboolean is_trimmed;      /* a caller holds a trim: no growth */
} LlmMemoryHeld;

/* Which new calls get a smaller sub-model: one class after the other, never interactive calls. */
typedef enum
{
  LLM_LOWERED_NONE,
  LLM_LOWERED_BACKGROUND,
  LLM_LOWERED_RESPONSIVE,  /* and background calls */
} LlmMemoryLowered;

typedef struct
{
  LlmPressure level;
  guint64 budget;           /* bytes that may be held now */
  guint64 urgent_budget;    /* of these and the reserve, what a call may take that has waited too
                             * long */
  guint64 give_anonymous;   /* bytes to release at once */
  guint64 give_backed;      /* bytes of file pages to release, while nothing runs */
  guint64 keep_backed;      /* bytes of files that may stay in memory between steps of running
                             * calls */
  LlmPressure depth;        /* how dear giving may be, as of a trim */
  gboolean was_cut;         /* the budget is below what it was, because of pressure */
  gboolean may_grow;        /* it is calm: what was given may be had again */
  guint64 grow_backed;      /* bytes of files that may be read ahead of their use then */
  LlmMemoryLowered lowered;
  gboolean is_tight;        /* look again within LLM_MEMORY_TIGHT_MS */
} LlmMemoryAction;

#define LLM_MEMORY_CALM_MS 1000
#define LLM_MEMORY_TIGHT_MS 100

/* How long it must be calm before something grows again: twice as long after each growth that
 * ended in a cut. */
typedef struct
{
  gint64 cut_us;            /* when it was last cut; 0 for never */
  gint64 grown_us;          /* when it last grew */
  gint64 period_us;         /* how long it must be calm */
  guint64 n_cuts;
} LlmMemoryCalm;

typedef struct
{
  guint64 cut;              /* bytes: what pressure lets us hold; G_MAXUINT64 for no cut */
  guint64 budget;           /* as of the last decision; 0 before the first */
  gint64 calm_since_us;     /* 0 while it isn't */
  LlmMemoryCalm anonymous;  /* of cut */
  gint64 swept_us;          /* when the little that was held was last asked for; 0 for never */
  LlmMemoryCalm pages;      /* of file pages while nothing runs */
  guint64 backed;           /* bytes of files in memory at the last decision */
  LlmMemoryCalm kept;       /* of keep */
  guint64 keep;             /* bytes of files that may stay; G_MAXUINT64 for all */
  guint64 least_fit;        /* bytes of files that there was room for at any time since fit_us */
  gint64 fit_us;
  LlmMemoryLowered lowered;
  LlmMemoryCalm calls;      /* of lowered */
  gint64 pressed_us;        /* since when pressure is medium or more; 0 while it isn't */
} LlmMemoryPolicy;

/* Nothing is cut, and nothing is known yet. */
void llm_memory_policy_init   (LlmMemoryPolicy        *self);
/* Fills in what follows from @reading, which is later than the one before. */
void llm_memory_policy_decide (LlmMemoryPolicy        *self,
                               const LlmMemoryReading *reading,
                               const LlmMemoryHeld    *held,
                               LlmMemoryAction        *action);

/* Of a limit, what may be no file's beside @used bytes of weights in files: what they leave, and at
 * least half. Weights are read for each token and should not be driven out by contexts, as far as
 * both fit; where they don't, they can be read again, and contexts can't. */
static inline guint64
llm_memory_policy_leave_for_weights (guint64 limit,
                                     guint64 used)
{
  return limit == G_MAXUINT64 ? limit : limit - MIN (used, limit / 2);
}

/* What is left to others under a limit of so many bytes. */
guint64 llm_memory_policy_get_reserve (guint64          limit,
                                       gboolean         is_machine,
                                       gboolean         has_swap);

G_END_DECLS
