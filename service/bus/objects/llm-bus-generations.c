/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-generations.h"

#include "common/llmsvc-names.h"

char *
llm_bus_generations_dup_path (LlmGeneration *generation)
{
  return g_strconcat (LLMSVC_GENERATIONS_PATH "/", llm_generation_get_id (generation), NULL);
}

static GVariant *
get_state (LlmBus  *bus,
           gpointer object)
{
  return g_variant_new_string (
    llm_generation_state_to_string (llm_generation_get_state (object)));
}

static void
on_cancelled (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(LlmBusCall) call = data;
  GError *error = NULL;

  if (!llm_generation_cancel_finish (LLM_GENERATION (source), result, &error))
    llm_bus_call_return_error (call, error);
  else
    llm_bus_call_return (call, NULL);
}

static void
handle_cancel (LlmBusCall *call)
{
  llm_generation_cancel_async (call->object, on_cancelled, llm_bus_call_ref (call));
}

static const LlmBusMethod methods[] = {
  { "Cancel", LLMSVC_CALL_CANCEL, handle_cancel },
  { NULL },
};

static const LlmBusProperty properties[] = {
  { "State", get_state },
  { NULL },
};

static const LlmBusInterface interface = { LLMSVC_GENERATION_INTERFACE, methods, properties };

static GObject *
lookup_generation (LlmBus     *bus,
                   LlmCaller  *caller,
                   const char *id)
{
  LlmGeneration *generation = llm_engine_lookup_generation (bus->engine, caller, id);

  return generation != NULL ? G_OBJECT (g_object_ref (generation)) : NULL;
}

static GStrv
list_generations (LlmBus    *bus,
                  LlmCaller *caller)
{
  g_autoptr(GPtrArray) generations = llm_engine_get_generations (bus->engine, caller);
  g_autoptr(GStrvBuilder) ids = g_strv_builder_new ();

  for (guint i = 0; i < generations->len; i++)
    g_strv_builder_add (ids, llm_generation_get_id (g_ptr_array_index (generations, i)));

  return g_strv_builder_end (ids);
}

const LlmBusTreeKind llm_bus_generations_tree = {
  .path = LLMSVC_GENERATIONS_PATH,
  .interface = &interface,
  .with_contexts = FALSE,
  .lookup = lookup_generation,
  .list = list_generations,
};
