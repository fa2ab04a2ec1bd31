/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A call of a context or of the engine: the data of its GTask, whose source is the context or the
 * engine. It goes on in steps: each function that waits goes on with the next step, or ends the
 * call with the error; none takes the task. For the files with the calls. Main thread.
 */

#pragma once

#include "engine/llm-context-private.h"

G_BEGIN_DECLS

typedef struct _LlmCall LlmCall;
typedef void (*LlmCallStep) (GTask   *task,
                             LlmCall *call);

struct _LlmCall
{
  LlmEngine *engine;        /* (unowned) */
  LlmCallStep step;         /* what comes after the wait */
  LlmCaller *caller;        /* (nullable) */
  GVariant *messages;       /* (nullable) */
  LlmCallOptions *options;  /* (nullable) */
  LlmPass *pass;            /* (nullable): the call in the quota */
  LlmContext *context;      /* (nullable): whose call it is, or that it makes: not in the table yet */
  gboolean has_claimed;     /* it */
  guint first;
  guint count;

  /* of a call that is tokenized */
  char *raw;                /* (nullable): this prompt as it is, instead of messages */
  LlmModel *model;          /* (nullable): tokenizes */
  GArray *tokens;           /* (nullable) (element-type gint32): the prompt */
  guint n_system;           /* of these, of the system messages, if it slides */
  gboolean slides;          /* goes on with the newest part of what is too long */
  gboolean counts_held;     /* tokenizes what the context holds, without the messages */
  gboolean may_fail;        /* to be tokenized: goes on without tokens */
  guint n_added;            /* tokens */
  guint n_turns;            /* to keep, */
  LlmTurn *turn;            /* (nullable): and to add */
  LlmCallStep then;         /* when that is stored */
  LlmRequest *request;      /* (nullable): prefills them */

  /* of an answer */
  LlmSink *sink;            /* (nullable): gets it */
  LlmGeneration *generation; /* (nullable) (unowned): ends the call */
  gboolean is_cancelled;

  char *name;               /* (nullable): of a context, or the id of a model */
  gboolean has_looked;      /* for new models, once */
  GPtrArray *quotas;        /* (nullable) (element-type LlmStoredQuota) (owned): to be set */

  /* of a context that is made */
  LlmContext *source;       /* (nullable): to fork from */
  LlmPass *place;           /* (nullable): of @context in the quota, until it is in the table */
  GQueue waiting;           /* (element-type GTask) (owned): open the same name */
};

GTask *llm_call_new         (gpointer            source,
                             LlmCaller          *caller,
                             GVariant           *messages,
                             LlmCallOptions     *options,
                             GAsyncReadyCallback callback,
                             gpointer            data);
/* Waits until models and what is stored are known. */
void   llm_call_await_start (GTask              *task,
                             LlmCallStep         step);
/* Begins a call that changes its context: stops a prefill ahead and waits for its end, so no call
 * fails with CONTEXT_BUSY for it; checks the quota, claims the context and loads it. */
void   llm_call_begin       (GTask              *task,
                             LlmCallStep         step);
/* Has the text of the context in memory. */
void   llm_call_load        (GTask              *task,
                             LlmCallStep         step);
/* Waits for the model, and renders and tokenizes the prompt in another thread: by the model that
 * is in use in the end. */
void   llm_call_tokenize    (GTask              *task,
                             LlmCallStep         step);
/* A transaction of the database. Takes @data. */
void   llm_call_store       (GTask              *task,
                             LlmDbFunc           func,
                             gpointer            data,
                             GDestroyNotify      destroy,
                             LlmCallStep         step);
/* Changes the context, which is claimed, durably where it is named: keeps @n_turns of what there is
 * and adds @turn (nullable). On failure nothing has changed. Takes @turn. */
void   llm_call_commit      (GTask              *task,
                             guint               n_turns,
                             LlmTurn            *turn,
                             LlmCallStep         step);
/* Gives back what the call holds: its places in the quota, its context, the name it makes. */
void   llm_call_release     (GTask              *task);
/* Ends it. Takes @error. */
void   llm_call_fail        (GTask              *task,
                             GError             *error);
/* Steps that end it, with TRUE or with the number of tokens. */
void   llm_call_end         (GTask              *task,
                             LlmCall            *call);
void   llm_call_return_count (GTask             *task,
                             LlmCall            *call);

/* llm-engine-script.c: gives @request, which is complete but for that, its reply; or the error with
 * which the script refuses the call. */
gboolean llm_engine_script_reply (LlmCall    *call,
                                  LlmRequest *request,
                                  GError    **error);

G_END_DECLS
