/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Queries, keys and values as bfloat16 tiles of 16 rows × 64 bytes. Each is split
 * into two parts, x = high + low, so that products keep 17 bits of
 * precision; a half's eleven bits are kept whole. Pairs along the inner
 * dimension, which tile products want side by side, are dimensions 2i and 2i + 1
 * for scores, and slot i of one group and of the next for values.
 */

#pragma once

#include "kernels/x86/llk-amx.h"

#define GROUP LLK_ATTENTION_GROUP
#define NOT_FINITE 0x99 /* of fpclass: both infinities and NaNs */

/* Tiles of 32 dimensions for scores, of 16 for values. */
INLINE size_t
count_steps (size_t head_dim)
{
  return (head_dim + 31) / 32;
}

INLINE size_t
count_columns (size_t head_dim)
{
  return (head_dim + 15) / 16;
}

/* Splits into two parts, whose upper halves count. The first is rounded, so that the second,
 * and its products with another's second, which are left out, are small. It may lose a NaN, but
 * the second does not. */
INLINE __m512
split (__m512  v,
       __m512 *low)
{
  __m512i high = _mm512_add_epi32 (_mm512_castps_si512 (v), _mm512_set1_epi32 (0x8000));
  __m512i taken = _mm512_and_si512 (high, _mm512_set1_epi32 ((int) 0xffff0000));

  *low = _mm512_sub_ps (v, _mm512_castsi512_ps (taken));
  return _mm512_castsi512_ps (high);
}

/* The upper halves of both, lane by lane: the first at even places. */
INLINE __m512i
interleave (__m512 even,
            __m512 odd)
{
  return _mm512_mask_mov_epi16 (_mm512_srli_epi32 (_mm512_castps_si512 (even), 16), 0xaaaaaaaa,
                                _mm512_castps_si512 (odd));
}

/* The upper halves of both, one behind the other. */
INLINE __m512i
concatenate (__m512 first,
             __m512 second)
{
  const __m512i odd = _mm512_add_epi16 (
    _mm512_set1_epi16 (1),
    _mm512_set_epi16 (62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                      24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0));

  return _mm512_permutex2var_epi16 (_mm512_castps_si512 (first), odd,
                                    _mm512_castps_si512 (second));
}

INLINE __m512
load_lanes (const char *src,
            __mmask16   lanes,
            bool        is_half)
{
  return is_half ? _mm512_cvtph_ps (_mm256_maskz_loadu_epi16 (lanes, src))
                 : _mm512_maskz_loadu_ps (lanes, src);
}

/* One query, scaled, into row @row of the high and low tiles of its steps. */
INLINE void
pack_query (const float *q,
            size_t       head_dim,
            float        scale,
            size_t       row,
            char        *high,
            char        *low)
{
  for (size_t step = 0; step < count_steps (head_dim); step++)
    {
      __m512 part[2], rest[2];
      size_t at = step * TILE_BYTES + row * 64;

      for (size_t i = 0; i < 2; i++)
        {
          size_t d = 32 * step + 16 * i;
          size_t n = d < head_dim ? head_dim - d : 0;

          part[i] = _mm512_maskz_loadu_ps (first_lanes (n < 16 ? n : 16), q + d);
          part[i] = _mm512_mul_ps (part[i], _mm512_set1_ps (scale));
          part[i] = split (part[i], &rest[i]);
        }
      _mm512_store_si512 (high + at, concatenate (part[0], part[1]));
      _mm512_store_si512 (low + at, concatenate (rest[0], rest[1]));
    }
}

/* The keys of one group of slots into count_steps() tiles each; @row_bytes from
 * one dimension to the next. */
INLINE void
pack_keys (const char *k,
           size_t      row_bytes,
           size_t      head_dim,
           char       *high,
           char       *low,
           bool        is_half)
{
  for (size_t pair = 0; pair < 16 * count_steps (head_dim); pair++)
    {
      size_t d = 2 * pair;
      __m512 even = load_lanes (k + d * row_bytes, d < head_dim ? 0xffff : 0, is_half);
      __m512 odd = load_lanes (k + (d + 1) * row_bytes, d + 1 < head_dim ? 0xffff : 0, is_half);
      __m512 even_rest, odd_rest;

      even = split (even, &even_rest);
      odd = split (odd, &odd_rest);
      _mm512_store_si512 (high + pair * 64, interleave (even, odd));
      _mm512_store_si512 (low + pair * 64, interleave (even_rest, odd_rest));
    }
}

/* The values of two groups of slots, given by slot (NULL for zeros), into
 * count_columns() tiles each. Returns whether all are finite as bfloat16. */
INLINE bool
pack_values (const char *const *slots,
             size_t             head_dim,
             char              *high,
             char              *low,
             bool               is_half)
{
  size_t value_bytes = is_half ? sizeof (uint16_t) : sizeof (float);
  __mmask16 special = 0;

  for (size_t i = 0; i < GROUP; i++)
    for (size_t d = 0; d < head_dim; d += 16)
      {
        __mmask16 lanes = first_lanes (head_dim - d < 16 ? head_dim - d : 16);
        __m512 pair[2], rest[2];

        for (size_t j = 0; j < 2; j++)
          {
            const char *v = slots[j * GROUP + i];

            pair[j] = load_lanes (v + d * value_bytes, v != NULL ? lanes : 0, is_half);
            special |= _mm512_fpclass_ps_mask (pair[j], NOT_FINITE);
            pair[j] = split (pair[j], &rest[j]);
            /* Only floats can become infinite by rounding. */
            if (!is_half)
              special |= _mm512_fpclass_ps_mask (pair[j], NOT_FINITE);
          }
        _mm512_store_si512 (high + d / 16 * TILE_BYTES + i * 64, interleave (pair[0], pair[1]));
        _mm512_store_si512 (low + d / 16 * TILE_BYTES + i * 64,
                            interleave (rest[0], rest[1]));
      }

  return special == 0;
}
