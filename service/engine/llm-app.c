/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-app.h"

LlmApp *
llm_app_new (guint32     uid,
             const char *app_id)
{
  LlmApp *self = g_new0 (LlmApp, 1);

  self->uid = uid;
  self->app_id = g_strdup (app_id);
  return self;
}

void
llm_app_free (LlmApp *self)
{
  g_free (self->app_id);
  g_free (self);
}

char *
llm_app_make_key (guint32     uid,
                  const char *app_id)
{
  return g_strdup_printf ("%u/%s", uid, app_id);
}

gboolean
llm_app_is_needed (const LlmApp *self)
{
  const LlmQuota *quota = &self->quota;

  return self->n_calls > 0 || self->n_contexts > 0 || quota->contexts > 0 || quota->tokens > 0 ||
         quota->calls > 0 || quota->disk > 0 || quota->share > 0;
}

gboolean
llm_quota_set (LlmQuota   *quota,
               const char *key,
               double      value)
{
  if (g_str_equal (key, "contexts"))
    quota->contexts = (guint) value;
  else if (g_str_equal (key, "tokens"))
    quota->tokens = (guint64) value;
  else if (g_str_equal (key, "calls"))
    quota->calls = (guint) value;
  else if (g_str_equal (key, "disk"))
    quota->disk = (guint64) value;
  else if (g_str_equal (key, "share"))
    quota->share = value;
  else
    return FALSE;
  return TRUE;
}
