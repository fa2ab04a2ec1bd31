/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decides on a reading: how much the service may hold now, what it releases, and at which cost.
 * Acts fast, returns slowly. A pure function of its state and its input; it reads no file and no
 * clock, and is the same in the service, in tests and in simulations. Any thread.
 */

#pragma once

#include "memory/llm-memory-reading.h"

G_BEGIN_DECLS

/* What the service holds. */
typedef struct
{
  guint64 anonymous;        /* bytes that only the service can release, */
  guint64 idle;             /* and of these, idle ones: they are released before weights */
  guint64 backed;           /* bytes of files in memory: the kernel can reclaim them too */
  guint64 used;             /* bytes of files that requests read, in memory or not */
  guint64 allowed;          /* bytes: the administrator's budget, or the service's part of the
                             * machine */
  guint64 work;             /* bytes of allowed that requests get beside weights */
  guint64 reserve;          /* bytes to leave free under the tightest limit, 0 for a fraction of
                             * it */
  gboolean is_deaf;         /* only what is allowed counts */
  gboolean is_busy;         /* requests run */
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
  guint64 urgent_budget;    /* with the reserve, for a request that has waited too long */
  guint64 give_anonymous;   /* bytes to release at once */
  guint64 give_backed;      /* bytes of file pages to release, while nothing runs */
  guint64 keep_backed;      /* bytes of files that may stay in memory between steps of running
                             * requests */
  LlmPressure depth;        /* highest cost of the release, as the level of a trim */
  gboolean was_cut;         /* the budget is below what it was, because of pressure */
  gboolean may_grow;        /* no pressure: released memory may grow back */
  guint64 grow_backed;      /* bytes of files that may be read ahead then */
  LlmMemoryLowered lowered;
  gboolean is_tight;        /* look again within LLM_MEMORY_TIGHT_MS */
} LlmMemoryAction;

#define LLM_MEMORY_CALM_MS 1000
#define LLM_MEMORY_TIGHT_MS 100

/* Calm period before something grows again: doubled after each growth that ended in a cut. */
typedef struct
{
  gint64 cut_us;            /* when it was last cut; 0 for never */
  gint64 grown_us;          /* when it last grew */
  gint64 period_us;         /* how long it must be calm */
  guint64 n_cuts;
} LlmMemoryCalm;

typedef struct
{
  guint64 cut;              /* bytes that pressure allows; G_MAXUINT64 for no cut */
  guint64 budget;           /* as of the last decision; 0 before the first */
  gint64 calm_since_us;     /* 0 while it is not calm */
  LlmMemoryCalm anonymous;  /* of cut */
  gint64 swept_us;          /* when the last small rest was released; 0 for never */
  LlmMemoryCalm pages;      /* of file pages while nothing runs */
  guint64 backed;           /* bytes of files in memory at the last decision */
  LlmMemoryCalm kept;       /* of keep */
  guint64 keep;             /* bytes of files that may stay; G_MAXUINT64 for all */
  guint64 allowed;          /* at the last decision; 0 before the first */
  guint64 least_fit;        /* least bytes of files that fitted since fit_us */
  gint64 fit_us;
  LlmMemoryLowered lowered;
  LlmMemoryCalm calls;      /* of lowered */
  gint64 pressed_us;        /* since when pressure is medium or more; 0 below */
} LlmMemoryPolicy;

/* Begins without a cut and without a reading. */
void llm_memory_policy_init   (LlmMemoryPolicy        *self);
/* Decides on @reading, which is later than the one before. */
void llm_memory_policy_decide (LlmMemoryPolicy        *self,
                               const LlmMemoryReading *reading,
                               const LlmMemoryHeld    *held,
                               LlmMemoryAction        *action);

/* The part of a limit for anonymous memory, beside @used bytes of weights in files: what they
 * leave, and at least half. Weights are read for each token, so contexts should not evict them
 * while both fit; when they don't, weights can be read again, and contexts can't. */
static inline guint64
llm_memory_policy_leave_for_weights (guint64 limit,
                                     guint64 used)
{
  return limit == G_MAXUINT64 ? limit : limit - MIN (used, limit / 2);
}

/* Bytes that are left free for others under such a limit. */
guint64 llm_memory_policy_get_reserve (guint64          limit,
                                       gboolean         is_machine,
                                       gboolean         has_swap);

G_END_DECLS
