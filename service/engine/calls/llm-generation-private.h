/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* For the engine: how an answer is begun and what it is made of. Main thread. */

#pragma once

#include "engine/calls/llm-call.h"

G_BEGIN_DECLS

/* For a call of a context that has claimed it and has its text in memory, or of the engine, with a
 * place in the quota: returns the generation once it is admitted, or why it is not. */
void           llm_generation_start            (GTask                  *task);

/* One that is done already: for an answer that is only repeated. (transfer full) */
LlmGeneration *llm_generation_new_settled      (LlmCaller              *caller);

/* Ends it for good, because the service ends. Calls no callback. */
void           llm_generation_abandon          (LlmGeneration          *self);
/* The reader or caller has left: nothing of it is kept. */
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
  GVariant *results;        /* (nullable): what the caller is told, while being committed */
  GQueue waiting_end;       /* (element-type GTask) (owned): of cancel calls */
  GString *logprobs;        /* (owned): members of a JSON array, where the sink takes none */
  LlmCallReader *reader;    /* (nullable): finds calls of tools */
  guint n_calls;            /* of these, told to the sink */
  char *calls;              /* (nullable): as JSON, once the request has ended */
  gboolean has_cut_call;    /* and one that is not whole */
  gint64 arrived_us;
  guint stall_timer;        /* source */
  guint progress_timer;     /* source, until there is text */
  char *progress;           /* (nullable) (owned): what was told last */
  gboolean is_admitted;     /* the call has returned it */
  gboolean is_left;         /* the caller has gone and takes no results */
  gboolean is_done;
  gboolean exits;           /* the script lets the service go away instead of telling the end */
};

/* llm-generation-progress.c: tells the sink how far the request is, until it has text or ends. */
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
/* Likewise: tokens of an answer that may have calls of tools. */
void           llm_generation_request_bytes    (LlmRequest             *request,
                                                const char             *bytes,
                                                gsize                   length,
                                                gpointer                data);
/* llm-generation-results.c: likewise; takes the request's reference to the generation. */
void           llm_generation_request_done     (LlmRequest             *request,
                                                const LlmRequestResult *result,
                                                gpointer                data);
/* llm-generation-record.c: tells the journal of one that has ended: who asked, how much, how fast,
 * and how it ended; never what was said, nor what a context is called. Without a journal it is one
 * line for those who debug. @error: (nullable): why there is no answer. */
void           llm_generation_send_record      (LlmGeneration          *self,
                                                const GError           *error);

G_END_DECLS
