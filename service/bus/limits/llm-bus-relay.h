/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A thread between the bus's socket and GDBus. GDBus takes some twenty microseconds to read a
 * message before anybody may look at it, which is longer than a bus takes to bring the next: a
 * flood piles up in the bus, and whoever calls then waits behind it. And a message that GDBus can't
 * parse, though it is well formed, ends the connection, which any application could use to end the
 * service. Here only the head of a message is read, LlmBusGate is asked, and what it refuses goes
 * no further; what is let in is parsed once for a trial (LlmBusSieve).
 *
 * Functions: main thread; admission: the relay's own.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _LlmBusRelay LlmBusRelay;

/* The head of a message from another connection. */
typedef struct
{
  GDBusMessageType type;
  const char *sender;
  guint32 serial;
  guint8 flags;       /* GDBusMessageFlags; may be changed */
  guint64 n_bytes;    /* of the body, and of a head that is longer than any honest one */
  guint n_fds;        /* descriptors that come with it */
} LlmBusHead;

typedef struct
{
  /* Whether the message may go on. */
  gboolean (*admit) (LlmBusHead *head,
                     gpointer    data);
  /* It was admitted, but GDBus can't parse it: it is gone. */
  void (*spoilt)    (const LlmBusHead *head,
                     gpointer          data);
} LlmBusRelayGate;

/* A connection to the system's or the session's bus through a relay. */
GDBusConnection *llm_bus_relay_connect  (gboolean         is_system,
                                         GError         **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same over the socket @fd, which is taken. */
GDBusConnection *llm_bus_relay_connect_socket (int        fd,
                                         GError         **error) G_GNUC_WARN_UNUSED_RESULT;

/* Closes @connection when all that was sent over it has come to the bus. Blocks, but for four
 * seconds at most, should the bus read nothing any more: for the end of the process. */
void             llm_bus_relay_close    (GDBusConnection *connection);

/* (nullable) (transfer none): that of @connection */
LlmBusRelay     *llm_bus_relay_get      (GDBusConnection *connection);
/* @gate: (nullable): static; NULL: everything goes on. No function of the gate before runs any more
 * on return. */
void             llm_bus_relay_set_gate (LlmBusRelay     *self,
                                         const LlmBusRelayGate *gate,
                                         gpointer         data);

G_END_DECLS
