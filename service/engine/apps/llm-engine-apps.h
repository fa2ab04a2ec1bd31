/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Applications: what they hold, and their quotas. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-apps.c */
/* Never NULL; valid until the next look-up, and as long as it is needed. Of those that are not
 * needed, only the last few hundred are remembered, because callers choose their names. */
LlmAppAccount *llm_engine_get_app               (LlmEngine            *self,
                                                 LlmApp               *app);
/* Adds to and removes from the table of contexts, and counts for the accounts of applications. */
void           llm_engine_add_context           (LlmEngine            *self,
                                                 LlmContext           *context);
void           llm_engine_remove_context        (LlmEngine            *self,
                                                 LlmContext           *context);
/* Sums over all applications of a user. */
typedef struct
{
  guint named;
  guint apps;
  guint queue;
} LlmUserSums;
LlmUserSums    llm_engine_sum_user              (LlmEngine            *self,
                                                 guint32               uid);
/* Sums up what the contexts of all applications hold, or of @only (nullable). */
void           llm_engine_sum_contexts          (LlmEngine            *self,
                                                 LlmAppAccount        *only);

/* llm-engine-quotas.c */
/* A place taken from an application's quota, until it is freed. */
typedef struct _LlmPass LlmPass;
void           llm_pass_free                    (LlmPass              *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPass, llm_pass_free)
/* For a call: counted as one under way. */
LlmPass       *llm_engine_take_call             (LlmEngine            *self,
                                                 LlmCaller            *caller,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;
/* For a context that is being made, until the engine has it or it has failed. */
LlmPass       *llm_engine_take_context          (LlmEngine            *self,
                                                 LlmCaller            *caller,
                                                 gboolean              is_named,
                                                 GError              **error)
                                                 G_GNUC_WARN_UNUSED_RESULT;
/* Whether one of its contexts, which holds @n_held tokens, may hold @n_tokens. */
gboolean       llm_engine_admit_tokens          (LlmEngine            *self,
                                                 LlmApp               *app,
                                                 guint                 n_held,
                                                 guint                 n_tokens,
                                                 GError              **error);
/* The quota of @app that is in force. */
double         llm_engine_get_quota             (LlmEngine            *self,
                                                 const LlmAppAccount  *app,
                                                 LlmQuotaKind          kind);
/* The quotas as configured. */
void           llm_engine_reset_default_quota   (LlmEngine            *self);
/* Puts @quotas (element-type LlmStoredQuota) in force. */
void           llm_engine_take_quotas           (LlmEngine            *self,
                                                 const GPtrArray      *quotas);

G_END_DECLS
