/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vectors in which llk-panel-weights.h and llk-panel-product.h are written: here 32
 * bytes, half a vector of a panel, with or without AVX-VNNI. llk-avx512-lanes.h has the
 * same for a whole one. */

#pragma once

#include "kernels/x86/llk-avx2.h"

#define N_LANES 8    /* of 32 bits */
#define ROWS 4       /* whose sums with two vectors fit into registers */
#define FLOAT_ROWS 2 /* of which four sums do */
#define UNROLL_PARTS _Pragma ("GCC unroll 2")

typedef __m256i Ints;
typedef __m256 Floats;

INLINE Ints
load_ints (const void *src)
{
  return _mm256_load_si256 (src);
}

INLINE void
store_ints (void *dst,
            Ints  v)
{
  _mm256_store_si256 (dst, v);
}

/* Sixteen bytes, in each lane of 128 bits. */
INLINE Ints
splat_sixteen (const void *src)
{
  return _mm256_broadcastsi128_si256 (_mm_loadu_si128 (src));
}

INLINE Ints
splat_four (const void *src)
{
  int32_t four;

  memcpy (&four, src, sizeof four);
  return _mm256_set1_epi32 (four);
}

INLINE Ints
splat_byte (int value)
{
  return _mm256_set1_epi8 ((char) value);
}

INLINE Ints
splat_short (int value)
{
  return _mm256_set1_epi16 ((short) value);
}

INLINE Ints
splat_int (int32_t value)
{
  return _mm256_set1_epi32 (value);
}

#define and_bits(a, b) _mm256_and_si256 (a, b)
#define or_bits(a, b) _mm256_or_si256 (a, b)
#define xor_bits(a, b) _mm256_xor_si256 (a, b)
#define shift_left(v, n) _mm256_slli_epi16 (v, n)
#define shift_right(v, n) _mm256_srli_epi16 (v, n)
#define shift_signed_right(v, n) _mm256_srai_epi16 (v, n)
#define subtract_bytes(a, b) _mm256_sub_epi8 (a, b)
#define add_ints(a, b) _mm256_add_epi32 (a, b)
#define shift_ints_left(v, n) _mm256_slli_epi32 (v, n)
#define shift_ints_signed_right(v, n) _mm256_srai_epi32 (v, n)
/* (a × b + 2^14) >> 15 of 16 bits */
#define multiply_high(a, b) _mm256_mulhrs_epi16 (a, b)
#define add_shorts(a, b) _mm256_add_epi16 (a, b)
/* Of unsigned and signed bytes, each two products added. */
#define multiply_pairs(a, b) _mm256_maddubs_epi16 (a, b)
/* Bytes of @a and of @b in turn. */
#define mix_bytes(a, b) _mm256_blendv_epi8 (a, b, splat_short (0xff00))
#define pack_signed(a, b) _mm256_packs_epi16 (a, b)
#define pack_unsigned(a, b) _mm256_packus_epi16 (a, b)
/* Bytes of each lane's sixteen by index; 0 where its top bit is set. */
#define look_up(table, index) _mm256_shuffle_epi8 (table, index)
#define low_bytes(a, b) _mm256_unpacklo_epi8 (a, b)
#define high_bytes(a, b) _mm256_unpackhi_epi8 (a, b)
#define low_words(a, b) _mm256_unpacklo_epi32 (a, b)
#define high_words(a, b) _mm256_unpackhi_epi32 (a, b)
#define low_pairs(a, b) _mm256_unpacklo_epi64 (a, b)
#define high_pairs(a, b) _mm256_unpackhi_epi64 (a, b)

/* Bits of a panel, one for each byte of a vector, as masks of this half of it. */
INLINE Ints
load_bits (const uint8_t *src,
           size_t         part)
{
  const Ints places = _mm256_setr_epi8 (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,
                                        2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const Ints bit = _mm256_set1_epi64x ((long long) 0x8040201008040201);

  return _mm256_cmpeq_epi8 (
    _mm256_and_si256 (_mm256_shuffle_epi8 (splat_four (src + 4 * part), places), bit), bit);
}

/* Looks up in @second where the bit is set, else in @first. */
INLINE Ints
look_up_in (Ints           first,
            Ints           second,
            Ints           index,
            const uint8_t *bits,
            size_t         part)
{
  return _mm256_blendv_epi8 (_mm256_shuffle_epi8 (first, index),
                             _mm256_shuffle_epi8 (second, index), load_bits (bits, part));
}

/* Adds @value where the bit is set. */
INLINE Ints
add_at_bits (Ints           v,
             int            value,
             const uint8_t *bits,
             size_t         part)
{
  return _mm256_add_epi8 (v, _mm256_and_si256 (load_bits (bits, part), splat_byte (value)));
}

#ifdef __AVXVNNI__

#define HAS_UNSIGNED_BYTES true /* add_dots() takes weights from 0 to 255, with 128 added */

/* Weights as add_dots() takes them. */
typedef Ints Weights;

INLINE Weights
make_weights (Ints w)
{
  return _mm256_xor_si256 (w, _mm256_set1_epi8 (-128));
}

/* Adds the products of each four weights with four bytes. For the intrinsic, gcc 12 copies
 * sums from register to register, and some to memory. */
INLINE Ints
add_dots (Ints    sums,
          Weights w,
          Ints    x)
{
  __asm__ ("%{vex%} vpdpbusd %2, %1, %0" : "+x" (sums) : "x" (w), "x" (x));
  return sums;
}

/* Adds those of each two shorts. */
INLINE Ints
add_short_dots (Ints sums,
                Ints a,
                Ints b)
{
  return _mm256_dpwssd_avx_epi32 (sums, a, b);
}

#else

#define HAS_UNSIGNED_BYTES false

typedef struct
{
  Ints w;
  Ints magnitudes;
} Weights;

INLINE Weights
make_weights (Ints w)
{
  return (Weights) { w, _mm256_abs_epi8 (w) };
}

/* Two products of at most 128 × 127 fit into 16 bits. */
INLINE Ints
add_dots (Ints    sums,
          Weights w,
          Ints    x)
{
  Ints pairs = _mm256_maddubs_epi16 (w.magnitudes, _mm256_sign_epi8 (x, w.w));

  return _mm256_add_epi32 (sums, _mm256_madd_epi16 (pairs, _mm256_set1_epi16 (1)));
}

INLINE Ints
add_short_dots (Ints sums,
                Ints a,
                Ints b)
{
  return _mm256_add_epi32 (sums, _mm256_madd_epi16 (a, b));
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

#include "kernels/x86/llk-x86-lanes.h"
