/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Eviction: which chunks of which application go, and which request is preempted. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"

/* A preempted request goes on after this time. */
#define PREEMPT_US 100000

/* What an application's contexts hold. */
typedef struct
{
  LlmApp *app;        /* (unowned) */
  guint64 bytes;
  guint64 idle;       /* of these, of contexts that no request uses */
  double quota;       /* a fraction; 0 for an equal part */
  guint64 allowed;
  gboolean is_done;   /* nothing more can be evicted now */
} Part;

static guint64
get_own_bytes (const LlmSession *session)
{
  return session->seq != NULL ? llm_kv_seq_get_own_bytes (session->seq) : 0;
}

/* Of all instances. */
static guint64
get_kv_bytes (LlmExecutor *self)
{
  guint64 bytes = 0;

  LLM_EACH (LlmRunner, runner, self->runners)
    bytes += runner->instance->store->bytes;
  return bytes;
}

/* The idle session with chunks that was least recently used, after @after_us, of @app (nullable:
 * any). */
static LlmSession *
find_oldest (LlmExecutor *self,
             LlmApp      *app,
             gint64       after_us)
{
  LlmSession *oldest = NULL;

  LLM_EACH (LlmRunner, runner, self->runners)
    LLM_EACH_VALUE (LlmSession, session, runner->sessions)
      if (!session->is_busy && (app == NULL || session->app == app) && session->used_us > after_us
          && (oldest == NULL || session->used_us < oldest->used_us) && get_own_bytes (session) > 0)
        oldest = session;
  return oldest;
}

/* --- quotas --- */

typedef struct
{
  LlmCommand base;
  GHashTable *quotas;       /* (nullable) (owned) */
  double default_quota;
} Quotas;

static void
clear_quotas (LlmCommand *base)
{
  g_clear_pointer (&((Quotas *) base)->quotas, g_hash_table_unref);
}

static void
take_quotas (LlmCommand *base)
{
  Quotas *command = (Quotas *) base;

  llm_memory_shares_set (&base->executor->memory.shares, g_steal_pointer (&command->quotas),
                         command->default_quota);
}

void
llm_executor_set_memory_quotas (LlmExecutor *self,
                                double       default_quota,
                                GHashTable  *quotas)
{
  Quotas *command = llm_command_new_of (Quotas, self, take_quotas, clear_quotas);

  command->default_quota = default_quota;
  command->quotas = quotas;
  llm_command_send (&command->base);
}

/* --- the ratio --- */

typedef struct
{
  LlmCommand base;
  double ratio;
} Ratio;

static void
take_ratio (LlmCommand *base)
{
  const double ratio = ((Ratio *) base)->ratio;

  base->executor->instance_config.kv_ratio = ratio;
  LLM_EACH (LlmRunner, runner, base->executor->runners)
    llm_instance_set_kv_ratio (runner->instance, ratio);
}

void
llm_executor_set_kv_ratio (LlmExecutor *self,
                           double       ratio)
{
  Ratio *command = llm_command_new_of (Ratio, self, take_ratio, NULL);

  command->ratio = ratio;
  llm_command_send (&command->base);
}

/* --- quotas: who goes --- */

guint64
llm_executor_get_capacity (LlmExecutor *self)
{
  guint64 kv = get_kv_bytes (self);
  guint64 limit = llm_ledger_get_limit (self->ledger);
  guint64 others = llm_ledger_get_anonymous (self->ledger);

  others -= MIN (others, kv);
  if (limit == G_MAXUINT64)
    return limit;
  return limit > others ? limit - others : 0;
}

/* Creates it if the application has none. */
static Part *
get_part (GArray *parts,
          LlmApp *app)
{
  LLM_EACH_IN (Part, part, parts)
    if (part->app == app)
      return part;
  g_array_append_val (parts, ((Part) { .app = app }));
  return &g_array_index (parts, Part, parts->len - 1);
}

/* (element-type Part) (transfer full): of all applications with KV memory. */
static GArray *
list_parts (LlmExecutor *self)
{
  GArray *parts = g_array_new (FALSE, FALSE, sizeof (Part));
  guint64 held = get_kv_bytes (self);
  guint64 capacity = llm_ledger_get_budget (self->ledger) > 0 ? llm_executor_get_capacity (self)
                                                              : held;

  LLM_EACH (LlmRunner, runner, self->runners)
    LLM_EACH_VALUE (LlmSession, session, runner->sessions)
      {
        guint64 bytes = get_own_bytes (session);
        Part *part = bytes > 0 ? get_part (parts, session->app) : NULL;

        if (part == NULL)
          continue;
        part->bytes += bytes;
        part->idle += session->is_busy ? 0 : bytes;
      }
  LLM_EACH_IN (Part, part, parts)
    {
      part->quota = llm_memory_shares_get (&self->memory.shares, part->app);
      part->allowed =
          part->quota > 0 ? (guint64) (part->quota * (double) capacity) : held / parts->len;
    }
  return parts;
}

