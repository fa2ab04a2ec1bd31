/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reports to main: of requests, of sessions, and figures. */

#pragma once

#include "runtime/llm-command.h"
#include "runtime/llm-figure-board.h"

G_BEGIN_DECLS

/* Whether the thread still gets to its inbox. */
typedef struct
{
  guint n_unanswered;       /* main: since the last that was seen answered */
  gboolean has_answered;    /* atomic: the last one */
} LlmHeartbeat;

typedef struct
{
  LlmMailbox *main_box;     /* (unowned) */
  LlmSessionMoved moved;    /* (nullable): set before the first request */
  gpointer moved_data;
  gboolean is_told;         /* main knows where all sessions are */
  LlmFigureBoard board;
  LlmHeartbeat heartbeat;
} LlmExecutorNews;

/* --- llm-executor-post.c: what main is told of requests and sessions --- */

/* Sends the text of an answer that has accumulated. */
void        llm_executor_post_text   (LlmExecutor   *self,
                                      LlmRequest    *request);
void        llm_executor_post_admission (LlmExecutor *self,
                                      LlmRequest    *request);
void        llm_executor_post_end    (LlmExecutor   *self,
                                      LlmRequest    *request);
/* Calls moved (@session, @residency, @bytes) on the main thread. */
void        llm_executor_post_moved  (LlmExecutor   *self,
                                      guint64        session,
                                      LlmResidency   residency,
                                      guint64        bytes);

/* --- llm-executor-figures.c: what others are told --- */

/* Brings the figures up to date. */
void        llm_executor_publish     (LlmExecutor   *self);
/* Does that, and calls its done (nullable) on the main thread. */
void        llm_executor_report      (LlmReclaim    *reclaim,
                                      guint64        freed);
/* Tells main where the session is, if that has changed; the second does so for all sessions. */
void        llm_executor_tell        (LlmExecutor   *self,
                                      LlmSession    *session);
void        llm_executor_tell_all    (LlmExecutor   *self);
void        llm_kv_counters_add      (LlmKvCounters *sum,
                                      const LlmKvCounters *counters);

G_END_DECLS
