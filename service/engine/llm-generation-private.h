/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* For the engine: how an answer is begun and what it is made of. Main thread. */

#pragma once

#include "engine/llm-answer-record.h"
#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/**
 * llm_generation_start:
 * @context: (nullable): loaded, and marked as busy until the answer has ended
 * @messages: `a(ssa{sv})`: what is asked, history included when there is no context
 * @raw: (nullable): this prompt as it is, instead of messages
 * @admission: (transfer full): returns the generation once it is admitted, or why it is not
 */
void           llm_generation_start            (LlmEngine              *engine,
                                                LlmContext             *context,
                                                LlmCaller              *caller,
                                                GVariant               *messages,
                                                const char             *raw,
                                                LlmCallOptions         *options,
                                                LlmSink                *sink,
                                                GTask                  *admission);

/* One that is done already: for an answer that is only repeated. (transfer full) */
LlmGeneration *llm_generation_new_settled      (LlmCaller              *caller);

/* Ends it for good: the service ends. Calls nobody back. */
void           llm_generation_abandon          (LlmGeneration          *self);
/* The reader or caller has left: nothing of it is kept. */
void           llm_generation_leave            (LlmGeneration          *self);

/* --- the parts of it, for its own files --- */

struct _LlmGeneration
{
  GObject parent_instance;

  char *id;
  LlmEngine *engine;        /* (unowned): outlives it */
  LlmContext *context;      /* (nullable) (owned) */
  LlmCaller *caller;
  LlmCallOptions *options;
  LlmSink *sink;            /* (owned) */
  GVariant *messages;
  char *raw;                /* (nullable) */
  gint64 arrived_us;

  GTask *admission;         /* (nullable) (owned): until admitted or refused */
  LlmModel *model;          /* (nullable) (owned): from then on */
  LlmRequest *request;      /* (nullable) (owned) */
  GQueue waiting_end;       /* (element-type GTask) (owned): of cancel calls */
  GVariant *results;        /* (nullable): while being committed */
  LlmAnswerRecord record;   /* for the journal */
  guint stall_timer;        /* source */
  gboolean is_cancelled;
  gboolean is_left;         /* nobody is there to take the rest */
  gboolean is_done;
  gboolean exits;           /* the script lets the service go away instead of telling the end */
};

/* Ends it, once: whoever waits is told. Either @error (nullable) or @results, when there is an
 * answer. */
void           llm_generation_settle           (LlmGeneration          *self,
                                                GVariant               *results,
                                                const GError           *error);
/* An LlmRequest's, with its generation as data: the executor took the request; a piece of text. */
void           llm_generation_request_admitted (LlmRequest             *request,
                                                gpointer                data);
void           llm_generation_request_text     (LlmRequest             *request,
                                                const char             *text,
                                                gsize                   length,
                                                gpointer                data);
/* llm-generation-results.c: likewise; takes the request's reference to the generation. */
void           llm_generation_request_done     (LlmRequest             *request,
                                                const LlmRequestResult *result,
                                                gpointer                data);

G_END_DECLS
