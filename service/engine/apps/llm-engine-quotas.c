/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Quotas: limits of applications. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"

#include <math.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"

/* Limit of calls under way, of all applications together. */
#define MAX_CALLS 1000

/* Time after which a refused caller may try again. */
#define RETRY_MS 1000

/* A caller that could not be identified gets this part of every quota. */
#define UNKNOWN_DIVISOR 4

/* --- what is in force --- */

double
llm_engine_get_quota (LlmEngine           *self,
                      const LlmAppAccount *app,
                      LlmQuotaKind         kind)
{
  double quota = app->quota[kind] > 0 ? app->quota[kind] : self->accounts.default_quota[kind];

  if (!app->is_seen || app->kind != LLM_CALLER_UNKNOWN || quota == 0 || kind >= LLM_N_APP_QUOTAS)
    return quota;
  quota /= UNKNOWN_DIVISOR;
  return kind == LLM_QUOTA_SHARE ? quota : MAX (1, floor (quota));
}

/* Tells the executor the memory quotas. */
static void
share_memory (LlmEngine *self)
{
  double default_share = self->accounts.default_quota[LLM_QUOTA_SHARE];
  GHashTable *quotas =
    g_hash_table_new_full (NULL, NULL, (GDestroyNotify) llm_app_unref, g_free);
  GHashTableIter iter;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->accounts.apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      double share = llm_engine_get_quota (self, app, LLM_QUOTA_SHARE);

      if (share != default_share)
        g_hash_table_insert (quotas, llm_app_ref (app->app), g_memdup2 (&share, sizeof share));
    }
  llm_executor_set_memory_quotas (self->executor, default_share, quotas);
}

void
llm_engine_reset_default_quota (LlmEngine *self)
{
  const LlmSettings *settings = self->settings;
  const double configured[LLM_N_QUOTAS] = {
    [LLM_QUOTA_CONTEXTS] = settings->quotas.max_contexts,
    [LLM_QUOTA_CALLS] = settings->quotas.max_calls,
    [LLM_QUOTA_TOKENS] = settings->quotas.max_tokens,
    [LLM_QUOTA_DISK] = settings->quotas.max_disk,
    [LLM_QUOTA_SHARE] = settings->quotas.max_share / 100.0,
    [LLM_QUOTA_RATE] = settings->quotas.max_rate,
    [LLM_QUOTA_MESSAGE] = settings->max_message,
    [LLM_QUOTA_ANSWER] = settings->quotas.max_answer,
    [LLM_QUOTA_NAMED] = settings->quotas.max_named,
    [LLM_QUOTA_APPS] = settings->quotas.max_apps,
    [LLM_QUOTA_QUEUE] = settings->quotas.max_queue,
  };

  memcpy (self->accounts.default_quota, configured, sizeof configured);
}

void
llm_engine_take_quotas (LlmEngine       *self,
                        const GPtrArray *quotas)
{
  for (guint i = 0; i < quotas->len; i++)
    {
      const LlmStoredQuota *quota = g_ptr_array_index (quotas, i);
      g_autoptr(LlmApp) app = llm_app_intern (quota->uid, quota->app);

      llm_quota_set (*quota->app == '\0' ? self->accounts.default_quota
                                         : llm_engine_get_app (self, app)->quota,
                     quota->key, quota->value);
    }
  share_memory (self);
}

void
llm_engine_get_limits (LlmEngine       *self,
                       const LlmCaller *caller,
                       LlmAppLimits    *limits)
{
  const LlmAppAccount *known = g_hash_table_lookup (self->accounts.apps, caller->app);
  LlmAppAccount app = known != NULL ? *known : (LlmAppAccount) { 0 };

  app.is_seen = TRUE;
  app.kind = caller->kind;
  limits->calls = (guint) llm_engine_get_quota (self, &app, LLM_QUOTA_CALLS);
  limits->rate = (guint) llm_engine_get_quota (self, &app, LLM_QUOTA_RATE);
  limits->message = (guint64) llm_engine_get_quota (self, &app, LLM_QUOTA_MESSAGE);
  limits->default_rate = (guint) self->accounts.default_quota[LLM_QUOTA_RATE];
  limits->queue = (guint) self->accounts.default_quota[LLM_QUOTA_QUEUE];
}

/* --- who may begin something --- */

/* The account of @caller's application, before it uses a resource. */
static LlmAppAccount *
note_caller (LlmEngine *self,
             LlmCaller *caller)
{
  LlmAppAccount *app = llm_engine_get_app (self, caller->app);
  double share = llm_engine_get_quota (self, app, LLM_QUOTA_SHARE);

  app->is_seen = TRUE;
  app->kind = caller->kind;
  if (llm_engine_get_quota (self, app, LLM_QUOTA_SHARE) != share)
    share_memory (self);
  return app;
}

/* A user that takes ever new names must not get ever more quotas. */
static gboolean
admit_app (LlmEngine           *self,
           const LlmAppAccount *app,
           const LlmUserSums   *sums,
           GError             **error)
{
  guint limit = (guint) self->accounts.default_quota[LLM_QUOTA_APPS];

  if (limit == 0 || llm_app_account_is_needed (app) || sums->apps < limit)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                   "%u applications of this user use the service and %u may; close the contexts of "
                   "one", sums->apps, limit);
}

