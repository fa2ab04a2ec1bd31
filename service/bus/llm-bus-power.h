/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Hears about power from the system, and tells the engine: from logind before the machine sleeps,
 * which waits until contexts are written, and after it; from UPower, or else the kernel, whether it
 * runs on its battery; from power-profiles-daemon whether the user wants to save power. None of
 * them is started for this, required, or waited for. Main thread.
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
