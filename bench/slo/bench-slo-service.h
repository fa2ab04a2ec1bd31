/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Our service as a server of bench-slo-run.h: a daemon on a private bus, each application
 * with a connection of its own under its own name. A call is a new context, an answer
 * that streams, and the context's end. Main thread.
 */

#pragma once

#include "slo/bench-slo-run.h"

G_BEGIN_DECLS

/* @scheduler: "deadline" or "fifo". @refuses: whether calls whose targets can't be met are refused,
 * as the service does unless told otherwise. @cache: folder of prepared models and of what is
 * known of the machine, which outlives the server. Waits until a model is loaded. */
BenchSloServer *bench_slo_service_new (const char  *daemon,
                                       const char  *model,
                                       const char  *cache,
                                       const char  *scheduler,
                                       gboolean     refuses,
                                       GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
