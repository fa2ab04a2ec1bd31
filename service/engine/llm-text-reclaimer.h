/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The text of contexts that the database also has, as a holder of memory. Main
 * thread. */

#pragma once

#include "base/llm-reclaimer.h"
#include "engine/llm-engine.h"

G_BEGIN_DECLS

/* (transfer full): does not own @engine, which outlives it. */
LlmReclaimer *llm_text_reclaimer_new (LlmEngine *engine);

G_END_DECLS
