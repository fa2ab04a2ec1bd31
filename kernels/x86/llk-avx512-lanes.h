/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vectors in which llk-panel-weights.h and llk-panel-product.h are written: here 64
 * bytes, a whole vector of a panel. llk-avx2-lanes.h has the same for half of one. */

#pragma once

#include "kernels/x86/llk-avx512.h"

#define N_LANES 16             /* of 32 bits */
#define HAS_UNSIGNED_BYTES true /* add_dots() takes weights from 0 to 255, with 128 added */
#define ROWS 8                 /* whose sums with two vectors fit into registers */
#define FLOAT_ROWS 4           /* of which four sums do */
#define UNROLL_PARTS

typedef __m512i Ints;
typedef __m512 Floats;
/* Weights as add_dots() takes them. */
typedef __m512i Weights;

INLINE Ints
load_ints (const void *src)
{
  return _mm512_load_si512 (src);
}

INLINE void
store_ints (void *dst,
            Ints  v)
{
  _mm512_store_si512 (dst, v);
}

/* Sixteen bytes, in each lane of 128 bits. */
INLINE Ints
splat_sixteen (const void *src)
{
  return _mm512_broadcast_i32x4 (_mm_loadu_si128 (src));
}

INLINE Ints
splat_four (const void *src)
{
  int32_t four;

  memcpy (&four, src, sizeof four);
  return _mm512_set1_epi32 (four);
}

INLINE Ints
splat_byte (int value)
{
  return _mm512_set1_epi8 ((char) value);
}

INLINE Ints
splat_short (int value)
{
  return _mm512_set1_epi16 ((short) value);
}

INLINE Ints
splat_int (int32_t value)
{
  return _mm512_set1_epi32 (value);
}

#define and_bits(a, b) _mm512_and_si512 (a, b)
#define or_bits(a, b) _mm512_or_si512 (a, b)
#define xor_bits(a, b) _mm512_xor_si512 (a, b)
#define shift_left(v, n) _mm512_slli_epi16 (v, n)
#define shift_right(v, n) _mm512_srli_epi16 (v, n)
#define shift_signed_right(v, n) _mm512_srai_epi16 (v, n)
#define subtract_bytes(a, b) _mm512_sub_epi8 (a, b)
#define add_ints(a, b) _mm512_add_epi32 (a, b)
#define shift_ints_left(v, n) _mm512_slli_epi32 (v, n)
#define shift_ints_signed_right(v, n) _mm512_srai_epi32 (v, n)
/* (a × b + 2^14) >> 15 of 16 bits */
#define multiply_high(a, b) _mm512_mulhrs_epi16 (a, b)
#define add_shorts(a, b) _mm512_add_epi16 (a, b)
/* Of unsigned and signed bytes, each two products added. */
#define multiply_pairs(a, b) _mm512_maddubs_epi16 (a, b)
/* Bytes of @a and of @b in turn. */
#define mix_bytes(a, b) _mm512_mask_blend_epi8 (0xaaaaaaaaaaaaaaaa, a, b)
#define pack_signed(a, b) _mm512_packs_epi16 (a, b)
#define pack_unsigned(a, b) _mm512_packus_epi16 (a, b)
/* Bytes of each lane's sixteen by index; 0 where its top bit is set. */
#define look_up(table, index) _mm512_shuffle_epi8 (table, index)
#define low_bytes(a, b) _mm512_unpacklo_epi8 (a, b)
#define high_bytes(a, b) _mm512_unpackhi_epi8 (a, b)
#define low_words(a, b) _mm512_unpacklo_epi32 (a, b)
#define high_words(a, b) _mm512_unpackhi_epi32 (a, b)
#define low_pairs(a, b) _mm512_unpacklo_epi64 (a, b)
#define high_pairs(a, b) _mm512_unpackhi_epi64 (a, b)

/* Bits of a panel, one for each byte of a vector; @part is 0 here. */
INLINE __mmask64
load_bits (const uint8_t *src,
           size_t         part)
{
  uint64_t bits;

  (void) part;
  memcpy (&bits, src, sizeof bits);
  return (__mmask64) bits;
}

/* Looks up in @second where the bit is set, else in @first. */
INLINE Ints
look_up_in (Ints           first,
            Ints           second,
            Ints           index,
            const uint8_t *bits,
            size_t         part)
{
  return _mm512_mask_shuffle_epi8 (_mm512_shuffle_epi8 (first, index), load_bits (bits, part),
                                   second, index);
}

/* Adds @value where the bit is set. */
INLINE Ints
add_at_bits (Ints           v,
             int            value,
             const uint8_t *bits,
             size_t         part)
{
  return _mm512_mask_add_epi8 (v, load_bits (bits, part), v, splat_byte (value));
}

INLINE Weights
make_weights (Ints w)
{
  return _mm512_xor_si512 (w, _mm512_set1_epi8 (-128));
}

/* Adds the products of each four weights with four bytes. For the intrinsic, gcc 12 copies
 * sums from register to register, and some to memory. */
INLINE Ints
add_dots (Ints    sums,
          Weights w,
          Ints    x)
{
  __asm__ ("vpdpbusd %2, %1, %0" : "+v" (sums) : "v" (w), "v" (x));
  return sums;
}

/* Adds those of each two shorts. */
INLINE Ints
add_short_dots (Ints sums,
                Ints a,
                Ints b)
{
  return _mm512_dpwssd_epi32 (sums, a, b);
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

#include "kernels/x86/llk-x86-lanes.h"
