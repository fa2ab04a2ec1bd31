/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chunks and the store that makes them, as the sequences see them. A chunk
 * belongs to the sequences that hold it, by count; one that has a single holder
 * may be written. The executor's thread owns all of it.
 */

#pragma once

#include "kernels/llk.h"
#include "kv/llm-kv.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_holders;
  guint8 *data;     /* (owned): chunk_bytes of the store, from the kernel */
} LlmKvChunk;

struct _LlmKvStore
{
  LlmKvLayout layout;
  LlmLedger *ledger;    /* (nullable) (owned) */
  const LlkOps *ops;    /* conversions */

  gsize value_bytes;    /* of one number */
  gsize plane_bytes;    /* K or V of one layer */
  gsize chunk_bytes;    /* whole pages */
  guint n_chunks;
  guint n_sequences;
};

/* (transfer full) (nullable): a chunk of one holder, counted in the ledger;
 * NULL when the system has no memory. The budget is the caller's business. */
LlmKvChunk *llm_kv_chunk_new   (LlmKvStore       *store);
LlmKvChunk *llm_kv_chunk_copy  (LlmKvStore       *store,
                                const LlmKvChunk *from);
void        llm_kv_chunk_unref (LlmKvStore       *store,
                                LlmKvChunk       *chunk);
/* K (@part 0) or V (@part 1) of one layer, slot 0 of head 0. */
guint8     *llm_kv_chunk_plane (LlmKvStore       *store,
                                LlmKvChunk       *chunk,
                                guint             layer,
                                guint             part);
/* In a debug build, makes the slots [@first, chunk_slots) of all layers NaN. */
void        llm_kv_chunk_poison (LlmKvStore      *store,
                                 LlmKvChunk      *chunk,
                                 guint            first);

G_END_DECLS
