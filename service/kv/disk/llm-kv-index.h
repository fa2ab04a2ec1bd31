/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the extents of one context contain, to be shown to users. The model that they were computed
 * with need not be loaded. Any thread; waits for the disk.
 */

#pragma once

#include "kv/disk/llm-kv-storage.h"

G_BEGIN_DECLS

/* The latest version of a chunk. */
typedef struct
{
  guint64 extent;       /* 0: missing */
  guint64 bytes;        /* on storage */
  LlkKvFormat format;
} LlmKvIndexChunk;

typedef struct
{
  guint chunk_slots;    /* 0 when storage has nothing of it */
  GArray *chunks;       /* (element-type LlmKvIndexChunk) (owned): by number */
} LlmKvIndex;

/* (transfer full): of the context @id below @folder, which may be missing. Extents that can't be
 * read, are damaged, or of another model or layout than the latest one are left out. */
LlmKvIndex *llm_kv_index_read (const char *folder,
                               const char *id);
void        llm_kv_index_free (LlmKvIndex *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvIndex, llm_kv_index_free)

G_END_DECLS
