/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the service keeps of a context beside its text, chunk by chunk, as it was when it
 * was asked. Immutable; any thread. */

#pragma once

#include <glib-object.h>

#include "llmsvc-enums.h"
#include "llmsvc-version.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_CONTEXT_MEMORY (llmsvc_context_memory_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcContextMemory, llmsvc_context_memory, LLMSVC, CONTEXT_MEMORY, GObject)

/* Each getter without an argument is a readable property too: "residency", "tokens", … A
 * number that the service has not told is 0. */

LLMSVC_AVAILABLE_IN_0_1
const char      *llmsvc_context_memory_get_residency        (LlmsvcContextMemory *self);
LLMSVC_AVAILABLE_IN_0_1
guint            llmsvc_context_memory_get_tokens           (LlmsvcContextMemory *self);
LLMSVC_AVAILABLE_IN_0_1
guint            llmsvc_context_memory_get_chunk_tokens     (LlmsvcContextMemory *self);
LLMSVC_AVAILABLE_IN_0_1
guint            llmsvc_context_memory_get_n_chunks         (LlmsvcContextMemory *self);
LLMSVC_AVAILABLE_IN_0_1
guint            llmsvc_context_memory_get_n_shared_chunks  (LlmsvcContextMemory *self);
/* Of one chunk, from 0: the bits of a number, 0 when there is none; and where it is. */
LLMSVC_AVAILABLE_IN_0_1
guint            llmsvc_context_memory_get_chunk_bits       (LlmsvcContextMemory *self,
                                                             guint                chunk);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcChunkPlace llmsvc_context_memory_get_chunk_place      (LlmsvcContextMemory *self,
                                                             guint                chunk);
/* Of all chunks, and of those with so many bits. */
LLMSVC_AVAILABLE_IN_0_1
guint64          llmsvc_context_memory_get_memory_bytes     (LlmsvcContextMemory *self);
LLMSVC_AVAILABLE_IN_0_1
guint64          llmsvc_context_memory_get_memory_bytes_at  (LlmsvcContextMemory *self,
                                                             guint                bits);
LLMSVC_AVAILABLE_IN_0_1
guint64          llmsvc_context_memory_get_storage_bytes    (LlmsvcContextMemory *self);
LLMSVC_AVAILABLE_IN_0_1
guint64          llmsvc_context_memory_get_storage_bytes_at (LlmsvcContextMemory *self,
                                                             guint                bits);
/* Everything the service has told, a{sv}: (transfer none). */
LLMSVC_AVAILABLE_IN_0_1
GVariant        *llmsvc_context_memory_get_info             (LlmsvcContextMemory *self);

G_END_DECLS
