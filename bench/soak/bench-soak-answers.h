/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Answers that an application of a load asks for, in each way that there is: as a stream of lines,
 * as text, in a reply; to the end or not. Plain functions over a BenchApp, each on the thread of
 * the application. They return when the answer has ended and is in the book of the context; FALSE
 * with the error set for what should not happen.
 */

#pragma once

#include "soak/bench-soak-load-private.h"

G_BEGIN_DECLS

/* Read to the end. */
gboolean bench_app_generate             (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* Plain text: nothing tells how it ended, so the context is asked. */
gboolean bench_app_generate_text        (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* Cancelled at a random moment; what was written goes. */
gboolean bench_app_generate_and_discard (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* Likewise; what was written stays. */
gboolean bench_app_generate_and_keep    (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* The pipe is closed at a random moment. */
gboolean bench_app_hang_up              (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* A pipe too small for the answer, left alone for a while, then read after all, or not. */
gboolean bench_app_stall                (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* The reply has the text. */
gboolean bench_app_ask_once             (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* The same request twice: the second is answered from what is kept, and adds nothing. */
gboolean bench_app_ask_twice            (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);
/* Without the context: all is said in the call. */
gboolean bench_app_complete             (BenchApp   *self,
                                         BenchSlot  *slot,
                                         GError    **error);

G_END_DECLS
