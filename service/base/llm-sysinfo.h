/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Readings of the machine, each below a root folder that tests replace
 * (NULL or "" for the real one). Any thread; reads small kernel files.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Processors this process may run on. */
guint    llm_sysinfo_n_processors     (void);

typedef struct
{
  guint64 total;      /* bytes of memory */
  guint64 available;  /* to new work */
  guint64 swap_free;  /* 0 also without any */
} LlmMeminfo;

/* From ROOT/proc/meminfo. */
gboolean llm_sysinfo_read_meminfo     (const char *root,
                                       LlmMeminfo *info,
                                       GError    **error);

/* Resident bytes of this process, from ROOT/proc/self/statm. */
guint64  llm_sysinfo_read_resident    (const char *root);

typedef enum
{
  LLM_SUPPLY_NONE,     /* no battery of the machine's own: nothing to watch */
  LLM_SUPPLY_LINE,
  LLM_SUPPLY_BATTERY,
} LlmSupply;

/* Whether the machine runs on its battery, from ROOT/sys/class/power_supply. Reading one may ask
 * its firmware and take long, so not on the main thread. */
LlmSupply llm_sysinfo_read_supply     (const char *root);

G_END_DECLS
