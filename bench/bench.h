/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmsvc-bench: measurements. One file a subcommand, each prints a table, or one
 * JSON object with --json. Figures are medians with the least and the greatest
 * beside them, because machines are shared.
 */

#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

G_BEGIN_DECLS

/* Samples of one figure. */
typedef struct
{
  const char *name;
  const char *unit;
  GArray *samples;   /* (element-type double) */
} BenchFigure;

BenchFigure *bench_figure_new    (const char *name,
                                  const char *unit);
void         bench_figure_free   (BenchFigure *self);
void         bench_figure_add    (BenchFigure *self,
                                  double       sample);
double       bench_figure_median (BenchFigure *self);

/* (element-type BenchFigure) */
void         bench_print         (GPtrArray  *figures,
                                  gboolean    as_json);

/* Ends a service that a bus has started, and waits until it is gone: it is the bus's
 * child and not ours. 0: none. */
void         bench_stop_service  (guint       pid);

int          bench_service       (int         argc,
                                  char      **argv);
int          bench_cli           (int         argc,
                                  char      **argv);

G_END_DECLS
