/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* GGUF files with random weights. One thread, which starts others. */

#pragma once

#include <gio/gio.h>

#include "bench-shapes.h"
#include "support/llm-test-gguf.h"

G_BEGIN_DECLS

/* Writes a whole file. On failure nothing stays. @n_layers: 0 for those of the shape. The same
 * arguments give the same bytes, whatever @n_threads (0: all processors) is. @file_bytes: its size. */
gboolean bench_gguf_write_random (const char         *path,
                                  const BenchShape   *shape,
                                  const BenchMixture *mixture,
                                  guint               n_layers,
                                  guint64             seed,
                                  guint               n_threads,
                                  guint64            *file_bytes,
                                  GError            **error);

/* Writes the tokenizer of @shape: SentencePiece's or byte-level; ChatML for a template. */
void     bench_vocab_add         (LlmTestGguf        *gguf,
                                  const BenchShape   *shape);

G_END_DECLS
