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

/* The rules by which the quantizer of llama.cpp, without an importance matrix, gives
 * some tensors more bits. */
typedef enum
{
  BENCH_RULES_PURE,     /* all matrices alike */
  BENCH_RULES_OUTPUT,   /* the output has Q6_K */
  BENCH_RULES_Q3_K_M,   /* that, and Q4_K or Q5_K for some */
  BENCH_RULES_MORE,     /* that, and Q6_K for values and ffn_down of some layers */
} BenchRules;

typedef struct
{
  const char *name;
  guint file_type;            /* general.file_type */
  LlkType type;               /* of what no rule names */
  BenchRules rules;
} BenchMixture;

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

/* Ended by an entry without name. */
extern const BenchShape bench_shapes[];
extern const BenchMixture bench_mixtures[];

/* NULL when there is no such name. */
const BenchShape   *bench_shape_find        (const char *name);
const BenchMixture *bench_mixture_find      (const char *name);

/* (transfer full) (element-type BenchTensor): all tensors in the order of a file. */
GArray             *bench_shape_get_tensors (const BenchShape   *self,
                                             const BenchMixture *mixture,
                                             guint               n_layers);

G_END_DECLS
