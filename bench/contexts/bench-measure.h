/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What BenchRates are made of, measured in rounds: a round takes one sample of each figure, and
 * figures are medians over rounds. A shared machine has slow seconds, and slow minutes: rounds that
 * alternate with what is to be predicted meet the same ones. One thread.
 */

#pragma once

#include "bench-engine.h"
#include "contexts/bench-contexts.h"

G_BEGIN_DECLS

/* Of the figures of a round @n_samples were taken, and of @n_rounds (0: all) the last ones count. */
double       bench_rounds_median    (BenchFigure           *figure,
                                     guint                  n_samples,
                                     guint                  n_rounds);

/* Steps of a model. */
typedef struct _BenchSteps BenchSteps;

/* @engine is used by rounds; its store is not. Rows see what a context has under @policy (nullable:
 * floats). */
BenchSteps  *bench_steps_new        (BenchEngine           *engine,
                                     const BenchModelShape *shape,
                                     const LlmKvPolicy     *policy,
                                     GError               **error);
void         bench_steps_free       (BenchSteps            *self);
void         bench_steps_run_round  (BenchSteps            *self);
/* Fails with BUSY where a median is uncertain, or out of line beside those of fewer rows. */
gboolean     bench_steps_check      (BenchSteps            *self,
                                     GError               **error);
/* Sets the profile, but for the device, and resident_us, of the last @n_rounds (0: all). There must
 * have been a round. */
void         bench_steps_get_rates  (BenchSteps            *self,
                                     guint                  n_rounds,
                                     BenchRates            *rates);

/* The disk, our own work on chunks of a model that are read, written or quantized. */
typedef struct _BenchTaking BenchTaking;

/* @parent: a folder on the disk; nothing stays in it. */
BenchTaking *bench_taking_new       (const char            *parent,
                                     const BenchModelShape *shape,
                                     GError               **error);
void         bench_taking_free      (BenchTaking           *self);
gboolean     bench_taking_run_round (BenchTaking           *self,
                                     GError               **error);
/* Fails with BUSY where a median is uncertain. */
gboolean     bench_taking_check     (BenchTaking           *self,
                                     GError               **error);
/* Sets what steps don't, and the figures of @disk. There must have been a round. resident_us must be
 * set: it is no part of what a read costs. */
void         bench_taking_get_rates (BenchTaking           *self,
                                     guint                  n_rounds,
                                     BenchRates            *rates,
                                     BenchDevice           *disk);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchSteps, bench_steps_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchTaking, bench_taking_free)

G_END_DECLS
