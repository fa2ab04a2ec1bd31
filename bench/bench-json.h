/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Members of the JSON objects that subcommands print. Plain functions over a builder, which is its
 * maker's.
 */

#pragma once

#include <json-glib/json-glib.h>

G_BEGIN_DECLS

void bench_json_add_number  (JsonBuilder *builder,
                             const char  *name,
                             double       number);
void bench_json_add_integer (JsonBuilder *builder,
                             const char  *name,
                             gint64       number);

G_END_DECLS
