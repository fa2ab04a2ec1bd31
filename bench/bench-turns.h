/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Two builds of this program that compute in turns, step by step, so that both see the
 * same machine: what other users of a shared machine do within a second meets both.
 * One thread.
 */

#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

G_BEGIN_DECLS

typedef struct
{
  int fd;              /* (owned): to the other one; -1: alone */
  gboolean has_turn;
  gint64 begin_us;
  double seconds;      /* within turns, summed */
} BenchTurns;

/* The socket that came with --turns; for @fd < 0 this program runs alone. */
void         bench_turns_init  (BenchTurns         *self,
                                int                 fd);
/* (transfer full): starts @command with @options and --turns; this program has the first turn. */
GSubprocess *bench_turns_start (BenchTurns         *self,
                                const char         *command,
                                const char         *options,
                                GError            **error);
void         bench_turns_clear (BenchTurns         *self);

/* Around a step. Waits while the other one computes; goes on alone when it has ended. */
void         bench_turns_begin (BenchTurns         *self);
void         bench_turns_end   (BenchTurns         *self);

/* (transfer full): the JSON that the other one prints at its end. */
JsonNode    *bench_turns_finish    (GSubprocess    *other,
                                    GError        **error);
/* Tokens per second in a round of @test; 1 when it was not measured. */
double       bench_turns_get_speed (JsonNode       *results,
                                    const char     *test,
                                    int             round);

G_END_DECLS
