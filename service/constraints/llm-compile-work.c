/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-compile-work.h"

#include <malloc.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"

#define STEPS_BETWEEN_TIMES 20000
/* What free() would keep of it is not worth looking for. */
#define MUCH_BYTES ((gint64) 8 << 20)

static _Thread_local LlmCompileWork *current;

/* The ledger is shared by all threads: it is updated in pieces of this size. */
#define COUNTED_PIECE ((guint64) 1 << 20)

static void
count_in_ledger (LlmCompileWork *self,
                 guint64         bytes)
{
  if (self->ledger == NULL)
    return;
  bytes = bytes / COUNTED_PIECE * COUNTED_PIECE;
  if (bytes > self->counted_bytes)
    llm_ledger_add (self->ledger, LLM_HOLDER_CONSTRAINTS, bytes - self->counted_bytes);
  else if (bytes < self->counted_bytes)
    llm_ledger_remove (self->ledger, LLM_HOLDER_CONSTRAINTS, self->counted_bytes - bytes);
  self->counted_bytes = bytes;
}

void
llm_compile_work_begin (LlmCompileWork *self,
                        LlmLedger      *ledger,
                        GCancellable   *cancellable)
{
  *self = (LlmCompileWork) {
    .ledger = ledger,
    .cancellable = cancellable,
    .end_us = llm_clock_thread_us () + LLM_COMPILE_MAX_S * G_USEC_PER_SEC,
  };
  current = self;
}

gboolean
llm_compile_work_end (LlmCompileWork *self,
                      GError        **error)
{
  current = NULL;
  count_in_ledger (self, 0);
  if (self->most_bytes > MUCH_BYTES)
    malloc_trim (0);
  if (self->is_cancelled)
    return llm_fail (error, LLMSVC_ERROR_CANCELLED, "The caller left");
  if (self->is_late)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "it is too large: compiling it takes more than %d s of the processor's time",
                     LLM_COMPILE_MAX_S);
  return !self->is_large
         || llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                      "it is too large: compiling it takes more than %d MiB of memory",
                      LLM_COMPILE_MAX_MIB);
}

gboolean
llm_compile_work_count (guint64 n_steps,
                        gint64  n_bytes)
{
  LlmCompileWork *self = current;

  if (self == NULL)
    return TRUE;
  self->n_steps += n_steps;
  self->n_bytes += n_bytes;
  self->most_bytes = MAX (self->most_bytes, self->n_bytes);
  count_in_ledger (self, (guint64) MAX (self->n_bytes, 0));
  self->is_large |= self->n_bytes > (gint64) LLM_COMPILE_MAX_MIB << 20;
  if (self->n_steps >= STEPS_BETWEEN_TIMES)
    {
      self->n_steps = 0;
      self->is_late |= llm_clock_thread_us () > self->end_us;
      self->is_cancelled |= g_cancellable_is_cancelled (self->cancellable);
    }
  return !self->is_late && !self->is_large && !self->is_cancelled;
}
