/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two threads between the bus's socket and GDBus, one for each direction. GDBus takes some twenty
 * microseconds to read a message before a filter can look at it, which is longer than a bus takes
 * to bring the next: a flood piles up in the bus, and other callers wait behind it. And a message
 * that GDBus can't parse, though it is well formed, ends the connection, which any application
 * could use to end the service. Here only the head of a message from the bus is read, LlmBusGate is
 * asked about those that other connections sent, and what it refuses goes no further; what it
 * admits is parsed once for a trial. The relay waits for a side that does not read. Main thread.
 */

#pragma once

#include "bus/limits/llm-bus-gate.h"

G_BEGIN_DECLS

/* A connection to the system's or the session's bus through a relay. */
GDBusConnection *llm_bus_relay_connect        (gboolean         is_system,
                                               GError         **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same over the socket @fd, which is taken. */
GDBusConnection *llm_bus_relay_connect_socket (int              fd,
                                               GError         **error) G_GNUC_WARN_UNUSED_RESULT;

/* @gate: (nullable) (unowned): asked from now on; NULL: all messages pass. The earlier gate is not
 * asked any more on return. Does nothing when @connection has no relay. */
void             llm_bus_relay_set_gate       (GDBusConnection *connection,
                                               LlmBusGate      *gate);

/* Closes @connection when all messages sent over it have reached the bus. Blocks, at most four
 * seconds, if the bus has stopped reading: for the end of the process. */
void             llm_bus_relay_close          (GDBusConnection *connection);

G_END_DECLS
