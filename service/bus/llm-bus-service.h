/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service on the bus: exports all objects, then owns the name. Main thread.
 *
 * Signals: "acquired" (): the name is ours, the engine may start;
 * "lost" (const char *reason): it is not, or no longer, and the process should end.
 */

#pragma once

#include <gio/gio.h>

#include "engine/llm-engine.h"

G_BEGIN_DECLS

#define LLM_TYPE_BUS_SERVICE (llm_bus_service_get_type ())
G_DECLARE_FINAL_TYPE (LlmBusService, llm_bus_service, LLM, BUS_SERVICE, GObject)

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

void           llm_bus_service_start        (LlmBusService     *self);

/* Gives the name up and takes the objects off the bus; calls under way may still
 * be answered. */
void           llm_bus_service_stop         (LlmBusService     *self);

/* Whether every method and property of the XML has its function and the other
 * way round. */
gboolean       llm_bus_service_check_tables (GError           **error);

G_END_DECLS
