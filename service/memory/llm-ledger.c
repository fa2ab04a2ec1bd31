/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-ledger.h"

struct _LlmLedger
{
  gatomicrefcount ref_count;
  guint64 held[LLM_N_HOLDERS]; /* atomic each */
  guint64 backed;              /* atomic */
  guint64 absent;              /* atomic: of backed */
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
  g_assert (holder < LLM_N_HOLDERS);
  __atomic_fetch_add (&self->held[holder], bytes, __ATOMIC_RELAXED);
}

void
llm_ledger_remove (LlmLedger *self,
                   LlmHolder  holder,
                   guint64    bytes)
{
  guint64 before;

  g_assert (holder < LLM_N_HOLDERS);
  before = __atomic_fetch_sub (&self->held[holder], bytes, __ATOMIC_RELAXED);
  g_assert (before >= bytes);
}

static guint64
get_absent (LlmLedger *self)
{
  return __atomic_load_n (&self->absent, __ATOMIC_RELAXED);
}

guint64
llm_ledger_get (LlmLedger *self,
                LlmHolder  holder)
{
  guint64 held;
  guint64 absent;

  g_assert (holder < LLM_N_HOLDERS);
  held = __atomic_load_n (&self->held[holder], __ATOMIC_RELAXED);
  absent = holder == LLM_HOLDER_WEIGHTS ? get_absent (self) : 0;
  return held > absent ? held - absent : 0;
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
llm_ledger_get_counted (LlmLedger *self)
{
  guint64 total = 0;

  for (guint i = 0; i < LLM_N_HOLDERS; i++)
    total += __atomic_load_n (&self->held[i], __ATOMIC_RELAXED);
  return total;
}

void
llm_ledger_add_backed (LlmLedger *self,
                       guint64    bytes)
{
  __atomic_fetch_add (&self->backed, bytes, __ATOMIC_RELAXED);
}

void
llm_ledger_remove_backed (LlmLedger *self,
                          guint64    bytes)
{
  guint64 before = __atomic_fetch_sub (&self->backed, bytes, __ATOMIC_RELAXED);

  g_assert (before >= bytes);
}

void
llm_ledger_add_absent (LlmLedger *self,
                       guint64    bytes)
{
  __atomic_fetch_add (&self->absent, bytes, __ATOMIC_RELAXED);
}

void
llm_ledger_remove_absent (LlmLedger *self,
                          guint64    bytes)
{
  guint64 before = __atomic_fetch_sub (&self->absent, bytes, __ATOMIC_RELAXED);

  g_assert (before >= bytes);
}

guint64
llm_ledger_get_used_backed (LlmLedger *self)
{
  return __atomic_load_n (&self->backed, __ATOMIC_RELAXED);
}

guint64
llm_ledger_get_backed (LlmLedger *self)
{
  guint64 backed = llm_ledger_get_used_backed (self);
  guint64 absent = get_absent (self);

  return backed > absent ? backed - absent : 0;
}

/* Others add and remove meanwhile. */
guint64
llm_ledger_get_anonymous (LlmLedger *self)
{
  guint64 backed = llm_ledger_get_used_backed (self);
  guint64 total = llm_ledger_get_counted (self);

  return total > backed ? total - backed : 0;
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
  return __atomic_load_n (&self->budget, __ATOMIC_RELAXED);
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
  guint64 now = __atomic_load_n (&self->ceiling.now, __ATOMIC_RELAXED);

  if (__atomic_load_n (&self->is_urgent, __ATOMIC_RELAXED))
    return MAX (now, __atomic_load_n (&self->ceiling.urgent, __ATOMIC_RELAXED));
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
  guint64 budget = llm_ledger_get_budget (self);

  return budget == 0 || fits (llm_ledger_get_counted (self), bytes, budget);
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
  guint64 anonymous = llm_ledger_get_anonymous (self);

  if (ceiling == G_MAXUINT64)
    return G_MAXUINT64;
  return ceiling > anonymous ? ceiling - anonymous : 0;
}

guint64
llm_ledger_get_excess (LlmLedger *self)
{
  guint64 budget = llm_ledger_get_budget (self);
  guint64 total = llm_ledger_get_counted (self);
  guint64 ceiling = get_ceiling (self);
  guint64 anonymous = llm_ledger_get_anonymous (self);
  guint64 excess = 0;

  if (budget > 0 && total > budget)
    excess = total - budget;
  if (anonymous > ceiling)
    excess = MAX (excess, anonymous - ceiling);
  return excess;
}

gboolean
llm_ledger_may_wait (LlmLedger *self,
                     guint64    bytes)
{
  return llm_ledger_has_budget (self, bytes)
         && !fits (llm_ledger_get_anonymous (self), bytes,
                   __atomic_load_n (&self->ceiling.now, __ATOMIC_RELAXED))
         && bytes <= __atomic_load_n (&self->ceiling.most, __ATOMIC_RELAXED);
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
