/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The head of a D-Bus message in bytes: as much of it as LlmBusRelay has to know. Any thread. */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Bytes that say how long a message is. */
#define LLM_BUS_HEAD_START 16
/* Of all fields, by the specification: names have 255 bytes at most, but a path as many as its
 * caller likes. */
#define LLM_BUS_HEAD_MAX_FIELDS (64u * 1024 * 1024)
#define LLM_BUS_HEAD_FLAGS_BYTE 2

typedef struct
{
  guint8 type;
  guint8 flags;
  guint32 serial;
  guint64 n_head;     /* bytes up to the body */
  guint64 n_body;
  const char *sender; /* (nullable): within the bytes */
  guint32 n_fds;
} LlmBusHeadBytes;

/* Lengths of a message from its first LLM_BUS_HEAD_START bytes; FALSE when they make no sense. */
gboolean llm_bus_head_measure (const guint8    *bytes,
                               LlmBusHeadBytes *head);
/* The rest, from its first @head->n_head bytes, after llm_bus_head_measure(). FALSE when a field
 * has a type that no field of the specification has; what stood before it is in @head. */
gboolean llm_bus_head_parse   (const guint8    *bytes,
                               LlmBusHeadBytes *head);

G_END_DECLS
