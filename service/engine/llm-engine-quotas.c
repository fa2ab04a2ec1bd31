/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Quotas as people set them: kept in the database, and told to the executor as far as they are
 * shares of memory. What follows from them for calls is in llm-engine-apps.c. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"

#include "common/llmsvc-error-private.h"

/* --- setting them --- */

typedef struct
{
  guint32 uid;
  char *app_id;
  LlmCallOptions *options;
  guint n_waiting;         /* transactions */
} SetQuota;

static void
set_quota_free (SetQuota *set)
{
  g_free (set->app_id);
  llm_call_options_unref (set->options);
  g_free (set);
}

/* What could not be stored is not in force either. */
static void
on_quota_stored (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = g_task_get_source_object (task);
  SetQuota *set = g_task_get_task_data (task);
  LlmStoredQuota *quota;
  GError *error = NULL;

  set->n_waiting--;
  if (llm_db_run_finish (result, (gpointer *) &quota, &error))
    {
      llm_engine_take_quota (self, quota);
      llm_engine_share_memory (self);
    }
  if (error != NULL && !g_task_had_error (task))
    g_task_return_error (task, g_steal_pointer (&error));
  else if (set->n_waiting == 0 && !g_task_had_error (task))
    g_task_return_boolean (task, TRUE);
  g_clear_error (&error);
}

static const LlmsvcOption quota_options[] = {
  LLMSVC_OPTION_CONTEXTS, LLMSVC_OPTION_TOKENS, LLMSVC_OPTION_CALLS,
  LLMSVC_OPTION_DISK, LLMSVC_OPTION_SHARE, LLMSVC_OPTION_RATE, LLMSVC_OPTION_MESSAGE,
  LLMSVC_OPTION_NAMED, LLMSVC_OPTION_APPS, LLMSVC_OPTION_QUEUE,
};

static void
on_started_for_quota (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = (LlmEngine *) source;
  SetQuota *set = g_task_get_task_data (task);
  GError *error = NULL;

  if (!llm_engine_await_start_finish (result, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (quota_options); i++)
    {
      LlmsvcOption id = quota_options[i];
      double value;

      if (!llm_call_options_has (set->options, id))
        continue;
      value = id == LLMSVC_OPTION_SHARE
                ? llm_call_options_get_double (set->options, id, 0)
                : (double) llm_call_options_get_uint (set->options, id, 0);
      set->n_waiting++;
      llm_db_run_async (self->db, llm_store_set_quota,
                        llm_stored_quota_new (*set->app_id == '\0' ? 0 : set->uid, set->app_id,
                                              llmsvc_option_get_info (id)->key, value),
                        (GDestroyNotify) llm_stored_quota_free, on_quota_stored,
                        g_object_ref (task));
    }
  if (set->n_waiting == 0)
    g_task_return_boolean (task, TRUE);
}

void
llm_engine_set_quota_async (LlmEngine          *self,
                            guint32             uid,
                            const char         *app_id,
                            LlmCallOptions     *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  g_autoptr(GTask) task = g_task_new (self, NULL, callback, data);
  SetQuota *set = g_new0 (SetQuota, 1);

  set->uid = uid;
  set->app_id = g_strdup (app_id);
  set->options = llm_call_options_ref (options);
  g_task_set_task_data (task, set, (GDestroyNotify) set_quota_free);
  for (guint i = 0; *app_id != '\0' && i < G_N_ELEMENTS (quota_options); i++)
    {
      const char *key = llmsvc_option_get_info (quota_options[i])->key;

      if (!llm_quota_is_of_user (key) || !llm_call_options_has (options, quota_options[i]))
        continue;
      g_task_return_error (task, llmsvc_error_new (LLMSVC_ERROR_INVALID_OPTION, NULL,
                                                   "%s: all applications of a user have it "
                                                   "together, so no single one has its own; set it "
                                                   "for the default of all", key));
      return;
    }
  llm_engine_await_start (self, on_started_for_quota, g_steal_pointer (&task));
}
