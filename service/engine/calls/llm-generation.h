/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One answer under way. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "accounts/llm-caller.h"
#include "decoding/llm-sink.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_GENERATION_QUEUED,
  LLM_GENERATION_PREFILL,  /* the prompt is computed */
  LLM_GENERATION_DECODE,
  LLM_GENERATION_STALLED,   /* its reader does not read */
  LLM_GENERATION_DONE,
} LlmGenerationState;

#define LLM_TYPE_GENERATION (llm_generation_get_type ())
G_DECLARE_FINAL_TYPE (LlmGeneration, llm_generation, LLM, GENERATION, GObject)

/* Random, never reused: the last part of its object path. */
const char        *llm_generation_get_id        (LlmGeneration *self);
LlmGenerationState llm_generation_get_state     (LlmGeneration *self);
/* "queued", "prefill", "decode", "stalled", "done". */
const char        *llm_generation_state_to_string (LlmGenerationState state);

/* Stops at the next step; idempotent. The result comes when the turn is committed (on-cancel=keep)
 * or dropped. */
void               llm_generation_cancel_async  (LlmGeneration      *self,
                                                 GAsyncReadyCallback callback,
                                                 gpointer            data);

/* Signal "done": the sink was finished; the object ends with it. */

G_END_DECLS
