/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where the KV cache of a context is, to be shown to users: chunk by chunk, and bytes by bits and
 * place. Plain data; made on the executor's thread, read on the main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Where most chunks of a context are; of equals the one that is faster to use. */
typedef enum
{
  LLM_RESIDENCY_TEXT,        /* not cached: to be computed again from the text */
  LLM_RESIDENCY_STORAGE,
  LLM_RESIDENCY_COMPRESSED,  /* in memory, with fewer bits */
  LLM_RESIDENCY_MEMORY,
  LLM_N_RESIDENCIES,
} LlmResidency;

/* "text", "storage", "compressed", "memory". */
const char *llm_residency_to_string (LlmResidency residency);

/* Widths of chunks: the entries of the arrays by bits below are for these, in this order. */
#define LLM_CONTEXT_N_BITS 6
extern const guint8 llm_context_bits[LLM_CONTEXT_N_BITS];   /* 32, 16, 8, 4, 3, 2 */

/* Bytes of a chunk that lies in both places are counted in both; those of a chunk that several
 * contexts share, in each of them. */
typedef struct
{
  const char *residency;  /* of now */
  guint chunk_tokens;     /* tokens of a chunk; 0 without chunks */
  guint tokens;           /* that the chunks stand for, those of the last, partial one included */
  guint n_chunks;
  guint8 *bits;           /* [n_chunks]: 32, 16, 8, 4, 3, 2; 0: in the text only; of a chunk in both
                           * places the bits in memory, which may be fewer */
  char *places;           /* [n_chunks], then NUL: 'm' memory, 's' storage, 'b' both, 't' text */
  guint n_shared_chunks;  /* of them with other contexts of the application */
  guint64 memory_bytes[LLM_CONTEXT_N_BITS];
  guint64 storage_bytes[LLM_CONTEXT_N_BITS];
  guint64 folder_bytes;   /* of its files on storage, with headers and padding */
} LlmContextMemory;

/* All chunks in the text. */
LlmContextMemory *llm_context_memory_new  (guint             n_chunks);
/* What storage has of the context @id below the folder of chunks; waits for the disk; any
 * thread. */
LlmContextMemory *llm_context_memory_read (const char       *folder,
                                           const char       *id);
void              llm_context_memory_free (LlmContextMemory *memory);
/* Notes that chunk @index is on storage, where it takes @bytes; and, after that, in memory. */
void              llm_context_memory_set_stored (LlmContextMemory *memory,
                                                 guint             index,
                                                 guint             bits,
                                                 guint64           bytes);
void              llm_context_memory_set_held (LlmContextMemory *memory,
                                               guint             index,
                                               guint             bits,
                                               guint64           bytes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmContextMemory, llm_context_memory_free)

G_END_DECLS
