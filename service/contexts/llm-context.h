/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One conversation of one application, as data: who owns it, what it holds, what is known of its KV
 * cache, and the right to change it. What callers do with it is in engine/. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "accounts/llm-caller.h"
#include "common/llm-call-options.h"
#include "contexts/llm-context-store.h"
#include "kv/llm-context-memory.h"
#include "memory/llm-ledger.h"
#include "model/llm-model.h"

G_BEGIN_DECLS

#define LLM_TYPE_CONTEXT (llm_context_get_type ())
G_DECLARE_FINAL_TYPE (LlmContext, llm_context, LLM, CONTEXT, GObject)

guint          llm_context_get_tokens    (LlmContext *self);
/* Where most of its chunks are, as last heard: "memory", "compressed" (in memory, with fewer bits),
 * "storage", or "text" (to be computed again). */
const char    *llm_context_get_residency (LlmContext *self);

/* Signal "closed" (const char *reason): "closed", "disconnected" or "administrator"; the context is
 * gone for all. */

struct _LlmContext
{
  GObject parent_instance;

  LlmLedger *ledger;              /* (owned): a context may be let go of after its engine */
  char *const *identity;          /* (unowned): where that of the model stands that counts tokens */
  char *id;                       /* random, never reused, stable for named contexts: the last part
                                   * of its object path */
  char *name;                     /* "" for an unnamed one */
  LlmApp *app;                     /* (owned) */
  char *connection;               /* (nullable): an unnamed one ends with it */
  guint max_tokens;               /* 0: as many as the model has */
  char *slo;
  LlmContextTraits traits;        /* as its last opener wanted them */
  guint64 revision;
  gint64 created;
  gint64 used;
  guint64 session;                /* at the executor */
  guint64 session_bytes;          /* what it holds there, as last heard */
  LlmResidency residency;         /* likewise */

  LlmConversation *conversation;  /* (nullable): not read from the database yet */
  guint n_counted;                /* tokens, while not read: */
  char *counted_by;               /* (nullable): as the model of this identity counted them */
  guint64 stored_bytes;           /* while not read */
  guint64 counted_bytes;          /* of it in the ledger */

  guint n_loading;                /* callers of llm_context_load() that have not its end yet */
  gboolean is_busy;               /* one call at a time */
  gboolean is_closed;
  gboolean is_counting;           /* waits to be counted, or is */
  char *damage;                   /* (nullable): it can only be closed: see LlmStoredContext */
  GQueue waiting_idle;            /* (element-type GTask) (owned): wait for the call to end */

  /* what the engine keeps of it, which is opaque here: */
  struct _LlmEngine *engine;      /* (unowned): outlives what is done with its contexts */
  struct _LlmGeneration *generation; /* (nullable) (unowned): the answer under way */
  struct _LlmRequest *ahead;      /* (nullable) (owned): prefills text in the background */
};

/* @session: number of its KV cache; @ledger: counts its text; @identity: as in the struct. */
LlmContext    *llm_context_new           (LlmApp      *app,
                                          const char  *id,
                                          guint64      session,
                                          LlmLedger   *ledger,
                                          char *const *identity);
gboolean       llm_context_is_named      (LlmContext  *self);
gboolean       llm_context_may_see       (LlmContext  *self,
                                          LlmCaller   *caller);
guint64        llm_context_get_bytes     (LlmContext  *self);
/* Bytes of text in memory that the database also has: what forgetting would free. */
guint64        llm_context_get_forgettable (LlmContext *self);
/* Drops the text of a stored context from memory; it is read again when needed. */
void           llm_context_forget        (LlmContext  *self);
/* Counts the text that is in memory; after every change of it. */
void           llm_context_count         (LlmContext  *self);
/* Positions it may have with @model. */
guint          llm_context_get_limit     (LlmContext  *self,
                                          LlmModel    *model);
/* Whether its tokens were counted by the model that was loaded last. */
gboolean       llm_context_is_counted    (LlmContext  *self);
/* FALSE with STORAGE when what is stored of it is damaged. */
gboolean       llm_context_check         (LlmContext  *self,
                                          GError     **error);

/* Takes the right to change it, or fails with CONTEXT_BUSY, CONFLICT or NOT_FOUND. */
gboolean       llm_context_claim         (LlmContext  *self,
                                          LlmCallOptions *options,
                                          GError     **error);
void           llm_context_release       (LlmContext  *self);

G_END_DECLS
