/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Figures of applications, and setting their quotas. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/calls/llm-call.h"

#include "common/llmsvc-error-private.h"
#include "engine/apps/llm-engine-apps.h"

/* --- applications --- */

/* Of an application that has not called since the start, only stored contexts are known. */
static const char *
describe_kind (const LlmAppAccount *app)
{
  if (app->is_seen)
    return llm_caller_kind_to_string (app->kind);
  return *app->app->id != '\0' ? "" : llm_caller_kind_to_string (LLM_CALLER_HOST);
}

static GVariant *
describe_app (LlmEngine     *self,
              LlmAppAccount *app)
{
  const LlmUserSums sums = llm_engine_sum_user (self, app->app->uid);
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
  g_variant_dict_insert (&dict, "named", "u", sums.named);
  g_variant_dict_insert (&dict, "apps", "u", sums.apps);
  g_variant_dict_insert (&dict, "queue", "u", sums.queue);
  for (guint i = 0; i < LLM_N_QUOTAS; i++)
    {
      double quota = llm_engine_get_quota (self, app, i);
      char type = llm_quotas[i].type;

      g_variant_dict_insert_value (&dict, llm_quotas[i].listed,
                                   type == 'd'   ? g_variant_new_double (quota)
                                   : type == 'u' ? g_variant_new_uint32 ((guint) quota)
                                                 : g_variant_new_uint64 ((guint64) quota));
    }
  return g_variant_dict_end (&dict);
}

GVariant *
llm_engine_list_apps (LlmEngine *self,
                      guint32    uid,
                      gboolean   all_users)
{
  GVariantBuilder builder;
  GHashTableIter iter;
  LlmAppAccount *app;

  llm_engine_sum_contexts (self, NULL);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_hash_table_iter_init (&iter, self->accounts.apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    if (all_users || app->app->uid == uid)
      g_variant_builder_add_value (&builder, describe_app (self, app));
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- quotas --- */

/* Reads all quotas, or none. */
static gboolean
store_quotas (sqlite3 *db,
              gpointer data,
              GError **error)
{
  const GPtrArray *quotas = data;

  for (guint i = 0; i < quotas->len; i++)
    if (!llm_store_set_quota (db, g_ptr_array_index (quotas, i), error))
      return FALSE;
  return TRUE;
}

/* Quotas that could not be stored do not take effect either. */
static void
take_stored (GTask   *task,
             LlmCall *call)
{
  llm_engine_take_quotas (call->engine, call->quotas);
  llm_call_end (task, call);
}

static void
set_quotas (GTask   *task,
            LlmCall *call)
{
  llm_call_store (task, store_quotas, g_ptr_array_ref (call->quotas),
                  (GDestroyNotify) g_ptr_array_unref, take_stored);
}

void
llm_engine_set_quota_async (LlmEngine          *self,
                            guint32             uid,
                            const char         *app_id,
                            LlmCallOptions     *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, NULL, NULL, options, callback, data);
  LlmCall *call = g_task_get_task_data (task);
  gboolean is_default = *app_id == '\0';

  call->quotas = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_stored_quota_free);
  for (guint i = 0; i < LLM_N_QUOTAS; i++)
    {
      LlmsvcOption option = llm_quotas[i].option;
      const char *key = llmsvc_option_get_info (option)->key;

      if (!llm_call_options_has (options, option))
        continue;
      if (!is_default && i >= LLM_N_APP_QUOTAS)
        {
          g_task_return_error (task, llmsvc_error_new (
            LLMSVC_ERROR_INVALID_OPTION, NULL, "%s: all applications of a user have it together, "
            "so no single one has its own; set it for the default of all", key));
          return;
        }
      g_ptr_array_add (call->quotas,
                       llm_stored_quota_new (
                         is_default ? 0 : uid, app_id, key,
                         llm_quotas[i].type == 'd'
                           ? llm_call_options_get_double (options, option, 0)
                           : (double) llm_call_options_get_uint (options, option, 0)));
    }
  llm_call_await_stored (task, set_quotas);
}
