/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Arithmetic on numbers and shapes: plain C and libc, no allocation, no
 * threads. One table of functions per set of instructions, chosen at run time;
 * the portable one is the definition, the others agree with it within the
 * tolerance stated at each function. A function's result for one row does not
 * depend on how many rows it is called with.
 *
 * NaN goes through sums and products as IEEE says; where values are rounded to
 * integers first, see LlkActivation.
 */

#pragma once

#include "kernels/llk-attention.h"
#include "kernels/llk-channels.h"
#include "kernels/llk-kv.h"
#include "kernels/llk-product.h"
#include "kernels/llk-rope.h"
#include "kernels/llk-vector.h"
#include "kernels/llk-w8.h"

typedef struct
{
  const char *name;  /* "portable", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod", "i8mm" */

  const LlkVectorOps *vector;
  const LlkProductOps *product;
  const LlkAttention *attention;
  const LlkKvOps *kv;
  const LlkW8Ops *w8;
} LlkOps;

/* The definition. */
const LlkOps *llk_ops_portable (void);
/* By name; NULL when unknown or not possible on this processor. */
const LlkOps *llk_ops_find     (const char *name);
/* Names this processor can run, best first, NULL-terminated; portable is last. */
const char *const *llk_ops_list (void);
/* The best for this processor, or the one that $LLMSVC_KERNELS names. */
const LlkOps *llk_ops_best     (void);
