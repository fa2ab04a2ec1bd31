/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A steady caller beside one that means harm: how much slower the first becomes, by what the second
 * does. The harm is done by a process of its own. Main thread.
 */

#pragma once

#include "soak/bench-soak.h"

G_BEGIN_DECLS

/* In a process of its own: harm of this kind until it is killed. */
int      bench_hostile_run     (const char        *address,
                                const char        *kind,
                                guint64            seed);
/* @model: the GGUF file that the service answers with; @kinds: names, or "all". FALSE when a name
 * is unknown, or a steady caller was slowed. */
gboolean bench_hostile_measure (BenchSoak         *soak,
                                const char        *model,
                                const char *const *kinds,
                                gboolean           is_quick,
                                gboolean           as_json,
                                const char        *json_file);

G_END_DECLS
