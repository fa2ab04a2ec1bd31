/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The definition of packed keys and values. */

#include "kernels/portable/llk-portable.h"

#define N_LANES 16

/* Inlined where the compiler wants to: with sanitizers it would take minutes otherwise. */
#undef INLINE
#define INLINE static inline

typedef struct
{
  float lanes[N_LANES];
} Sixteen;

INLINE Sixteen
splat_all (float value)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = value;
  return y;
}

INLINE Sixteen
load_all (const float *src)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = src[l];
  return y;
}

INLINE Sixteen
load_all_halves (const void *src)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = llk_float_of_half (((const uint16_t *) src)[l]);
  return y;
}

INLINE void
store_all (float   *dst,
           Sixteen  x)
{
  memcpy (dst, x.lanes, sizeof x.lanes);
}

INLINE void
store_all_halves (void    *dst,
                  Sixteen  x)
{
  for (size_t l = 0; l < N_LANES; l++)
    ((uint16_t *) dst)[l] = llk_half_of_float (x.lanes[l]);
}

INLINE Sixteen
load_all_codes (const uint8_t *src,
                unsigned       bits)
{
  uint32_t words[2] = { 0 };
  Sixteen y;

  if (bits < 8)
    memcpy (words, src, 2 * bits);  /* of 3 bits the highest lie in the second word */
  for (size_t l = 0; l < N_LANES; l++)
    if (bits == 8)
      y.lanes[l] = (int8_t) src[l];
    else if (bits == 4)
      y.lanes[l] = (float) (words[l % 2] >> 4 * (l / 2) & 15);
    else
      y.lanes[l] = (float) ((words[0] >> 2 * l & 3) | (bits == 3 ? (words[1] >> l & 1) << 2 : 0));
  return y;
}

INLINE void
store_codes_8 (uint8_t *dst,
               Sixteen  codes)
{
  for (size_t l = 0; l < N_LANES; l++)
    dst[l] = (uint8_t) (int8_t) codes.lanes[l];
}

INLINE void
store_codes_4 (uint8_t *dst,
               Sixteen  codes)
{
  uint32_t words[2] = { 0 };

  for (size_t l = 0; l < N_LANES; l++)
    words[l % 2] |= (uint32_t) codes.lanes[l] << 4 * (l / 2);
  memcpy (dst, words, sizeof words);
}

INLINE void
store_codes_3 (uint8_t *dst,
               Sixteen  codes)
{
  uint32_t words[2] = { 0 };

  for (size_t l = 0; l < N_LANES; l++)
    {
      words[0] |= ((uint32_t) codes.lanes[l] & 3) << 2 * l;
      words[1] |= (uint32_t) codes.lanes[l] >> 2 << l;
    }
  memcpy (dst, words, 6);
}

INLINE void
store_codes_2 (uint8_t *dst,
               Sixteen  codes)
{
  uint32_t word = 0;

  for (size_t l = 0; l < N_LANES; l++)
    word |= (uint32_t) codes.lanes[l] << 2 * l;
  memcpy (dst, &word, sizeof word);
}

INLINE Sixteen
add_all (Sixteen a,
         Sixteen b)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = a.lanes[l] + b.lanes[l];
  return y;
}

INLINE Sixteen
subtract_all (Sixteen a,
              Sixteen b)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = a.lanes[l] - b.lanes[l];
  return y;
}

INLINE Sixteen
multiply_all (Sixteen a,
              Sixteen b)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = a.lanes[l] * b.lanes[l];
  return y;
}

INLINE Sixteen
min_all (Sixteen a,
         Sixteen b)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = a.lanes[l] < b.lanes[l] ? a.lanes[l] : b.lanes[l];
  return y;
}

INLINE Sixteen
max_all (Sixteen a,
         Sixteen b)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = a.lanes[l] > b.lanes[l] ? a.lanes[l] : b.lanes[l];
  return y;
}

INLINE Sixteen
clear_infinite (Sixteen x)
{
  Sixteen y;

  for (size_t l = 0; l < N_LANES; l++)
    y.lanes[l] = x.lanes[l] - x.lanes[l] == 0 ? x.lanes[l] + 0.0f : 0;
  return y;
}

/* Of a square: rows become columns. */
INLINE void
transpose (Sixteen square[N_LANES])
{
  for (size_t r = 0; r < N_LANES; r++)
    for (size_t l = 0; l < r; l++)
      {
        float x = square[r].lanes[l];

        square[r].lanes[l] = square[l].lanes[r];
        square[l].lanes[r] = x;
      }
}

#include "kernels/llk-kv-passes.h"

const LlkKvOps llk_portable_kv = { pack, unpack };
