/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A call of a context or of the engine: the data of its GTask, whose source is the context or the
 * engine. It runs in steps: each function that waits continues with the next step, or ends the call
 * with the error; none takes the task. For the engine's files. Main thread.
 */

#pragma once

#include "constraints/tools/llm-call-read.h"
#include "engine/llm-engine-private.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-prepare.h"

G_BEGIN_DECLS

typedef struct _LlmCall LlmCall;
typedef void (*LlmCallStep) (GTask   *task,
                             LlmCall *call);

typedef struct
{
  LlmSink *sink;            /* (nullable): gets it */
  LlmGeneration *generation; /* (nullable) (unowned) */
  void (*failed) (LlmCall *call, const GError *error); /* (nullable): ends it instead */
  gboolean is_cancelled;
  GCancellable *compiling;  /* (nullable) (owned): cancels compiling the constraint */
} LlmCallAnswer;

struct _LlmCall
{
  LlmEngine *engine;        /* (unowned) */
  LlmCallStep step;         /* runs after the wait */
  LlmCaller *caller;        /* (nullable) */
  GVariant *messages;       /* (nullable) */
  LlmCallOptions *options;  /* (nullable) */
  LlmPass *pass;            /* (nullable): its place in the quota */
  LlmContext *context;      /* (nullable): the context that it uses; or that it makes, not in the
                             * table */
  gboolean has_claimed;     /* has claimed @context */
  guint first;
  guint count;

  /* of a call that is tokenized */
  char *raw;                /* (nullable): a raw prompt, instead of messages */
  LlmModel *model;          /* (nullable): tokenizes */
  GArray *tokens;           /* (nullable) (element-type gint32): the prompt */
  LlmThought thought;       /* whether the prompt ends in reasoning */
  guint n_left_out;         /* tokens that the prompt has less, by the option `prompt-level` */
  LlmMaskTable *masks;      /* (nullable): the constraint of the answer */
  LlmCallFormat *format;    /* (nullable): the model's format of tool calls */
  gboolean continues;       /* continues the last answer of the context */
  guint n_system;           /* of these, of the system messages, if it slides */
  gboolean slides;          /* the window slides when the text is too long */
  gboolean counts_held;     /* counts the tokens that the context holds, without the messages */
  gboolean may_fail;        /* if tokenizing fails, continues without tokens */
  guint n_added;            /* tokens */
  guint n_turns;            /* turns to keep */
  LlmTurn *turn;            /* (nullable): the turn to add */
  LlmCallStep then;         /* runs when the turn is stored */
  LlmRequest *request;      /* (nullable): prefills them */

  LlmCallAnswer answer;

  char *name;               /* (nullable): of a context, or the id of a model */
  gboolean has_looked;      /* has looked for new models, once */
  GPtrArray *quotas;        /* (nullable) (element-type LlmStoredQuota) (owned): to be set */

  /* of a context that is made */
  LlmContext *source;       /* (nullable): to fork from */
  LlmPass *place;           /* (nullable): the quota place of @context, until it is in the table */
  GQueue waiting;           /* (element-type GTask) (owned): calls that open the same name */
};

GTask *llm_call_new         (gpointer            source,
                             LlmCaller          *caller,
                             GVariant           *messages,
                             LlmCallOptions     *options,
                             GAsyncReadyCallback callback,
                             gpointer            data);
/* Waits until the models are known, and the stored state is read or can't be. */
void   llm_call_await_start (GTask              *task,
                             LlmCallStep         step);
/* The same; the call fails when the stored state can't be read. */
void   llm_call_await_stored (GTask             *task,
                              LlmCallStep        step);
/* Begins a call that changes its context: stops a background prefill of it and waits for its end,
 * so no call fails with CONTEXT_BUSY for it; checks the quota, claims the context and loads it. */
void   llm_call_begin       (GTask              *task,
                             LlmCallStep         step);
/* Loads the text of the context into memory. */
void   llm_call_load        (GTask              *task,
                             LlmCallStep         step);
/* Waits for the model, and renders and tokenizes the prompt in another thread; again if the model
 * has changed meanwhile. */
void   llm_call_tokenize    (GTask              *task,
                             LlmCallStep         step);
/* llm-call-continue.c: whether the context has an answer that a call with the option `continue` can
 * continue; if so, the call does. */
gboolean llm_call_check_continue (LlmCall        *call,
                             GError             **error);
/* The text of that answer so far. */
const char *llm_call_get_continued (LlmCall      *call);
/* Sets the beginning of the text of such a call in its request. */
void   llm_call_fill_continue (LlmCall           *call,
                             LlmRequest          *request);
