/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bytes on their way through LlmBusRelay, with the descriptors that go with some of them, from one
 * socket to another. Nobody blocks: what a socket does not take waits. One thread at a time.
 */

#pragma once

#include <gio/gio.h>
#include <sys/types.h>

G_BEGIN_DECLS

/* Room that llm_bus_bytes_read() needs. */
#define LLM_BUS_BYTES_READ (64 * 1024)
/* Descriptors of one message; the kernel's limit is 253. */
#define LLM_BUS_BYTES_MAX_FDS 253

typedef struct
{
  GQueue chunks;
  gsize n;          /* bytes that wait */
} LlmBusBytes;

void     llm_bus_bytes_init      (LlmBusBytes  *self);
void     llm_bus_bytes_clear     (LlmBusBytes  *self);
/* @fds: (nullable) (transfer full) (element-type int): they go with the first of @bytes. */
void     llm_bus_bytes_add       (LlmBusBytes  *self,
                                  const guint8 *bytes,
                                  gsize         length,
                                  GArray       *fds);
/* To the socket @fd, as much as it takes. FALSE when the other side is gone. */
gboolean llm_bus_bytes_write     (LlmBusBytes  *self,
                                  int           fd);

/* Reads what there is; descriptors come to @fds (element-type int). 0 at the end or on failure, -1
 * when there is nothing now. */
ssize_t  llm_bus_bytes_read      (int           fd,
                                  guint8       *buffer,
                                  GArray       *fds);
/* Closes and forgets all of them. */
void     llm_bus_bytes_close_fds (GArray       *fds);

G_END_DECLS
