/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "accounts/llm-app-account.h"

const LlmQuotaInfo llm_quotas[LLM_N_QUOTAS] = {
  [LLM_QUOTA_CONTEXTS] = { LLMSVC_OPTION_CONTEXTS, "quota-contexts", 'u' },
  [LLM_QUOTA_TOKENS] = { LLMSVC_OPTION_TOKENS, "quota-tokens", 't' },
  [LLM_QUOTA_CALLS] = { LLMSVC_OPTION_CALLS, "quota-calls", 'u' },
  [LLM_QUOTA_DISK] = { LLMSVC_OPTION_DISK, "quota-disk", 't' },
  [LLM_QUOTA_SHARE] = { LLMSVC_OPTION_SHARE, "quota-share", 'd' },
  [LLM_QUOTA_RATE] = { LLMSVC_OPTION_RATE, "quota-rate", 'u' },
  [LLM_QUOTA_MESSAGE] = { LLMSVC_OPTION_MESSAGE, "quota-message", 't' },
  [LLM_QUOTA_ANSWER] = { LLMSVC_OPTION_ANSWER, "quota-answer", 'u' },
  [LLM_QUOTA_NAMED] = { LLMSVC_OPTION_NAMED, "quota-named", 'u' },
  [LLM_QUOTA_APPS] = { LLMSVC_OPTION_APPS, "quota-apps", 'u' },
  [LLM_QUOTA_QUEUE] = { LLMSVC_OPTION_QUEUE, "quota-queue", 'u' },
};

LlmAppAccount *
llm_app_account_new (LlmApp *app)
{
  LlmAppAccount *self = g_new0 (LlmAppAccount, 1);

  self->app = llm_app_ref (app);
  return self;
}

void
llm_app_account_free (LlmAppAccount *self)
{
  llm_app_unref (self->app);
  g_free (self);
}

gboolean
llm_app_account_is_needed (const LlmAppAccount *self)
{
  for (guint i = 0; i < LLM_N_APP_QUOTAS; i++)
    if (self->quota[i] > 0)
      return TRUE;
  return self->n_calls > 0 || self->n_contexts > 0 || self->n_coming > 0;
}

/* Values come from a database as doubles, too: no cast may go past what the type holds. */
gboolean
llm_quota_set (double     *quota,
               const char *key,
               double      value)
{
  for (guint i = 0; i < LLM_N_QUOTAS; i++)
    {
      char type = llm_quotas[i].type;
      double max = type == 'd' ? 1 : type == 'u' ? G_MAXUINT : (double) G_MAXINT64;

      if (!g_str_equal (llmsvc_option_get_info (llm_quotas[i].option)->key, key))
        continue;
      value = value > 0 ? MIN (value, max) : 0;
      quota[i] = type == 'd' ? value : (double) (guint64) value;
      return TRUE;
    }
  return FALSE;
}
