/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-service.h"

#include <systemd/sd-daemon.h>

#include "bus/identity/llm-bus-caller.h"
#include "bus/identity/llm-bus-identity.h"
#include "bus/limits/llm-bus-relay.h"
#include "bus/llm-bus-metrics.h"
#include "bus/llm-bus-power.h"
#include "bus/llm-bus-translate.h"
#include "bus/objects/llm-bus-objects.h"
#include "common/llmsvc-names.h"

#define MAX_VAIN_PROBES 6

struct _LlmBusService
{
  LlmBus *bus;                 /* (owned) (nullable): NULL when it was stopped */
  LlmBusObjects *objects;      /* (owned) (nullable) */
  LlmBusMetrics *metrics;      /* (owned) (nullable) */
  LlmBusPower *power;          /* (owned) (nullable) */
  gboolean minds_power;

  guint owner;                 /* of the name; 0 before the start */
  guint watchdog;              /* source, 0 for none */
  gboolean has_name;
  LlmBusServiceLost lost;
  gpointer data;
};

/* --- callers --- */

static void
on_caller_identified (LlmCaller *caller,
                      gpointer   data)
{
  LlmBus *bus = data;
  LlmAppLimits limits;

  llm_engine_get_limits (bus->engine, caller, &limits);
  llm_bus_gate_set_caller (bus->gate, caller, &limits);
}

static void
on_caller_gone (const char *connection,
                gpointer    data)
{
  llm_bus_forget (data, connection);
}

/* --- the name --- */

/* The executor's thread answers heartbeats between two stages. A stage may have to wait for pages
 * of a large model from a slow disk: that is no fault. Six times half of the watchdog's time, two
 * minutes as installed, are more than any stage takes. They are counted in turns of this loop, so
 * that a process that was stopped, or got no processor, does not count as hanging. */
static gboolean
on_watchdog (gpointer data)
{
  LlmBusService *self = data;
  guint n_vain = llm_engine_probe (self->bus->engine);

  if (n_vain < MAX_VAIN_PROBES)
    sd_notify (0, "WATCHDOG=1");
  else if (n_vain == MAX_VAIN_PROBES)
    g_warning ("The thread that computes hangs: the service manager is not told any more "
               "that all is well");
  return G_SOURCE_CONTINUE;
}

/* The name is owned before models are scanned, because an activation waits for it. */
static void
on_name_acquired (GDBusConnection *connection,
                  const char      *name,
                  gpointer         data)
{
  LlmBusService *self = data;

  self->has_name = TRUE;
  sd_notify (0, "READY=1");
  llm_engine_start (self->bus->engine);
}

/* The connection is NULL when it was closed. */
static void
on_name_lost (GDBusConnection *connection,
              const char      *name,
              gpointer         data)
{
  LlmBusService *self = data;

  if (connection == NULL)
    self->lost ("The connection to the bus was closed", self->data);
  else if (self->has_name)
    self->lost ("The name " LLMSVC_BUS_NAME " was taken away", self->data);
  else
    self->lost ("The name " LLMSVC_BUS_NAME " belongs to another process", self->data);
}

void
llm_bus_service_start (LlmBusService     *self,
                       LlmBusServiceLost  lost,
                       gpointer           data)
{
  LlmBus *bus = self->bus;
  guint64 watchdog_us = 0;

  self->lost = lost;
  self->data = data;
  if (sd_watchdog_enabled (0, &watchdog_us) > 0)
    self->watchdog =
      g_timeout_add ((guint) MIN (MAX (watchdog_us / 2000, 1), G_MAXINT), on_watchdog, self);
  self->owner = g_bus_own_name_on_connection (bus->connection, LLMSVC_BUS_NAME,
                                              G_BUS_NAME_OWNER_FLAGS_DO_NOT_QUEUE,
                                              on_name_acquired, on_name_lost, self, NULL);
  if (self->minds_power)
    self->power =
      llm_bus_power_watch (bus->engine, bus->is_system ? bus->connection : NULL, NULL);
}

/* --- the objects --- */

static LlmBus *
make_bus (GDBusConnection   *connection,
          gboolean           is_system,
          LlmEngine         *engine,
          const LlmSettings *settings)
{
  LlmBus *bus = llm_bus_new ();
  g_auto(GStrv) desktop_folders = llm_bus_identity_list_desktop_folders (is_system);

  bus->connection = g_object_ref (connection);
  bus->engine = g_object_ref (engine);
  bus->is_system = is_system;
  bus->stall_timeout_s = settings->stall_timeout_s;
  bus->gate = llm_bus_gate_new (connection, settings->max_message);
  llm_bus_relay_set_gate (connection, bus->gate);
  bus->callers =
    llm_bus_callers_new (connection, bus->gate, "/proc", (const char *const *) desktop_folders,
                         on_caller_identified, on_caller_gone, bus);
  return bus;
}

LlmBusService *
llm_bus_service_new (GDBusConnection   *connection,
                     gboolean           is_system,
                     LlmEngine         *engine,
                     const LlmSettings *settings,
                     GError           **error)
{
  g_autoptr(LlmBusService) self = NULL;
  g_autoptr(GError) failure = NULL;

  /* a session's bus passes the language to the services that it starts */
  if (!is_system)
    llm_bus_translate_use_environment ();
  self = g_new0 (LlmBusService, 1);
  self->bus = make_bus (connection, is_system, engine, settings);
  /* a script must behave the same on every machine */
  self->minds_power = settings->script == NULL;
  self->objects = llm_bus_objects_export (self->bus, error);
  if (self->objects == NULL)
    return NULL;
  /* metrics are optional: the service runs without them */
  if (settings->metrics != NULL)
    self->metrics = llm_bus_metrics_open (self->bus, settings->metrics, &failure);
  if (failure != NULL)
    g_message ("%s", failure->message);

  return g_steal_pointer (&self);
}

void
llm_bus_service_stop (LlmBusService *self)
{
  if (self->bus == NULL)
    return;

  if (self->owner != 0)
    {
      sd_notify (0, "STOPPING=1");
      g_bus_unown_name (self->owner);
    }
  g_clear_handle_id (&self->watchdog, g_source_remove);
  g_clear_pointer (&self->power, llm_bus_power_unwatch);
  g_clear_pointer (&self->objects, llm_bus_objects_unexport);
  g_clear_pointer (&self->metrics, llm_bus_metrics_close);
  g_clear_pointer (&self->bus, llm_bus_unref);
}

void
llm_bus_service_free (LlmBusService *self)
{
  llm_bus_service_stop (self);
  g_free (self);
}