/* One user may not fill the queue for all others: each has a limit, within what is left. */
static gboolean
admit_call (LlmEngine           *self,
            const LlmAppAccount *app,
            GError             **error)
{
  guint limit = (guint) llm_engine_get_quota (self, app, LLM_QUOTA_CALLS);
  guint user_limit = (guint) self->accounts.default_quota[LLM_QUOTA_QUEUE];
  LlmUserSums sums = llm_engine_sum_user (self, app->app->uid);

  if (app->n_calls >= limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This application has %u calls under way and may have %u; wait for one to end",
                     app->n_calls, limit);
  if (!admit_app (self, app, &sums, error))
    return FALSE;
  if (user_limit > 0 && sums.queue >= user_limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "%u calls of this user's applications are under way and %u may be; wait for "
                     "one to end", sums.queue, user_limit);
  if (self->calls.n_calls >= MAX_CALLS || sums.queue >= MAX_CALLS - self->calls.n_calls)
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of all applications are under way, %u of them this user's; try "
                     "again in a moment [retry-after-ms=%u]", self->calls.n_calls, sums.queue,
                     RETRY_MS);
  return TRUE;
}

static gboolean
admit_context (LlmEngine           *self,
               const LlmAppAccount *app,
               gboolean             is_named,
               GError             **error)
{
  guint limit = (guint) llm_engine_get_quota (self, app, LLM_QUOTA_CONTEXTS);
  guint named_limit = (guint) self->accounts.default_quota[LLM_QUOTA_NAMED];
  LlmUserSums sums = llm_engine_sum_user (self, app->app->uid);

  if (app->n_contexts + app->n_coming >= limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This application has %u contexts and may have %u; close one",
                     app->n_contexts + app->n_coming, limit);
  if (is_named && named_limit > 0 && sums.named >= named_limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This user's applications have %u contexts with a name and may have %u; close "
                     "one, or make one without a name", sums.named, named_limit);
  return admit_app (self, app, &sums, error);
}

/* --- places taken --- */

struct _LlmPass
{
  LlmEngine *engine;  /* (owned) */
  LlmAppAccount *app; /* needed as long as the pass exists */
  guint n_calls;
  guint n_contexts;
  guint n_named;
};

static LlmPass *
pass_new (LlmEngine     *engine,
          LlmAppAccount *app,
          guint          n_calls,
          guint          n_contexts,
          guint          n_named)
{
  LlmPass *self = g_new (LlmPass, 1);

  *self = (LlmPass) { g_object_ref (engine), app, n_calls, n_contexts, n_named };
  engine->calls.n_calls += n_calls;
  app->n_calls += n_calls;
  app->n_coming += n_contexts;
  app->n_coming_named += n_named;
  return self;
}

LlmPass *
llm_engine_take_call (LlmEngine *self,
                      LlmCaller *caller,
                      GError   **error)
{
  LlmAppAccount *app = note_caller (self, caller);

  if (!admit_call (self, app, error))
    return NULL;
  app->last_used = llm_clock_wall_s ();
  return pass_new (self, app, 1, 0, 0);
}

LlmPass *
llm_engine_take_context (LlmEngine *self,
                         LlmCaller *caller,
                         gboolean   is_named,
                         GError   **error)
{
  LlmAppAccount *app = note_caller (self, caller);

  if ((is_named && !llm_engine_check_stored (self, error))
      || !admit_context (self, app, is_named, error))
    return NULL;
  return pass_new (self, app, 0, 1, is_named);
}

void
llm_pass_free (LlmPass *self)
{
  self->engine->calls.n_calls -= self->n_calls;
  self->app->n_calls -= self->n_calls;
  self->app->n_coming -= self->n_contexts;
  self->app->n_coming_named -= self->n_named;
  g_object_unref (self->engine);
  g_free (self);
}

gboolean
llm_engine_admit_tokens (LlmEngine *self,
                         LlmApp    *of,
                         guint      n_held,
                         guint      n_tokens,
                         GError   **error)
{
  LlmAppAccount *app = llm_engine_get_app (self, of);
  guint64 limit = (guint64) llm_engine_get_quota (self, app, LLM_QUOTA_TOKENS);
  guint64 disk_limit = (guint64) llm_engine_get_quota (self, app, LLM_QUOTA_DISK);
  guint64 n_all;

  llm_engine_sum_contexts (self, app);
  /* the count may come from another model, and be higher than the new one */
  n_all = app->tokens - MIN (app->tokens, n_held) + n_tokens;
  if (limit > 0 && n_all > limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "With %u more tokens this application's contexts would hold %ju and may hold "
                     "%ju; close contexts or take turns back", n_tokens - MIN (n_tokens, n_held),
                     n_all, limit);
  if (disk_limit > 0 && app->disk >= disk_limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This application's contexts take %ju bytes on disk and may take %ju; close "
                     "some", app->disk, disk_limit);
  return TRUE;
}
