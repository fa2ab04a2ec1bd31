/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The checksums of a file of repacked weights that streams: the background thread, which reads all
 * of the file, does not run then, and what passes is compared instead. A piece counts when it came
 * in one go, in the order of the file; that is once in a pass, and each is compared once. One
 * thread.
 */

#pragma once

#include "weights/llm-repacked-private.h"

typedef struct _LlmStreamSums LlmStreamSums;

/* Both outlive it; @checksums: of the pieces. */
LlmStreamSums *llm_stream_sums_new   (const LlmRepackedPlan *plan,
                                      const guint64         *checksums);
void           llm_stream_sums_free  (LlmStreamSums         *self);

/* Of @segment, @length bytes at @offset of the matrices arrived. @before, @behind (nullable): all
 * matrices, where what is in front of them or behind them does not stream, or is of another segment:
 * at most a piece of that is read. FALSE when a piece that ends here is damaged. */
gboolean       llm_stream_sums_take  (LlmStreamSums         *self,
                                      guint                  segment,
                                      guint64                offset,
                                      const guint8          *data,
                                      guint64                length,
                                      const guint8          *before,
                                      const guint8          *behind);
/* Pieces that are not compared yet. */
guint          llm_stream_sums_count (LlmStreamSums         *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmStreamSums, llm_stream_sums_free)
