/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Parts of drawings in SVG that plots have in common, appended to a text, which is its maker's.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A number as SVG wants it, whatever the language of the user. */
void bench_svg_add_number (GString    *text,
                           double      number);
/* A straight line; @style: its attributes. */
void bench_svg_add_line   (GString    *text,
                           double      x1,
                           double      y1,
                           double      x2,
                           double      y2,
                           const char *style);

/* A distance of marks on an axis that people can read: 1, 2 or 5 times a power of ten, not below
 * @least, which is above 0. */
double bench_svg_round_step (double least);
/* How wide a text of this size is at most, in units of the drawing. */
double bench_svg_get_width  (const char *words,
                             double      size);

G_END_DECLS
