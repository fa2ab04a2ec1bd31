/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One call from admission to its result: bring a session to the prompt's tokens, then perhaps
 * generate. Made on the main thread and filled in there; the first part is immutable from the
 * moment it is submitted, the atomic fields are how the two threads talk about it while it runs,
 * and the rest is the executor's until on_done is called on the main thread, where the result may
 * be read from then on.
 */

#pragma once

#include <gio/gio.h>

#include "base/llm-app.h"
#include "decoding/llm-decoder.h"
#include "decoding/llm-repeats.h"
#include "decoding/llm-text-stream.h"
#include "tokenizer/llm-tokenizer.h"
#include "runtime/llm-session.h"
#include "sched/llm-sched-entry.h"

G_BEGIN_DECLS

typedef struct _LlmRequest LlmRequest;

typedef enum
{
  LLM_FINISH_RUNNING,
  LLM_FINISH_STOP,          /* the model ended its answer */
  LLM_FINISH_STOP_STRING,   /* a stop string came */
  LLM_FINISH_LENGTH,        /* max-tokens reached */
  LLM_FINISH_REPEATS,       /* the same tokens again and again */
  LLM_FINISH_CONTEXT_FULL,  /* no position left */
  LLM_FINISH_CANCELLED,
  LLM_FINISH_STALLED,       /* the client did not read */
  LLM_FINISH_DEADLINE,
  LLM_FINISH_FAILED,        /* see the error */
} LlmFinish;

/* What a request without any rows yet waits for. */
typedef enum
{
  LLM_REQUEST_WAIT_TURN,    /* others are computed before */
  LLM_REQUEST_WAIT_MEMORY,
  LLM_REQUEST_WAIT_STORAGE, /* to know what is there of its context */
} LlmRequestWait;

typedef struct
{
  LlmFinish finish;
  GError *error;         /* (nullable) of FAILED */
  GArray *tokens;        /* (element-type gint32): generated, the end token included */
  GString *text;         /* what was sent to the sink */
  GString *reasoning;    /* likewise, before it */
  guint n_reasoning;     /* tokens before the answer */
  gboolean is_closed;    /* the last token ends the answer */
  guint n_prompt;        /* tokens of the prompt */
  guint n_slid;          /* tokens of prompt and answer that the model does not see any more */
  guint n_reused;        /* of the prompt, found in the session's memory, or on storage */
  guint n_drafted;       /* guesses that were verified; of them right; the steps of its decode */
  guint n_accepted;
  guint n_passes;
  guint n_kept;          /* of the guesses, made while an earlier step waited for weights */
  guint sub_model;       /* percent of the model that computed it; 0: nothing was computed */
  guint sparsity;        /* percent of the layers' weights that each row of its answer left out */
  double kv_bits;        /* of a number of K and V of what the model saw, mean over the tokens; 0:
                          * nothing was computed */
  gboolean took_quantized; /* the session began with chunks that another had quantized */
  double ttft_ms;        /* from arrival to the first token, 0 if none came */
  double tpot_ms;        /* mean of the further tokens, 0 with fewer than two */
  double queue_ms;       /* from arrival to the first rows, 0 if none were computed */
  double forecast_ms;    /* of ttft_ms, made when the request came; 0: what steps cost was not known
                          * yet */
  double forecast_tpot_ms; /* likewise of tpot_ms, if it ran alone */
  LlmSlo slo;            /* what it was held to: the request's, or what its fractions came to */
  double whole_ttft_ms;  /* what the whole model would have taken alone, as forecast when the request
                          * came: what its fractions are of; 0: what steps cost was not known yet */
  double whole_tpot_ms;
} LlmRequestResult;

/* All run on the main thread. */
typedef void (*LlmRequestText) (LlmRequest *request,
                                const char *text,
                                gsize       length,
                                gpointer    data);
/* @items: members of a JSON array, see llm_logprobs_append(). */
typedef void (*LlmRequestLogprobs) (LlmRequest *request,
                                    const char *items,
                                    gpointer    data);
