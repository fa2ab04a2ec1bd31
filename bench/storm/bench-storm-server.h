/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A language model's server under a storm: the service on a private bus, or another program
 * over HTTP. Made and freed on the main thread; bench_storm_server_ask() comes from one thread
 * for each app.
 */

#pragma once

#include "storm/bench-storm-group.h"
#include "storm/bench-storm-plan.h"

G_BEGIN_DECLS

/* What a server writes, in its folder. */
#define BENCH_STORM_LOG "log"

typedef struct _BenchStormServer BenchStormServer;

typedef struct
{
  /* One answer of an app, greedy: appended to @answer, counted in @tokens as they come. */
  gboolean (*ask)  (BenchStormServer      *self,
                    guint                  app,
                    guint                  turn,
                    GString               *answer,
                    guint64               *tokens,
                    GError               **error);
  void     (*free) (BenchStormServer      *self);
} BenchStormServerFuncs;

/* What every one starts with. */
struct _BenchStormServer
{
  const BenchStormServerFuncs *funcs;
  const BenchStormPlan *plan;
  pid_t pid;          /* a child; 0 when it is gone and was waited for */
  int status;         /* of its end, when @pid is 0 */
};

typedef struct
{
  const char *program;
  const char *model;
  const char *folder;     /* for what it keeps; empty */
  const char *threads;    /* (nullable): as many as it wants */
} BenchStormServerConfig;

/* @group: (nullable): where it runs, as the one whom the kernel kills first; NULL for no limits.
 * Each returns when the server can be asked. */
BenchStormServer *bench_storm_server_new_service (const BenchStormServerConfig *config,
                                                  const BenchStormPlan         *plan,
                                                  BenchStormGroup              *group,
                                                  GError                      **error);
/* @program of @config as a shell would split it: "llama-server -rtr". */
BenchStormServer *bench_storm_server_new_peer    (const BenchStormServerConfig *config,
                                                  const BenchStormPlan         *plan,
                                                  BenchStormGroup              *group,
                                                  GError                      **error);
void              bench_storm_server_free        (BenchStormServer             *self);

static inline gboolean
bench_storm_server_ask (BenchStormServer  *self,
                        guint              app,
                        guint              turn,
                        GString           *answer,
                        guint64           *tokens,
                        GError           **error)
{
  return self->funcs->ask (self, app, turn, answer, tokens, error);
}

gboolean          bench_storm_server_is_alive    (BenchStormServer             *self);

/* (transfer full): how one that is gone ended, and what it wrote last to the log in @folder. */
char             *bench_storm_server_describe_end (BenchStormServer            *self,
                                                   const char                  *folder);

/* For the kinds: starts @argv, with its output in @log; ends it within a time. */
gboolean          bench_storm_server_spawn       (BenchStormServer             *self,
                                                  char                        **argv,
                                                  char                        **environment,
                                                  const char                   *log,
                                                  BenchStormGroup              *group,
                                                  GError                      **error);
void              bench_storm_server_end         (BenchStormServer             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormServer, bench_storm_server_free)

G_END_DECLS
