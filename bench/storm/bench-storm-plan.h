/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What storms are made of: sizes that follow from the model's, times, and the texts of the
 * apps. All of it is fixed before anything runs: the same model, the same seed, the same plan.
 * Immutable once made; any thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define BENCH_STORM_APPS 4
#define BENCH_STORM_LEVELS 3

typedef struct
{
  char *text;
  GArray *ids;               /* (element-type gint32): its tokens */
} BenchStormText;

typedef struct
{
  guint64 model_bytes;
  guint64 limit;             /* of the group */
  guint64 budget;            /* told to the service: more than there is */
  guint64 levels[BENCH_STORM_LEVELS];  /* of the eater, rising */
  guint64 file_bytes;        /* that the eater reads in each round */
  guint grow_ms;
  guint hold_ms;
  guint pause_ms;
  guint n_ctx;               /* positions of one context */
  guint n_begin;             /* tokens of the message that a context begins with */
  guint n_turn;              /* and of a later one */
  guint n_answer;            /* tokens of an answer */
  guint n_turns;             /* short ones of a context, before they are taken back */
  gint32 eos;                /* token that ends answers; -1: none */
  GPtrArray *begins;         /* (element-type BenchStormText): per app */
  GPtrArray *turns;          /* (element-type BenchStormText): [BENCH_STORM_APPS × n_turns] */
  BenchStormText *filler;    /* as long as an answer */
  guint8 *order;             /* level of each storm, [n_storms] */
  guint n_storms;
} BenchStormPlan;

BenchStormPlan *bench_storm_plan_new       (const char     *model,
                                            guint           n_storms,
                                            guint64         seed,
                                            GError        **error);
void            bench_storm_plan_free      (BenchStormPlan *self);

guint64         bench_storm_plan_get_level (const BenchStormPlan *self,
                                            guint                 storm);
/* Which turn of its context an app's turn number @turn is, from 0. A context begins once, with a
 * long message; place 1 comes again and again, and takes back all turns behind the first. */
guint           bench_storm_plan_get_place (const BenchStormPlan *self,
                                            guint                 turn);
/* What app number @app says at @place. */
const BenchStormText *bench_storm_plan_get_text (const BenchStormPlan *self,
                                                 guint                 app,
                                                 guint                 place);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormPlan, bench_storm_plan_free)

G_END_DECLS