typedef void (*LlmRequestAdmitted) (LlmRequest *request,
                                    gpointer    data);
typedef void (*LlmRequestDone) (LlmRequest             *request,
                                const LlmRequestResult *result,
                                gpointer                data);

/* Whose KV cache it uses and keeps. */
typedef struct
{
  guint64 session_id;    /* 0: none is kept */
  char *context;         /* (nullable) (owned): id of the session's context, whose folder on storage
                          * it has */
  gboolean is_exact;     /* its chunks are not quantized further because memory is short */
  gboolean shares_any;   /* it may begin with chunks that another session has quantized */
  gboolean is_named;     /* what it has there stays when the service ends */
} LlmRequestMemory;

/* What it sees. */
typedef struct
{
  guint n_ctx;           /* positions the session may have */
  gboolean slides;       /* past them the window slides (L11), and n_ctx is large enough for that */
  guint n_system;        /* of the prompt's first tokens that stay when it slides */
} LlmRequestWindow;

/* Which part of the model computes it. */
typedef struct
{
  guint sub_model;       /* percent of the model: a level of its table */
  guint least_sub_model; /* likewise: what computes it has no less, where a smaller one is sooner */
  guint sparsity;        /* percent of the layers' weights that each row of its answer leaves out, as
                          * the model has thresholds for; the prompt's rows leave out none. 0: none;
                          * else it is of the whole model and has no drafts */
  guint level;           /* the largest in the table that its rows had so far */
  GByteArray *levels;    /* (nullable) (owned): of the prompt's first tokens, which earlier turns
                          * computed: percent of the model, or LLM_LEVEL_SPARSE and a sparsity */
} LlmRequestModel;

/* What becomes of its tokens. */
typedef struct
{
  LlmRepeats *repeats;   /* (nullable) (owned): ends the answer when it goes round */
  LlmReasoning *reasoning; /* (nullable) (owned): the answer may begin with it */
  GStrv stops;           /* (nullable) (owned) */
  char *calls_marker;    /* (nullable) (owned): where the text ends, though not the answer; see
                          * llm_text_stream_set_marker() */
  gboolean calls_at_start;
  GString *begun;        /* (nullable) (owned): bytes of half a character that the answer goes on
                          * from; nothing of them is sent */
  int n_logprobs;        /* alternatives of each token that are told with its log-probability; -1:
                          * nothing is */
  gboolean strips_space; /* the answer's first space is the tokenizer's, not the model's */
} LlmRequestAnswer;

/* What it is held to beside its SLO. */
typedef struct
{
  double ttft_share;     /* instead of slo.ttft_ms: of what the call takes alone with the whole model; 0:
                          * none */
  double tpot_share;     /* likewise */
  double call_share;     /* besides: of the time that the whole call takes; 0: none */
  gboolean names_ttft;   /* slo.ttft_ms is the caller's own word, not that of a class: a smaller
                          * sub-model may compute it to be in time */
  gboolean names_tpot;   /* likewise */
} LlmRequestTarget;

/* Who is told of it, on the main thread. */
typedef struct
{
  LlmRequestAdmitted on_admitted; /* (nullable): before anything else is heard of it. Without, it is
                                   * never refused because others wait */
  LlmRequestText on_text;
  LlmRequestText on_reasoning; /* (nullable) */
  LlmRequestLogprobs on_logprobs; /* (nullable) unless n_logprobs >= 0 */
  LlmRequestText on_bytes; /* (nullable): what all of the tokens are, as in LlmTokenTrie */
  LlmRequestDone on_done;
  gpointer data;
} LlmRequestSink;

/* How both threads talk about it while it runs; all of it atomic. */
typedef struct
{
  guint stop_request;    /* LlmFinish: main asks to end; 0 while not */
  guint is_blocked;      /* the sink is full */
  guint n_unread;        /* bytes posted to main and not yet taken there */
  guint has_started;     /* some rows were computed */
  guint has_first;       /* the first token is there */
  guint n_prefilled;     /* until then: tokens of the prompt that are computed */
  guint waits_for;       /* LlmRequestWait, until it has started */
  guint n_ahead;         /* likewise: requests whose prompts are computed before */
  guint64 n_restoring;   /* likewise: bytes of its chunks that storage is read for */
  guint forecast_ms;     /* result.forecast_ms, 0 for none */
} LlmRequestProgress;

