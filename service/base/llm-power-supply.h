/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whether the machine runs on its battery, as the kernel says, below a root folder that tests
 * replace (NULL or "" for the real one). Any thread; reading a battery may ask its firmware and
 * take long, so not on the main one.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_POWER_SUPPLY_NONE,     /* no battery of the machine's own: nothing to watch */
  LLM_POWER_SUPPLY_LINE,
  LLM_POWER_SUPPLY_BATTERY,
} LlmPowerSupply;

/* From ROOT/sys/class/power_supply. */
LlmPowerSupply llm_power_supply_read (const char *root);

G_END_DECLS
