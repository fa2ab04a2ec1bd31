/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The figures of the service for monitoring, on a Unix socket of its own: OpenMetrics text as the
 * answer to one HTTP request for each connection. The mode and folder of the file decide who may
 * ask. Few clients at a time, with small requests and little time. Main thread.
 */

#pragma once

#include "bus/llm-bus.h"

G_BEGIN_DECLS

typedef struct _LlmBusMetrics LlmBusMetrics;

/**
 * llm_bus_metrics_open:
 * @bus: whose figures; a reference is held
 * @setting: where the socket is made; a folder that is missing is made, too. A socket that a
 *   process left there when it ended is replaced, one that is answered is not. “on”: in
 *   $RUNTIME_DIRECTORY, or else /run/llmsvc or the user's runtime folder
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Owner and group of the socket are those of the process, and its mode is 0660.
 *
 * Returns: (transfer full): free with llm_bus_metrics_close()
 */
LlmBusMetrics *llm_bus_metrics_open     (LlmBus         *bus,
                                         const char     *setting,
                                         GError        **error) G_GNUC_WARN_UNUSED_RESULT;
/* Removes the socket and ends what is under way. */
void           llm_bus_metrics_close    (LlmBusMetrics  *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBusMetrics, llm_bus_metrics_close)

G_END_DECLS
