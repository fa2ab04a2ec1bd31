/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Memory for chunks of one size, in blocks of address space that the kernel backs with huge pages
 * where it can. Reclaimed memory goes back to the system at once, page by page. Part of a store;
 * the executor's thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Limit of chunks in a block: one bit for each. */
#define LLM_KV_BLOCK_CHUNKS 64

/* Address space for some chunks. */
typedef struct
{
  guint8 *data;         /* (owned): block_bytes of the arena */
  guint64 used;         /* bit for each chunk that is in use */
  guint64 spare;        /* bit for each that is not in use, but still has its pages */
} LlmKvBlock;

typedef struct
{
  gsize bytes;          /* of a chunk, whole cache lines; 0: chunks have no bytes */
  guint block_chunks;
  gsize block_bytes;    /* whole pages, huge ones if there is more than one of them */
  gsize alignment;
  GPtrArray *blocks;    /* (element-type LlmKvBlock) (owned) */
} LlmKvArena;

void    llm_kv_arena_init  (LlmKvArena  *self,
                            gsize        chunk_bytes);
/* All chunks must have been reclaimed. */
void    llm_kv_arena_clear (LlmKvArena  *self);
/* (nullable): NULL when the system has no memory. Its content is undefined. */
guint8 *llm_kv_arena_take  (LlmKvArena  *self);
/* @keeps: its pages stay, for the next chunk that is taken. */
void    llm_kv_arena_give  (LlmKvArena  *self,
                            guint8      *data,
                            gboolean     keeps);
/* Whether the next chunk that is taken has pages already. */
gboolean llm_kv_arena_has_spare (const LlmKvArena *self);
/* Returns unused pages to the system. */
void    llm_kv_arena_trim  (LlmKvArena  *self);

G_END_DECLS