/* Bytes of idle contexts beyond the quota: running requests never count against the application's
 * own idle contexts. */
static guint64
get_excess (const Part *part)
{
  return part->bytes > part->allowed ? MIN (part->bytes - part->allowed, part->idle) : 0;
}

/* Evicts @bytes of the contexts of @app, least recently used first. */
static guint64
evict_from_app (LlmExecutor *self,
                LlmApp      *app,
                guint64      bytes,
                gboolean     in_haste)
{
  guint64 freed = 0;
  gint64 after_us = G_MININT64;
  LlmSession *session;

  while (freed < bytes && (session = find_oldest (self, app, after_us)) != NULL)
    {
      after_us = session->used_us;
      freed += llm_kv_seq_evict (session->seq, bytes - freed, in_haste);
    }
  return freed;
}

static Part *
find_most_over (GArray *parts)
{
  Part *most = NULL;

  LLM_EACH_IN (Part, part, parts)
    if (!part->is_done && get_excess (part) > 0
        && (most == NULL || get_excess (part) > get_excess (most)))
      most = part;
  return most;
}

guint64
llm_executor_evict_over_quota (LlmExecutor *self,
                               guint64      bytes,
                               gboolean     in_haste)
{
  g_autoptr(GArray) parts = list_parts (self);
  guint64 freed = 0;
  Part *part;

  while (freed < bytes && (part = find_most_over (parts)) != NULL)
    {
      freed += evict_from_app (self, part->app, MIN (get_excess (part), bytes - freed), in_haste);
      part->is_done = TRUE;
    }
  return freed;
}

void
llm_executor_keep_quotas (LlmExecutor *self)
{
  g_autoptr(GArray) parts = NULL;

  if (self->memory.shares.kept_us > self->steps.ran_us || llm_ledger_get_budget (self->ledger) == 0)
    return;
  self->memory.shares.kept_us = llm_clock_now_us ();
  parts = list_parts (self);
  LLM_EACH_IN (const Part, part, parts)
    {
      guint64 excess = get_excess (part);

      if (part->quota > 0 && excess > 0 && evict_from_app (self, part->app, excess, FALSE) > 0)
        self->news.is_told = FALSE;
    }
}

/* --- eviction --- */

guint64
llm_executor_drop_prefixes (LlmExecutor *self,
                            guint64      bytes)
{
  guint64 freed = 0;

  LLM_EACH (LlmRunner, runner, self->runners)
    if (freed < bytes)
      freed += llm_kv_store_drop_kept (runner->instance->store, bytes - freed);
  return freed;
}

void
llm_executor_trim_stores (LlmExecutor *self)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    llm_kv_store_trim (runner->instance->store);
}

guint64
llm_executor_evict (LlmExecutor *self,
                    guint64      bytes)
{
  guint64 freed = llm_executor_drop_prefixes (self, bytes);
  LlmSession *session;

  if (freed < bytes)
    freed += llm_executor_evict_over_quota (self, bytes - freed, TRUE);
  LLM_EACH (LlmRunner, runner, self->runners)
    if (freed < bytes)
      freed += llm_kv_store_evict (runner->instance->store, bytes - freed, TRUE);

  /* Chunks that are being written stay, because stores can't evict them. Forks share chunks, so the
   * freed bytes are what the stores report. */
  while (freed < bytes && (session = find_oldest (self, NULL, G_MININT64)) != NULL)
    {
      guint64 before = get_kv_bytes (self);

      llm_session_drop (session);
      freed += before - get_kv_bytes (self);
    }
  self->news.is_told = FALSE;
  return freed;
}

guint64
llm_executor_make_room (LlmExecutor *self,
                        guint64      bytes)
{
  guint64 freed;

  /* free pages may stay for the next chunks, but not beyond the budget */
  if (llm_ledger_get_excess (self->ledger) > 0)
    llm_executor_trim_stores (self);
  freed = llm_executor_evict (self, bytes + llm_ledger_get_excess (self->ledger));
  self->memory.displaced_bytes += freed;
  return freed;
}

/* --- preemption --- */

LlmRequest *
llm_executor_find_preemptible (LlmExecutor *self)
{
  LlmRequest *best = NULL;

  LLM_EACH (LlmRequest, request, self->requests)
    if (request->room.is_resident
        && (best == NULL || request->slo.class > best->slo.class
            || (request->slo.class == best->slo.class
                && request->arrived_us >= best->arrived_us)))
      best = request;
  return best;
}

void
llm_request_preempt (LlmRequest *request)
{
  gint64 now = llm_clock_now_us ();

  llm_request_leave_steps (request);
  llm_request_release (request);
  llm_kv_seq_preempt (request->session->seq);
  request->room.is_resident = FALSE;
  request->session->n_settled = 0;
  if (request->room.preempted_us == 0)
    request->room.preempted_us = now;
  request->room.resume_us = now + PREEMPT_US;
  llm_sched_entry_set_suspended (&request->entry, TRUE);
}
