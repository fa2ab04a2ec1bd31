/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text that the database also has, as a memory holder. */

#include "engine/contexts/llm-engine-contexts.h"

/* Drops text until @bytes are freed; with 0 only counts the bytes that could be. */
static guint64
forget_text (LlmEngine *self,
             guint64    bytes)
{
  GHashTableIter iter;
  LlmContext *context;
  guint64 n = 0;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while ((bytes == 0 || n < bytes) && g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      guint64 held = llm_context_get_forgettable (context);

      if (bytes > 0 && held > 0)
        llm_context_forget (context);
      n += held;
    }
  return n;
}

static guint64
get_text (gpointer holder)
{
  return forget_text (holder, 0);
}

static void
give_text (gpointer       holder,
           guint64        bytes,
           gint64         deadline_us,
           LlmReclaimDone done,
           gpointer       data)
{
  done (bytes > 0 ? forget_text (holder, bytes) : 0, data);
}

void
llm_engine_add_text_reclaimer (LlmEngine *self)
{
  const LlmReclaimer reclaimer = {
    "text", LLM_RECLAIM_CHEAP, get_text, give_text, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &reclaimer);
}
