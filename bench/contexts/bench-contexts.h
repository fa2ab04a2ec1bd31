/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What `llmsvc-bench contexts`, which is written in Python, asks this program for: the models, the
 * rates of this machine, a replay of a trace, and what is measured in real time. One thread.
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
  const char *random_shape;  /* (nullable): of random weights; NULL: it is the shipped model. With
                              * n_layers, which may be fewer than the shape's */
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

/* Of our own work on chunks of a kind. */
typedef struct
{
  double take_us_per_byte;   /* of what was read: checksums, copies, new memory */
  double take_us_per_chunk;  /* and its parts, one after the other */
  double stall_us_per_chunk; /* what reading takes besides; computing goes on meanwhile */
  double evict_us_per_byte;  /* of memory that is taken from others */
  double evict_us_per_chunk;
} BenchChunkRates;

typedef struct
{
  LlmKvProfile profile;      /* the reads are those of no device: see below */
  double resident_us;        /* of a call's begin when all of a context is there */
  double open_us;            /* before the first byte of a restore arrives: a plan, files */
  BenchChunkRates packed;
  BenchChunkRates floats;    /* one of many pages costs other than several of few */
  double create_us;          /* of writing what is evicted: files */
  double write_us_per_byte;  /* our own work on what is written: copies, checksums */
  double pack_us_per_byte;   /* of floats that are quantized when a call has returned */
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

/* --- what is asked for --- */

typedef struct
{
  GPtrArray *shapes;         /* (element-type BenchModelShape) */
  GPtrArray *devices;        /* (element-type BenchDevice) */
  GPtrArray *policies;       /* (element-type LlmKvPolicy) */
  guint n_switches;
  guint64 seed;
  const char *peer;          /* (nullable): a program that saves and loads contexts */
  BenchRateFile rates;
  JsonObject *json;          /* of the answer */
  guint deepest;             /* of ttft: tokens before the question at most */
} BenchParts;

/* In real time, with real models: the time to the first token behind a context that is read or
 * computed anew, bytes and time to load a context beside a peer's file, switches beside what
 * replays would say of them. Each sets the member of its name. */
gboolean bench_ttft_part     (BenchParts *self,
                              GError    **error);
gboolean bench_slots_part    (BenchParts *self,
                              GError    **error);
gboolean bench_switches_part (BenchParts *self,
                              GError    **error);

G_END_DECLS
