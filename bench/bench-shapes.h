/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Shapes of well-known models and the mixtures of number formats that their
 * files have: which tensors there are, of which size and type. Plain tables,
 * any thread.
 */

#pragma once

#include <glib.h>

#include "kernels/llk-types.h"

G_BEGIN_DECLS

typedef struct
{
  const char *name;
  const char *like;           /* the model whose shape it is */
  const char *architecture;   /* general.architecture */
  guint n_layers;
  guint n_embd;
  guint n_heads;
  guint n_kv_heads;
  guint head_dim;
  guint n_ff;                 /* of one expert where there are experts */
  guint n_vocab;
  guint n_ctx;
  double rope_base;
  double eps;
  guint n_experts;            /* 0: none */
  guint n_used_experts;
  gboolean is_tied;           /* no output.weight */
  gboolean has_qkv_biases;
  gboolean has_qk_norms;
  gboolean is_bpe;            /* a byte-level vocabulary, else SentencePiece's */
} BenchShape;

typedef struct _BenchMixture BenchMixture;

/* What stands in a tensor. */
typedef enum
{
  BENCH_FILL_MATRIX,   /* random weights of standard deviation @deviation */
  BENCH_FILL_VECTOR,   /* likewise, always F32 */
  BENCH_FILL_ONES,     /* F32 */
} BenchFill;

typedef struct
{
  char *name;
  LlkType type;
  guint n_dims;
  guint64 dims[3];
  BenchFill fill;
  double deviation;
} BenchTensor;

/* The tables, ended by an entry without name; NULL when there is no such name. */
const BenchShape   *bench_shape_list        (void);
const BenchShape   *bench_shape_find        (const char *name);
const BenchMixture *bench_mixture_find      (const char *name);
/* The name at @index, NULL past the last. */
const char         *bench_mixture_get_name  (guint index);
/* general.file_type. */
guint               bench_mixture_get_file_type (const BenchMixture *self);

/* (transfer full) (element-type BenchTensor): all tensors in the order of a file.
 * @n_layers: 0 for those of the shape. */
GArray             *bench_shape_get_tensors (const BenchShape   *self,
                                             const BenchMixture *mixture,
                                             guint               n_layers);

G_END_DECLS
