/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What an application holds and may hold. Plain data. Main thread. */

#pragma once

#include "accounts/llm-caller.h"

G_BEGIN_DECLS

/* What one application may hold or do; 0 in a field: the default of all. */
typedef struct
{
  guint contexts;
  guint64 tokens;
  guint calls;
  guint64 disk;      /* bytes of stored text and tokens */
  double share;      /* of the memory for contexts; 0: an equal part, when it is short */
  guint rate;        /* calls a second */
  guint64 message;   /* bytes of text in one call */

  /* of all of one user's applications; no application has its own */
  guint named;       /* contexts with a name */
  guint apps;        /* applications with calls, contexts or quotas */
  guint queue;       /* calls under way */
} LlmQuota;

/* What the bus has to know of an application's quotas. */
typedef struct
{
  guint calls;
  guint queue;
  guint rate;         /* calls a second; 0: no limit */
  guint default_rate; /* of an application without a quota of its own */
  guint64 message;    /* bytes of text in one call */
} LlmAppLimits;

typedef struct
{
  LlmApp *app;       /* (owned) */
  gboolean is_seen;  /* it called since the service started: */
  LlmCallerKind kind;
  LlmQuota quota;
  guint n_calls;     /* under way */
  guint n_contexts;  /* in memory or stored */
  guint n_named;     /* of these */
  guint n_coming;    /* contexts being made */
  guint n_coming_named;
  guint64 looked_up; /* the engine's look-up of applications that asked for it last */
  guint64 n_requests;
  gint64 last_used;  /* seconds since 1970, 0 before the first call */
  guint64 tokens;    /* as of the last llm_engine_list_apps() */
  guint64 memory;
  guint64 disk;
} LlmAppAccount;

LlmAppAccount *llm_app_account_new  (LlmApp        *app);
void           llm_app_account_free (LlmAppAccount *self);
/* Whether something of the application is here, or was set for it: it may not be forgotten. */
gboolean llm_app_account_is_needed (const LlmAppAccount *self);
/* Sets the field with the option's name; FALSE for an unknown one. */
gboolean llm_quota_set     (LlmQuota   *quota,
                            const char *key,
                            double      value);
/* Whether the quota @key is of a user with all applications. */
gboolean llm_quota_is_of_user (const char *key);

G_END_DECLS
