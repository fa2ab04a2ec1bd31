/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the parts of `llmsvc-bench contexts` share: the models, the rates of this machine, the grid
 * of replays and the points that it is made of. What is asked for and what is returned belongs to
 * one thread; the replays of a grid run in several.
 */

#pragma once

#include "bench.h"
#include "contexts/bench-trace.h"
#include "kv/llm-kv.h"

G_BEGIN_DECLS

/* --- models and rates --- */

/* Models whose contexts are switched. */
typedef struct
{
  const char *name;
  const char *title;
  const char *random_shape;  /* (nullable): of random weights; NULL: it is the shipped model */
  guint n_layers;
  guint n_kv_heads;
  guint head_dim;
  guint max_slots;           /* tokens of a context */
} BenchModelShape;

/* Ended by one without a name. */
extern const BenchModelShape bench_model_shapes[];

/* With all layers and heads, or with one each. */
LlmKvLayout            bench_model_shape_get_layout (const BenchModelShape *self,
                                                     guint                  chunk_slots,
                                                     gboolean               is_thin);

typedef struct
{
  LlmKvProfile profile;      /* the reads are those of no device: see below */
  double resident_us;        /* of a call's begin when all of a context is there */
  double take_us_per_byte;   /* of what was read: checksums, copies, new memory */
} BenchRates;

/* What computing and reading cost on this machine: measured with models of the real shapes, or
 * taken from a file, with which results repeat. */
typedef struct
{
  GKeyFile *keys;
  const char *path;          /* (nullable): where figures are kept; others are added to it */
  const char *folder;        /* on the disk that is measured, for files that go away again */
  const char *model;         /* (nullable): the shipped model */
  char *disk_what;
  GPtrArray *made;           /* (element-type filename): models */
} BenchRateFile;

gboolean bench_rate_file_open      (BenchRateFile         *self,
                                    GError               **error);
void     bench_rate_file_clear     (BenchRateFile         *self);
gboolean bench_rate_file_get_rates (BenchRateFile         *self,
                                    const BenchModelShape *shape,
                                    BenchRates            *rates,
                                    GError               **error);
/* @device gets the real disk's figures; its strings belong to @self. */
gboolean bench_rate_file_get_disk  (BenchRateFile         *self,
                                    BenchDevice           *device,
                                    GError               **error);
/* (transfer full): a file with a model of the shape: the shipped one, or one with random weights,
 * made when it is not there. Those that were made go with @self. */
char    *bench_rate_file_get_model (BenchRateFile         *self,
                                    const BenchModelShape *shape,
                                    GError               **error);

/* --- the grid --- */

/* The number of contexts whose bytes with 8 bits budgets are shares of. */
#define BENCH_GRID_ALL_CONTEXTS 16

/* One point: a trace, a budget, a policy, a device. */
typedef struct
{
  const BenchModelShape *shape;
  const BenchDevice *device;
  BenchPattern pattern;
  double share;              /* of the bytes of BENCH_GRID_ALL_CONTEXTS contexts with 8 bits */
  guint n_contexts;
  const LlmKvPolicy *policy;
  guint chunk_slots;
  guint max_slots;
  double interval_s;
} BenchPoint;

typedef struct
{
  BenchPoint point;
  BenchLatency wait;         /* µs, of the counted switches */
  BenchLatency read;
  BenchLatency overlapped;
  GArray *waits;             /* (element-type double): µs, in the order of the trace */
  double budget;             /* bytes */
  double read_bytes;         /* of a switch, on average */
  double written_bytes;      /* likewise, while the call waited */
  double n_recomputed;       /* rows, likewise */
  double n_resident;         /* share of the switches that found all there */
} BenchCell;

/* Replays of points. All policies of a cell see the same trace. */
typedef struct
{
  BenchRateFile *rates;
  const char *folder;        /* for chunks, best in memory */
  double hours;              /* of each trace */
  guint64 seed;
  guint n_jobs;
  GPtrArray *cells;          /* (element-type BenchCell): in the order in which they were asked for */
  GHashTable *by_key;        /* (element-type utf8 BenchCell) (unowned) */
  guint n_run;               /* cells that are filled */
  double seconds;            /* that replays took, in all threads together */
  guint64 n_calls;
} BenchGrid;

void             bench_grid_init  (BenchGrid         *self);
void             bench_grid_clear (BenchGrid         *self);
/* Asks for a point; the same one is run once. Points that differ in their device alone share a
 * replay where the policy does not plan with it. */
void             bench_grid_add   (BenchGrid         *self,
                                   const BenchPoint  *point);
/* Runs what was asked for and is not there yet. */
gboolean         bench_grid_run   (BenchGrid         *self,
                                   GError           **error);
/* There must be one. */
const BenchCell *bench_grid_find  (BenchGrid         *self,
                                   const BenchPoint  *point);

/* --- parts --- */

/* What is asked for. */
typedef struct
{
  GPtrArray *shapes;         /* (element-type BenchModelShape) */
  GPtrArray *devices;        /* (element-type BenchDevice) */
  GPtrArray *policies;       /* (element-type LlmKvPolicy): the first is what others are compared with */
  guint n_patterns;
  const guint *contexts;     /* ended by 0, as shares */
  const double *shares;
  guint n_switches;
  guint64 seed;
  const char *peer;          /* (nullable): a program that saves and loads contexts */
  gboolean is_silent;        /* no tables */
  BenchRateFile *rates;
  BenchGrid grid;
  JsonObject *json;          /* parts set members */
} BenchParts;

/* In virtual time: latencies by policy, the most contexts under a latency, and one point with parts
 * of LLMS switched off, or one figure changed. */
gboolean bench_grid_part      (BenchParts *self,
                               GError    **error);
gboolean bench_capacity_part  (BenchParts *self,
                               GError    **error);
gboolean bench_ablations_part (BenchParts *self,
                               GError    **error);
gboolean bench_sweeps_part    (BenchParts *self,
                               GError    **error);
/* Sets the member "cells". */
void     bench_cells_set_json (BenchGrid  *grid,
                               JsonObject *object);

/* In real time, with real models: switches beside what replays would say of them, the time to the
 * first token behind a context that is read or computed anew, bytes and time to load a context
 * beside a peer's file. */
gboolean bench_switches_part  (BenchParts *self,
                               GError    **error);
gboolean bench_ttft_part      (BenchParts *self,
                               GError    **error);
gboolean bench_slots_part     (BenchParts *self,
                               GError    **error);

G_END_DECLS
