/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Prefixes that contexts of one application share (L15). The KV cache of a context's first prompt
 * is kept as it was computed, beside its quantized chunks, while memory is not short. A context
 * with the same prefix that takes it gets exactly, to the bit, what it would have computed itself.
 * Quantized chunks differ from that, so only a context that allows it takes them. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"

/* Prefixes of one application. */
#define MAX_PREFIXES 8
/* Prefixes may take this part of the memory for contexts. */
#define CAPACITY_PARTS 4

static void
look_at (LlmRequest       *request,
         LlmSession       *session,
         const GByteArray *states,
         guint             n_max,
         gboolean          any,
         LlmSession      **best,
         guint            *n_best)
{
  guint n = 0;

  if (session != request->session && session->app == request->session->app)
    n = llm_session_count_shareable (session, request->prompt, states, n_max, any);
  if (n > *n_best)
    {
      *n_best = n;
      *best = session;
    }
}

/* Returns how many tokens @best (out) (nullable) has. Never of another application: the time to the
 * first token would reveal the prompts of others. */
static guint
find_shareable (LlmRequest       *request,
                const GByteArray *states,
                guint             n_max,
                LlmSession      **best)
{
  LlmRunner *runner = request->runner;
  guint n_best = 0;

  *best = NULL;
  for (GList *l = runner->prefixes.tail; l != NULL; l = l->prev)
    look_at (request, l->data, states, n_max, FALSE, best, &n_best);
  for (int any = FALSE; any <= request->memory.shares_any; any++)
    LLM_EACH_VALUE (LlmSession, session, runner->sessions)
      look_at (request, session, states, n_max, any, best, &n_best);
  return n_best;
}

guint
llm_request_count_shareable (LlmRequest       *request,
                             const GByteArray *states,
                             guint             n_max)
{
  LlmSession *best;

  return find_shareable (request, states, n_max, &best);
}

void
llm_request_share_prefix (LlmRequest *request,
                          guint       n_max)
{
  LlmRunner *runner = request->runner;
  LlmSession *best;
  guint n_best = find_shareable (request, request->states, n_max, &best);
  GList *kept;

  if (best == NULL)
    return;

  kept = g_queue_find (&runner->prefixes, best);
  if (kept != NULL)
    {
      g_queue_unlink (&runner->prefixes, kept);
      g_queue_push_tail_link (&runner->prefixes, kept);
    }
  llm_session_share (request->session, best, n_best);
}

/* Drops prefixes whose memory was evicted, and the oldest ones beyond the number that @app may
 * have. */
static void
remove_old (LlmRunner *self,
            LlmApp    *app)
{
  guint n = 0;

  for (GList *l = self->prefixes.tail, *before; l != NULL; l = before)
    {
      LlmSession *session = l->data;

      before = l->prev;
      n += session->app == app;
      if (session->seq->length > 0 && (session->app != app || n <= MAX_PREFIXES))
        continue;
      llm_session_free (session);
      g_queue_delete_link (&self->prefixes, l);
    }
}

/* Limits the prefixes to their part of the memory for contexts. */
void
llm_request_keep_prefix (LlmRequest *request)
{
  LlmRunner *runner = request->runner;
  LlmSession *session = request->session;
  LlmKvStore *store = session->store;
  guint slots = store->layout.chunk_slots;
  guint64 most = llm_executor_get_capacity (request->executor) / CAPACITY_PARTS;
  guint64 chunk_bytes = llm_kv_store_get_chunk_bytes (store, store->layout.format);
  guint n;

  if (session->id == 0 || session->used_us != 0 || store->policy.compression == LLM_KV_KEEP)
    return;

  n = MIN (llm_kv_seq_count_exact (session->seq), request->prompt->len);
  n = (guint) MIN (n / slots, most / chunk_bytes) * slots;
  if (n == 0)
    return;

  g_queue_push_tail (&runner->prefixes, llm_session_keep (session, n));
  remove_old (runner, session->app);
  while (llm_kv_store_count_kept (store) > most)
    llm_session_free (g_queue_pop_head (&runner->prefixes));
}
