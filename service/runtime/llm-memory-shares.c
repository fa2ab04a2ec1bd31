/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-memory-shares.h"

void
llm_memory_shares_clear (LlmMemoryShares *self)
{
  g_clear_pointer (&self->fractions, g_hash_table_unref);
}

void
llm_memory_shares_set (LlmMemoryShares *self,
                       GHashTable      *fractions,
                       double           others)
{
  llm_memory_shares_clear (self);
  *self = (LlmMemoryShares) { .fractions = fractions, .others = others };
}

double
llm_memory_shares_get (const LlmMemoryShares *self,
                       LlmApp                *app)
{
  const double *fraction =
      self->fractions != NULL ? g_hash_table_lookup (self->fractions, app) : NULL;

  return fraction != NULL ? *fraction : self->others;
}
