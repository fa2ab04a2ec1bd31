/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applications: what they use, and how much they may. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/llm-context-private.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"

/* Calls of all applications together that may wait or run. */
#define MAX_CALLS 1000

/* Applications to remember of which there is nothing but what they once did. */
#define MAX_UNNEEDED_APPS 64

/* After this time a place in the queue may be free. */
#define RETRY_MS 1000

/* A caller that could not be identified gets this part of every quota. */
#define UNKNOWN_DIVISOR 4

/* Makes room for another application, unless few are there: whoever registers under ever
 * new names must not fill the table. */
static void
forget_unneeded_app (LlmEngine *self)
{
  GHashTableIter iter;
  LlmAppAccount *app;
  LlmAppAccount *oldest = NULL;
  guint n_unneeded = 0;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      if (llm_app_account_is_needed (app))
        continue;
      n_unneeded++;
      if (oldest == NULL || app->looked_up < oldest->looked_up)
        oldest = app;
    }
  if (n_unneeded >= MAX_UNNEEDED_APPS)
    g_hash_table_remove (self->apps, oldest->app);
}

LlmAppAccount *
llm_engine_get_app (LlmEngine *self,
                    LlmApp    *of)
{
  LlmAppAccount *app = g_hash_table_lookup (self->apps, of);

  if (app == NULL)
    {
      if (g_hash_table_size (self->apps) >= MAX_UNNEEDED_APPS)
        forget_unneeded_app (self);
      app = llm_app_account_new (of);
      g_hash_table_insert (self->apps, app->app, app);
    }
  app->looked_up = ++self->n_app_lookups;
  return app;
}

void
llm_engine_add_context (LlmEngine  *self,
                        LlmContext *context)
{
  LlmAppAccount *app = llm_engine_get_app (self, context->app);

  g_assert (!g_hash_table_contains (self->contexts, context->id));
  g_hash_table_insert (self->contexts, context->id, g_object_ref (context));
  app->n_contexts++;
  app->n_named += llm_context_is_named (context);
}

void
llm_engine_remove_context (LlmEngine  *self,
                           LlmContext *context)
{
  LlmAppAccount *app;

  if (!g_hash_table_contains (self->contexts, context->id))
    return;
  app = llm_engine_get_app (self, context->app);
  g_assert (app->n_contexts > 0);
  app->n_contexts--;
  app->n_named -= llm_context_is_named (context);
  g_hash_table_remove (self->contexts, context->id);
}

/* --- how much one may --- */

static guint64
divide (const LlmAppAccount *app,
        guint64              limit)
{
  if (!app->is_seen || app->kind != LLM_CALLER_UNKNOWN || limit == 0)
    return limit;
  return MAX (1, limit / UNKNOWN_DIVISOR);
}

/* The quota of @app that is in force. */
#define EFFECTIVE(self, app, field) \
  divide (app, (app)->quota.field > 0 ? (app)->quota.field : (self)->default_quota.field)

/* Its memory quota, 0 to 1. */
static double
get_memory_quota (LlmEngine           *self,
                  const LlmAppAccount *app)
{
  double share = app->quota.share > 0 ? app->quota.share : self->default_quota.share;

  return app->is_seen && app->kind == LLM_CALLER_UNKNOWN ? share / UNKNOWN_DIVISOR : share;
}

void
llm_engine_share_memory (LlmEngine *self)
{
  GHashTable *quotas =
    g_hash_table_new_full (NULL, NULL, (GDestroyNotify) llm_app_unref, g_free);
  GHashTableIter iter;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      double share = get_memory_quota (self, app);

      if (share != self->default_quota.share)
        g_hash_table_insert (quotas, llm_app_ref (app->app), g_memdup2 (&share, sizeof share));
    }
  llm_executor_set_memory_quotas (self->executor, self->default_quota.share, quotas);
}

void
llm_engine_reset_default_quota (LlmEngine *self)
{
  const LlmSettings *settings = self->settings;

  self->default_quota = (LlmQuota) {
    .contexts = settings->max_contexts,
    .calls = settings->max_calls,
    .tokens = settings->max_tokens,
    .disk = settings->max_disk,
    .share = settings->max_share / 100.0,
    .rate = settings->max_rate,
    .message = settings->max_message,
    .named = settings->max_named,
    .apps = settings->max_apps,
    .queue = settings->max_queue,
  };
}

void
llm_engine_take_quota (LlmEngine            *self,
                       const LlmStoredQuota *quota)
{
  g_autoptr(LlmApp) app = llm_app_intern (quota->uid, quota->app);
  LlmQuota *target = *quota->app == '\0' ? &self->default_quota
                                         : &llm_engine_get_app (self, app)->quota;

  llm_quota_set (target, quota->key, quota->value);
}

/* What all of a user's applications have. */
typedef struct
{
  guint named;
  guint apps;
  guint queue;
} UserSums;

static UserSums
sum_user (LlmEngine *self,
          guint32    uid)
{
  UserSums sums = { 0 };
  GHashTableIter iter;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      if (app->app->uid != uid)
        continue;
      sums.named += app->n_named + app->n_coming_named;
      sums.apps += llm_app_account_is_needed (app);
      sums.queue += app->n_calls;
    }
  return sums;
}

