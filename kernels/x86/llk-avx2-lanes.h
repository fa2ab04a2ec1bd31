/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vectors in which llk-panel-runs.h and llk-x86-product.h are written: here
 * eight outputs, half a panel, with or without AVX-VNNI. llk-avx512-lanes.h has
 * the same for sixteen. */

#pragma once

#include "kernels/x86/llk-avx2.h"

#define N_LANES 8
/* There are no registers left for sums beside eight of weights: loops over rows, and
 * over the two parts of a panel, stay loops. */
#define UNROLL_ROWS _Pragma ("GCC unroll 1")
#define UNROLL_PARTS _Pragma ("GCC unroll 1")
#define FLOAT_ROWS 2 /* rows whose four sums fit into registers */
#ifdef __AVXVNNI__
#define HAS_UNSIGNED_BYTES true /* dot_groups() takes weights up to 255 */
#else
#define HAS_UNSIGNED_BYTES false
#endif

typedef __m256i Ints;
typedef __m256 Floats;

INLINE Ints
load_ints (const void *src)
{
  return _mm256_load_si256 (src);
}

INLINE Ints
splat_byte (int value)
{
  return _mm256_set1_epi8 ((char) value);
}

INLINE Ints
splat_int (int32_t value)
{
  return _mm256_set1_epi32 (value);
}

/* Shifts of 16 bits; the caller masks what comes from the neighbour. */
INLINE Ints
shift_left (Ints     v,
            unsigned n)
{
  return _mm256_slli_epi16 (v, (int) n);
}

INLINE Ints
shift_right (Ints     v,
             unsigned n)
{
  return _mm256_srli_epi16 (v, (int) n);
}

INLINE Ints
and_bits (Ints a,
          Ints b)
{
  return _mm256_and_si256 (a, b);
}

INLINE Ints
xor_bits (Ints a,
          Ints b)
{
  return _mm256_xor_si256 (a, b);
}

/* @a where @mask is set, else @b. */
INLINE Ints
select_bits (Ints mask,
             Ints a,
             Ints b)
{
  return _mm256_or_si256 (_mm256_and_si256 (mask, a), _mm256_andnot_si256 (mask, b));
}

INLINE Ints
load_table (const int8_t values[16],
            int          added)
{
  __m128i table = _mm_loadu_si128 ((const __m128i *) (const void *) values);

  return _mm256_broadcastsi128_si256 (_mm_add_epi8 (table, _mm_set1_epi8 ((char) added)));
}

/* What the table holds for the low four bits of each byte, whatever is above. */
INLINE Ints
look_up (Ints table,
         Ints index)
{
  return _mm256_shuffle_epi8 (table, _mm256_and_si256 (index, splat_byte (15)));
}

INLINE Ints
splat_four (const int8_t *x)
{
  int32_t four;

  memcpy (&four, x, sizeof four);
  return _mm256_set1_epi32 (four);
}

#ifdef __AVXVNNI__

/* Adds the products of groups of four weights, up to @max, with @x. */
INLINE Ints
dot_groups (Ints          sum,
            const Ints   *w,
            size_t        n_groups,
            unsigned      max,
            const int8_t *x)
{
  (void) max;
#pragma GCC unroll 8
  for (size_t g = 0; g < n_groups; g++)
    sum = _mm256_dpbusd_avx_epi32 (sum, w[g], splat_four (x + 4 * g));

  return sum;
}

#else

/* Pairs of products are sums of 16 bits, which saturate: as many groups of
 * weights up to @max are added as stay below. With signed weights, @max is 0, their
 * signs go to the activations, which are never -128. */
INLINE Ints
dot_groups (Ints          sum,
            const Ints   *w,
            size_t        n_groups,
            unsigned      max,
            const int8_t *x)
{
  const size_t n_fits = max == 0 ? 1 : INT16_MAX / (2 * 127 * max);
  const size_t n_fit = n_fits < n_groups ? n_fits : n_groups;

#pragma GCC unroll 8
  for (size_t first = 0; first < n_groups; first += n_fit)
    {
      Ints pairs = _mm256_setzero_si256 ();

#pragma GCC unroll 8
      for (size_t g = first; g < (first + n_fit < n_groups ? first + n_fit : n_groups); g++)
        {
          Ints four = splat_four (x + 4 * g);
          Ints products = max == 0 ? _mm256_maddubs_epi16 (_mm256_abs_epi8 (w[g]),
                                                           _mm256_sign_epi8 (four, w[g]))
                                   : _mm256_maddubs_epi16 (w[g], four);

          pairs = _mm256_add_epi16 (pairs, products);
        }
      sum = _mm256_add_epi32 (sum, _mm256_madd_epi16 (pairs, _mm256_set1_epi16 (1)));
    }

  return sum;
}

#endif

INLINE Floats
splat_float (float value)
{
  return _mm256_set1_ps (value);
}

INLINE Floats
load_floats (const float *src)
{
  return _mm256_loadu_ps (src);
}

INLINE void
store_floats (float *dst,
              Floats v)
{
  _mm256_storeu_ps (dst, v);
}

INLINE Floats
floats_of_ints (Ints v)
{
  return _mm256_cvtepi32_ps (v);
}

INLINE Floats
floats_of_halves (const void *src)
{
  return load_halves (src);
}

INLINE Ints
ints_of_u8 (const void *src)
{
  return _mm256_cvtepu8_epi32 (_mm_loadl_epi64 (src));
}

INLINE Ints
ints_of_s8 (const void *src)
{
  return _mm256_cvtepi8_epi32 (_mm_loadl_epi64 (src));
}

/* The first or second of pairs of bfloat16. */
INLINE Floats
floats_of_pairs (const void *src,
                 bool        is_second)
{
  Ints pairs = load_ints (src);

  return _mm256_castsi256_ps (is_second
                                ? _mm256_and_si256 (pairs, splat_int ((int32_t) 0xffff0000))
                                : _mm256_slli_epi32 (pairs, 16));
}

/* 2^(e - 128) of exponents e; the first two are below the normal range. */
INLINE Floats
floats_of_exponents (const void *src)
{
  Ints e = ints_of_u8 (src);
  Ints normal = _mm256_slli_epi32 (_mm256_sub_epi32 (e, splat_int (1)), 23);
  Ints small = _mm256_sllv_epi32 (splat_int (0x00200000), e);
  Ints is_small = _mm256_cmpgt_epi32 (splat_int (2), e);

  return _mm256_castsi256_ps (_mm256_blendv_epi8 (normal, small, is_small));
}

INLINE Floats
multiply (Floats a,
          Floats b)
{
  return _mm256_mul_ps (a, b);
}

/* a × b + c */
INLINE Floats
multiply_add (Floats a,
              Floats b,
              Floats c)
{
  return _mm256_fmadd_ps (a, b, c);
}

INLINE Floats
add_floats (Floats a,
            Floats b)
{
  return _mm256_add_ps (a, b);
}
