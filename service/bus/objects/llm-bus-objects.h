/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The objects on the bus. Main thread, except where stated.
 *
 * Contexts and answers exist only for their own application: for all others, calls, properties and
 * introspection treat such an object like a path that never existed. GDBus asks a subtree for its
 * objects synchronously, but the caller is identified asynchronously. So the subtree admits every
 * path, and methods and properties are looked up when the caller is known; Introspect is taken off
 * the connection by a filter and answered the same way: all are calls with a table.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

typedef struct _LlmBusObjects LlmBusObjects;

/* Exports all, and announces changes. NULL with an error when a path is taken. */
LlmBusObjects      *llm_bus_objects_export           (LlmBus                 *bus,
                                                      GError                **error);
/* Unexports them; calls under way may still be answered. */
void                llm_bus_objects_unexport         (LlmBusObjects          *self);

/* --- at /org/llm/Service, the same for every caller --- */

extern const LlmBusInterface llm_bus_manager_interface;
extern const LlmBusInterface llm_bus_admin_interface;
extern const LlmBusInterface llm_bus_memory_interface;

/* (transfer full): `a{sv}`, the reply of GetStatistics. */
GVariant           *llm_bus_manager_get_statistics   (LlmBus                 *bus);
/* Tells the bus of a new availability or model. */
void                llm_bus_manager_announce         (LlmBus                 *bus);
void                llm_bus_manager_announce_load    (LlmBus                 *bus);

/* A watch of the figures of memory: announces those that changed, at most once a second. */
typedef struct _LlmBusMemory LlmBusMemory;

LlmBusMemory       *llm_bus_memory_watch             (LlmBus                 *bus);
void                llm_bus_memory_unwatch           (LlmBusMemory           *self);

/* --- the installed models, the same for everyone, with an ObjectManager --- */

typedef struct _LlmBusModels LlmBusModels;

extern const LlmBusInterface llm_bus_model_interface;
extern const LlmBusInterface llm_bus_model_manager_interface;

/* Exports them and follows the engine's list. */
LlmBusModels       *llm_bus_models_export            (LlmBus                 *bus);
void                llm_bus_models_unexport          (LlmBusModels           *self);
/* (transfer full) */
char               *llm_bus_models_dup_path          (LlmModelInfo           *model);

/* --- each application's own: contexts, and answers under way --- */

extern const LlmBusTreeKind llm_bus_contexts_tree;
extern const LlmBusTreeKind llm_bus_generations_tree;

/* (transfer floating): the `a{sv}` of a reply to GetMemory: where a context is kept, for programs
 * that show it to users. */
GVariant           *llm_bus_contexts_describe_memory (const LlmContextMemory *memory);

G_END_DECLS
