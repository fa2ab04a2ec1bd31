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
  char *name;
  const char *unit;
  GArray *samples;   /* (element-type double) */
} BenchFigure;

BenchFigure *bench_figure_new    (const char *name,
                                  const char *unit);
void         bench_figure_free   (BenchFigure *self);
void         bench_figure_add    (BenchFigure *self,
                                  double       sample);
/* 0 without samples. */
double       bench_figure_median (BenchFigure *self);
/* There must be samples. */
double       bench_figure_least  (BenchFigure *self);
double       bench_figure_greatest (BenchFigure *self);
/* The one of this name among @figures, a new one at their end where there is none. */
BenchFigure *bench_figure_find   (GPtrArray   *figures,
                                  const char  *name,
                                  const char  *unit);
/* A sample of the figure that bench_figure_find() gives. */
void         bench_figures_add   (GPtrArray   *figures,
                                  const char  *name,
                                  const char  *unit,
                                  double       sample);
/* Sorts @samples (element-type double). 0 without samples. */
double       bench_median        (GArray      *samples);

/* As a member of an open object: its unit, the median, the samples in their order. */
void         bench_figure_add_json (BenchFigure *self,
                                  JsonBuilder *builder);
/* Prints what @builder holds, closed. */
void         bench_print_json    (JsonBuilder *builder);

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
int          bench_contexts      (int         argc,
                                  char      **argv);
int          bench_machine       (int         argc,
                                  char      **argv);
int          bench_model         (int         argc,
                                  char      **argv);
int          bench_contention    (int         argc,
                                  char      **argv);
int          bench_load          (int         argc,
                                  char      **argv);
/* For the benchmarks in Python, which llmsvc-bench runs for its other commands. */
int          bench_tokens        (int         argc,
                                  char      **argv);
int          bench_slo_fair      (int         argc,
                                  char      **argv);
int          bench_pressure_play (int         argc,
                                  char      **argv);
int          bench_make_gguf     (int         argc,
                                  char      **argv);

G_END_DECLS
