/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Hears from the system about power, and tells the engine: logind before the machine sleeps, which
 * waits until contexts are written, and after it; UPower whether it runs on its battery, or the
 * kernel, where there is no UPower; power-profiles-daemon whether the user wants to save power.
 * None of them is started for this, none is needed, none is waited for. Main thread.
 */

#pragma once

#include "engine/llm-engine.h"

G_BEGIN_DECLS

typedef struct _LlmBusPower LlmBusPower;

/**
 * llm_bus_power_watch:
 * @engine: a reference is held
 * @connection: (nullable): the system bus; NULL looks for it
 * @root: (nullable): where /sys is, for tests
 *
 * Returns: (transfer full): free with llm_bus_power_unwatch()
 */
LlmBusPower *llm_bus_power_watch   (LlmEngine       *engine,
                                    GDBusConnection *connection,
                                    const char      *root);
void         llm_bus_power_unwatch (LlmBusPower     *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBusPower, llm_bus_power_unwatch)

G_END_DECLS
