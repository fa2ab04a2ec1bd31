/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Usage and limits of an application. Plain data. Main thread. */

#pragma once

#include "accounts/llm-caller.h"
#include "common/llmsvc-option-table.h"

G_BEGIN_DECLS

/* What one application may hold or do. */
typedef enum
{
  LLM_QUOTA_CONTEXTS,
  LLM_QUOTA_TOKENS,
  LLM_QUOTA_CALLS,
  LLM_QUOTA_DISK,      /* bytes of stored text and tokens */
  LLM_QUOTA_SHARE,     /* of the memory for contexts; 0: an equal part, when it is short */
  LLM_QUOTA_RATE,      /* calls a second */
  LLM_QUOTA_MESSAGE,   /* bytes of text in one call */
  LLM_QUOTA_ANSWER,    /* tokens of one answer */
  LLM_N_APP_QUOTAS,

  /* of all of one user's applications; no application has its own */
  LLM_QUOTA_NAMED = LLM_N_APP_QUOTAS, /* contexts with a name */
  LLM_QUOTA_APPS,      /* applications with calls, contexts or quotas */
  LLM_QUOTA_QUEUE,     /* calls under way */
  LLM_N_QUOTAS,
} LlmQuotaKind;

typedef struct
{
  LlmsvcOption option; /* sets it */
  const char *listed;  /* name and type in the list of applications */
  char type;           /* 'u', 't' or 'd' */
} LlmQuotaInfo;

extern const LlmQuotaInfo llm_quotas[LLM_N_QUOTAS];

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
  double quota[LLM_N_QUOTAS]; /* 0: the default of all */
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
gboolean       llm_app_account_is_needed (const LlmAppAccount *self);
/* Sets the quota with the option's name, as near to @value as it can be; FALSE for an unknown
 * one. */
gboolean       llm_quota_set        (double        *quota,
                                     const char    *key,
                                     double         value);

G_END_DECLS
