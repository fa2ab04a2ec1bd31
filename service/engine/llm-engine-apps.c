/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applications: what they use, and how much they may. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"

#include "common/llmsvc-error.h"

/* Calls of all applications together that may wait or run. */
#define MAX_CALLS 1000

/* Applications to remember of which there is nothing but what they once did. */
#define MAX_UNNEEDED_APPS 256

/* A caller that could not be identified gets this part of every quota. */
#define UNKNOWN_DIVISOR 4

/* Makes room for another application, unless few are there: whoever registers under ever
 * new names must not fill the table. */
static void
forget_unneeded_app (LlmEngine *self)
{
  GHashTableIter iter;
  LlmApp *app;
  LlmApp *oldest = NULL;
  const char *key;
  const char *oldest_key = NULL;
  guint n_unneeded = 0;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, (gpointer *) &key, (gpointer *) &app))
    {
      if (llm_app_is_needed (app))
        continue;
      n_unneeded++;
      if (oldest == NULL || app->looked_up < oldest->looked_up)
        {
          oldest = app;
          oldest_key = key;
        }
    }
  if (n_unneeded >= MAX_UNNEEDED_APPS)
    g_hash_table_remove (self->apps, oldest_key);
}

LlmApp *
llm_engine_get_app (LlmEngine  *self,
                    guint32     uid,
                    const char *app_id)
{
  g_autofree char *key = llm_app_make_key (uid, app_id);
  LlmApp *app = g_hash_table_lookup (self->apps, key);

  if (app == NULL)
    {
      if (g_hash_table_size (self->apps) >= MAX_UNNEEDED_APPS)
        forget_unneeded_app (self);
      app = llm_app_new (uid, app_id);
      g_hash_table_insert (self->apps, g_steal_pointer (&key), app);
    }
  app->looked_up = ++self->n_app_lookups;
  return app;
}

void
llm_engine_add_context (LlmEngine  *self,
                        LlmContext *context)
{
  g_assert (!g_hash_table_contains (self->contexts, context->id));
  g_hash_table_insert (self->contexts, context->id, g_object_ref (context));
  llm_engine_get_app (self, context->uid, context->app_id)->n_contexts++;
}

void
llm_engine_remove_context (LlmEngine  *self,
                           LlmContext *context)
{
  LlmApp *app;

  if (!g_hash_table_contains (self->contexts, context->id))
    return;
  app = llm_engine_get_app (self, context->uid, context->app_id);
  g_assert (app->n_contexts > 0);
  app->n_contexts--;
  g_hash_table_remove (self->contexts, context->id);
}

#define EFFECTIVE(self, app, field) \
  ((app)->quota.field > 0 ? (app)->quota.field : (self)->default_quota.field)

static void
sum_contexts (LlmEngine *self,
              LlmApp    *app,
              guint64   *tokens,
              guint64   *memory,
              guint64   *disk)
{
  GHashTableIter iter;
  LlmContext *context;

  *tokens = *memory = *disk = 0;
  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (context->uid == app->uid && g_str_equal (context->app_id, app->app_id))
      {
        *tokens += llm_context_get_tokens (context);
        *memory += context->session_bytes;
        *disk += llm_context_is_named (context) ? llm_context_get_bytes (context) : 0;
      }
}

gboolean
llm_engine_admit_call (LlmEngine *self,
                       LlmCaller *caller,
                       GError   **error)
{
  LlmApp *app = llm_engine_get_app (self, caller->uid, caller->app_id);
  guint limit = EFFECTIVE (self, app, calls);

  app->is_sandboxed = caller->is_sandboxed;
  if (!caller->is_known)
    limit = MAX (1, limit / UNKNOWN_DIVISOR);
  if (app->n_calls >= limit)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED,
                   "This application has %u calls under way and may have %u; wait for one to end",
                   app->n_calls, limit);
      return FALSE;
    }
  if (g_hash_table_size (self->generations) >= MAX_CALLS)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED,
                   "%u calls of all applications are under way; try again in a moment", MAX_CALLS);
      return FALSE;
    }
  return TRUE;
}

gboolean
llm_engine_admit_context (LlmEngine *self,
                          LlmCaller *caller,
                          GError   **error)
{
  LlmApp *app = llm_engine_get_app (self, caller->uid, caller->app_id);
  guint limit = EFFECTIVE (self, app, contexts);

  if (!caller->is_known)
    limit = MAX (1, limit / UNKNOWN_DIVISOR);
  if (app->n_contexts < limit)
    return TRUE;
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED,
               "This application has %u contexts and may have %u; close one", app->n_contexts,
               limit);
  return FALSE;
}

