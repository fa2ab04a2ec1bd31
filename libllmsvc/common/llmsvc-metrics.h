/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The figures of the service as OpenMetrics text, for monitoring: for the service's own
 * socket and for “llmctl metrics” alike. Numbers only. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLMSVC_METRICS_CONTENT_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/**
 * llmsvc_metrics_format:
 * @service: (nullable): `a{sv}` of the properties of org.llm.Service
 * @memory: (nullable): `a{sv}` of the properties of org.llm.Service.Memory
 * @statistics: (nullable): `a{sv}` as GetStatistics has it
 *
 * What is missing, or of an unexpected type, is left out. A counter that the table does not
 * have goes by its own name, as of unknown type. Sizes are in bytes and times in seconds.
 *
 * Returns: (transfer full): OpenMetrics 1.0 text, with the line that ends it
 */
char *llmsvc_metrics_format (GVariant *service,
                             GVariant *memory,
                             GVariant *statistics);

G_END_DECLS
