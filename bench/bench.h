/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmsvc-bench: measurements, one subcommand each. A command describes its options and adds
 * samples to figures, which are printed as a table, or as one JSON object with --json: medians
 * with the least and the greatest beside them, because machines are shared.
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
double       bench_figure_greatest (BenchFigure *self);
/* The interval that holds the true median with 95 % confidence, whatever the distribution: two of
 * the samples in their order (a sign test). FALSE for fewer than six samples. */
gboolean     bench_figure_interval (BenchFigure *self,
                                    double      *low,
                                    double      *high);
/* Sets the member of its name: the unit, the median, the samples in their order. */
void         bench_figure_set_json (BenchFigure *self,
                                  JsonObject  *object);

/* (transfer full) (element-type BenchFigure) */
GPtrArray   *bench_figures_new   (void);

/* One start of the program, whose options are parsed. */
typedef struct
{
  int argc;             /* what is no option: the command, and its arguments */
  char **argv;
  gboolean as_json;
  GPtrArray *figures;   /* printed when the command has succeeded */
} Bench;

typedef struct
{
  const char *name;
  const char *summary;       /* (nullable): for the commands in Python only */
  const GOptionEntry *entries;
  const char *arguments;     /* (nullable): what --help says of arguments, and below the usage */
  const char *description;   /* (nullable) */
  gboolean (*run) (Bench   *bench,
                   GError **error);
} BenchCommand;

extern const BenchCommand bench_model_command, bench_contexts_command, bench_contention_command,
  bench_dispatch_command, bench_draft_command, bench_machine_command, bench_masks_command,
  bench_products_command, bench_w8a8_command;

/* What the commands in Python ask this program for. */
int          bench_answers       (int                 argc,
                                  char              **argv);
int          bench_draft_group   (int                 argc,
                                  char              **argv);
int          bench_draft_play    (int                 argc,
                                  char              **argv);
int          bench_stream        (int                 argc,
                                  char              **argv);
int          bench_tokens        (int                 argc,
                                  char              **argv);
int          bench_slo_fair      (int                 argc,
                                  char              **argv);
int          bench_pressure_play (int                 argc,
                                  char              **argv);

/* Parses options, runs the command, prints its figures or what went wrong; the exit status: 2 for
 * wrong usage (G_OPTION_ERROR). */
int          bench_command_run   (const BenchCommand *self,
                                  int                 argc,
                                  char              **argv);
/* Says that the command line is wrong, and returns FALSE. */
gboolean     bench_fail_usage    (GError            **error,
                                  const char         *message);
/* A sample of the figure that is called so. */
void         bench_add           (Bench              *self,
                                  const char         *unit,
                                  double              sample,
                                  const char         *format,
                                  ...) G_GNUC_PRINTF (4, 5);
void         bench_print_object  (JsonObject         *object);

/* Says what failed, and what errno says of it, and returns FALSE. */
gboolean     bench_fail_errno    (GError            **error,
                                  const char         *format,
                                  ...) G_GNUC_PRINTF (2, 3);
/* (transfer full): the path of a new folder in @parent. */
char        *bench_make_folder   (const char         *parent,
                                  GError            **error);
/* "s" but for one. */
const char  *bench_plural        (guint               n);

G_END_DECLS
