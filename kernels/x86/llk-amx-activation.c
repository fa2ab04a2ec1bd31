/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of activations in the forms that tiles read; the other forms are AVX-512's. */

#include "kernels/x86/llk-amx.h"

/* Below this a block counts as zero. */
#define MIN_MAGNITUDE 1e-30f
#define LANES 16

/* One bit for each of sixteen values from @i on that is one of @n. */
INLINE __mmask16
values_from (size_t i,
             size_t n)
{
  return first_lanes (n <= i ? 0 : n - i < LANES ? n - i : LANES);
}

/* Up to RUN_INPUTS values as integers, filled up with zeros to @n_filled, a
 * multiple of 64; returns their scale. */
INLINE float
quantize (const float *x,
          size_t       n,
          size_t       n_filled,
          int8_t      *q)
{
  __m512i magnitudes = _mm512_setzero_si512 ();
  uint32_t bits;
  float magnitude;
  __m512 inverse;

  /* As integers, so that NaN counts as the largest. */
  for (size_t i = 0; i < n; i += LANES)
    magnitudes = _mm512_max_epu32 (
      magnitudes,
      _mm512_castps_si512 (_mm512_abs_ps (_mm512_maskz_loadu_ps (values_from (i, n), x + i))));
  bits = _mm512_reduce_max_epu32 (magnitudes);
  magnitude = llk_float_of_bits (bits);

  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      memset (q, 0, n_filled);
      return bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
    }

  inverse = _mm512_set1_ps (127 / magnitude);
  for (size_t i = 0; i < n_filled; i += LANES)
    {
      __m512 scaled = _mm512_mul_ps (_mm512_maskz_loadu_ps (values_from (i, n), x + i), inverse);

      _mm_store_si128 ((__m128i *) (void *) (q + i),
                       _mm512_cvtepi32_epi8 (_mm512_cvtps_epi32 (scaled)));
    }

  return magnitude / 127;
}

static void
prepare_q8_256 (const float *x,
                size_t       n,
                uint8_t     *row)
{
  const size_t scales = llk_activation_scales (LLK_ACTIVATION_Q8_256, n);
  const size_t n_blocks = (n + RUN_INPUTS - 1) / RUN_INPUTS;
  const size_t end = llk_activation_bytes (LLK_ACTIVATION_Q8_256, n);
  int8_t *q = (int8_t *) row;
  float *scale = (float *) (void *) (row + scales);

  memset (scale + n_blocks, 0, end - scales - n_blocks * sizeof (float));
  for (size_t b = 0; b < n_blocks; b++)
    if (n - b * RUN_INPUTS >= RUN_INPUTS)
      scale[b] = quantize (x + b * RUN_INPUTS, RUN_INPUTS, RUN_INPUTS, q + b * RUN_INPUTS);
    else
      scale[b] = quantize (x + b * RUN_INPUTS, n - b * RUN_INPUTS, scales - b * RUN_INPUTS,
                           q + b * RUN_INPUTS);
}

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
prepare_bf16 (const float *x,
              size_t       n,
              uint8_t     *row)
{
  const size_t n_filled = llk_activation_bytes (LLK_ACTIVATION_BF16, n) / 2;

  for (size_t i = 0; i < n_filled; i += LANES)
    _mm256_store_si256 ((__m256i *) (void *) (row + 2 * i),
                        round_floats (_mm512_maskz_loadu_ps (values_from (i, n), x + i)));
}

void
llk_amx_prepare (LlkActivation form,
                 const float  *x,
                 size_t        n,
                 void         *row)
{
  if (form == LLK_ACTIVATION_Q8_256)
    prepare_q8_256 (x, n, row);
  else if (form == LLK_ACTIVATION_BF16)
    prepare_bf16 (x, n, row);
  else
    llk_avx512_product.prepare (form, x, n, row);
}
