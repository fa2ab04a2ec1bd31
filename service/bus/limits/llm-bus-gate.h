/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate in front of the main thread. GDBus reads whatever the bus sends and queues it for main
 * without limit, so one caller who floods would be everybody's delay: here, in GDBus's thread,
 * calls are counted by connection, application and user, and what is too much never gets further.
 *
 * Who has too many calls unanswered, too many bytes of them, or makes more in a second than the
 * quota allows (LlmBusAccounts), is refused with `Overloaded`, but not before a second has passed
 * (LlmBusRefusals): a bus that limits unanswered calls of a connection then stops the flood by
 * itself. Who goes on all the same gets no answer at all. Also remembers when each connection was
 * first seen, for LlmBusCallers, and keeps what the bus says of other connections' coming and going
 * away from main.
 *
 * Functions: main thread; the filter: GDBus's.
 */

#pragma once

#include "bus/llm-bus.h"

G_BEGIN_DECLS

/* Refusals wait so long. */
#define LLM_BUS_GATE_REFUSAL_MS 1000
/* Calls unanswered at a time of a connection whose application is not known yet. */
#define LLM_BUS_GATE_NEW_CALLS 32
/* A quota of so many calls a second may be overdrawn by so many seconds' worth. */
#define LLM_BUS_GATE_BURST_S 3

/* Before all other filters of @connection. @max_message: bytes of text in one call. */
LlmBusGate *llm_bus_gate_new       (GDBusConnection  *connection,
                                    LlmBusTranslator *translator,
                                    guint64           max_message);
void        llm_bus_gate_free      (LlmBusGate       *self);

/* When @sender was seen first (CLOCK_BOOTTIME, µs); 0 when it is not on the bus any more. */
gint64      llm_bus_gate_get_seen  (LlmBusGate       *self,
                                    const char       *sender);
/* @caller's connection belongs to its application from now on, which has @limits. */
void        llm_bus_gate_set_caller (LlmBusGate      *self,
                                    const LlmCaller  *caller,
                                    const LlmAppLimits *limits);
/* Calls refused so far. */
guint64     llm_bus_gate_get_n_refused (LlmBusGate   *self);

G_END_DECLS
