/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Another program as a server of bench-slo-run.h: one with the command line and the web
 * interface of llama.cpp's llama-server, which answers several calls at once in slots. It gets
 * prompts of as many tokens as ours, and answers of the same length. Main thread.
 */

#pragma once

#include "slo/bench-slo-run.h"

G_BEGIN_DECLS

/* @command: the program, and maybe arguments, as a shell would split them. @slot_tokens: of the
 * longest prompt with its answer. Waits until the program is ready. */
BenchSloServer *bench_slo_peer_new (const char  *command,
                                    const char  *model,
                                    guint        n_threads,
                                    guint        n_slots,
                                    guint        slot_tokens,
                                    guint64      seed,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
