/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One look at the service, as “llmctl top” takes them one after the other: without starting it,
 * and with no more calls than something that changed is worth. Everything in a sample comes from
 * outside. Any thread. And what the counters of many samples came to.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* (transfer full): what there is to see now, an a{sv} with the keys of our JSON: "running", and if
 * they were told: "service", "model" (the one in use) and "memory" with the properties,
 * "statistics" as GetStatistics has them, "apps" (aa{sv}: the caller's, or all for root),
 * "contexts" (aa{sv}: the caller's, with "path", "memory-bytes" and "storage-bytes"; these not for
 * all when there are many) and "states" (as: of the caller's calls under way). Without "service" it
 * did not answer. Lists, and what does not change, are those of @before (nullable) while no counter
 * has moved. Blocks for seconds at most, until @cancellable is cancelled. @bus:
 * (nullable): NULL when the service does not run. */
GVariant *llmctl_sample_take (GDBusConnection *bus,
                              GVariant        *before,
                              GCancellable    *cancellable);

/* The counters of the last minute, for what they came to in it. Begins as all zero; one thread. */
typedef struct
{
  GQueue looks;   /* (element-type GVariant) (owned): the oldest first */
} LlmctlHistory;

/* The service was started anew: its counters begin with 0. */
void     llmctl_history_clear      (LlmctlHistory *self);
/* @statistics: `a{sv}` of GetStatistics, as of @time_us, which does not go back. */
void     llmctl_history_add        (LlmctlHistory *self,
                                    gint64         time_us,
                                    GVariant      *statistics);

/* Whether there are two looks to compare. */
gboolean llmctl_history_has_rates  (LlmctlHistory *self);
/* How much the counter @key grew a second between the last two looks; 0 when nobody knows. */
double   llmctl_history_get_rate   (LlmctlHistory *self,
                                    const char    *key);
/* How much it grew in the last minute, or since there was the first look. */
guint64  llmctl_history_get_recent (LlmctlHistory *self,
                                    const char    *key);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlHistory, llmctl_history_clear)

G_END_DECLS
