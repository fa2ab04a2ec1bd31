/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Plays a trace against a server and notes when the text of each call came. A server is a
 * table of functions: our service on a bus (bench-slo-service.h), or another program
 * (bench-slo-peer.h). Main thread, in the default main context.
 */

#pragma once

#include "slo/bench-slo-trace.h"

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct _BenchSloServer BenchSloServer;
typedef struct _BenchSloRun BenchSloRun;

typedef enum
{
  BENCH_SLO_UNFINISHED,  /* still under way when there was no more time */
  BENCH_SLO_DONE,
  BENCH_SLO_REFUSED,     /* too much to do, or the application has its quota */
  BENCH_SLO_FAILED,
} BenchSloEnd;

typedef struct
{
  BenchSloArrival arrival;
  guint n_prompt;        /* tokens; of the text, until the server tells */
  guint n_output;        /* tokens that came */
  guint kept;            /* percent of the tokens that the model saw */
  guint sub_model;       /* percent */
  gint64 begin_us;
  gint64 first_us;       /* of the first text, 0 before */
  gint64 last_us;        /* of the last text */
  BenchSloEnd end;
  char *message;         /* (nullable): of one that failed */
  BenchSloRun *run;      /* (nullable): NULL after its end */
} BenchSloCall;

struct _BenchSloServer
{
  /* Begins a call; says what comes of it by bench_slo_call_note() and _end(). @text: of the
   * prompt. */
  void (*begin) (BenchSloServer *self,
                 BenchSloCall   *call,
                 const char     *text);
  /* Leaves all calls that are under way; nothing is said of them any more. */
  void (*leave) (BenchSloServer *self);
  /* (nullable) (out) @n_tokens: what a text costs as a prompt. Waits. */
  gboolean (*count) (BenchSloServer *self,
                     const char     *text,
                     guint          *n_tokens,
                     GError        **error);
  void (*free)  (BenchSloServer *self);
};

typedef struct
{
  GPtrArray *calls;      /* (element-type BenchSloCall) (owned) */
  double seconds;        /* from the beginning to the end of the last call */
  double cpu_seconds;    /* of a processor, for calling */
} BenchSloRecord;

/* For servers: text came, or the call is over; @message as above. */
void            bench_slo_call_note    (BenchSloCall   *call);
void            bench_slo_call_end     (BenchSloCall   *call,
                                        BenchSloEnd     end,
                                        const char     *message);

void            bench_slo_server_free  (BenchSloServer *self);

/* Plays all of @trace, at most @max_calls at a time (0: no limit), and waits at most @grace_s
 * seconds behind the last arrival. @n_prompts: (element-type guint): tokens by number of the
 * call. */
BenchSloRecord *bench_slo_run          (BenchSloServer *server,
                                        guint64         seed,
                                        const GArray   *trace,
                                        const GArray   *n_prompts,
                                        guint           max_calls,
                                        double          grace_s);
void            bench_slo_record_free  (BenchSloRecord *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchSloServer, bench_slo_server_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchSloRecord, bench_slo_record_free)

G_END_DECLS