/* (transfer full): a copy of the context's last turn, with the longer answer and @extras (a{sv});
 * without tokens. @n_bytes: (out): length of the answer's earlier text. */
LlmTurn *llm_call_continue_turn (LlmCall         *call,
                             const LlmRequest    *request,
                             GVariant            *extras,
                             gsize               *n_bytes);
/* Whether it continues an answer whose turn has tokens; @n_w8: how many of the first of these were
 * computed in W8A8. */
gboolean llm_call_goes_on   (LlmCall           *call,
                             const char        *identity,
                             guint             *n_w8);
/* The tokens that are settled before the turn that an answer makes. */
guint  llm_call_count_settled (LlmCall           *call,
                             const char          *identity);
/* A transaction of the database. Takes @data. */
void   llm_call_store       (GTask              *task,
                             LlmDbFunc           func,
                             gpointer            data,
                             GDestroyNotify      destroy,
                             LlmCallStep         step);
/* Changes the context, which is claimed, durably if it is named: keeps the first @n_turns turns and
 * adds @turn (nullable). On failure nothing has changed. Takes @turn. */
void   llm_call_commit      (GTask              *task,
                             guint               n_turns,
                             LlmTurn            *turn,
                             LlmCallStep         step);
/* Releases what the call holds: its places in the quota, its context, the name it makes. */
void   llm_call_release     (GTask              *task);
/* Continues with its step, or fails. Takes @error (nullable). If the answer was abandoned
 * meanwhile, because the service ends, it has no further step. */
void   llm_call_go_on       (GTask              *task,
                             GError             *error);
/* Ends it. Takes @error. */
void   llm_call_fail        (GTask              *task,
                             GError             *error);
/* Final steps, with TRUE or with the number of tokens. */
void   llm_call_end         (GTask              *task,
                             LlmCall            *call);
void   llm_call_return_count (GTask             *task,
                             LlmCall            *call);

/* llm-engine-script.c: gives @request, which is complete otherwise, its reply; or the error with
 * which the script refuses the call. */
gboolean llm_engine_script_reply (LlmCall    *call,
                                  LlmRequest *request,
                                  GError    **error);
/* Ends the service as the script says. The caller must not see the end of its answer before: takes
 * @sink. */
void     llm_engine_script_exit  (LlmEngine  *self,
                                  LlmSink    *sink);

/* --- contexts from the inside --- */

/* Stores them, if they change. */
void             llm_context_set_traits  (LlmContext         *self,
                                          LlmContextTraits    traits);
/* Records the state of its KV cache, after each of its requests. */
void             llm_context_note_result (LlmContext         *self,
                                          const LlmRequestResult *result);
void             llm_context_set_session (LlmContext         *self,
                                          LlmRequest         *request);
/* Records which sub-models computed the settled part of its prompt. */
void             llm_context_set_levels  (LlmContext         *self,
                                          LlmCall            *call,
                                          LlmRequest         *request);

/* Loads the conversation into memory if needed; it is there in @callback, which must call
 * llm_context_load_finish(). */
void             llm_context_load        (LlmContext         *self,
                                          GAsyncReadyCallback callback,
                                          gpointer            data);
gboolean         llm_context_load_finish (LlmContext         *self,
                                          GAsyncResult       *result,
                                          GError            **error);

/* Asks a background prefill to end; what it has computed stays. */
void             llm_context_stop_ahead  (LlmContext         *self);

/* Cancels its call, and ends the context when that has ended. @reason: static, as for the
 * signal. */
void             llm_context_leave       (LlmContext         *self,
                                          const char         *reason);

/* (nullable): the template that the call's messages are written with. */
LlmTemplate     *llm_call_get_template (const LlmCall  *self);
/* (transfer full): what the tokens of its turn are valid for: the model, and what of the options
 * changes the text of all turns. */
char            *llm_call_get_token_identity (const LlmCall *call);
/* Percent of the prompt that is to stay; 100 for all. */
guint            llm_call_get_prompt_level (const LlmCall *call);
/* The prompt for @messages (nullable) after what @self (nullable) holds, with @template (nullable:
 * the model has none), @tools (nullable) and @thinking, shortened to @level percent of what is not
 * settled. @counts_system: the tokens of the system messages that all begins with are counted. */
LlmPrepareInput *llm_context_make_input  (LlmContext         *self,
                                          LlmModel           *model,
                                          LlmTemplate        *template,
                                          const char         *tools,
                                          LlmThinking         thinking,
                                          guint               level,
                                          GVariant           *messages,
                                          gboolean            counts_system);

G_END_DECLS
