/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Context.GetMemory: where a context is kept, for people and programs that show it. Main
 * thread. */

#pragma once

#include "bus/objects/llm-bus-call.h"
#include "engine/llm-context-calls.h"

G_BEGIN_DECLS

/* (transfer floating): the `a{sv}` of the reply. */
GVariant *llm_bus_context_memory_describe (const LlmContextMemory *memory);
/* An LlmBusMethod's. */
void      llm_bus_context_memory_handle   (LlmBusCall             *call);

G_END_DECLS
