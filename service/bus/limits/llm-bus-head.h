/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The head of a D-Bus message in bytes: as much of it as the relay and the gate have to know. Any
 * thread. */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Bytes that say how long a message is. */
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

/* Lengths of a message from its first LLM_BUS_HEAD_START bytes; FALSE when they make no sense. */
gboolean llm_bus_head_measure (const guint8 *bytes,
                               LlmBusHead   *head);
/* The rest, from its first @head->n_head bytes, after llm_bus_head_measure(). FALSE when a field
 * has a type that no field of the specification has; what stood before it is in @head. */
gboolean llm_bus_head_parse   (const guint8 *bytes,
                               LlmBusHead   *head);

G_END_DECLS
