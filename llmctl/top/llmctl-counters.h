/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the counters of GetStatistics are called, for people. Main thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* (transfer full) (nullable): the a{sv} of GetStatistics. */
GVariant   *llmctl_counters_read       (GDBusConnection *bus,
                                        GError         **error) G_GNUC_WARN_UNUSED_RESULT;
/* All counters, those of later versions by their names. */
void        llmctl_counters_print      (GVariant        *statistics);
/* Of chunks of context memory alone; nothing when the service does not count them. */
void        llmctl_counters_print_chunks (GVariant      *statistics);

G_END_DECLS
