/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The head of a GGUF file: key-values and tensor table in memory; the weights
 * behind it are written by others. One thread.
 */

#pragma once

#include <gio/gio.h>

#include "bench-shapes.h"
#include "model/gguf/llm-gguf.h"

G_BEGIN_DECLS

#define BENCH_GGUF_ALIGNMENT 32

typedef struct
{
  GByteArray *bytes;     /* the key-values so far */
  guint64 n_keys;
} BenchGguf;

BenchGguf *bench_gguf_new         (void);
void       bench_gguf_free        (BenchGguf         *self);
void       bench_gguf_add_uint    (BenchGguf         *self,
                                   const char        *key,
                                   guint32            value);
void       bench_gguf_add_float   (BenchGguf         *self,
                                   const char        *key,
                                   float              value);
void       bench_gguf_add_bool    (BenchGguf         *self,
                                   const char        *key,
                                   gboolean           value);
void       bench_gguf_add_string  (BenchGguf         *self,
                                   const char        *key,
                                   const char        *value);
void       bench_gguf_add_strings (BenchGguf         *self,
                                   const char        *key,
                                   const GPtrArray   *values);
void       bench_gguf_add_ints    (BenchGguf         *self,
                                   const char        *key,
                                   const gint32      *values,
                                   gsize              n_values);
void       bench_gguf_add_floats  (BenchGguf         *self,
                                   const char        *key,
                                   const float       *values,
                                   gsize              n_values);

/* (transfer full): the head of a file with these tensors (element-type BenchTensor), as
 * long as the place of the first of them. @offsets: where each one begins in the file. */
GBytes    *bench_gguf_end         (BenchGguf         *self,
                                   const GArray      *tensors,
                                   guint64           *offsets,
                                   guint64           *file_bytes);

/* Bytes of a tensor's data. */
guint64    bench_tensor_get_bytes (const BenchTensor *self);

/* Writes the tokenizer of @shape: SentencePiece's or byte-level; ChatML for a template. */
void       bench_vocab_add        (BenchGguf         *self,
                                   const BenchShape  *shape);

/* Writes a whole file with random weights. On failure nothing stays. @file_bytes: its size. */
gboolean   bench_gguf_write_random (const char       *path,
                                   const BenchShape  *shape,
                                   const BenchMixture *mixture,
                                   guint              n_layers,
                                   guint64           *file_bytes,
                                   GError           **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchGguf, bench_gguf_free)

G_END_DECLS
