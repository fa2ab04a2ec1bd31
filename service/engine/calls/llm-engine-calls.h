/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes a request of a call. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-requests.c */
/* Submits @request; counts it until llm_engine_request_ended(). */
void           llm_engine_submit                (LlmEngine            *self,
                                                 LlmRequest           *request);
void           llm_engine_request_ended         (LlmEngine            *self);
/* Fills in the options for latency, length and stops. */
gboolean       llm_engine_fill_request          (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 const char           *default_slo,
                                                 GError              **error);
/* Fills in how the tokens of the answer are sampled. @masks: (nullable): its constraint. @begun:
 * (nullable): the text that the answer has already. */
gboolean       llm_engine_fill_decoder          (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 LlmMaskTable         *masks,
                                                 const char           *begun,
                                                 GError              **error);

/* llm-engine-constraints.c */
/* Whether @min_bytes, those of the shortest answer that @masks allow, fit. @n: (out): the limit of
 * tokens. */
gboolean       llm_engine_check_room            (const LlmRequest     *request,
                                                 LlmMaskTable         *masks,
                                                 guint                 min_bytes,
                                                 guint                *n,
                                                 GError              **error);
/* Reads the constraint of the answer. @text: (out) (nullable) (transfer full): NULL without one.
 * FALSE if options contradict each other. */
gboolean       llm_engine_read_constraint       (LlmCallOptions       *options,
                                                 LlmConstraintKind    *kind,
                                                 char                **text,
                                                 GError              **error);

/* llm-engine-thinking.c */
/* Reads the option; the second is the limit of reasoning tokens. */
LlmThinking    llm_engine_read_thinking         (const LlmCallOptions *options);
guint          llm_engine_read_thinking_budget  (const LlmCallOptions *options);

G_END_DECLS
