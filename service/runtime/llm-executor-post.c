/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages between the executor's thread and main. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"

/* A message about a request. */
typedef struct
{
  LlmCommand base;
  LlmRequest *request;      /* (owned) */
} RequestNews;

/* Output of a request since the last message. */
typedef struct
{
  RequestNews news;
  GString *text;            /* (owned) */
  GString *thoughts;        /* (owned): the reasoning before it */
  GString *logprobs;        /* (owned) */
  GString *bytes;           /* (owned): of tokens */
} AnswerNews;

static void
clear_news (LlmCommand *base)
{
  llm_request_unref (((RequestNews *) base)->request);
}

static void
clear_answer (LlmCommand *base)
{
  AnswerNews *answer = (AnswerNews *) base;

  g_string_free (answer->text, TRUE);
  g_string_free (answer->thoughts, TRUE);
  g_string_free (answer->logprobs, TRUE);
  g_string_free (answer->bytes, TRUE);
  clear_news (base);
}

static void
deliver_text (LlmCommand *base)
{
  const AnswerNews *answer = (const AnswerNews *) base;
  LlmRequest *request = answer->news.request;
  const GString *text = answer->text, *thoughts = answer->thoughts;

  if (thoughts->len > 0 && request->sink.on_reasoning != NULL)
    request->sink.on_reasoning (request, thoughts->str, thoughts->len, request->sink.data);
  if (text->len > 0)
    request->sink.on_text (request, text->str, text->len, request->sink.data);
  if (answer->bytes->len > 0)
    request->sink.on_bytes (request, answer->bytes->str, answer->bytes->len, request->sink.data);
  if (answer->logprobs->len > 0)
    request->sink.on_logprobs (request, answer->logprobs->str, request->sink.data);
  __atomic_fetch_sub (&request->progress.n_unread,
                      text->len + thoughts->len + answer->logprobs->len,
                      __ATOMIC_RELEASE);
}

/* Hands over the pending output, and appends it to the result. */
static GString *
take_text (GString **text,
           GString  *all)
{
  GString *taken = *text;

  *text = g_string_new (NULL);
  g_string_append_len (all, taken->str, (gssize) taken->len);
  return taken;
}

void
llm_executor_post_text (LlmExecutor *self,
                        LlmRequest  *request)
{
  AnswerNews *answer;

  if (request->output.text->len + request->output.thoughts->len + request->output.logprobs->len
        + request->output.bytes->len == 0)
    return;
  answer = llm_command_new_of (AnswerNews, self, NULL, clear_answer);
  answer->news.request = llm_request_ref (request);
  answer->text = take_text (&request->output.text, request->result.text);
  answer->thoughts = take_text (&request->output.thoughts, request->result.reasoning);
  answer->logprobs = g_steal_pointer (&request->output.logprobs);
  request->output.logprobs = g_string_new (NULL);
  answer->bytes = g_steal_pointer (&request->output.bytes);
  request->output.bytes = g_string_new (NULL);
  __atomic_fetch_add (&request->progress.n_unread,
                      answer->text->len + answer->thoughts->len + answer->logprobs->len,
                      __ATOMIC_RELEASE);
  llm_command_reply (&answer->news.base, deliver_text);
}

static void
post_news (LlmExecutor   *self,
           LlmRequest    *request,
           LlmCommandFunc deliver)
{
  RequestNews *news = llm_command_new_of (RequestNews, self, NULL, clear_news);

  news->request = llm_request_ref (request);
  llm_command_reply (&news->base, deliver);
}

static void
deliver_admission (LlmCommand *base)
{
  LlmRequest *request = ((RequestNews *) base)->request;

  request->sink.on_admitted (request, request->sink.data);
}

void
llm_executor_post_admission (LlmExecutor *self,
                             LlmRequest  *request)
{
  if (request->sink.on_admitted != NULL)
    post_news (self, request, deliver_admission);
}

static void
deliver_end (LlmCommand *base)
{
  LlmRequest *request = ((RequestNews *) base)->request;

  request->sink.on_done (request, &request->result, request->sink.data);
}

void
llm_executor_post_end (LlmExecutor *self,
                       LlmRequest  *request)
{
  post_news (self, request, deliver_end);
}

/* --- where sessions are --- */

typedef struct
{
  LlmCommand base;
  guint64 session;
  LlmResidency residency;
  guint64 bytes;
} SessionNews;

static void
deliver_moved (LlmCommand *base)
{
  const SessionNews *news = (const SessionNews *) base;

  base->executor->news.moved (news->session, news->residency, news->bytes, base->executor->news.moved_data);
}

void
llm_executor_post_moved (LlmExecutor *self,
                         guint64      session,
                         LlmResidency residency,
                         guint64      bytes)
{
  SessionNews *news;

  if (self->news.moved == NULL)
    return;
  news = llm_command_new_of (SessionNews, self, NULL, NULL);
  news->session = session;
  news->residency = residency;
  news->bytes = bytes;
  llm_command_reply (&news->base, deliver_moved);
}

void
llm_executor_set_moved (LlmExecutor    *self,
                        LlmSessionMoved moved,
                        gpointer        data)
{
  self->news.moved = moved;
  self->news.moved_data = data;
}

/* --- heartbeat --- */

static void
nothing (LlmCommand *base)
{
}

void
llm_executor_poke (LlmExecutor *self)
{
  llm_executor_send (self, nothing);
}

/* On the executor's thread, which looks into its inbox between two stages: so this comes late
 * during a long stage, and never when the thread hangs. */
static void
answer_heartbeat (LlmCommand *base)
{
  __atomic_store_n (&base->executor->news.heartbeat.has_answered, TRUE, __ATOMIC_RELEASE);
}

guint
llm_executor_probe (LlmExecutor *self)
{
  if (self->news.heartbeat.n_unanswered > 0 && !__atomic_load_n (&self->news.heartbeat.has_answered, __ATOMIC_ACQUIRE))
    return self->news.heartbeat.n_unanswered++;

  __atomic_store_n (&self->news.heartbeat.has_answered, FALSE, __ATOMIC_RELAXED);
  self->news.heartbeat.n_unanswered = 1;
  llm_executor_send (self, answer_heartbeat);
  return 0;
}
