/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The contexts on the bus: org.llm.Service.Context below
 * /org/llm/Service/contexts. Remembers which connections have a context in use,
 * to tell them, and nobody else, when it ends. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-tree.h"

G_BEGIN_DECLS

#define LLM_TYPE_BUS_CONTEXTS (llm_bus_contexts_get_type ())
G_DECLARE_FINAL_TYPE (LlmBusContexts, llm_bus_contexts, LLM, BUS_CONTEXTS, GObject)

extern const LlmBusTreeKind llm_bus_contexts_tree;

LlmBusContexts *llm_bus_contexts_new           (GDBusConnection *connection);

/* @connection has @context in use from now on. */
void            llm_bus_contexts_hold          (LlmBusContexts  *self,
                                                LlmContext      *context,
                                                const char      *connection);
/* @connection has left the bus. */
void            llm_bus_contexts_forget_holder (LlmBusContexts  *self,
                                                const char      *connection);

/* (transfer full) */
char           *llm_bus_contexts_dup_path      (LlmContext      *context);

G_END_DECLS
