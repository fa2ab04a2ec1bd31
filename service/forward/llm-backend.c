/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-backend.h"

void
llm_backend_count (LlmBackend *self,
                   LlmLedger  *ledger)
{
  guint64 bytes = self->class->bytes (self);

  if (self->ledger == NULL && ledger != NULL)
    self->ledger = llm_ledger_ref (ledger);
  if (self->ledger == NULL || bytes == self->counted_bytes)
    return;
  if (bytes > self->counted_bytes)
    llm_ledger_add (self->ledger, LLM_HOLDER_SCRATCH, bytes - self->counted_bytes);
  else
    llm_ledger_remove (self->ledger, LLM_HOLDER_SCRATCH, self->counted_bytes - bytes);
  self->counted_bytes = bytes;
}

void
llm_backend_free (LlmBackend *self)
{
  if (self == NULL)
    return;

  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_SCRATCH, self->counted_bytes);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  self->class->free (self);
}
