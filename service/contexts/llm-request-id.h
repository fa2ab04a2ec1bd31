/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The option `request-id`: a request that comes again finds the turn it made, and one that
 * reuses the id for something else is told so. What was asked is kept as a digest beside the
 * results of the turn. Main thread.
 */

#pragma once

#include "common/llm-call-options.h"
#include "contexts/llm-conversation.h"

G_BEGIN_DECLS

/* What the request is for. Generate and Ask answer alike. */
typedef enum
{
  LLM_REQUEST_ANSWER,
  LLM_REQUEST_APPEND,
} LlmRequestKind;

/**
 * llm_request_id_find:
 * @messages: `a(ssa{sv})` of the call
 * @turn: (out) (nullable): the turn that this request has made; %NULL when it is new, or has no id
 *
 * Fails with CONFLICT when the id belongs to a request of another kind, with other messages or
 * with other options that change its result.
 */
gboolean  llm_request_id_find        (LlmConversation      *conversation,
                                      LlmRequestKind        kind,
                                      GVariant             *messages,
                                      const LlmCallOptions *options,
                                      LlmTurn             **turn,
                                      GError              **error) G_GNUC_WARN_UNUSED_RESULT;
/* Notes in @turn the request that makes it, if that has an id, and its @results (nullable). */
void      llm_request_id_note        (LlmTurn              *turn,
                                      LlmRequestKind        kind,
                                      GVariant             *messages,
                                      const LlmCallOptions *options,
                                      GVariant             *results);
/* (transfer full): the results of @turn, an answered one, to be given again; not floating. */
GVariant *llm_request_id_get_results (const LlmTurn        *turn);

G_END_DECLS
