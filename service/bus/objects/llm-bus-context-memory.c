/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-context-memory.h"

static guint64
sum_bytes (const guint64 *bytes)
{
  guint64 sum = 0;

  for (guint i = 0; i < LLM_CONTEXT_N_BITS; i++)
    sum += bytes[i];

  return sum;
}

/* (transfer floating): an a{ut} without what there is none of. */
static GVariant *
describe_bytes (const guint64 *bytes)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ut}"));
  for (guint i = 0; i < LLM_CONTEXT_N_BITS; i++)
    if (bytes[i] > 0)
      g_variant_builder_add (&builder, "{ut}", (guint32) llm_context_bits[i], bytes[i]);

  return g_variant_builder_end (&builder);
}

GVariant *
llm_bus_context_memory_describe (const LlmContextMemory *memory)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "residency", g_variant_new_string (memory->residency));
  g_variant_builder_add (&builder, "{sv}", "chunk-tokens",
                         g_variant_new_uint32 (memory->chunk_tokens));
  g_variant_builder_add (&builder, "{sv}", "tokens", g_variant_new_uint32 (memory->tokens));
  g_variant_builder_add (&builder, "{sv}", "bits",
                         g_variant_new_fixed_array (G_VARIANT_TYPE_BYTE, memory->bits,
                                                    memory->n_chunks, sizeof *memory->bits));
  g_variant_builder_add (&builder, "{sv}", "places",
                         g_variant_new_string (memory->n_chunks > 0 ? memory->places : ""));
  g_variant_builder_add (&builder, "{sv}", "shared-chunks",
                         g_variant_new_uint32 (memory->n_shared_chunks));
  g_variant_builder_add (&builder, "{sv}", "memory-bytes",
                         g_variant_new_uint64 (sum_bytes (memory->memory_bytes)));
  g_variant_builder_add (&builder, "{sv}", "memory-bytes-by-bits",
                         describe_bytes (memory->memory_bytes));
  g_variant_builder_add (&builder, "{sv}", "storage-bytes",
                         g_variant_new_uint64 (memory->folder_bytes));
  g_variant_builder_add (&builder, "{sv}", "storage-bytes-by-bits",
                         describe_bytes (memory->storage_bytes));
  return g_variant_builder_end (&builder);
}

static void
on_memory (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  g_autoptr(LlmContextMemory) memory = NULL;
  GError *error = NULL;

  memory = llm_context_get_memory_finish (LLM_CONTEXT (source), result, &error);
  if (memory == NULL)
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call,
                         g_variant_new ("(@a{sv})", llm_bus_context_memory_describe (memory)));
}

void
llm_bus_context_memory_handle (LlmBusCall *call)
{
  llm_context_get_memory_async (call->object, on_memory, llm_bus_call_ref (call));
}
