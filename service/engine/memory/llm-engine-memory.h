/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the governor may reclaim. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-memory.c */
/* Called when the executor exists. */
void           llm_engine_memory_make           (LlmEngine            *self);
/* After a request ended: reclaims again what a held trim took. */
void           llm_engine_memory_request_ended  (LlmEngine            *self);

G_END_DECLS