/* When its steps came. */
typedef struct
{
  gint64 started_us;     /* the first rows were begun; 0 before */
  gint64 first_us;       /* the first token came; 0 before */
  gint64 last_us;        /* the last one so far */
  gint64 due_us;         /* its decoder proposes nothing before; 0: now */
} LlmRequestTimes;

/* What is to be posted next. */
typedef struct
{
  GString *text;         /* (owned) */
  GString *thoughts;     /* (owned): of the reasoning, before it */
  GString *logprobs;     /* (owned) */
  GString *bytes;        /* (owned): for on_bytes */
} LlmRequestOutput;

/* Whether it has room for its chunks; the residency's. */
typedef struct
{
  gboolean is_resident;  /* its chunks are locked; FALSE before there was room for it, and while
                          * it is preempted (L9) */
  gint64 resume_us;      /* of a preempted request: not before */
  gint64 preempted_us;   /* when it was, or first found no room, since its last step; 0 for not */
  gint64 stuck_us;       /* when it first found no room since its last step; 0 for not */
  gboolean is_urgent;    /* it has waited long enough: the reserve is for it */
  gint64 urgent_us;      /* since when */
  guint64 restore_bytes; /* of its chunks, being read from storage */
  gint64 restore_us;     /* since when */
} LlmRequestRoom;

struct _LlmRequest
{
  LlmSchedEntry entry;   /* all that the scheduler sees of it */
  gatomicrefcount ref_count;

  guint instance;        /* number of the loaded model that answers; 0 is the service's own */
  LlmRequestMemory memory;
  GArray *prompt;        /* (element-type gint32): all tokens before the answer */
  guint max_tokens;
  LlmRequestWindow window;
  LlmRequestModel model;
  LlmDecoder *decoder;   /* (nullable) (owned): chooses the tokens of the answer; NULL: prefill
                          * only */
  LlmDraftRecord *draft_record; /* (nullable) (owned): what is known of the decoder's guesses */
  LlmRequestAnswer answer;
  LlmApp *app;           /* (owned): whose call it is */
  LlmSlo slo;
  LlmRequestTarget target;
  gint64 arrived_us;
  gint64 deadline_us;    /* 0: none */

  LlmRequestSink sink;
  LlmRequestProgress progress;

  /*< private >: the executor's */
  struct _LlmExecutor *executor; /* (unowned): set when submitted */
  struct _LlmRunner *runner;     /* (unowned): of its instance */
  LlmSession *session;      /* (unowned), or the request's own when it keeps none */
  LlmSession *own_session;  /* (nullable) (owned) */
  LlmTextStream *stream;    /* (nullable) (owned) */
  GByteArray *states;       /* (owned): llm_row_state() of each token of the prompt */
  guint8 own_state;         /* of what it generates */
  LlmRequestOutput output;
  LlmDraftTree rows;        /* of decode in the step under way; empty: it has none */
  guint length_before;      /* of the session before that step */
  guint n_known;            /* tokens of the prompt that the session had */
  gboolean is_opening;      /* what storage has of its context is not known yet; not scheduled
                             * then */
  LlmRequestRoom room;
  LlmRequestTimes times;

  LlmRequestResult result;
};

/* Of class responsive. */
LlmRequest *llm_request_new   (LlmApp     *app);
LlmRequest *llm_request_ref   (LlmRequest *self);
void        llm_request_unref (LlmRequest *self);
/* The request that embeds @entry. */
LlmRequest *llm_request_of    (LlmSchedEntry *entry);

/* "stop", "length", "context-full", "cancelled", "stalled", "deadline". */
const char *llm_finish_to_string (LlmFinish finish);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmRequest, llm_request_unref)

G_END_DECLS
