/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a call says becomes a request. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-requests.c */
/* Submits @request; counts it until llm_engine_request_ended(). */
void           llm_engine_submit                (LlmEngine            *self,
                                                 LlmRequest           *request);
void           llm_engine_request_ended         (LlmEngine            *self);
/* Fills in what the options say about timing, length and stops. */
gboolean       llm_engine_fill_request          (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 const char           *default_slo,
                                                 GError              **error);
/* How the tokens of its answer are sampled. @masks: (nullable): what it is held to. @begun:
 * (nullable): the text that the answer has already. */
gboolean       llm_engine_fill_decoder          (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 LlmMaskTable         *masks,
                                                 const char           *begun,
                                                 GError              **error);

/* llm-engine-constraints.c */
/* Whether @min_bytes, those of the shortest answer that @masks allow, have room. @n: (out): tokens that an answer has. */
gboolean       llm_engine_check_room            (const LlmRequest     *request,
                                                 LlmMaskTable         *masks,
                                                 guint                 min_bytes,
                                                 guint                *n,
                                                 GError              **error);
/* What the options want an answer held to. @text: (out) (nullable) (transfer full): NULL when it
 * is free. FALSE if they contradict each other. */
gboolean       llm_engine_read_constraint       (LlmCallOptions       *options,
                                                 LlmConstraintKind    *kind,
                                                 char                **text,
                                                 GError              **error);

/* llm-engine-thinking.c */
/* What the option asks for; and the tokens that reasoning may have. */
LlmThinking    llm_engine_read_thinking         (const LlmCallOptions *options);
guint          llm_engine_read_thinking_budget  (const LlmCallOptions *options);

G_END_DECLS
