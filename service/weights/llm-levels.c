/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-levels.h"

LlmLevels *
llm_levels_open (LlmModel   *model,
                 LlmLedger  *ledger,
                 GError    **error)
{
  GError *cause = NULL;
  g_autoptr(LlmCompanion) companion = llm_companion_open (model, error);
  g_autoptr(LlmLevels) self = NULL;

  if (companion == NULL)
    return NULL;
  self = g_new0 (LlmLevels, 1);
  self->companion = g_steal_pointer (&companion);
  for (guint level = 0; level < self->companion->sub_models->n_levels; level++)
    {
      self->adapters[level] =
        llm_lora_new_for_level (self->companion, model, level, ledger, &cause);
      if (cause != NULL)
        {
          g_propagate_error (error, cause);
          return NULL;
        }
    }
  return g_steal_pointer (&self);
}

void
llm_levels_free (LlmLevels *self)
{
  for (guint level = 0; level < LLM_MAX_LEVELS; level++)
    g_clear_pointer (&self->adapters[level], llm_lora_unref);
  llm_companion_unref (self->companion);
  g_free (self);
}
