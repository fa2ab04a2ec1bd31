/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* For the engine: contexts from the inside. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

struct _LlmContext
{
  GObject parent_instance;

  LlmEngine *engine;              /* (unowned): outlives what is done with its contexts */
  LlmLedger *ledger;              /* (owned): a context may be let go of after its engine */
  char *id;
  char *name;                     /* "" for an unnamed one */
  LlmApp *app;                     /* (owned) */
  char *connection;               /* (nullable): an unnamed one ends with it */
  guint max_tokens;               /* 0: as many as the model has */
  char *slo;
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
  gboolean is_counting;           /* waits to be counted, or is: see llm-engine-counts.c */
  char *damage;                   /* (nullable): it can only be closed: see LlmStoredContext */
  LlmGeneration *generation;      /* (nullable) (unowned): the answer under way */
  LlmRequest *ahead;                  /* (nullable) (owned): reads text in though nobody waits for it */
  GQueue waiting_idle;            /* (element-type GTask) (owned): wait for the call to end */
};

LlmContext *llm_context_new          (LlmEngine          *engine,
                                      LlmApp             *app,
                                      const char         *id);
gboolean    llm_context_is_named     (LlmContext         *self);
gboolean    llm_context_may_see      (LlmContext         *self,
                                      LlmCaller          *caller);
guint64     llm_context_get_bytes    (LlmContext         *self);
/* Bytes of text in memory that the database also has: what forgetting would free. */
guint64     llm_context_get_forgettable (LlmContext      *self);
/* Drops the text of a stored context from memory; it is read again when needed. */
void        llm_context_forget       (LlmContext         *self);
/* Says whose memory @request uses. */
void        llm_context_set_session  (LlmContext         *self,
                                      LlmRequest             *request);
/* Counts the text that is in memory; after every change of it. */
void        llm_context_count        (LlmContext         *self);
/* Positions it may have with the loaded model. */
guint       llm_context_get_limit    (LlmContext         *self,
                                      LlmModel           *model);

/* Whether its tokens were counted by the model that was loaded last. */
gboolean    llm_context_is_counted   (LlmContext         *self);
/* FALSE with STORAGE when what is stored of it is damaged. */
gboolean    llm_context_check        (LlmContext         *self,
                                      GError            **error);

/* Makes sure that the conversation is in memory, and is there in @callback, which must call
 * llm_context_load_finish(). */
void        llm_context_load         (LlmContext         *self,
                                      GAsyncReadyCallback callback,
                                      gpointer            data);
gboolean    llm_context_load_finish  (LlmContext         *self,
                                      GAsyncResult       *result,
                                      GError            **error);

/* Calls @begin with @task: at once, or after a read-ahead of earlier text was
 * stopped. Nobody waits for that, so no call fails with CONTEXT_BUSY for it. */
typedef void (*LlmContextBegin) (GTask *task);
void        llm_context_begin        (LlmContext         *self,
                                      LlmContextBegin     begin,
                                      GTask              *task);
/* Asks a read-ahead to end; what it has read in stays. */
void        llm_context_stop_ahead   (LlmContext         *self);

/* Takes the right to change it, or fails with CONTEXT_BUSY, CONFLICT or NOT_FOUND. */
gboolean    llm_context_claim        (LlmContext         *self,
                                      LlmCallOptions     *options,
                                      GError            **error);
void        llm_context_release      (LlmContext         *self);

/**
 * llm_context_commit:
 * @n_turns: turns to keep of what there is
 * @turn: (nullable) (transfer full): the one to add
 *
 * Makes the change durable where the context is named, then applies it. On
 * failure nothing has changed. The context must be claimed.
 */
void        llm_context_commit       (LlmContext         *self,
                                      guint               n_turns,
                                      LlmTurn            *turn,
                                      GAsyncReadyCallback callback,
                                      gpointer            data);
gboolean    llm_context_commit_finish (LlmContext        *self,
                                      GAsyncResult       *result,
                                      GError            **error);

/* Ends it at once without touching what is stored elsewhere. */
void        llm_context_end          (LlmContext         *self,
                                      const char         *reason);

/* Cancels its call, and ends it when that has ended. @reason: static, as for the signal. */
void        llm_context_leave        (LlmContext         *self,
                                      const char         *reason);

/* The prompt for @messages (nullable) after what is there. */
LlmPrepareInput *llm_context_make_input (LlmContext      *self,
                                      LlmModel           *model,
                                      GVariant           *messages,
                                      gboolean            opens_answer);

G_END_DECLS
