/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The load of a soak: many applications, each a thread with its own connection, registered id and
 * contexts, that do what applications do, and what they should not: cancel, leave in the middle,
 * stop reading. Each compares what the service holds with what was acknowledged. Made, paused and
 * asked by the main thread.
 */

#pragma once

#include <gio/gio.h>

#include "bench-random.h"

G_BEGIN_DECLS

/* What callers do. */
typedef enum
{
  BENCH_OP_GENERATE,     /* read to the end */
  BENCH_OP_TEXT,         /* the same as plain text */
  BENCH_OP_CANCEL,       /* at a random moment; what was written goes */
  BENCH_OP_KEEP,         /* likewise; what was written stays */
  BENCH_OP_HANG_UP,      /* the pipe is closed at a random moment */
  BENCH_OP_STALL,        /* a small pipe, left full for a while */
  BENCH_OP_ASK,
  BENCH_OP_RETRY,        /* the same request twice */
  BENCH_OP_COMPLETE,
  BENCH_OP_COUNT,
  BENCH_OP_APPEND,
  BENCH_OP_FORK,         /* ask in the fork, close it */
  BENCH_OP_ROLLBACK,
  BENCH_OP_RENEW,        /* close, and make anew */
  BENCH_OP_COMPARE,      /* all messages */
  BENCH_OP_LOOK,         /* memory, lists, properties */
  BENCH_OP_CONFLICT,     /* with a revision that is not */
  BENCH_OP_VANISH,       /* the connection is dropped with a call under way */
  BENCH_N_OPS
} BenchOp;

typedef struct
{
  const char *address;    /* of the bus */
  guint64 seed;
  guint n_apps;
  guint n_contexts;       /* of each application, half of them named */
  guint think_ms;         /* on average between two calls of an application */
  guint target_tokens;    /* held by all contexts together, once they have grown */
  guint max_tokens;       /* of an answer */
} BenchLoadSetup;

typedef struct _BenchLoad BenchLoad;

/* Starts the applications; each makes its contexts first. */
BenchLoad  *bench_load_new          (const BenchLoadSetup *setup);
/* Ends them after the call that each is at. */
void        bench_load_free         (BenchLoad            *self);
/* Returns when no application has a call under way; none begins one until bench_load_go_on(). */
void        bench_load_pause        (BenchLoad            *self);
void        bench_load_go_on        (BenchLoad            *self);
/* Calls that fail because the service is gone are no complaints from now on; applications wait,
 * with their contexts in doubt, until bench_load_reopen(). */
void        bench_load_expect_loss  (BenchLoad            *self);
/* All connect anew, open their named contexts and compare them with what was acknowledged; the
 * load goes on afterwards. Returns the number of contexts compared. */
guint       bench_load_reopen       (BenchLoad            *self);
/* Compares all contexts; the load must be paused. Returns their number. */
guint       bench_load_compare      (BenchLoad            *self);

/* So far. */
guint64     bench_load_count        (BenchLoad            *self,
                                     BenchOp               op);
const char *bench_load_get_op_name  (BenchOp               op);
guint       bench_load_count_refused (BenchLoad           *self);
/* Turns that were acknowledged. */
guint64     bench_load_count_turns  (BenchLoad            *self);
/* (element-type utf8) (transfer container): what should not have happened, the first of them. */
GPtrArray  *bench_load_get_complaints (BenchLoad          *self,
                                     guint                *n_all);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchLoad, bench_load_free)

G_END_DECLS
