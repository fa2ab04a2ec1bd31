/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The name on the bus, and what the service manager is told: READY=1 once the
 * name is owned, STOPPING=1 at the end, and the watchdog's pings. These come from
 * the main loop, so that they stop when it does, and only as long as the thread
 * that computes gives signs of life. Main thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  void (*acquired) (gpointer data);
  /* @reason: one sentence. The name will not come back. */
  void (*lost)     (const char *reason,
                    gpointer    data);
  /* Asks the thread that computes for a sign of life: how often before this that was in vain. */
  guint (*probe)   (gpointer data);
} LlmBusNameEvents;

typedef struct _LlmBusName LlmBusName;

/* Asks for the name; everything must be exported by now. @events: static */
LlmBusName *llm_bus_name_own     (GDBusConnection        *connection,
                                  const LlmBusNameEvents *events,
                                  gpointer                data);
void        llm_bus_name_release (LlmBusName             *self);

G_END_DECLS
