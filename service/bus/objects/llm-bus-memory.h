/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * org.llm.Service.Memory at /org/llm/Service: figures, and giving back for
 * session managers. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

extern const LlmBusInterface llm_bus_memory_interface;

/* A watch of the figures: announces those that changed, at most once a second. */
typedef struct _LlmBusMemory LlmBusMemory;

LlmBusMemory *llm_bus_memory_watch   (LlmBus       *bus);
void          llm_bus_memory_unwatch (LlmBusMemory *self);

G_END_DECLS
