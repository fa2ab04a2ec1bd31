/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A whole answer: its text and what is known about how it was made. Immutable; any
 * thread. */

#pragma once

#include <glib-object.h>

#include "llmsvc-enums.h"
#include "llmsvc-version.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_ANSWER (llmsvc_answer_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcAnswer, llmsvc_answer, LLMSVC, ANSWER, GObject)

/* Each getter is a readable property too: "text", "finish-reason", … A number that the
 * service has not told is 0. */

LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_answer_get_text          (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcFinishReason  llmsvc_answer_get_finish_reason (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_prompt_tokens (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_cached_tokens (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_output_tokens (LlmsvcAnswer *self);
/* What is left within the model's sight of prompt and answer, when the window slid. */
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_kept_tokens   (LlmsvcAnswer *self);
/* Of an answer with the option "draft": guesses that were verified, those that were right, and the
 * passes through the model after the first token. */
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_drafted_tokens (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_accepted_tokens (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_passes        (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_sub_model     (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
double              llmsvc_answer_get_sub_model_quality (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_active        (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
double              llmsvc_answer_get_active_quality (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_prompt_level  (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_left_out_tokens (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
double              llmsvc_answer_get_kv_bits       (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_answer_get_prefill       (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_answer_get_shared_quantized (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
double              llmsvc_answer_get_ttft_ms       (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
double              llmsvc_answer_get_tpot_ms       (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_answer_get_slo_met       (LlmsvcAnswer *self);
/* The functions that it calls, JSON as OpenAI's API has it; "" for none: (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_answer_get_tool_calls    (LlmsvcAnswer *self);
/* What the model thought before it answered; "" for nothing: (transfer none). And the tokens that
 * took. */
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_answer_get_reasoning     (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_answer_get_reasoning_tokens (LlmsvcAnswer *self);
/* Of each token, JSON as OpenAI's API has it; "" unless asked for: (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_answer_get_logprobs      (LlmsvcAnswer *self);
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_answer_get_model_id      (LlmsvcAnswer *self);
/* The revision of the context after this turn; 0 without a context. */
LLMSVC_AVAILABLE_IN_0_1
guint64             llmsvc_answer_get_revision      (LlmsvcAnswer *self);
/* Whether the same request had been answered before and nothing was done again. */
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_answer_get_is_repeated   (LlmsvcAnswer *self);
/* What of a schema it could not be held to: (array zero-terminated=1) (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
const char *const  *llmsvc_answer_get_unheld        (LlmsvcAnswer *self);
/* Options that the service does not know: (array zero-terminated=1) (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
const char *const  *llmsvc_answer_get_ignored       (LlmsvcAnswer *self);
/* Everything the service has told, a{sv}: (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
GVariant           *llmsvc_answer_get_results       (LlmsvcAnswer *self);

G_END_DECLS
