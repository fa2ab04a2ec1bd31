/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts that are stored, and how many tokens they have. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-store.c */
void           llm_engine_store_start           (LlmEngine            *self);
/* Waits for transactions under way. */
void           llm_engine_store_stop            (LlmEngine            *self);

/* llm-engine-text.c */
/* Has the ledger ask for text that the database also has. */
void           llm_engine_add_text_reclaimer    (LlmEngine            *self);

/* llm-engine-counts.c */
/* Has the model that is loaded count the tokens of @context, or of all, if it has not; until then
 * the counts of the model before hold. */
void           llm_engine_count_later           (LlmEngine            *self,
                                                 LlmContext           *context);
void           llm_engine_count_all             (LlmEngine            *self);

G_END_DECLS
