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

G_END_DECLS
