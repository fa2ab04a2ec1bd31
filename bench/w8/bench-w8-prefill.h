/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* An engine's prompts in W8A8, to be timed beside its own arithmetic. The engine's thread. */

#pragma once

#include "bench-engine.h"

typedef struct _BenchW8Prefill BenchW8Prefill;

/* Scales are found on a prompt of random tokens; with a shadow what is beyond them is multiplied in
 * floats. @gates: a gated network's inner values are int8 at once. @engine: (unowned). */
BenchW8Prefill *bench_w8_prefill_new  (BenchEngine     *engine,
                                       gboolean         has_shadow,
                                       gboolean         gates,
                                       GError         **error);
void            bench_w8_prefill_free (BenchW8Prefill  *self);
/* (transfer none): what computes the engine's steps so, in place of engine->forward. */
LlmForward     *bench_w8_prefill_get_forward (BenchW8Prefill *self);
/* Products of floats beside those of int8 so far. */
double          bench_w8_prefill_get_shadow_share (BenchW8Prefill *self);
/* What its weights and rows take beside the engine's own. */
guint64         bench_w8_prefill_get_bytes (BenchW8Prefill *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchW8Prefill, bench_w8_prefill_free)
