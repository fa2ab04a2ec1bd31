/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What computing and reading cost on this machine, for the trace benchmark: measured with
 * models of the real shapes, or taken from a file, with which results repeat. One thread.
 */

#pragma once

#include "bench-device.h"
#include "bench-shapes.h"
#include "kv/llm-kv.h"

#include <gio/gio.h>

G_BEGIN_DECLS

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
const BenchModelShape *bench_model_shape_list (void);
const BenchModelShape *bench_model_shape_find (const char *name);

typedef struct
{
  LlmKvProfile profile;      /* the reads are those of no device: see below */
  double resident_us;        /* of a call's begin when all of a context is there */
  double take_us_per_byte;   /* of what was read: checksums, copies, new memory */
} BenchRates;

typedef struct _BenchRateFile BenchRateFile;

/* @path: (nullable): where measured figures are kept: those that are there are used, others are
 * added. @folder: on the disk that is measured, for files that go away again. @model: (nullable):
 * the shipped model. */
BenchRateFile *bench_rate_file_new        (const char            *path,
                                           const char            *folder,
                                           const char            *model,
                                           GError               **error);
void           bench_rate_file_free       (BenchRateFile         *self);
gboolean       bench_rate_file_get_rates  (BenchRateFile         *self,
                                           const BenchModelShape *shape,
                                           BenchRates            *rates,
                                           GError               **error);
/* @device gets the real disk's figures; its strings belong to @self. */
gboolean       bench_rate_file_get_disk   (BenchRateFile         *self,
                                           BenchDevice           *device,
                                           GError               **error);
/* (transfer full): a file with a model of the shape: the shipped one, or one with random weights,
 * made when it is not there. Those that were made go with @self. */
char          *bench_rate_file_get_model  (BenchRateFile         *self,
                                           const BenchModelShape *shape,
                                           GError               **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchRateFile, bench_rate_file_free)

G_END_DECLS
