/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Line plots as SVG files that a browser shows and a person can read as text: a
 * logarithmic axis upwards, or a linear one with fixed ends; to the right marks at the points, or
 * at round numbers where these are too many for their labels. One thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _BenchPlot BenchPlot;

/* @x: where the points of all lines lie, rising. */
BenchPlot *bench_plot_new      (const char   *title,
                                const char   *x_title,
                                const char   *y_title,
                                const double *x,
                                guint         n_x);
void       bench_plot_free     (BenchPlot    *self);
/* From then on the axis is linear, from @least to @most. */
void       bench_plot_set_linear (BenchPlot  *self,
                                double        least,
                                double        most);
/* @y: a value for each x, above 0 where the axis is logarithmic, not below its end where it is
 * linear; others are left out. */
void       bench_plot_add_line (BenchPlot    *self,
                                const char   *name,
                                const double *y);
/* (transfer full): the file's text. */
char      *bench_plot_to_svg   (BenchPlot    *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchPlot, bench_plot_free)

G_END_DECLS
