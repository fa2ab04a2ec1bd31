/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A call of a context or of the engine while it waits: the data of its GTask, whose source is the
 * context or the engine. For the files with the calls. Main thread.
 */

#pragma once

#include "engine/llm-context-private.h"

G_BEGIN_DECLS

typedef struct _LlmCall LlmCall;
typedef void (*LlmCallStep) (GTask   *task,
                             LlmCall *call);

struct _LlmCall
{
  LlmCaller *caller;        /* (nullable) */
  GVariant *messages;       /* (nullable) */
  LlmCallOptions *options;  /* (nullable) */
  LlmSink *sink;            /* (nullable): gets an answer */
  LlmModel *model;          /* (nullable): tokenizes */
  LlmPass *pass;            /* (nullable): the call in the quota */
  LlmCallStep step;         /* what comes after the wait */
  guint first;
  guint count;
  guint n_added;            /* tokens */
  guint n_tokens;           /* with what the context holds */
  gboolean counts_held;     /* tokenizes what the context holds, without the messages */

  char *name;               /* (nullable): of a context, or the id of a model */
  gboolean has_looked;      /* for new models, once */

  /* of a context that is made */
  LlmContext *source;       /* (nullable): to fork from */
  LlmContext *context;      /* (nullable): new, not in the table yet */
  LlmPass *place;           /* (nullable): of @context in the quota, until it is in the table */
  GQueue waiting;           /* (element-type GTask) (owned): open the same name */
};

GTask *llm_call_new    (gpointer            source,
                        LlmCaller          *caller,
                        GVariant           *messages,
                        LlmCallOptions     *options,
                        GAsyncReadyCallback callback,
                        gpointer            data);
/* Begins a call that changes its context: stops a prefill ahead and waits for its end, so no call
 * fails with CONTEXT_BUSY for it; checks the quota, claims the context, loads it, and goes on with
 * @step. Takes @task. */
void   llm_call_begin  (GTask              *task,
                        LlmCallStep         step);
/* Ends a call that has claimed the context. Takes @error. */
void   llm_call_fail   (GTask              *task,
                        GError             *error);
/* llm_context_commit(), which ends the call. */
void   llm_call_commit (GTask              *task,
                        guint               n_turns,
                        LlmTurn            *turn);

G_END_DECLS
