/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chunks and the store that makes them, as the sequences see them. A chunk
 * belongs to the sequences that hold it, by count; one that has a single holder
 * may be written. Chunks come out of blocks that the kernel backs with huge
 * pages where it can. The executor's thread owns all of it.
 */

#pragma once

#include "kernels/llk.h"
#include "kv/llm-kv.h"

G_BEGIN_DECLS

/* Chunks of a block at most: a bit for each. */
#define LLM_KV_BLOCK_CHUNKS 64

/* Address space for some chunks. */
typedef struct
{
  guint8 *data;       /* (owned): block_bytes of the store */
  guint64 used;       /* bit for each chunk that is somebody's */
} LlmKvBlock;

typedef struct
{
  guint n_holders;
  guint8 *data;       /* chunk_bytes of the store, in its block */
  LlmKvBlock *block;
} LlmKvChunk;

struct _LlmKvStore
{
  LlmKvLayout layout;
  LlmLedger *ledger;    /* (nullable) (owned) */
  const LlkOps *ops;    /* conversions */

  gsize value_bytes;    /* of one number */
  gsize part_bytes;     /* K or V of one head of one layer */
  gsize chunk_bytes;    /* whole pages */
  guint block_chunks;
  gsize block_bytes;    /* whole huge pages */
  GPtrArray *blocks;    /* (element-type LlmKvBlock) (owned) */
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
/* K (@part 0), by dimension, or V (@part 1), by slot, of one head of one layer. */
guint8     *llm_kv_chunk_part  (LlmKvStore       *store,
                                LlmKvChunk       *chunk,
                                guint             layer,
                                guint             head,
                                guint             part);
/* In a debug build, makes the slots [@first, chunk_slots) of all layers NaN. */
void        llm_kv_chunk_poison (LlmKvStore      *store,
                                 LlmKvChunk      *chunk,
                                 guint            first);

G_END_DECLS