/* The application of @caller, which is about to use something. */
static LlmAppAccount *
note_caller (LlmEngine *self,
             LlmCaller *caller)
{
  LlmAppAccount *app = llm_engine_get_app (self, caller->app);
  double share = get_memory_quota (self, app);

  app->is_seen = TRUE;
  app->kind = caller->kind;
  if (get_memory_quota (self, app) != share)
    llm_engine_share_memory (self);
  return app;
}

/* Whoever takes ever new names must not get quotas without end. */
static gboolean
admit_app (LlmEngine           *self,
           const LlmAppAccount *app,
           const UserSums      *sums,
           GError             **error)
{
  guint limit = self->default_quota.apps;

  if (limit == 0 || llm_app_account_is_needed (app) || sums->apps < limit)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                   "%u applications of this user use the service and %u may; close the contexts of "
                   "one", sums->apps, limit);
}

/* Nobody may fill the queue for all others: a user may have as many places as are left. */
static gboolean
admit_to_queue (LlmEngine           *self,
                const LlmAppAccount *app,
                const UserSums      *sums,
                GError             **error)
{
  guint limit = self->default_quota.queue;
  guint n_all = g_hash_table_size (self->generations) + self->n_passes;

  if (limit > 0 && sums->queue >= limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "%u calls of this user's applications are under way and %u may be; wait for "
                     "one to end", sums->queue, limit);
  if (n_all >= MAX_CALLS || sums->queue >= MAX_CALLS - n_all)
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of all applications are under way, %u of them this user's; try "
                     "again in a moment [retry-after-ms=%u]", n_all, sums->queue, RETRY_MS);
  return TRUE;
}

gboolean
llm_engine_admit_call (LlmEngine *self,
                       LlmCaller *caller,
                       GError   **error)
{
  LlmAppAccount *app = note_caller (self, caller);
  guint64 limit = EFFECTIVE (self, app, calls);
  UserSums sums = sum_user (self, caller->app->uid);

  if (!llm_engine_check_stored (self, error))
    return FALSE;
  if (app->n_calls >= limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This application has %u calls under way and may have %u; wait for one to end",
                     app->n_calls, (guint) limit);
  return admit_app (self, app, &sums, error) && admit_to_queue (self, app, &sums, error);
}

static gboolean
admit_context (LlmEngine *self,
               LlmCaller *caller,
               gboolean   is_named,
               GError   **error)
{
  LlmAppAccount *app = note_caller (self, caller);
  guint64 limit = EFFECTIVE (self, app, contexts);
  guint named_limit = self->default_quota.named;
  UserSums sums = sum_user (self, caller->app->uid);

  if (!llm_engine_check_stored (self, error))
    return FALSE;
  if (app->n_contexts + app->n_coming >= limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This application has %u contexts and may have %u; close one",
                     app->n_contexts + app->n_coming, (guint) limit);
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
  LlmAppAccount *app;        /* needed as long as this is there */
  gboolean is_context;
  gboolean is_named;
};

LlmPass *
llm_engine_take_call (LlmEngine *self,
                      LlmCaller *caller,
                      GError   **error)
{
  LlmPass *pass;

  if (!llm_engine_admit_call (self, caller, error))
    return NULL;
  pass = g_new0 (LlmPass, 1);
  pass->engine = g_object_ref (self);
  pass->app = llm_engine_get_app (self, caller->app);
  pass->app->n_calls++;
  pass->app->last_used = llm_clock_wall_s ();
  self->n_passes++;
  return pass;
}

LlmPass *
llm_engine_take_context (LlmEngine *self,
                         LlmCaller *caller,
                         gboolean   is_named,
                         GError   **error)
{
  LlmPass *pass;

  if (!admit_context (self, caller, is_named, error))
    return NULL;
  pass = g_new0 (LlmPass, 1);
  pass->engine = g_object_ref (self);
  pass->app = llm_engine_get_app (self, caller->app);
  pass->is_context = TRUE;
  pass->is_named = is_named;
  pass->app->n_coming++;
  pass->app->n_coming_named += is_named;
  return pass;
}

void
llm_pass_free (LlmPass *self)
{
  if (self->is_context)
    {
      self->app->n_coming--;
      self->app->n_coming_named -= self->is_named;
    }
  else
    {
      self->app->n_calls--;
      self->engine->n_passes--;
    }
  g_object_unref (self->engine);
  g_free (self);
}

void
llm_engine_get_limits (LlmEngine       *self,
                       const LlmCaller *caller,
                       LlmAppLimits    *limits)
{
  const LlmAppAccount *known = g_hash_table_lookup (self->apps, caller->app);
  LlmAppAccount app = { .is_seen = TRUE, .kind = caller->kind };

  if (known != NULL)
    app.quota = known->quota;
  limits->calls = (guint) EFFECTIVE (self, &app, calls);
  limits->rate = (guint) EFFECTIVE (self, &app, rate);
  limits->message = EFFECTIVE (self, &app, message);
  limits->default_rate = self->default_quota.rate;
  limits->queue = self->default_quota.queue;
}

