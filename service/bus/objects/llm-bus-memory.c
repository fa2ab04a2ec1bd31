/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-objects.h"

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "memory/llm-reclaimer.h"
#include "common/llmsvc-names.h"

#define ANNOUNCE_INTERVAL_MS 1000

struct _LlmBusMemory
{
  LlmBus *bus;          /* (owned) */
  gulong handler;
  guint timer;          /* source, 0 unless an announcement is pending */
  gint64 announced_us;
  GVariant *announced;  /* (owned): a{sv}, the last announced values */
};

static GVariant *
list_properties (LlmBus  *bus,
                 gpointer object)
{
  LlmMemoryFigures figures;

  llm_engine_get_memory (bus->engine, &figures);
  return g_variant_new_parsed ("{'Pressure': <%s>, 'Budget': <%t>, 'Resident': <%t>, "
                               "'Weights': <%t>, 'KvResident': <%t>, 'KvCompressed': <%t>, "
                               "'KvSwapped': <%t>, 'Reclaimable': "
                               "<{'free': %t, 'cheap': %t, 'costly': %t}>, 'SubModel': <%u>}",
                               figures.pressure, figures.budget, figures.resident,
                               figures.weights, figures.kv_resident, figures.kv_compressed,
                               figures.kv_swapped, figures.reclaimable[LLM_RECLAIM_FREE],
                               figures.reclaimable[LLM_RECLAIM_CHEAP],
                               figures.reclaimable[LLM_RECLAIM_COSTLY], figures.sub_model);
}

static gboolean
handle_set_budget (LlmBusCall *call,
                   GError    **error)
{
  if (!llm_call_options_has (call->options, LLMSVC_OPTION_BYTES)
      && !llm_call_options_has (call->options, LLMSVC_OPTION_CONTEXT_RATIO))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "SetBudget needs the option “bytes”, where 0 lets the service decide, or "
                     "“context-ratio”");

  llm_engine_set_budget_async (call->bus->engine, call->options, llm_bus_call_on_done,
                               llm_bus_call_ref (call));
  return TRUE;
}

static gboolean
handle_trim (LlmBusCall *call,
             GError    **error)
{
  LlmPressure level;

  if (!llm_pressure_parse_level (call->text, &level))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The level of Trim is “low”, “medium” or “critical”");
  if (!llm_bus_bucket_take (&call->bus->trims, 1, FALSE))
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "Trim was called more than %d times within %d seconds; wait a second",
                     LLM_BUS_TRIM_BURST, LLM_BUS_TRIM_BURST);

  llm_engine_trim_async (call->bus->engine, call->caller, level, call->options,
                         llm_bus_call_on_variant, llm_bus_call_ref (call));
  return TRUE;
}

static const LlmBusMethod methods[] = {
  { "SetBudget", LLMSVC_CALL_SET_BUDGET, handle_set_budget, LLM_BUS_ACTION,
    LLMSVC_BUS_NAME ".set-budget" },
  { "Trim", LLMSVC_CALL_TRIM, handle_trim, LLM_BUS_SILENT_ACTION,
    LLMSVC_BUS_NAME ".trim" },
  { NULL },
};

const LlmBusInterface llm_bus_memory_interface = { LLMSVC_MEMORY_INTERFACE, methods,
                                                   list_properties };

/* --- announcing --- */

static gboolean
announce (gpointer data)
{
  LlmBusMemory *self = data;
  g_autoptr(GVariant) now = g_variant_ref_sink (list_properties (self->bus, NULL));
  g_auto(GVariantDict) changed = G_VARIANT_DICT_INIT (NULL);
  gboolean has_changed = FALSE;
  GVariantIter iter;
  const char *key;
  GVariant *value;

  self->timer = 0;
  g_variant_iter_init (&iter, now);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    {
      g_autoptr(GVariant) before = g_variant_lookup_value (self->announced, key, NULL);

      if (before != NULL && g_variant_equal (before, value))
        continue;
      has_changed = TRUE;
      g_variant_dict_insert_value (&changed, key, value);
    }
  if (!has_changed)
    return G_SOURCE_REMOVE;

  llm_bus_emit_properties_changed (self->bus, LLMSVC_MEMORY_INTERFACE,
                                   g_variant_dict_end (&changed));
  g_variant_unref (self->announced);
  self->announced = g_steal_pointer (&now);
  self->announced_us = llm_clock_now_us ();
  return G_SOURCE_REMOVE;
}

static void
on_memory_changed (LlmEngine *engine,
                   gpointer   data)
{
  LlmBusMemory *self = data;
  gint64 elapsed_ms = (llm_clock_now_us () - self->announced_us) / 1000;

  if (self->timer == 0)
    self->timer =
      g_timeout_add ((guint) MAX (ANNOUNCE_INTERVAL_MS - elapsed_ms, 0), announce, self);
}

LlmBusMemory *
llm_bus_memory_watch (LlmBus *bus)
{
  LlmBusMemory *self = g_new0 (LlmBusMemory, 1);

  self->bus = llm_bus_ref (bus);
  self->announced = g_variant_ref_sink (list_properties (bus, NULL));
  self->announced_us = llm_clock_now_us () - ANNOUNCE_INTERVAL_MS * 1000;
  self->handler = g_signal_connect (bus->engine, "memory-changed", G_CALLBACK (on_memory_changed),
                                    self);
  return self;
}

void
llm_bus_memory_unwatch (LlmBusMemory *self)
{
  g_signal_handler_disconnect (self->bus->engine, self->handler);
  g_clear_handle_id (&self->timer, g_source_remove);
  g_variant_unref (self->announced);
  llm_bus_unref (self->bus);
  g_free (self);
}
