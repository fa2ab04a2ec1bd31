/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an application of a load knows of its contexts: they are opened, written in its book, cut
 * and compared here, and its calls go through here. Plain functions over a BenchApp, each on the
 * thread of the application, waiting for replies.
 */

#pragma once

#include "soak/bench-soak-load-private.h"

G_BEGIN_DECLS

/* (transfer full): something to say, unlike all else that was said. */
char     *bench_app_make_prompt    (BenchApp     *self);
/* How many tokens an answer may have. */
guint     bench_app_choose_length  (BenchApp     *self);
/* Initializes @options with what each call for an answer has, and now and then a class. */
void      bench_app_begin_options  (BenchApp     *self,
                                    GVariantDict *options,
                                    guint         n_tokens);
/* (transfer floating): the same, for an answer of any length. */
GVariant *bench_app_make_options   (BenchApp     *self);

/* (transfer full) (nullable): the reply, of @type; @arguments is taken when floating. NULL with
 * @error set as the bus has it. */
GVariant *bench_app_call_context   (BenchApp     *self,
                                    BenchSlot    *slot,
                                    const char   *method,
                                    GVariant     *arguments,
                                    const char   *type,
                                    GError      **error);
GVariant *bench_app_call_service   (BenchApp     *self,
                                    const char   *method,
                                    GVariant     *arguments,
                                    const char   *type,
                                    GError      **error);

/* A context of which everything is known: that nothing is in it. */
gboolean  bench_app_make_context   (BenchApp     *self,
                                    BenchSlot    *slot,
                                    GError      **error);
gboolean  bench_app_close_context  (BenchApp     *self,
                                    BenchSlot    *slot,
                                    GError      **error);
/* Closes it, and makes it anew. */
gboolean  bench_app_renew          (BenchApp     *self,
                                    BenchSlot    *slot,
                                    GError      **error);
/* Takes a few turns back, or renews what has none. */
gboolean  bench_app_roll_back      (BenchApp     *self,
                                    BenchSlot    *slot,
                                    GError      **error);
/* Writes down a turn that was acknowledged: @answer (nullable) and @results (nullable) as the
 * service gave them. FALSE with @error set when its revision is not the next. */
gboolean  bench_app_take_turn      (BenchApp     *self,
                                    BenchSlot    *slot,
                                    const char   *said,
                                    const char   *answer,
                                    GVariant     *results,
                                    GError      **error);
/* Takes @local. TRUE when the service may say so; then there is no turn. */
gboolean  bench_app_accept_refusal (BenchApp     *self,
                                    BenchSlot    *slot,
                                    GError       *local,
                                    GError      **error);
/* The same for a call that would have added a turn, which may be there for all that. */
gboolean  bench_app_refuse_turn    (BenchApp     *self,
                                    BenchSlot    *slot,
                                    const char   *said,
                                    gboolean      has_answer,
                                    GError       *local,
                                    GError      **error);

G_END_DECLS
