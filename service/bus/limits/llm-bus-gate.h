/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate in front of the main thread. GDBus reads all messages of the bus and queues them for
 * main without limit, so one flooding caller would delay all others. Here, in the relay's thread,
 * calls are counted by connection, application and user, and those over the limits go no further.
 *
 * A caller with too many unanswered calls, too many bytes of them, or more calls a second than the
 * quota allows (LlmBusAccount) is refused with `Overloaded`, but only after a second: a bus that
 * limits unanswered calls of a connection then stops the flood by itself. The number of delayed
 * refusals is limited by user; calls beyond it get no answer at all. Also remembers when each
 * connection was first seen, for LlmBusCallers, and keeps the bus's signals about other connections
 * away from main.
 *
 * Main thread, except where stated.
 */

#pragma once

#include <gio/gio.h>

#include "bus/limits/llm-bus-account.h"

G_BEGIN_DECLS

/* --- the head of a message in bytes: as much of it as the relay and the gate have to know.
 * Any thread. --- */

/* Bytes that give the length of a message. */
#define LLM_BUS_HEAD_START 16
#define LLM_BUS_HEAD_FLAGS_BYTE 2

typedef struct
{
  guint8 type;        /* GDBusMessageType */
  guint8 flags;       /* GDBusMessageFlags */
  guint32 serial;
  guint64 n_head;     /* bytes up to the body */
  guint64 n_body;
  guint64 n_counted;  /* of the body, and of a head that is longer than any honest one */
  const char *sender; /* (nullable): within the bytes */
  guint32 n_fds;      /* descriptors that come with it */
} LlmBusHead;

/* Lengths of a message from its first LLM_BUS_HEAD_START bytes; FALSE when they are invalid. */
gboolean llm_bus_head_measure (const guint8 *bytes,
                               LlmBusHead   *head);
/* The rest, from its first @head->n_head bytes, after llm_bus_head_measure(). FALSE when a field
 * has a type that no field of the specification has; what stood before it is in @head. */
gboolean llm_bus_head_parse   (const guint8 *bytes,
                               LlmBusHead   *head);

/* --- the gate --- */

/* Limit of unanswered calls of a connection whose application is not known yet. */
#define LLM_BUS_GATE_NEW_CALLS 32
/* A quota of calls a second may be exceeded by so many seconds' worth in a burst. */
#define LLM_BUS_GATE_BURST_S 3
/* Delay of refusals. */
#define LLM_BUS_GATE_REFUSAL_MS 1000

typedef struct _LlmBusGate LlmBusGate;

/* Before all other filters of @connection, whose relay must be told of it
 * (llm_bus_relay_set_gate()). @max_message: bytes of text in one call. */
LlmBusGate *llm_bus_gate_new           (GDBusConnection    *connection,
                                        guint64             max_message);
/* Called when the relay does not ask any more. */
void        llm_bus_gate_free          (LlmBusGate         *self);

/* Whether the message is admitted; may change its flags. The relay's thread. */
gboolean    llm_bus_gate_admit         (LlmBusGate         *self,
                                        LlmBusHead         *head);
/* An admitted message that GDBus can't parse: it is dropped. The relay's thread. */
void        llm_bus_gate_take_spoilt   (LlmBusGate         *self,
                                        const LlmBusHead   *head);

/* When @sender was seen first (CLOCK_BOOTTIME, µs); 0 when it is not on the bus any more. */
gint64      llm_bus_gate_get_seen      (LlmBusGate         *self,
                                        const char         *sender);
/* @caller's connection belongs to its application from now on; sets its @limits. */
void        llm_bus_gate_set_caller    (LlmBusGate         *self,
                                        const LlmCaller    *caller,
                                        const LlmAppLimits *limits);
/* Calls refused so far, those that get no answer included. */
guint64     llm_bus_gate_get_n_refused (LlmBusGate         *self);

G_END_DECLS
