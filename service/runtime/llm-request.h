/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A request: one call from admission to its result. It brings a session to the prompt's tokens,
 * then generates, if asked to. Made and filled in on the main thread. The first part is immutable
 * once it is submitted, the atomic fields carry messages between the two threads while it runs, and
 * the rest is the executor's until on_done is called on the main thread, where the result may be
 * read from then on.
 */

#pragma once

#include <gio/gio.h>

#include "base/llm-app.h"
#include "decoding/draft/llm-draft-source.h"
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

/* Why a request has no rows yet. */
typedef enum
{
  LLM_REQUEST_WAIT_TURN,    /* it is queued behind others */
  LLM_REQUEST_WAIT_MEMORY,
  LLM_REQUEST_WAIT_STORAGE, /* it is not known yet what storage has of its context */
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
  guint n_slid;          /* tokens of prompt and answer that have left the sliding window */
  guint n_reused;        /* of the prompt: found in the session's KV cache, in memory or on
                          * storage */
  guint n_drafted;       /* drafted tokens that were verified; of them accepted; decode steps */
  guint n_accepted;
  guint n_passes;
  guint n_kept;          /* of the drafted tokens: made while an earlier step waited for weights */
  guint sub_model;       /* percent of the model that computed it; 0: nothing was computed */
  double sub_model_quality; /* percent of the whole model's, 0 where it was not measured */
  guint sparsity;        /* percent of the layers' weights that each row of its answer left out */
  double sparse_quality; /* likewise of such an answer */
  gboolean is_w8;        /* the prompt's new tokens were computed in W8A8 */
  const char *exact_reason; /* (nullable) (unowned): why they were not; NULL where nothing was
                          * computed */
  double kv_bits;        /* of a number of K and V of what the model saw, mean over the tokens; 0:
                          * nothing was computed */
  gboolean took_quantized; /* the session began with chunks that another session had quantized */
  double ttft_ms;        /* from arrival to the first token, 0 if none came */
  double tpot_ms;        /* mean of the further tokens, 0 with fewer than two */
  double queue_ms;       /* from arrival to the first rows, 0 if none were computed */
  double forecast_ms;    /* forecast of ttft_ms on arrival; 0: step costs were unknown */
  double forecast_tpot_ms; /* forecast of tpot_ms, if it ran alone */
  LlmSlo slo;            /* the targets: the request's own, or those computed from its fractions */
  double whole_ttft_ms;  /* forecast on arrival for the whole model alone; fractions are of this; 0:
                          * step costs were unknown */
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

/* Which session's KV cache it uses and keeps. */
typedef struct
{
  guint64 session_id;    /* 0: none is kept */
  char *context;         /* (nullable) (owned): id of the session's context, which names its folder
                          * on storage */
  gboolean is_exact;     /* its chunks are not quantized further because memory is short */
  gboolean shares_any;   /* it may begin with chunks that another session has quantized */
  gboolean is_named;     /* its chunks on storage stay when the service ends */
} LlmRequestMemory;

/* The part of the context that it sees. */
typedef struct
{
  guint n_ctx;           /* positions the session may have */
  gboolean slides;       /* past them the window slides (L11), and n_ctx is large enough for that */
  guint n_system;        /* of the prompt's first tokens that stay when it slides */
} LlmRequestWindow;

/* How the tokens of a prompt are computed. */
typedef enum
{
  LLM_PREFILL_AUTO,      /* in W8A8 where that is faster, and near enough to the other */
  LLM_PREFILL_EXACT,     /* as all other tokens */
  LLM_PREFILL_W8,        /* in W8A8 wherever the model is calibrated for it */
} LlmPrefill;

/* Which sub-model computes it. */
typedef struct
{
  guint sub_model;       /* percent of the model: a level of its table */
  guint least_sub_model; /* likewise: what computes it has no less, where a smaller one is sooner */
  guint sparsity;        /* percent of the layers' weights that each row of its answer leaves out,
                          * as the model has thresholds for; the prompt's rows leave out none. 0:
                          * none; else it is of the whole model and has no drafts */
  guint most_sparsity;   /* likewise: it may leave out so much where that is sooner, and it has no
                          * drafts; 0: nothing */
  guint level;           /* the largest in the table that its rows had so far */
  GArray *levels;        /* (nullable) (owned) (element-type guint16): of the prompt's first tokens,
                          * which earlier turns computed: percent of the model, or LLM_LEVEL_SPARSE
                          * and a sparsity; and LLM_LEVEL_W8 */
  LlmPrefill prefill;    /* how the prompt's other tokens are computed, unless */
  gboolean goes_on;      /* they are of a turn whose answer goes on, as its tokens were computed: */
  guint n_w8;            /* so many of the first of them in W8A8, the others not */
} LlmRequestModel;

/* How its tokens become an answer. */
typedef struct
{
  LlmRepeats *repeats;   /* (nullable) (owned): ends the answer when it repeats itself */
  LlmReasoning *reasoning; /* (nullable) (owned): set when the answer may begin with reasoning */
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

/* Targets beside its SLO. */
typedef struct
{
  double ttft_share;     /* instead of slo.ttft_ms: of what the call takes alone with the whole
                          * model; 0: none */
  double tpot_share;     /* likewise */
  double call_share;     /* besides: of the time that the whole call takes; 0: none */
  gboolean names_ttft;   /* the caller named slo.ttft_ms, so it is not the default of a class: a
                          * smaller sub-model may compute the request to meet it */
  gboolean names_tpot;   /* likewise */
} LlmRequestTarget;

/* Callbacks, on the main thread. */
typedef struct
{
  LlmRequestAdmitted on_admitted; /* (nullable): called before all others. Without it, the request
                                   * is never refused for overload */
  LlmRequestText on_text;
  LlmRequestText on_reasoning; /* (nullable) */
  LlmRequestLogprobs on_logprobs; /* (nullable) unless n_logprobs >= 0 */
  LlmRequestText on_bytes; /* (nullable): the bytes of all tokens, as in LlmTokenTrie */
  LlmRequestDone on_done;
  gpointer data;
} LlmRequestSink;

/* Messages between both threads while it runs; all atomic. */
typedef struct
{
  guint stop_request;    /* LlmFinish: main asks it to end; 0: not asked */
  guint is_blocked;      /* the sink is full */
  guint n_unread;        /* bytes posted to main and not yet taken there */
  guint has_started;     /* some rows were computed */
  guint has_first;       /* the first token is there */
  guint n_prefilled;     /* until then: tokens of the prompt that are computed */
  guint waits_for;       /* LlmRequestWait, until it has started */
  guint n_ahead;         /* likewise: requests that are prefilled before it */
  guint64 n_restoring;   /* likewise: bytes of its chunks being read from storage */
  guint forecast_ms;     /* result.forecast_ms, 0 for none */
} LlmRequestProgress;

/* Times of its steps. */
typedef struct
{
  gint64 started_us;     /* the first step began; 0 before */
  gint64 first_us;       /* the first token came; 0 before */
  gint64 last_us;        /* the last one so far */
  gint64 due_us;         /* its decoder proposes nothing before; 0: now */
} LlmRequestTimes;

/* Output that is not posted yet. */
typedef struct
{
  GString *text;         /* (owned) */
  GString *thoughts;     /* (owned): of the reasoning, before it */
  GString *logprobs;     /* (owned) */
  GString *bytes;        /* (owned): for on_bytes */
} LlmRequestOutput;

/* Whether its chunks are in memory; set by the residency code. */
typedef struct
{
  gboolean is_resident;  /* its chunks are locked; FALSE before they fit, and while it is preempted
                          * (L9) */
  gint64 resume_us;      /* of a preempted request: not before */
  gint64 preempted_us;   /* when it was preempted, or first did not fit, since its last step; 0:
                          * neither */
  gint64 stuck_us;       /* when it first did not fit since its last step; 0: it fits */
  gboolean is_urgent;    /* it has waited long enough to use the reserve */
  gint64 urgent_us;      /* since when */
  guint64 restore_bytes; /* of its chunks, being read from storage */
  gint64 restore_us;     /* since when */
} LlmRequestRoom;

struct _LlmRequest
{
  LlmSchedEntry entry;   /* the part that the scheduler sees */
  gatomicrefcount ref_count;

  guint instance;        /* number of the loaded model that answers; 0 is the service's own */
  LlmRequestMemory memory;
  GArray *prompt;        /* (element-type gint32): all tokens before the answer */
  guint max_tokens;
  LlmRequestWindow window;
  LlmRequestModel model;
  LlmDecoder *decoder;   /* (nullable) (owned): chooses the generated tokens; NULL: prefill only */
  LlmDraftSource *own_draft; /* (nullable) (unowned): of the decoder: see llm-own-draft.h */
  LlmDraftRecord *draft_record; /* (nullable) (owned): acceptance of the decoder's drafts so far */
  LlmRequestAnswer answer;
  LlmApp *app;           /* (owned): of the caller */
  LlmSlo slo;
  LlmRequestTarget target;
  gint64 arrived_us;
  gint64 deadline_us;    /* 0: none */

  LlmRequestSink sink;
  LlmRequestProgress progress;

  /*< private >: the executor's */
  struct _LlmExecutor *executor; /* (unowned): set when submitted */
  struct _LlmRunner *runner;     /* (unowned): of its instance */
  LlmSession *session;      /* (unowned), or own_session when nothing is kept */
  LlmSession *own_session;  /* (nullable) (owned) */
  LlmTextStream *stream;    /* (nullable) (owned) */
  GByteArray *states;       /* (owned): llm_row_state() of each token of the prompt */
  guint8 own_state;         /* of its generated tokens */
  LlmRequestOutput output;
  LlmDraftTree rows;        /* of decode in the step under way; empty: it has none */
  guint length_before;      /* of the session before that step */
  guint n_known;            /* cached tokens of the prompt */
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
