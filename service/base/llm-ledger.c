/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-ledger.h"

struct _LlmLedger
{
  gatomicrefcount ref_count;
  guint64 held[LLM_N_HOLDERS]; /* atomic each */
  guint64 budget;              /* atomic */
};

LlmLedger *
llm_ledger_new (void)
{
  LlmLedger *self = g_new0 (LlmLedger, 1);

  g_atomic_ref_count_init (&self->ref_count);
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
  if (g_atomic_ref_count_dec (&self->ref_count))
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

guint64
llm_ledger_get (LlmLedger *self,
                LlmHolder  holder)
{
  g_assert (holder < LLM_N_HOLDERS);
  return __atomic_load_n (&self->held[holder], __ATOMIC_RELAXED);
}

guint64
llm_ledger_get_total (LlmLedger *self)
{
  guint64 total = 0;

  for (guint i = 0; i < LLM_N_HOLDERS; i++)
    total += llm_ledger_get (self, i);
  return total;
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

gboolean
llm_ledger_has_room (LlmLedger *self,
                     guint64    bytes)
{
  guint64 budget = llm_ledger_get_budget (self);
  guint64 total = llm_ledger_get_total (self);

  return budget == 0 || (total <= budget && bytes <= budget - total);
}
