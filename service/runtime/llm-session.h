/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the executor keeps of a context between requests: the tokens of its KV cache, whose chunks
 * are in memory, on storage or to be computed again. It is a cache of the context's text: dropping
 * it costs time, never content. The executor's thread owns sessions.
 */

#pragma once

#include "base/llm-app.h"
#include "kv/llm-context-memory.h"
#include "kv/llm-kv.h"
#include "memory/llm-ledger.h"

G_BEGIN_DECLS

typedef struct
{
  guint64 id;
  LlmApp *app;           /* (owned) */
  char *context;         /* (nullable): names its folder on storage; NULL: it is never written */
  gboolean is_named;     /* the folder stays when the service ends */
  LlmLedger *ledger;     /* (owned): counts tokens as text */
  LlmKvStore *store;     /* (unowned): of its instance */

  LlmKvSeq *seq;         /* (nullable) (owned) */
  gboolean is_attached;  /* seq has what storage had of it */
  GArray *tokens;        /* (element-type gint32): one a slot of seq, and those that slid away */
  GByteArray *states;    /* llm_row_state() of each: which sub-model computes it, also again */
  guint64 counted_bytes; /* of both in the ledger */
  guint n_settled;       /* slots whose rows were computed, which others may share */
  gint64 used_us;        /* when a request last ended */
  gboolean is_busy;      /* a request uses it */
  gboolean is_told;      /* main knows where it is: */
  LlmResidency told;
  guint64 told_bytes;
} LlmSession;

/* @context: (nullable). */
LlmSession  *llm_session_new     (guint64           id,
                                  LlmApp           *app,
                                  const char       *context,
                                  gboolean          is_named,
                                  LlmLedger        *ledger,
                                  LlmKvStore       *store);
void         llm_session_free    (LlmSession       *self);

/* Gives a session without KV cache an empty one, which attaches when its sequence is open. */
void         llm_session_open    (LlmSession       *self);
/* For a session that was opened, and whose sequence is open: its window has slid by @n_slid behind
 * @n_sinks (L11); finds what storage has of the first @n_max of @prompt, which were computed as
 * @states say. */
void         llm_session_attach  (LlmSession       *self,
                                  const GArray     *prompt,
                                  const GByteArray *states,
                                  guint             n_sinks,
                                  guint             n_slid,
                                  guint             n_max);
/* Length of the cached prefix of @prompt: its first tokens, at most @n_max, computed as @states
 * say. */
guint        llm_session_count_common (LlmSession  *self,
                                  const GArray     *prompt,
                                  const GByteArray *states,
                                  guint             n_max);
/* How many of the first @n_max tokens of @prompt another session could share without loss: whole
 * chunks, computed alike and not quantized since; with @any quantized ones too. */
guint        llm_session_count_shareable (LlmSession *self,
                                  const GArray     *prompt,
                                  const GByteArray *states,
                                  guint             n_max,
                                  gboolean          any);
/* (transfer full): one that keeps the first @n slots as they are, for others to share. */
LlmSession  *llm_session_keep    (LlmSession       *self,
                                  guint             n);
/* Gives @self, which has attached and found nothing, the first @n slots of @from (L15). */
void         llm_session_share   (LlmSession       *self,
                                  LlmSession       *from,
                                  guint             n);
/* Gives @self, which has no KV cache, all of @from. */
void         llm_session_fork    (LlmSession       *self,
                                  LlmSession       *from);
/* Whether its KV cache can be cut to what it has in common with the first @n_max of @prompt, and
 * shows no less than a window that has slid by @n_slid after @n_sinks. */
gboolean     llm_session_is_usable (LlmSession     *self,
                                  const GArray     *prompt,
                                  const GByteArray *states,
                                  guint             n_sinks,
                                  guint             n_slid,
                                  guint             n_max);
/* Slides the window until @n_slid tokens after @n_sinks are gone; @n_sinks is the same each time.
 * Tokens that the session does not have yet are taken from @prompt: they are never computed. */
void         llm_session_slide   (LlmSession       *self,
                                  const GArray     *prompt,
                                  const GByteArray *states,
                                  guint             n_sinks,
                                  guint             n_slid);
/* The place in @tokens of what is in a slot. */
guint        llm_session_find_token (LlmSession    *self,
                                  guint             slot);
/* Cuts the session to its common prefix with @prompt, computed as @states say, at most @n_max
 * tokens; returns its length. */
guint        llm_session_rewind  (LlmSession       *self,
                                  const GArray     *prompt,
                                  const GByteArray *states,
                                  guint             n_max);
/* Makes room for @n tokens more, which the caller's rows will fill. */
gboolean     llm_session_extend  (LlmSession       *self,
                                  const gint32     *tokens,
                                  const guint8     *states,
                                  guint             n,
                                  GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* Of the tokens from @first on, keeps only those at @first + @path[i], with their K and V; @path
 * rises (C4). */
void         llm_session_commit  (LlmSession       *self,
                                  guint             first,
                                  const guint      *path,
                                  guint             n_path);
/* Removes the tokens from @length on: rows that were not computed. */
void         llm_session_cut     (LlmSession       *self,
                                  guint             length);
/* The request that used it has ended, see llm_kv_seq_end_call(). */
void         llm_session_end_call (LlmSession      *self);
/* Drops the chunks in memory; those on storage stay. */
void         llm_session_drop    (LlmSession       *self);

LlmResidency llm_session_get_residency (LlmSession *self);

G_END_DECLS
