/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the executor keeps of a context between its calls: the tokens whose K
 * and V are in memory. It is a cache of the context's text: dropping it costs
 * time, never content. The executor's thread owns sessions.
 */

#pragma once

#include "kv/llm-kv.h"

G_BEGIN_DECLS

typedef struct
{
  guint64 id;
  LlmKvSeq *seq;        /* (nullable) (owned) */
  GArray *tokens;       /* (element-type gint32): one for each slot of seq */
  gint64 used_us;       /* when a job last ended */
  gboolean is_busy;     /* a job uses it */
} LlmSession;

LlmSession *llm_session_new     (guint64           id);
void        llm_session_free    (LlmSession       *self);

/* Cuts the session to what it has in common with @prompt, at most @n_max
 * tokens; returns how many those are. */
guint       llm_session_rewind  (LlmSession       *self,
                                 LlmKvStore       *store,
                                 const GArray     *prompt,
                                 guint             n_max);
/* Makes room for @n tokens more, which the caller's rows will fill. */
gboolean    llm_session_extend  (LlmSession       *self,
                                 const gint32     *tokens,
                                 guint             n,
                                 GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* Forgets the tokens from @length on: rows that were not computed. */
void        llm_session_cut     (LlmSession       *self,
                                 guint             length);
void        llm_session_drop    (LlmSession       *self);

G_END_DECLS
