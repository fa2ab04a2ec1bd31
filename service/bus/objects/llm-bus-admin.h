/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * org.llm.Service.Admin at /org/llm/Service: who uses the service, and quotas.
 * Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

extern const LlmBusInterface llm_bus_admin_interface;

G_END_DECLS
