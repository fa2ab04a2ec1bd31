/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the journal is told of an answer that has ended: who asked, how much, how fast, and
 * how it ended; never what was said, nor what a context is called. Without a journal it is
 * one line for those who debug. Plain data; main thread.
 */

#pragma once

#include "base/llm-journal.h"
#include "accounts/llm-caller.h"
#include "runtime/llm-request.h"

G_BEGIN_DECLS

typedef struct
{
  /* known from the beginning */
  LlmCaller *caller;         /* (unowned) */
  const char *context;       /* (nullable) (unowned): its id */
  const char *model;         /* (nullable) (unowned): its id */
  double total_ms;           /* from the question to its end */

  /* of the request; all 0 when there was none */
  LlmFinish finish;
  guint n_prompt;
  guint n_reused;
  guint n_output;
  gboolean has_slo;          /* FALSE: it was refused before it had one */
  LlmSlo slo;                /* what it was held to */
  double queue_ms;
  double ttft_ms;
  double tpot_ms;
} LlmAnswerRecord;

/* Takes what is known when the request has ended. */
void llm_answer_record_take (LlmAnswerRecord       *self,
                             const LlmRequestResult    *result);
/* @error: (nullable): why there is no answer. */
void llm_answer_record_send (const LlmAnswerRecord *self,
                             const GError          *error,
                             LlmJournal            *journal);

G_END_DECLS
