/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Objects below a path of which each caller sees its own alone: contexts and
 * answers. To all others such an object does not exist: calls, properties and
 * introspection say the same about it as about a path that never was.
 *
 * GDBus asks a subtree for its objects at once, but who calls is found out
 * asynchronously. So the subtree admits every path, and methods and properties
 * are looked up when the caller is known; Introspect is taken off the connection
 * by a filter and answered the same way: all are calls with a table. Main thread, but for the
 * filter.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

typedef struct _LlmBusTree LlmBusTree;

/* @kind: static. The tree lives until llm_bus_tree_unexport(). */
LlmBusTree *llm_bus_tree_export   (LlmBus               *bus,
                                   const LlmBusTreeKind *kind,
                                   GError              **error) G_GNUC_WARN_UNUSED_RESULT;
void        llm_bus_tree_unexport (LlmBusTree           *self);

G_END_DECLS
