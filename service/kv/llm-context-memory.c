/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-context-memory.h"

#include "kv/disk/llm-kv-index.h"

#include <string.h>

const guint8 llm_context_bits[LLM_CONTEXT_N_BITS] = { 32, 16, 8, 4, 3, 2 };

const char *
llm_residency_to_string (LlmResidency residency)
{
  static const char *const names[] = { "text", "storage", "compressed", "memory" };

  g_assert (residency < G_N_ELEMENTS (names));
  return names[residency];
}

LlmContextMemory *
llm_context_memory_new (guint n_chunks)
{
  LlmContextMemory *memory = g_new0 (LlmContextMemory, 1);

  memory->residency = llm_residency_to_string (LLM_RESIDENCY_TEXT);
  memory->n_chunks = n_chunks;
  memory->bits = g_new0 (guint8, n_chunks);
  memory->places = g_new0 (char, n_chunks + 1);
  memset (memory->places, 't', n_chunks);
  return memory;
}

void
llm_context_memory_free (LlmContextMemory *memory)
{
  g_free (memory->bits);
  g_free (memory->places);
  g_free (memory);
}

static void
add_bytes (guint64 *sums,
           guint    bits,
           guint64  bytes)
{
  for (guint i = 0; i < LLM_CONTEXT_N_BITS; i++)
    if (llm_context_bits[i] == bits)
      sums[i] += bytes;
}

void
llm_context_memory_set_stored (LlmContextMemory *memory,
                               guint             index,
                               guint             bits,
                               guint64           bytes)
{
  g_assert (index < memory->n_chunks);

  memory->bits[index] = (guint8) bits;
  memory->places[index] = 's';
  add_bytes (memory->storage_bytes, bits, bytes);
}

void
llm_context_memory_set_held (LlmContextMemory *memory,
                             guint             index,
                             guint             bits,
                             guint64           bytes)
{
  g_assert (index < memory->n_chunks);

  memory->bits[index] = (guint8) bits;
  memory->places[index] = memory->places[index] == 's' ? 'b' : 'm';
  add_bytes (memory->memory_bytes, bits, bytes);
}

LlmContextMemory *
llm_context_memory_read (const char *folder,
                         const char *id)
{
  g_autoptr(LlmKvIndex) index = llm_kv_index_read (folder, id);
  LlmContextMemory *memory = llm_context_memory_new (index->chunks->len);

  for (guint i = 0; i < index->chunks->len; i++)
    {
      const LlmKvIndexChunk *chunk = &g_array_index (index->chunks, LlmKvIndexChunk, i);

      if (chunk->extent > 0)
        llm_context_memory_set_stored (memory, i, llk_kv_bits (chunk->format), chunk->bytes);
    }
  memory->chunk_tokens = index->chunk_slots;
  memory->tokens = index->chunk_slots * index->chunks->len;
  return memory;
}
