/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "accounts/llm-app-account.h"

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
  const LlmQuota *quota = &self->quota;

  return self->n_calls > 0 || self->n_contexts > 0 || self->n_coming > 0 || quota->contexts > 0 ||
         quota->tokens > 0 || quota->calls > 0 || quota->disk > 0 || quota->share > 0 ||
         quota->rate > 0 || quota->message > 0;
}

/* Values come from a database as doubles, too: no cast may go past what the field holds. */
static guint
take_uint (double value)
{
  return value >= G_MAXUINT ? G_MAXUINT : value > 0 ? (guint) value : 0;
}

static guint64
take_uint64 (double value)
{
  return value >= (double) G_MAXINT64 ? G_MAXINT64 : value > 0 ? (guint64) value : 0;
}

gboolean
llm_quota_set (LlmQuota   *quota,
               const char *key,
               double      value)
{
  if (g_str_equal (key, "contexts"))
    quota->contexts = take_uint (value);
  else if (g_str_equal (key, "tokens"))
    quota->tokens = take_uint64 (value);
  else if (g_str_equal (key, "calls"))
    quota->calls = take_uint (value);
  else if (g_str_equal (key, "disk"))
    quota->disk = take_uint64 (value);
  else if (g_str_equal (key, "share"))
    quota->share = CLAMP (value, 0, 1);
  else if (g_str_equal (key, "rate"))
    quota->rate = take_uint (value);
  else if (g_str_equal (key, "message"))
    quota->message = take_uint64 (value);
  else if (g_str_equal (key, "named"))
    quota->named = take_uint (value);
  else if (g_str_equal (key, "apps"))
    quota->apps = take_uint (value);
  else if (g_str_equal (key, "queue"))
    quota->queue = take_uint (value);
  else
    return FALSE;
  return TRUE;
}

gboolean
llm_quota_is_of_user (const char *key)
{
  static const char *const keys[] = { "named", "apps", "queue", NULL };

  return g_strv_contains (keys, key);
}
