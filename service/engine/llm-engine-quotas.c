/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Quotas as people set them: kept in the database, and told to the executor as far as they are
 * shares of memory. What follows from them for calls is in llm-engine-apps.c. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"

#include "common/llmsvc-error.h"

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
    LLMSVC_OPTION_DISK, LLMSVC_OPTION_SHARE, LLMSVC_OPTION_RATE, LLMSVC_OPTION_MESSAGE,
    LLMSVC_OPTION_NAMED, LLMSVC_OPTION_APPS, LLMSVC_OPTION_QUEUE,
  };
  g_autoptr(GTask) task = g_task_new (self, NULL, callback, data);
  guint *n_waiting = g_new0 (guint, 1);
  gboolean is_default = *app_id == '\0';
  LlmQuota *quota =
    is_default ? &self->default_quota : &llm_engine_get_app (self, uid, app_id)->quota;

  g_task_set_task_data (task, n_waiting, g_free);
  for (guint i = 0; i < G_N_ELEMENTS (ids); i++)
    {
      const char *key = llmsvc_option_get_info (ids[i])->key;

      if (is_default || !llm_quota_is_of_user (key) || !llm_call_options_has (options, ids[i]))
        continue;
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                               "%s: all applications of a user have it together, so no single one "
                               "has its own; set it for the default of all", key);
      return;
    }
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
                        (GDestroyNotify) llm_stored_quota_free, on_quota_stored,
                        g_object_ref (task));
    }
  llm_engine_share_memory (self);
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

/* --- shares of memory --- */

void
llm_engine_share_memory (LlmEngine *self)
{
  GHashTable *shares = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  GHashTableIter iter;
  LlmApp *app;
  const char *key;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, (gpointer *) &key, (gpointer *) &app))
    {
      double share = llm_engine_get_share (self, app);

      if (share != self->default_quota.share)
        g_hash_table_insert (shares, g_strdup (key), g_memdup2 (&share, sizeof share));
    }
  llm_executor_set_shares (self->executor, self->default_quota.share, shares);
}
