/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * org.llm.Service at /org/llm/Service, the same for every caller, and
 * org.llm.Service.Admin there: who uses the service, and quotas. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

extern const LlmBusInterface llm_bus_manager_interface;
extern const LlmBusInterface llm_bus_admin_interface;

/* (transfer full): `a{sv}`, what GetStatistics says. */
GVariant *llm_bus_manager_get_statistics (LlmBus *bus);

/* Tells the bus of a new availability or model. */
void      llm_bus_manager_announce       (LlmBus *bus);

G_END_DECLS
