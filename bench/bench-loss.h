/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an engine's arithmetic loses on a text, against the file's weights in floats: without it a
 * change that computes faster and worse looks like a better one. One thread.
 */

#pragma once

#include <json-glib/json-glib.h>

#include "bench-engine.h"

G_BEGIN_DECLS

typedef struct _BenchLoss BenchLoss;

/* Reads the text @path, before anything is timed: in @n_windows windows at most, of 512 tokens or
 * what the model's context has room for. Fails when there is not one. */
BenchLoss    *bench_loss_new       (BenchEngine        *engine,
                                    const char         *path,
                                    guint               n_windows,
                                    GError            **error);
void          bench_loss_free      (BenchLoss          *self);

/* @engine: not the exact one. @model: its file, whose weights are opened once more, as floats. */
gboolean      bench_loss_measure   (BenchLoss          *self,
                                    BenchEngine        *engine,
                                    const char         *model,
                                    GError            **error);
/* One line. */
void          bench_loss_print     (BenchLoss          *self);
/* (transfer full): the same as an object, which docs/performance.md describes. */
JsonObject   *bench_loss_get_json  (BenchLoss          *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchLoss, bench_loss_free)

G_END_DECLS
