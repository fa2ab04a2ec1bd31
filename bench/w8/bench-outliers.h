/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Outliers put into a model that has none, as models that people download have them. */

#pragma once

#include <glib.h>

/* Writes a copy of the F32 model @path to @copy that has outliers: of the first @n_layers layers
 * (0: of all), the channel of the attention's norm with the largest weight and two neurons of the
 * feed-forward network × @factor, what multiplies them ÷ @factor. The same function, but for
 * rounding. */
gboolean bench_outliers_inject (const char  *path,
                              double       factor,
                              guint        n_layers,
                              const char  *copy,
                              GError     **error) G_GNUC_WARN_UNUSED_RESULT;
