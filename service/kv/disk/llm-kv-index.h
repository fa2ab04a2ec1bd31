/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the extents of one context say of themselves, for people: without the model that they were
 * computed with, which need not be loaded. Any thread; waits for the disk.
 */

#pragma once

#include "kv/disk/llm-kv-storage.h"

G_BEGIN_DECLS

/* The latest version of a chunk. */
typedef struct
{
  guint64 extent;       /* 0: there is none */
  guint64 bytes;        /* on storage */
  LlkKvFormat format;
} LlmKvIndexChunk;

typedef struct
{
  guint chunk_slots;    /* 0 when there is nothing */
  GArray *chunks;       /* (element-type LlmKvIndexChunk) (owned): by number */
} LlmKvIndex;

/* (transfer full): of the context @id below @folder, which need not be there. What can't be read,
 * is damaged, or of another model or layout than the latest extent is left out. */
LlmKvIndex *llm_kv_index_read (const char *folder,
                               const char *id);
void        llm_kv_index_free (LlmKvIndex *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvIndex, llm_kv_index_free)

G_END_DECLS
