/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-executor.h"
#include "runtime/llm-executor-private.h"

/* On the executor's thread, which looks into its inbox between any two stages: so this comes late
 * in the middle of a long one, and never when the thread hangs. */
static void
answer_probe (gpointer data)
{
  LlmExecutor *self = data;

  __atomic_store_n (&self->has_answered, TRUE, __ATOMIC_RELEASE);
}

guint
llm_executor_probe (LlmExecutor *self)
{
  if (self->n_unanswered > 0 && !__atomic_load_n (&self->has_answered, __ATOMIC_ACQUIRE))
    return self->n_unanswered++;

  __atomic_store_n (&self->has_answered, FALSE, __ATOMIC_RELAXED);
  self->n_unanswered = 1;
  llm_mailbox_post (self->inbox, answer_probe, self, NULL);
  return 0;
}
