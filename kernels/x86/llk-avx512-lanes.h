/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vectors in which llk-panel-runs.h and llk-x86-product.h are written: here
 * sixteen outputs, a whole panel. llk-avx2-lanes.h has the same for eight. */

#pragma once

#include "kernels/x86/llk-avx512.h"

#define N_LANES 16
#define HAS_UNSIGNED_BYTES true /* dot_groups() takes weights up to 255 */
/* The sums of eight rows fit into registers beside eight of weights: loops over rows
 * are unrolled, for each number of rows. */
#define HAS_ROW_INSTANCES
#define UNROLL_ROWS _Pragma ("GCC unroll 8")
#define UNROLL_PARTS
#define FLOAT_ROWS 4 /* rows whose four sums fit into registers */

typedef __m512i Ints;
typedef __m512 Floats;

INLINE Ints
load_ints (const void *src)
{
  return _mm512_load_si512 (src);
}

INLINE Ints
splat_byte (int value)
{
  return _mm512_set1_epi8 ((char) value);
}

INLINE Ints
splat_int (int32_t value)
{
  return _mm512_set1_epi32 (value);
}

/* Shifts of 16 bits; the caller masks what comes from the neighbour. */
INLINE Ints
shift_left (Ints v,
            unsigned n)
{
  return _mm512_slli_epi16 (v, n);
}

INLINE Ints
shift_right (Ints v,
             unsigned n)
{
  return _mm512_srli_epi16 (v, n);
}

INLINE Ints
and_bits (Ints a,
          Ints b)
{
  return _mm512_and_si512 (a, b);
}

INLINE Ints
xor_bits (Ints a,
          Ints b)
{
  return _mm512_xor_si512 (a, b);
}

/* @a where @mask is set, else @b. */
INLINE Ints
select_bits (Ints mask,
             Ints a,
             Ints b)
{
  return _mm512_ternarylogic_epi32 (mask, a, b, 0xca);
}

INLINE Ints
load_table (const int8_t values[16],
            int          added)
{
  __m128i table = _mm_loadu_si128 ((const __m128i *) (const void *) values);

  return _mm512_broadcast_i32x4 (_mm_add_epi8 (table, _mm_set1_epi8 ((char) added)));
}

/* What the table holds for the low four bits of each byte, whatever is above. */
INLINE Ints
look_up (Ints table,
         Ints index)
{
  return _mm512_permutexvar_epi8 (index, table);
}

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
    {
      int32_t four;

      memcpy (&four, x + 4 * g, sizeof four);
      sum = _mm512_dpbusd_epi32 (sum, w[g], _mm512_set1_epi32 (four));
    }

  return sum;
}

INLINE Floats
splat_float (float value)
{
  return _mm512_set1_ps (value);
}

INLINE Floats
load_floats (const float *src)
{
  return _mm512_loadu_ps (src);
}

INLINE void
store_floats (float *dst,
              Floats v)
{
  _mm512_storeu_ps (dst, v);
}

INLINE Floats
floats_of_ints (Ints v)
{
  return _mm512_cvtepi32_ps (v);
}

INLINE Floats
floats_of_halves (const void *src)
{
  return _mm512_cvtph_ps (_mm256_load_si256 (src));
}

/* The first or second of pairs of bfloat16. */
INLINE Floats
floats_of_pairs (const void *src,
                 bool        is_second)
{
  Ints pairs = load_ints (src);

  return _mm512_castsi512_ps (is_second
                                ? _mm512_and_si512 (pairs, splat_int ((int32_t) 0xffff0000))
                                : _mm512_slli_epi32 (pairs, 16));
}

INLINE Ints
ints_of_u8 (const void *src)
{
  return _mm512_cvtepu8_epi32 (_mm_load_si128 (src));
}

INLINE Ints
ints_of_s8 (const void *src)
{
  return _mm512_cvtepi8_epi32 (_mm_load_si128 (src));
}

/* 2^(e - 128) of exponents e; the first two are below the normal range. */
INLINE Floats
floats_of_exponents (const void *src)
{
  Ints e = ints_of_u8 (src);
  Ints normal = _mm512_slli_epi32 (_mm512_sub_epi32 (e, splat_int (1)), 23);
  Ints small = _mm512_sllv_epi32 (splat_int (0x00200000), e);

  return _mm512_castsi512_ps (
    _mm512_mask_mov_epi32 (normal, _mm512_cmplt_epi32_mask (e, splat_int (2)), small));
}

INLINE Floats
multiply (Floats a,
          Floats b)
{
  return _mm512_mul_ps (a, b);
}

/* a × b + c */
INLINE Floats
multiply_add (Floats a,
              Floats b,
              Floats c)
{
  return _mm512_fmadd_ps (a, b, c);
}

INLINE Floats
add_floats (Floats a,
            Floats b)
{
  return _mm512_add_ps (a, b);
}
