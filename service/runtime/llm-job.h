/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One piece of work for the executor: bring a session to the prompt's tokens,
 * then perhaps write on. Made on the main thread, immutable from the moment it
 * is submitted but for the fields marked atomic, which are how the two threads
 * talk about it while it runs.
 */

#pragma once

#include <gio/gio.h>

#include "model/tokenizer/llm-tokenizer.h"
#include "decoding/llm-sampler.h"
#include "decoding/llm-reply.h"
#include "sched/llm-slo.h"

G_BEGIN_DECLS

typedef struct _LlmJob LlmJob;

typedef enum
{
  LLM_JOB_RUNNING,
  LLM_JOB_STOP,          /* the model ended its answer */
  LLM_JOB_STOP_STRING,   /* a stop string came */
  LLM_JOB_LENGTH,        /* max-tokens reached */
  LLM_JOB_CONTEXT_FULL,  /* no position left */
  LLM_JOB_CANCELLED,
  LLM_JOB_STALLED,       /* its reader did not read */
  LLM_JOB_DEADLINE,
  LLM_JOB_FAILED,        /* see the error */
} LlmJobEnd;

typedef struct
{
  LlmJobEnd end;
  GError *error;         /* (nullable) of FAILED */
  GArray *tokens;        /* (element-type gint32): generated, the end token included */
  GString *text;         /* what was sent to the sink */
  gboolean is_closed;    /* the last token ends the answer */
  guint n_prompt;        /* tokens of the prompt */
  guint n_slid;          /* tokens of prompt and answer that the model does not see any more */
  guint n_reused;        /* of the prompt, found in the session's memory, or on storage */
  double ttft_ms;        /* from arrival to the first token, 0 if none came */
  double tpot_ms;        /* mean of the further tokens, 0 with fewer than two */
  double queue_ms;       /* from arrival to the first rows, 0 if none were computed */
  double forecast_ms;    /* of ttft_ms, made when the job came; 0: what steps cost was not known
                          * yet */
  LlmSlo slo;            /* what it was held to: the job's, or what its shares came to */
} LlmJobResult;

/* Both run on the main thread. */
typedef void (*LlmJobText) (LlmJob     *job,
                            const char *text,
                            gsize       length,
                            gpointer    data);
typedef void (*LlmJobAdmitted) (LlmJob  *job,
                                gpointer data);
typedef void (*LlmJobDone) (LlmJob             *job,
                            const LlmJobResult *result,
                            gpointer            data);

struct _LlmJob
{
  gatomicrefcount ref_count;

  struct _LlmExecutor *executor; /* (unowned): set when submitted */
  guint64 session;       /* whose memory to use and keep; 0: none is kept */
  char *context;         /* (nullable): id of the session's context, whose folder on storage it
                          * has */
  gboolean is_named;     /* what it has there stays when the service ends */
  GArray *prompt;        /* (element-type gint32): all tokens before the answer */
  GArray *generated;     /* (element-type LlmTokenSpan): of them those that were once generated */
  gboolean generates;    /* FALSE: read the prompt in and end */
  guint max_tokens;
  guint n_ctx;           /* slots the session may have */
  gboolean slides;       /* past them the window slides (L11), and n_ctx is large enough for that */
  guint n_system;        /* of the prompt's first tokens that stay when it slides */
  LlmSamplerConfig sampler;
  LlmLogitBias *bias;    /* (nullable) (owned): what sampler.bias points to */
  GStrv stops;           /* (nullable) */
  LlmReply *reply;       /* (nullable) (owned): taken instead of what the model would say */
  gboolean strips_space; /* the answer's first space is the tokenizer's, not the model's */
  guint32 uid;           /* whose call it is */
  char *app;             /* key for fairness among the user's */
  LlmSlo slo;
  double ttft_share;     /* instead of slo.ttft_ms: of what the call takes alone; 0: none */
  double tpot_share;     /* likewise */
  gint64 arrived_us;
  gint64 deadline_us;    /* 0: none */

  LlmJobAdmitted on_admitted; /* (nullable): before anything else is heard of it. Without, it is
                               * never refused because others wait */
  LlmJobText on_text;
  LlmJobDone on_done;
  gpointer data;

  guint stop_request;    /* atomic LlmJobEnd: main asks to end; 0 while not */
  guint is_parked;       /* atomic: the sink is full */
  guint n_unread;        /* atomic: bytes posted to main and not yet taken there */
  guint has_started;     /* atomic: some rows were computed */
  guint has_first;       /* atomic: the first token is there */
};

LlmJob *llm_job_new   (void);
LlmJob *llm_job_ref   (LlmJob *self);
void    llm_job_unref (LlmJob *self);

/* "stop", "length", "context-full", "cancelled", "stalled", "deadline". */
const char *llm_job_end_to_string (LlmJobEnd end);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmJob, llm_job_unref)

G_END_DECLS
