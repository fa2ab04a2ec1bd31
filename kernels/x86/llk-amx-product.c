/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The products of set "amx", and the rows they read that AVX-512's don't. */

#include "kernels/x86/llk-amx.h"

#define LANES 16

/* Rounded to nearest even by integers: the instruction for it drops what is below
 * the normal range. NaN becomes a quiet one. */
INLINE __m256i
round_floats (__m512 v)
{
  __mmask16 is_nan = _mm512_cmp_ps_mask (v, v, _CMP_UNORD_Q);
  __m512i bits = _mm512_castps_si512 (v);
  __m512i odd = _mm512_and_si512 (_mm512_srli_epi32 (bits, 16), _mm512_set1_epi32 (1));
  __m512i rounded = _mm512_add_epi32 (_mm512_add_epi32 (bits, _mm512_set1_epi32 (0x7fff)), odd);

  rounded = _mm512_mask_or_epi32 (rounded, is_nan, bits, _mm512_set1_epi32 (0x400000));
  return _mm512_cvtepi32_epi16 (_mm512_srli_epi32 (rounded, 16));
}

static void
prepare (LlkActivation form,
         const float  *x,
         size_t        n,
         size_t        n_in,
         void         *row)
{
  const size_t n_filled = llk_activation_bytes (LLK_ACTIVATION_BF16, n_in) / 2;
  uint16_t *dst = row;

  if (form != LLK_ACTIVATION_BF16)
    {
      llk_avx512_product.prepare (form, x, n, n_in, row);
      return;
    }
  for (size_t i = 0; i < n_filled; i += LANES)
    {
      const size_t n_left = n < i ? 0 : n - i;
      const __m512 v =
        _mm512_maskz_loadu_ps (first_lanes (n_left < LANES ? n_left : LANES), x + i);

      _mm256_store_si256 ((__m256i *) (void *) (dst + i), round_floats (v));
    }
}

static const LlkProduct *
find_product (LlkType type)
{
  if (type == LLK_F32)
    return llk_avx512_product.find (type);
  return type == LLK_F16 || type == LLK_BF16 ? &llk_amx_bf16 : &llk_amx_int8;
}

const LlkProductOps llk_amx_product = {
  .prepare = prepare,
  .find = find_product,
};
