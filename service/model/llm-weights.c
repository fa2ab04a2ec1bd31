/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/llm-weights.h"

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
