/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-ledger.h"

#include "memory/llm-memory-policy.h"

struct _LlmLedger
{
  gatomicrefcount ref_count;
  guint64 held[LLM_N_LEDGER_ENTRIES]; /* atomic each */
  guint64 budget;              /* atomic */
  LlmCeiling ceiling;          /* atomic each */
  gboolean is_urgent;          /* atomic */
  GPtrArray *reclaimers;       /* (element-type LlmReclaimer) (owned) */
};

LlmLedger *
llm_ledger_new (void)
{
  LlmLedger *self = g_new0 (LlmLedger, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->reclaimers = g_ptr_array_new_with_free_func (g_free);
  self->ceiling = (LlmCeiling) { G_MAXUINT64, G_MAXUINT64, G_MAXUINT64 };
  return self;
}

LlmLedger *
llm_ledger_ref (LlmLedger *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_ledger_unref (LlmLedger *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_ptr_array_unref (self->reclaimers);
  g_free (self);
}

void
llm_ledger_add (LlmLedger *self,
                LlmHolder  holder,
                guint64    bytes)
{
  g_assert (holder < LLM_N_LEDGER_ENTRIES);
  __atomic_fetch_add (&self->held[holder], bytes, __ATOMIC_RELAXED);
}

void
llm_ledger_remove (LlmLedger *self,
                   LlmHolder  holder,
                   guint64    bytes)
{
  guint64 before;

  g_assert (holder < LLM_N_LEDGER_ENTRIES);
  before = __atomic_fetch_sub (&self->held[holder], bytes, __ATOMIC_RELAXED);
  g_assert (before >= bytes);
}

static guint64
load (const guint64 *number)
{
  return __atomic_load_n (number, __ATOMIC_RELAXED);
}

static guint64
subtract (guint64 from,
          guint64 bytes)
{
  return from > bytes ? from - bytes : 0;
}

guint64
llm_ledger_get (LlmLedger *self,
                LlmHolder  holder)
{
  gboolean has_absent = holder == LLM_HOLDER_WEIGHTS || holder == LLM_LEDGER_BACKED;

  g_assert (holder < LLM_N_LEDGER_ENTRIES);
  return subtract (load (&self->held[holder]),
                   has_absent ? load (&self->held[LLM_LEDGER_ABSENT]) : 0);
}

guint64
llm_ledger_get_total (LlmLedger *self)
{
  guint64 total = 0;

  for (guint i = 0; i < LLM_N_HOLDERS; i++)
    total += llm_ledger_get (self, i);
  return total;
}

guint64
llm_ledger_get_used_backed (LlmLedger *self)
{
  return subtract (load (&self->held[LLM_LEDGER_BACKED]), load (&self->held[LLM_LEDGER_SPARE]));
}

/* Other threads add and remove meanwhile. */
guint64
llm_ledger_get_anonymous (LlmLedger *self)
{
  guint64 total = 0;

  for (guint i = 0; i < LLM_N_HOLDERS; i++)
    total += load (&self->held[i]);
  return subtract (total, load (&self->held[LLM_LEDGER_BACKED]));
}

void
llm_ledger_set_budget (LlmLedger *self,
                       guint64    bytes)
{
  __atomic_store_n (&self->budget, bytes, __ATOMIC_RELAXED);
}

guint64
llm_ledger_get_budget (LlmLedger *self)
{
  return load (&self->budget);
}

guint64
llm_ledger_get_limit (LlmLedger *self)
{
  guint64 budget = llm_ledger_get_budget (self);

  return llm_memory_policy_leave_for_weights (budget > 0 ? budget : G_MAXUINT64,
                                              llm_ledger_get_used_backed (self));
}

void
llm_ledger_set_ceiling (LlmLedger        *self,
                        const LlmCeiling *ceiling)
{
  __atomic_store_n (&self->ceiling.now, ceiling->now, __ATOMIC_RELAXED);
  __atomic_store_n (&self->ceiling.urgent, ceiling->urgent, __ATOMIC_RELAXED);
  __atomic_store_n (&self->ceiling.most, ceiling->most, __ATOMIC_RELAXED);
}

void
llm_ledger_set_urgent (LlmLedger *self,
                       gboolean   is_urgent)
{
  __atomic_store_n (&self->is_urgent, is_urgent, __ATOMIC_RELAXED);
}

static guint64
get_ceiling (LlmLedger *self)
{
  guint64 now = load (&self->ceiling.now);

  if (__atomic_load_n (&self->is_urgent, __ATOMIC_RELAXED))
    return MAX (now, load (&self->ceiling.urgent));
  return now;
}

static gboolean
fits (guint64 held,
      guint64 bytes,
      guint64 limit)
{
  return limit == G_MAXUINT64 || (held <= limit && bytes <= limit - held);
}

gboolean
llm_ledger_has_budget (LlmLedger *self,
                       guint64    bytes)
{
  return fits (llm_ledger_get_anonymous (self), bytes, llm_ledger_get_limit (self));
}

gboolean
llm_ledger_has_room (LlmLedger *self,
                     guint64    bytes)
{
  return llm_ledger_has_budget (self, bytes)
         && fits (llm_ledger_get_anonymous (self), bytes, get_ceiling (self));
}

guint64
llm_ledger_get_headroom (LlmLedger *self)
{
  guint64 ceiling = get_ceiling (self);

  return ceiling == G_MAXUINT64 ? ceiling : subtract (ceiling, llm_ledger_get_anonymous (self));
}

guint64
llm_ledger_get_excess (LlmLedger *self)
{
  return subtract (llm_ledger_get_anonymous (self),
                   MIN (llm_ledger_get_limit (self), get_ceiling (self)));
}

gboolean
llm_ledger_may_wait (LlmLedger *self,
                     guint64    bytes)
{
  return llm_ledger_has_budget (self, bytes)
         && !fits (llm_ledger_get_anonymous (self), bytes,
                   load (&self->ceiling.now))
         && bytes <= load (&self->ceiling.most);
}

/* --- reclaimers --- */

void
llm_ledger_add_reclaimer (LlmLedger          *self,
                          const LlmReclaimer *reclaimer)
{
  g_ptr_array_add (self->reclaimers, g_memdup2 (reclaimer, sizeof *reclaimer));
}

GPtrArray *
llm_ledger_get_reclaimers (LlmLedger *self)
{
  return self->reclaimers;
}

guint64
llm_ledger_get_reclaimable (LlmLedger     *self,
                            LlmReclaimCost cost)
{
  guint64 bytes = 0;

  for (guint i = 0; i < self->reclaimers->len; i++)
    {
      const LlmReclaimer *reclaimer = g_ptr_array_index (self->reclaimers, i);

      if (reclaimer->cost == cost)
        bytes += reclaimer->get_held (reclaimer->holder);
    }
  return bytes;
}
