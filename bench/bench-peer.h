/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Another program's speed on the same file: one that has the command line of llama-bench
 * and prints what it found as JSON. One thread, which waits.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef struct
{
  char *name;          /* of the program */
  char **arguments;    /* the program and what it is always given */
  gboolean has_failed; /* what it was asked for: it is not asked again */
} BenchPeer;

/* One prompt and one decoding, both behind @depth tokens; 0 tokens leave one out. With
 * @n_sequences above 1, @n_gen tokens are decoded for each at once. */
typedef struct
{
  const char *model;
  guint n_prompt;
  guint n_gen;
  guint depth;
  guint n_sequences;
  guint n_threads;
} BenchPeerTest;

typedef struct
{
  double prompt_seconds;   /* 0: not measured */
  double decode_seconds;
} BenchPeerTimes;

/* @command: a program, and maybe arguments, as a shell would split them. */
BenchPeer *bench_peer_new  (const char           *command,
                            GError              **error);
void       bench_peer_free (BenchPeer            *self);
/* (transfer full) (element-type BenchPeer): one for each of @commands (nullable). */
GPtrArray *bench_peers_new (char                **commands,
                            GError              **error);

/* FALSE when the program fails, or does not say that it did what was asked; printed once. */
gboolean   bench_peer_run  (BenchPeer            *self,
                            const BenchPeerTest  *test,
                            BenchPeerTimes       *times);

/* A program that reads a prompt of @depth tokens, saves the context to a file, drops it from the
 * page cache and loads it: runs it with -m, -d, -t and -o json, and takes "bytes" and "load_ns" of
 * the object it prints, which must say "n_depth" as well. */
gboolean   bench_peer_load_context (BenchPeer   *self,
                                    const char  *model,
                                    guint        depth,
                                    guint        n_threads,
                                    double      *bytes,
                                    double      *seconds,
                                    GError     **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchPeer, bench_peer_free)

G_END_DECLS
