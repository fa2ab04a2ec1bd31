/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What applications of a load share; bench-soak-load.c has the threads, bench-soak-app.c what they
 * know of their contexts, bench-soak-answers.c and bench-soak-ops.c what they do. Each application
 * belongs to its thread; of the load, what is said below. */

#pragma once

#include "soak/bench-soak-book.h"
#include "soak/bench-soak-load.h"

G_BEGIN_DECLS

/* One context of an application. */
typedef struct
{
  BenchBook *book;
  char *path;
  char *name;       /* (nullable) */
  guint tokens;     /* as last read */
  gboolean is_new;  /* nothing is known of it: it is to be closed and made */
} BenchSlot;

typedef struct
{
  BenchLoad *load;
  char *id;
  BenchRandom random;
  GDBusConnection *connection;  /* (nullable) */
  BenchSlot *slots;
  guint64 n_calls;
} BenchApp;

struct _BenchLoad
{
  BenchLoadSetup setup;
  BenchApp *apps;
  GPtrArray *threads;       /* (element-type GThread) */
  GMutex lock;
  GCond changed;
  /* guarded by lock */
  guint n_active;           /* applications with a call under way */
  gboolean is_paused;
  gboolean is_ending;
  gboolean expects_loss;
  guint epoch;              /* grows with each service that is expected */
  guint n_compared;
  guint n_reopened;
  GPtrArray *complaints;    /* (element-type utf8) (owned) */
  guint n_complaints;
  /* atomic */
  guint counts[BENCH_N_OPS];
  guint n_refused;
  guint n_turns;
  int n_tokens;
};

/* The text follows what g_strdup_printf() takes. */
void     bench_app_complain   (BenchApp      *self,
                               const char    *format,
                               ...) G_GNUC_PRINTF (2, 3);
/* TRUE when the service being gone is what is expected. */
gboolean bench_app_is_lost    (BenchApp      *self,
                               const GError  *error);

/* Connects, and makes or opens all contexts. */
gboolean bench_app_open       (BenchApp      *self,
                               GError       **error);
/* FALSE with @error set when the service has lost or changed what was acknowledged, or is gone. */
gboolean bench_app_compare    (BenchApp      *self,
                               BenchSlot     *slot,
                               GError       **error);
/* One call of those that fit now. FALSE with @error set for what should not happen. */
gboolean bench_app_act        (BenchApp      *self,
                               GError       **error);

G_END_DECLS
