/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Compares the checksums of a file of repacked weights that streams. The background thread, which
 * would read the whole file, does not run then; so pieces are compared as they arrive. A piece
 * counts when it arrived without a gap, in the order of the file; that is once in a pass, and each
 * is compared once. One thread.
 */

#pragma once

#include "weights/llm-repacked-private.h"

typedef struct _LlmStreamSums LlmStreamSums;

/* Both outlive it; @checksums: of the pieces. */
LlmStreamSums *llm_stream_sums_new   (const LlmRepackedPlan *plan,
                                      const guint64         *checksums);
void           llm_stream_sums_free  (LlmStreamSums         *self);

/* Of @segment, @length bytes at @offset of the matrices arrived. @before, @behind (nullable): all
 * matrices, where the bytes before or after do not stream, or are of another segment: at most a
 * piece of them is read. FALSE when a piece that ends here is damaged. */
gboolean       llm_stream_sums_take  (LlmStreamSums         *self,
                                      guint                  segment,
                                      guint64                offset,
                                      const guint8          *data,
                                      guint64                length,
                                      const guint8          *before,
                                      const guint8          *behind);
/* Pieces that were not compared yet. */
guint          llm_stream_sums_count (LlmStreamSums         *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmStreamSums, llm_stream_sums_free)