gboolean
llm_engine_admit_tokens (LlmEngine  *self,
                         guint32     uid,
                         const char *app_id,
                         guint       n,
                         GError    **error)
{
  LlmApp *app = llm_engine_get_app (self, uid, app_id);
  guint64 limit = EFFECTIVE (self, app, tokens);
  guint64 disk_limit = EFFECTIVE (self, app, disk);
  guint64 tokens, memory, disk;

  sum_contexts (self, app, &tokens, &memory, &disk);
  if (limit > 0 && tokens + n > limit)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED,
                   "With %u more tokens this application's contexts would hold %ju and may hold %ju; "
                   "close contexts or roll turns back",
                   n, tokens + n, limit);
      return FALSE;
    }
  if (disk_limit > 0 && disk >= disk_limit)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED,
                   "This application's contexts take %ju bytes on disk and may take %ju; close "
                   "some", disk, disk_limit);
      return FALSE;
    }
  return TRUE;
}

GVariant *
llm_engine_list_apps (LlmEngine *self,
                      guint32    uid,
                      gboolean   all_users)
{
  GVariantBuilder builder;
  GHashTableIter iter;
  LlmApp *app;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    {
      GVariantDict dict;
      guint64 tokens, memory, disk;

      if (!all_users && app->uid != uid)
        continue;
      sum_contexts (self, app, &tokens, &memory, &disk);
      g_variant_dict_init (&dict, NULL);
      g_variant_dict_insert (&dict, "app-id", "s", app->app_id);
      g_variant_dict_insert (&dict, "uid", "u", app->uid);
      g_variant_dict_insert (&dict, "kind", "s",
                             app->is_sandboxed ? "sandboxed" : *app->app_id ? "host" : "unidentified");
      g_variant_dict_insert (&dict, "contexts", "u", app->n_contexts);
      g_variant_dict_insert (&dict, "tokens", "t", tokens);
      g_variant_dict_insert (&dict, "memory", "t", memory);
      g_variant_dict_insert (&dict, "disk", "t", disk);
      g_variant_dict_insert (&dict, "requests", "t", app->n_requests);
      g_variant_dict_insert (&dict, "last-used", "t", (guint64) app->last_used);
      g_variant_dict_insert (&dict, "quota-contexts", "u", EFFECTIVE (self, app, contexts));
      g_variant_dict_insert (&dict, "quota-tokens", "t", EFFECTIVE (self, app, tokens));
      g_variant_dict_insert (&dict, "quota-calls", "u", EFFECTIVE (self, app, calls));
      g_variant_dict_insert (&dict, "quota-disk", "t", EFFECTIVE (self, app, disk));
      g_variant_dict_insert (&dict, "quota-share", "d", EFFECTIVE (self, app, share));
      g_variant_builder_add_value (&builder, g_variant_dict_end (&dict));
    }
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- quotas --- */

static void
on_quota_stored (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  GTask *task = data;
  guint *n_waiting = g_task_get_task_data (task);
  g_autoptr(GError) error = NULL;

  if (!llm_db_run_finish (result, NULL, &error) && !g_task_had_error (task) && *n_waiting > 0)
    {
      *n_waiting = 0;
      g_task_return_error (task, g_steal_pointer (&error));
    }
  else if (*n_waiting > 0 && --*n_waiting == 0)
    {
      g_task_return_boolean (task, TRUE);
    }
  g_object_unref (task);
}

void
llm_engine_set_quota_async (LlmEngine          *self,
                            guint32             uid,
                            const char         *app_id,
                            LlmCallOptions     *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  static const LlmsvcOption ids[] = {
    LLMSVC_OPTION_CONTEXTS, LLMSVC_OPTION_TOKENS, LLMSVC_OPTION_CALLS,
    LLMSVC_OPTION_DISK, LLMSVC_OPTION_SHARE,
  };
  g_autoptr(GTask) task = g_task_new (self, NULL, callback, data);
  guint *n_waiting = g_new0 (guint, 1);
  gboolean is_default = *app_id == '\0';
  LlmQuota *quota = is_default ? &self->default_quota : &llm_engine_get_app (self, uid, app_id)->quota;

  g_task_set_task_data (task, n_waiting, g_free);
  for (guint i = 0; i < G_N_ELEMENTS (ids); i++)
    {
      const char *key = llmsvc_option_get_info (ids[i])->key;
      double value;

      if (!llm_call_options_has (options, ids[i]))
        continue;
      value = ids[i] == LLMSVC_OPTION_SHARE
                ? llm_call_options_get_double (options, ids[i], 0)
                : (double) llm_call_options_get_uint (options, ids[i], 0);
      llm_quota_set (quota, key, value);
      ++*n_waiting;
      llm_db_run_async (self->db, llm_store_set_quota,
                        llm_stored_quota_new (is_default ? 0 : uid, app_id, key, value),
                        (GDestroyNotify) llm_stored_quota_free, on_quota_stored, g_object_ref (task));
    }
  if (*n_waiting == 0)
    g_task_return_boolean (task, TRUE);
}

gboolean
llm_engine_set_quota_finish (LlmEngine    *self,
                             GAsyncResult *result,
                             GError      **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}