/* Counts what the contexts of all applications hold, or of @only. */
static void
sum_contexts (LlmEngine     *self,
              LlmAppAccount *only)
{
  GHashTableIter iter;
  LlmContext *context;
  LlmAppAccount *app;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    app->tokens = app->memory = app->disk = 0;

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      app = only != NULL ? only : g_hash_table_lookup (self->apps, context->app);
      if (app == NULL || context->app != app->app)
        continue;
      app->tokens += llm_context_get_tokens (context);
      app->memory += context->session_bytes;
      app->disk += llm_context_is_named (context) ? llm_context_get_bytes (context) : 0;
    }
}

gboolean
llm_engine_admit_tokens (LlmEngine *self,
                         LlmApp    *of,
                         guint      n_held,
                         guint      n_tokens,
                         GError   **error)
{
  LlmAppAccount *app = llm_engine_get_app (self, of);
  guint64 limit = EFFECTIVE (self, app, tokens);
  guint64 disk_limit = EFFECTIVE (self, app, disk);

  guint64 n_all;

  sum_contexts (self, app);
  /* what it holds may have been counted by another model, and be more than it will be */
  n_all = app->tokens - MIN (app->tokens, n_held) + n_tokens;
  if (limit > 0 && n_all > limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "With %u more tokens this application's contexts would hold %ju and may hold "
                     "%ju; close contexts or roll turns back", n_tokens - MIN (n_tokens, n_held),
                     n_all, limit);
  if (disk_limit > 0 && app->disk >= disk_limit)
    return llm_fail (error, LLMSVC_ERROR_QUOTA_EXCEEDED,
                     "This application's contexts take %ju bytes on disk and may take %ju; close "
                     "some", app->disk, disk_limit);
  return TRUE;
}

/* Of one that has not called since the start, only what it left is known. */
static const char *
describe_kind (const LlmAppAccount *app)
{
  if (app->is_seen)
    return llm_caller_kind_to_string (app->kind);
  return *app->app->id != '\0' ? "" : llm_caller_kind_to_string (LLM_CALLER_HOST);
}

static GVariant *
describe_app (LlmEngine      *self,
              LlmAppAccount  *app,
              const UserSums *sums)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "app-id", "s", app->app->id);
  g_variant_dict_insert (&dict, "uid", "u", app->app->uid);
  g_variant_dict_insert (&dict, "kind", "s", describe_kind (app));
  g_variant_dict_insert (&dict, "contexts", "u", app->n_contexts);
  g_variant_dict_insert (&dict, "calls", "u", app->n_calls);
  g_variant_dict_insert (&dict, "tokens", "t", app->tokens);
  g_variant_dict_insert (&dict, "memory", "t", app->memory);
  g_variant_dict_insert (&dict, "disk", "t", app->disk);
  g_variant_dict_insert (&dict, "requests", "t", app->n_requests);
  g_variant_dict_insert (&dict, "last-used", "t", (guint64) app->last_used);
  g_variant_dict_insert (&dict, "named", "u", sums->named);
  g_variant_dict_insert (&dict, "apps", "u", sums->apps);
  g_variant_dict_insert (&dict, "queue", "u", sums->queue);
  g_variant_dict_insert (&dict, "quota-contexts", "u", (guint) EFFECTIVE (self, app, contexts));
  g_variant_dict_insert (&dict, "quota-tokens", "t", EFFECTIVE (self, app, tokens));
  g_variant_dict_insert (&dict, "quota-calls", "u", (guint) EFFECTIVE (self, app, calls));
  g_variant_dict_insert (&dict, "quota-disk", "t", EFFECTIVE (self, app, disk));
  g_variant_dict_insert (&dict, "quota-share", "d", get_memory_quota (self, app));
  g_variant_dict_insert (&dict, "quota-rate", "u", (guint) EFFECTIVE (self, app, rate));
  g_variant_dict_insert (&dict, "quota-message", "t", EFFECTIVE (self, app, message));
  g_variant_dict_insert (&dict, "quota-named", "u", self->default_quota.named);
  g_variant_dict_insert (&dict, "quota-apps", "u", self->default_quota.apps);
  g_variant_dict_insert (&dict, "quota-queue", "u", self->default_quota.queue);
  return g_variant_dict_end (&dict);
}

GVariant *
llm_engine_list_apps (LlmEngine *self,
                      guint32    uid,
                      gboolean   all_users)
{
  g_autoptr(GHashTable) sums = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  GVariantBuilder builder;
  GHashTableIter iter;
  LlmAppAccount *app;

  sum_contexts (self, NULL);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    if (all_users || app->app->uid == uid)
      {
        UserSums *user = g_hash_table_lookup (sums, GUINT_TO_POINTER (app->app->uid));

        if (user == NULL)
          {
            user = g_new (UserSums, 1);
            *user = sum_user (self, app->app->uid);
            g_hash_table_insert (sums, GUINT_TO_POINTER (app->app->uid), user);
          }
        g_variant_builder_add_value (&builder, describe_app (self, app, user));
      }
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
