/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service on the bus: exports all objects, then owns the name, starts the engine, and notifies
 * the service manager: READY=1 once the name is owned, STOPPING=1 at the end, and the watchdog's
 * pings. These come from the main loop, so that they stop when it hangs, and only while the
 * executor's thread answers heartbeats. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "engine/llm-engine.h"

G_BEGIN_DECLS

typedef struct _LlmBusService LlmBusService;

/* Another process owns the name, or took it, and the process should end. @reason: one sentence */
typedef void (*LlmBusServiceLost) (const char *reason,
                                   gpointer    data);

/**
 * llm_bus_service_new:
 * @engine: not started yet
 * @settings: for the limits of calls; read now only
 *
 * Returns: (transfer full): everything exported, the name not yet asked for
 */
LlmBusService *llm_bus_service_new          (GDBusConnection   *connection,
                                             gboolean           is_system,
                                             LlmEngine         *engine,
                                             const LlmSettings *settings,
                                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Stops it, unless that was done. */
void           llm_bus_service_free         (LlmBusService     *self);

void           llm_bus_service_start        (LlmBusService     *self,
                                             LlmBusServiceLost  lost,
                                             gpointer           data);

/* Releases the name and unexports the objects; calls under way may still be answered. */
void           llm_bus_service_stop         (LlmBusService     *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBusService, llm_bus_service_free)

G_END_DECLS
