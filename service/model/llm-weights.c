/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/llm-weights.h"

/* Who reads the ledger meanwhile must never take memory of files for the other kind. */
void
llm_weights_set_held (LlmWeights *self,
                      LlmLedger  *ledger,
                      guint64     held,
                      guint64     backed)
{
  guint64 held_before = self->held;
  guint64 backed_before = self->backed;

  self->held = held;
  self->backed = backed;
  if (ledger == NULL)
    return;
  if (backed > backed_before)
    llm_ledger_add_backed (ledger, backed - backed_before);
  if (held > held_before)
    llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, held - held_before);
  else
    llm_ledger_remove (ledger, LLM_HOLDER_WEIGHTS, held_before - held);
  if (backed < backed_before)
    llm_ledger_remove_backed (ledger, backed_before - backed);
}

gboolean
llm_weights_check (LlmWeights  *self,
                   GError     **error)
{
  g_return_val_if_fail (self != NULL, FALSE);

  return self->provider->check (self, error);
}

void
llm_weights_free (LlmWeights *self)
{
  g_return_if_fail (self != NULL);

  self->provider->free (self);
}
