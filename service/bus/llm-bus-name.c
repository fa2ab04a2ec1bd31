/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-name.h"

#include <systemd/sd-daemon.h>

#include "common/llmsvc-names.h"

#define MAX_VAIN_PROBES 6

struct _LlmBusName
{
  guint owner;
  guint watchdog;          /* source, 0 for none */
  gboolean has_name;
  const LlmBusNameEvents *events;
  gpointer data;
};

/* The thread that computes looks up between two stages, of which one may have to wait for pages of
 * a large model from a slow disk: that is no fault. Six times half of the watchdog's time, two
 * minutes as installed, are more than any stage takes. They are counted in turns of this loop, so
 * that a process that was stopped, or got no processor, is not blamed for it. */
static gboolean
on_watchdog (gpointer data)
{
  LlmBusName *self = data;
  guint n_vain = self->events->probe (self->data);

  if (n_vain < MAX_VAIN_PROBES)
    sd_notify (0, "WATCHDOG=1");
  else if (n_vain == MAX_VAIN_PROBES)
    g_warning ("The thread that computes hangs: the service manager is not told any more "
               "that all is well");
  return G_SOURCE_CONTINUE;
}

static void
on_acquired (GDBusConnection *connection,
             const char      *name,
             gpointer         data)
{
  LlmBusName *self = data;

  self->has_name = TRUE;
  sd_notify (0, "READY=1");
  self->events->acquired (self->data);
}

/* The connection is NULL when it was closed. */
static void
on_lost (GDBusConnection *connection,
         const char      *name,
         gpointer         data)
{
  LlmBusName *self = data;

  if (connection == NULL)
    self->events->lost ("The connection to the bus was closed", self->data);
  else if (self->has_name)
    self->events->lost ("The name " LLMSVC_BUS_NAME " was taken away", self->data);
  else
    self->events->lost ("The name " LLMSVC_BUS_NAME " belongs to another process", self->data);
}

LlmBusName *
llm_bus_name_own (GDBusConnection        *connection,
                  const LlmBusNameEvents *events,
                  gpointer                data)
{
  LlmBusName *self = g_new0 (LlmBusName, 1);
  guint64 watchdog_us = 0;

  self->events = events;
  self->data = data;
  if (sd_watchdog_enabled (0, &watchdog_us) > 0)
    self->watchdog =
      g_timeout_add ((guint) MIN (MAX (watchdog_us / 2000, 1), G_MAXINT), on_watchdog, self);
  self->owner = g_bus_own_name_on_connection (connection, LLMSVC_BUS_NAME,
                                              G_BUS_NAME_OWNER_FLAGS_DO_NOT_QUEUE, on_acquired,
                                              on_lost, self, NULL);
  return self;
}

void
llm_bus_name_release (LlmBusName *self)
{
  sd_notify (0, "STOPPING=1");
  g_bus_unown_name (self->owner);
  g_clear_handle_id (&self->watchdog, g_source_remove);
  g_free (self);
}
