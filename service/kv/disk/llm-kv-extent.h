/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The format of an extent: a header of whole blocks, then an area for each group of layers with
 * that group's bytes of all chunks, one chunk behind the other. Areas begin at whole blocks, and
 * what a chunk has of one at whole sectors (LLM_DISK_SECTOR): it is read right to the chunk's
 * memory. All numbers of the header are little-endian:
 *
 *     8 bytes "LLMKVEXT" · u32 version · u32 bytes of the header · u64 XXH3 of the header with
 *     this field 0 · u64 identity · u64 bytes of the file · u32 slots of a chunk · u32 layers ·
 *     u32 groups · u32 chunks
 *     of each group: u32 layer that is no longer in it; then zeros up to 8 bytes
 *     of each chunk: u64 hash of its tokens and those before · u64 bytes · u32 number ·
 *     f32 density · f32 rows · u8 form · u8 1 if it is dead · u16 0 · of each group u64 XXH3 of
 *     its bytes there, seeded with the chunk's hash and the group
 *
 * Where a chunk lies follows from the forms. Pure functions over bytes, which are not trusted;
 * an extent is counted by references, and its owner's thread has all of them.
 */

#pragma once

#include "kv/disk/llm-kv-storage.h"

G_BEGIN_DECLS

/* One bit each in a guint64; more groups would not let a step begin earlier. */
#define LLM_KV_EXTENT_GROUPS 64
/* Size of the shortest header. */
#define LLM_KV_EXTENT_MIN_BYTES LLM_DISK_BLOCK

typedef struct
{
  guint n_groups;
  guint n_chunks;
  gsize header_bytes;
  guint64 file_bytes;
  guint group_ends[LLM_KV_EXTENT_GROUPS];          /* layers */
  guint64 group_offsets[LLM_KV_EXTENT_GROUPS + 1]; /* in the file */
  LlmKvRecord *records;                            /* [n_chunks] */
  guint8 *dead;                                    /* [n_chunks]: 1 for chunks that are not there
                                                    * any more */
  guint64 *checksums;                              /* [n_chunks × n_groups] */
} LlmKvExtent;

/* (transfer full): an extent for @n chunks (1 … LLM_KV_EXTENT_CHUNKS), without checksums. */
LlmKvExtent *llm_kv_extent_new            (const LlmKvShape  *shape,
                                           const LlmKvRecord *records,
                                           guint              n);
/* Reference-counted (g_rc_box_acquire()). */
void         llm_kv_extent_unref          (LlmKvExtent       *self);

/* The length of the header, as its first LLM_KV_EXTENT_MIN_BYTES bytes say; 0 when they are no
 * extent. Never more than a header can have. */
gsize        llm_kv_extent_peek           (const guint8      *bytes,
                                           gsize              length);
/* (transfer full): NULL with @reason (static) when it is damaged, or not of @shape. @file_bytes:
 * what the file has. */
LlmKvExtent *llm_kv_extent_parse          (const guint8      *bytes,
                                           gsize              length,
                                           guint64            file_bytes,
                                           const LlmKvShape  *shape,
                                           const char       **reason);
/* Content of a header, of any model, to be shown to users. */
typedef struct
{
  guint number;
  guint64 bytes;
  LlkKvFormat format;
  gboolean is_dead;
} LlmKvExtentChunk;

typedef struct
{
  guint64 identity;
  guint chunk_slots;
  guint n_chunks;
  LlmKvExtentChunk chunks[LLM_KV_EXTENT_CHUNKS];
} LlmKvExtentSummary;

/* Of a complete header; FALSE when it is damaged. */
gboolean     llm_kv_extent_summarize      (const guint8      *bytes,
                                           gsize              length,
                                           LlmKvExtentSummary *summary);
/* @bytes: [header_bytes]. @dead: (nullable): [n_chunks]. */
void         llm_kv_extent_print          (const LlmKvExtent *self,
                                           const LlmKvShape  *shape,
                                           const guint8      *dead,
                                           guint8            *bytes);

static inline guint
llm_kv_extent_get_first_layer (const LlmKvExtent *self,
                               guint              group)
{
  return group == 0 ? 0 : self->group_ends[group - 1];
}

/* Bytes of a chunk's part of a group; @begin: (out) (optional): where they begin in the chunk. */
static inline gsize
llm_kv_extent_get_part (const LlmKvExtent *self,
                        const LlmKvShape  *shape,
                        guint              chunk,
                        guint              group,
                        gsize             *begin)
{
  const gsize *offsets = shape->offsets[self->records[chunk].form];
  gsize first = offsets[llm_kv_extent_get_first_layer (self, group)];

  if (begin != NULL)
    *begin = first;
  return offsets[self->group_ends[group]] - first;
}

guint64      llm_kv_extent_compute_checksum (const LlmKvExtent *self,
                                             guint              chunk,
                                             guint              group,
                                             const guint8      *bytes,
                                             gsize              n_bytes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmKvExtent, llm_kv_extent_unref)

G_END_DECLS
