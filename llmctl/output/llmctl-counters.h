/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The counters of GetStatistics for people: in groups, in words. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* @statistics: a{sv}; counters of later versions are shown by their names. @is_kv: only those of the
 * KV cache. */
void llmctl_counters_print (GVariant *statistics,
                            gboolean  is_kv);

G_END_DECLS
