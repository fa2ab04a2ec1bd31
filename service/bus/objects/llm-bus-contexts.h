/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The contexts and the answers under way on the bus, for their own application:
 * org.llm.Service.Context below /org/llm/Service/contexts, and
 * org.llm.Service.Generation below /org/llm/Service/generations. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-tree.h"

G_BEGIN_DECLS

extern const LlmBusTreeKind llm_bus_contexts_tree;
extern const LlmBusTreeKind llm_bus_generations_tree;

/* (transfer floating): the `a{sv}` of a reply to GetMemory: where a context is kept, for people and
 * programs that show it. */
GVariant *llm_bus_contexts_describe_memory (const LlmContextMemory *memory);

G_END_DECLS
