/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a sub-model takes of the time of the whole model, round by round, beside what it has of its
 * operations and of its bytes. */

#pragma once

#include "bench-engine.h"

G_BEGIN_DECLS

typedef struct _BenchShares BenchShares;

BenchShares *bench_shares_new   (void);
void         bench_shares_free  (BenchShares *self);
/* Seconds of one round; 0: not measured. */
void         bench_shares_add   (BenchShares *self,
                                 double       prompt,
                                 double       whole_prompt,
                                 double       decode,
                                 double       whole_decode);
void         bench_shares_print_head (void);
/* @ops, @bytes: shares of the whole model. */
void         bench_shares_print (BenchShares *self,
                                 guint        percent,
                                 double       ops,
                                 double       bytes);
/* What changing the sub-model took. */
void         bench_shares_print_switches (BenchEngine *engine);

G_END_DECLS
