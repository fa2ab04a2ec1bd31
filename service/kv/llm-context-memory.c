/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-context-memory.h"

#include <string.h>

const guint8 llm_context_bits[LLM_CONTEXT_N_BITS] = { 32, 16, 8, 4, 2 };

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

void
llm_context_memory_set (LlmContextMemory *memory,
                        guint             index,
                        guint             bits,
                        gboolean          is_in_memory,
                        gboolean          is_on_storage,
                        guint64           bytes)
{
  g_assert (index < memory->n_chunks);

  memory->bits[index] = (guint8) bits;
  if (is_in_memory || is_on_storage)
    memory->places[index] = is_in_memory ? (is_on_storage ? 'b' : 'm') : 's';
  for (guint i = 0; i < LLM_CONTEXT_N_BITS; i++)
    if (llm_context_bits[i] == bits)
      {
        memory->memory_bytes[i] += is_in_memory ? bytes : 0;
        memory->storage_bytes[i] += is_on_storage ? bytes : 0;
      }
}
