/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An application of one user, for accounting and quotas. Plain data. Main thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* What one application may hold or do; 0 in a field: the default of all. */
typedef struct
{
  guint contexts;
  guint64 tokens;
  guint calls;
  guint64 disk;      /* bytes of stored text and tokens */
  double share;      /* of the memory for contexts */
} LlmQuota;

typedef struct
{
  guint32 uid;
  char *app_id;
  LlmQuota quota;
  guint n_calls;     /* under way */
  guint n_contexts;  /* in memory or stored */
  guint64 looked_up; /* the engine's look-up of applications that asked for it last */
  guint64 n_requests;
  gint64 last_used;  /* seconds since 1970, 0 before the first call */
  gboolean is_sandboxed;
} LlmApp;

LlmApp  *llm_app_new       (guint32     uid,
                            const char *app_id);
void     llm_app_free      (LlmApp     *self);
/* "UID/app-id" */
char    *llm_app_make_key  (guint32     uid,
                            const char *app_id);
/* Whether something of the application is here, or was set for it: it may not be forgotten. */
gboolean llm_app_is_needed (const LlmApp *self);
/* Sets the field with the option's name; FALSE for an unknown one. */
gboolean llm_quota_set     (LlmQuota   *quota,
                            const char *key,
                            double      value);

G_END_DECLS
