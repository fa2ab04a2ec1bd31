/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Shared by the objects on the bus: the connection, the engine, and which connection uses which
 * context. Made by LlmBusService; calls under way hold a reference, so it outlives them. Main
 * thread, except for the reference count.
 */

#pragma once

#include <gio/gio.h>

#include "bus/limits/llm-bus-gate.h"
#include "engine/llm-engine.h"

G_BEGIN_DECLS

/* A trim slows down all callers: so many at once, and then one per second. */
#define LLM_BUS_TRIM_BURST 10

typedef struct _LlmBusCallers LlmBusCallers;

typedef struct
{
  GDBusConnection *connection; /* (owned) */
  LlmEngine *engine;           /* (owned) */
  gboolean is_system;
  guint stall_timeout_s;       /* how long a full pipe may stay full */
  LlmBusGate *gate;            /* (owned) */
  LlmBusCallers *callers;      /* (owned) */
  GHashTable *holds;           /* (element-type LlmContext Hold) (owned): contexts in use */
  gboolean has_index;          /* the engine knows the stored contexts */
  LlmBusBucket trims;          /* of all callers */
} LlmBus;

/* Empty: LlmBusService fills it in. */
LlmBus *llm_bus_new              (void);
LlmBus *llm_bus_ref              (LlmBus *self);
void    llm_bus_unref            (LlmBus *self);

/* @connection uses @context from now on: only this connection is told when the context ends. */
void    llm_bus_hold_context     (LlmBus            *self,
                                  LlmContext        *context,
                                  const char        *connection);
/* @connection has left the bus: its contexts, and what the engine does for it, end. */
void    llm_bus_forget           (LlmBus            *self,
                                  const char        *connection);
/* (transfer full) */
char   *llm_bus_dup_context_path (LlmContext        *context);

/* Signals changed properties of /org/llm/Service to all. @changed: (transfer floating): a{sv} */
void    llm_bus_emit_properties_changed (LlmBus     *self,
                                         const char *interface,
                                         GVariant   *changed);

G_END_DECLS
