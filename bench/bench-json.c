/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-json.h"

void
bench_json_add_number (JsonBuilder *builder,
                       const char  *name,
                       double       number)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_double_value (builder, number);
}

void
bench_json_add_integer (JsonBuilder *builder,
                        const char  *name,
                        gint64       number)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, number);
}
