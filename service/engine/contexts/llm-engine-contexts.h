/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stored contexts, and their token counts. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-store.c */
void           llm_engine_store_start           (LlmEngine            *self);
/* Waits for transactions under way. */
void           llm_engine_store_stop            (LlmEngine            *self);

/* llm-engine-text.c */
/* Registers text that the database also has as reclaimable memory. */
void           llm_engine_add_text_reclaimer    (LlmEngine            *self);

/* llm-engine-counts.c */
/* Counts the tokens of @context, or of all, with the loaded model, where it has not yet; until then
 * the counts of the earlier model hold. */
void           llm_engine_count_later           (LlmEngine            *self,
                                                 LlmContext           *context);
void           llm_engine_count_all             (LlmEngine            *self);

G_END_DECLS
