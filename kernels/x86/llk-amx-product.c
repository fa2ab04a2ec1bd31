/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The products of set "amx": prompts by tiles, the rest by AVX-512. */

#include "kernels/x86/llk-amx.h"

static const LlkProduct *
find_product (LlkType    type,
              LlkRowKind kind)
{
  if (kind == LLK_ROWS_GENERATED || type == LLK_F32)
    return llk_avx512_product.find (type, kind);

  return type == LLK_F16 || type == LLK_BF16 ? &llk_amx_bf16 : &llk_amx_int8;
}

const LlkProductOps llk_amx_product = {
  .prepare = llk_amx_prepare,
  .find = find_product,
};
