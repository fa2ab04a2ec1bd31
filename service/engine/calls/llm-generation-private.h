/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* For the engine: starting an answer, and its parts. Main thread. */

#pragma once

#include "engine/calls/llm-call.h"

G_BEGIN_DECLS

/* For a call of a context that has claimed it and has its text in memory, or of the engine, with a
 * place in the quota: returns the generation once it is admitted, or the reason of the refusal. */
void           llm_generation_start            (GTask                  *task);

/* A generation that is done already: for an answer that is only repeated. (transfer full) */
LlmGeneration *llm_generation_new_settled      (LlmCaller              *caller);

/* Ends it for good, because the service ends. Calls no callback. */
void           llm_generation_abandon          (LlmGeneration          *self);
/* The reader or caller has left: the answer is not kept. */
void           llm_generation_leave            (LlmGeneration          *self);
/* Ends it, once, and tells the waiting callers. Either @error (nullable) or @results, when there is
 * an answer. */
void           llm_generation_settle           (LlmGeneration          *self,
                                                GVariant               *results,
                                                const GError           *error);

/* --- the parts of it, for its own files --- */

struct _LlmGeneration
{
  GObject parent_instance;

  char *id;
  LlmEngine *engine;        /* (unowned): outlives it */
  LlmCaller *caller;
  GTask *task;              /* (nullable) (owned): the call, until the end */
  LlmCall *call;            /* (nullable) (unowned): its data */
  LlmRequest *request;      /* (nullable) (owned) */
  const LlmRequestResult *result; /* (nullable) (unowned): of the request, once it has ended */
  GVariant *results;        /* (nullable): for the caller, while the turn is committed */
  GQueue waiting_end;       /* (element-type GTask) (owned): of cancel calls */
  GString *logprobs;        /* (owned): members of a JSON array, where the sink takes none */
  LlmCallReader *reader;    /* (nullable): finds tool calls */
  guint n_calls;            /* tool calls that were sent to the sink */
  char *calls;              /* (nullable): as JSON, once the request has ended */
  gboolean has_cut_call;    /* and an incomplete one */
  gint64 arrived_us;
  guint stall_timer;        /* source */
  guint progress_timer;     /* source, until there is text */
  char *progress;           /* (nullable) (owned): the last report */
  gboolean is_admitted;     /* the call has returned it */
  gboolean is_left;         /* the caller has gone and takes no results */
  gboolean is_done;
  gboolean exits;           /* the script ends the service instead of the answer */
};

/* llm-generation-progress.c: reports to the sink how far the request is, until it has text or
 * ends. */
void           llm_generation_begin_progress   (LlmGeneration          *self);
void           llm_generation_end_progress     (LlmGeneration          *self);

/* An LlmRequest's, with its generation as data: the executor took the request; a piece of text. */
void           llm_generation_request_admitted (LlmRequest             *request,
                                                gpointer                data);
void           llm_generation_request_text     (LlmRequest             *request,
                                                const char             *text,
                                                gsize                   length,
                                                gpointer                data);
void           llm_generation_request_reasoning (LlmRequest            *request,
                                                const char             *text,
                                                gsize                   length,
                                                gpointer                data);
void           llm_generation_request_logprobs (LlmRequest             *request,
                                                const char             *items,
                                                gpointer                data);
/* Likewise: tokens of an answer that may have tool calls. */
void           llm_generation_request_bytes    (LlmRequest             *request,
                                                const char             *bytes,
                                                gsize                   length,
                                                gpointer                data);
/* llm-generation-results.c: likewise; takes the request's reference to the generation. */
void           llm_generation_request_done     (LlmRequest             *request,
                                                const LlmRequestResult *result,
                                                gpointer                data);
/* llm-generation-record.c: writes a record of an ended answer to the journal: its caller, sizes,
 * speed, and how it ended; never its text, nor the name of a context. Without a journal it is one
 * debug message. @error: (nullable): why it has no result. */
void           llm_generation_send_record      (LlmGeneration          *self,
                                                const GError           *error);

G_END_DECLS
