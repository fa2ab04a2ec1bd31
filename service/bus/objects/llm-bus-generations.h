/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The answers under way on the bus: org.llm.Service.Generation below
 * /org/llm/Service/generations, for their own application. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-tree.h"

G_BEGIN_DECLS

extern const LlmBusTreeKind llm_bus_generations_tree;

/* (transfer full) */
char *llm_bus_generations_dup_path (LlmGeneration *generation);

G_END_DECLS
