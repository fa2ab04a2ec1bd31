/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs of 32 inputs of a panel as vectors of bytes and of scales. Written in the
 * vectors of one of x86/llk-avx512-lanes.h, x86/llk-avx2-lanes.h and arm/llk-arm-lanes.h, included
 * before. @lane is the first of the panel's outputs that the vectors hold. Types
 * are constants wherever these functions are called.
 */

#pragma once

/* What a run's weights are multiplied with: bytes w with the zero point added,
 * groups 0…7 of four inputs each; scales and minima of the first and the second
 * sixteen inputs, or of all in the first. Minima are those that are added. */
typedef struct
{
  Ints w[8];
  Floats scale[2];
  Floats min[2];
} Run;

/* What the runs of a block share. */
typedef struct
{
  Floats d;
  Floats min;
} BlockScales;

/* What a row contributes to a run beside its integers. */
typedef enum
{
  TERM_NONE,
  TERM_ZERO_POINT,       /* int32: -zero point × sum */
  TERM_ZERO_POINT_HALF,  /* for each 16 inputs */
  TERM_MIN,              /* float: scale × sum */
  TERM_MIN_HALF,         /* for each 16 inputs */
} Term;

/* What bytes w are too large by. */
INLINE int
get_zero_point (LlkType type)
{
  switch (type)
    {
    case LLK_Q4_0:
      return 8;
    case LLK_Q5_0:
      return 16;
    case LLK_Q6_K:
      return 32;
    case LLK_Q3_K:
      return 4;
    case LLK_MXFP4:
      return 12; /* so that bytes are small */
    case LLK_Q8_0:
    case LLK_IQ4_NL:
    case LLK_IQ4_XS:
      return HAS_UNSIGNED_BYTES ? 128 : 0;
    default:
      return 0;
    }
}

/* Largest byte w; 0: w are signed. */
INLINE unsigned
get_largest (LlkType type)
{
  switch (type)
    {
    case LLK_Q2_K:
      return 3;
    case LLK_Q3_K:
      return 7;
    case LLK_Q4_0:
    case LLK_Q4_1:
    case LLK_Q4_K:
      return 15;
    case LLK_MXFP4:
      return 24;
    case LLK_Q5_0:
    case LLK_Q5_1:
    case LLK_Q5_K:
      return 31;
    case LLK_Q6_K:
      return 63;
    default:
      return HAS_UNSIGNED_BYTES ? 255 : 0;
    }
}

INLINE bool
has_half_scales (LlkType type)
{
  return type == LLK_Q6_K || type == LLK_Q3_K || type == LLK_Q2_K;
}

INLINE Term
get_term (LlkType type)
{
  switch (type)
    {
    case LLK_Q4_1:
    case LLK_Q5_1:
    case LLK_Q4_K:
    case LLK_Q5_K:
      return TERM_MIN;
    case LLK_Q2_K:
      return TERM_MIN_HALF;
    default:
      if (get_zero_point (type) == 0)
        return TERM_NONE;
      return has_half_scales (type) ? TERM_ZERO_POINT_HALF : TERM_ZERO_POINT;
    }
}

INLINE void
unpack_eights (const uint8_t *src,
               Ints           w[8])
{
#pragma GCC unroll 8
  for (size_t g = 0; g < 8; g++)
    {
      w[g] = load_ints (src + 64 * g);
      if (HAS_UNSIGNED_BYTES)
        w[g] = xor_bits (w[g], splat_byte (-128));
    }
}

INLINE void
unpack_fours (const uint8_t *src,
              Ints           w[8])
{
#pragma GCC unroll 4
  for (size_t g = 0; g < 4; g++)
    {
      Ints both = load_ints (src + 64 * g);

      w[g] = and_bits (both, splat_byte (15));
      w[g + 4] = and_bits (shift_right (both, 4), splat_byte (15));
    }
}

INLINE void
unpack_table (const uint8_t *src,
              Ints           table,
              Ints           w[8])
{
#pragma GCC unroll 4
  for (size_t g = 0; g < 4; g++)
    {
      Ints both = load_ints (src + 64 * g);

      w[g] = look_up (table, both);
      w[g + 4] = look_up (table, shift_right (both, 4));
    }
}

/* Bits @from and above to bits @to and above; the caller masks the others. */
INLINE Ints
move_bits (Ints     v,
           unsigned from,
           unsigned to)
{
  return from > to ? shift_right (v, from - to) : from < to ? shift_left (v, to - from) : v;
}

/* Fours, with their fifth bits in ones. */
INLINE void
unpack_fives (const uint8_t *src,
              Ints           w[8])
{
  Ints fifth = load_ints (src + 4 * 64);

#pragma GCC unroll 4
  for (unsigned g = 0; g < 4; g++)
    {
      Ints both = load_ints (src + 64 * g);

      w[g] = and_bits (select_bits (splat_byte (15), both, move_bits (fifth, g, 4)),
                       splat_byte (31));
      w[g + 4] = and_bits (select_bits (splat_byte (15), shift_right (both, 4),
                                        move_bits (fifth, g + 4, 4)),
                           splat_byte (31));
    }
}

/* Fours, with their two high bits in twos. */
INLINE void
unpack_sixes (const uint8_t *src,
              Ints           w[8])
{
  Ints high = load_ints (src + 4 * 64);
  Ints next_high = load_ints (src + 5 * 64);

#pragma GCC unroll 4
  for (unsigned g = 0; g < 4; g++)
    {
      Ints both = load_ints (src + 64 * g);

      w[g] = and_bits (select_bits (splat_byte (15), both, move_bits (high, 2 * g, 4)),
                       splat_byte (63));
      w[g + 4] = and_bits (select_bits (splat_byte (15), shift_right (both, 4),
                                        move_bits (next_high, 2 * g, 4)),
                           splat_byte (63));
    }
}

INLINE void
unpack_twos (const uint8_t *src,
             Ints           w[8])
{
#pragma GCC unroll 8
  for (unsigned g = 0; g < 8; g++)
    w[g] = and_bits (move_bits (load_ints (src + 64 * (g / 4)), 2 * (g % 4), 0), splat_byte (3));
}

/* Twos, with their third bits in ones. */
INLINE void
unpack_threes (const uint8_t *src,
               Ints           w[8])
{
  Ints third = load_ints (src + 2 * 64);

#pragma GCC unroll 8
  for (unsigned g = 0; g < 8; g++)
    {
      Ints twos = move_bits (load_ints (src + 64 * (g / 4)), 2 * (g % 4), 0);

      w[g] = and_bits (select_bits (splat_byte (3), twos, move_bits (third, g, 2)),
                       splat_byte (7));
    }
}

/* Scales of block @b of the section at @header. */
INLINE BlockScales
load_block_scales (LlkType        type,
                   const uint8_t *header,
                   size_t         b,
                   size_t         lane)
{
  const size_t n_blocks = llk_panel_shape (type).n_in_section;
  const uint8_t *minima = header + 2 * LLK_PANEL_OUTPUTS * n_blocks;
  const size_t place = 2 * (LLK_PANEL_OUTPUTS * b + lane);
  BlockScales scales;

  if (type == LLK_MXFP4)
    scales.d = floats_of_exponents (header + LLK_PANEL_OUTPUTS * b + lane);
  else
    scales.d = floats_of_halves (header + place);

  scales.min = splat_float (0);
  if (type == LLK_Q4_1 || type == LLK_Q5_1)
    scales.min = floats_of_halves (minima + place);
  else if (type == LLK_Q4_K || type == LLK_Q5_K || type == LLK_Q2_K)
    scales.min = multiply (floats_of_halves (minima + place), splat_float (-1));

  return scales;
}

/* Scales and minima of run @run of a block whose 8-bit scales lie at @block. */
INLINE void
load_scales (LlkType        type,
             BlockScales    scales,
             const uint8_t *block,
             size_t         run,
             size_t         lane,
             Run           *w)
{
  const uint8_t *bytes = block + LLK_PANEL_OUTPUTS * run + lane;
  const uint8_t *half_bytes = block + 2 * LLK_PANEL_OUTPUTS * run + lane;

  w->scale[0] = scales.d;
  w->min[0] = scales.min;
  if (type == LLK_Q4_K || type == LLK_Q5_K)
    {
      w->scale[0] = multiply (scales.d, floats_of_ints (ints_of_u8 (bytes)));
      w->min[0] = multiply (scales.min,
                            floats_of_ints (ints_of_u8 (bytes + 8 * LLK_PANEL_OUTPUTS)));
    }
  else if (type == LLK_IQ4_XS)
    w->scale[0] = multiply (scales.d, floats_of_ints (ints_of_s8 (bytes)));
  else if (type == LLK_Q6_K || type == LLK_Q3_K)
    {
      w->scale[0] = multiply (scales.d, floats_of_ints (ints_of_s8 (half_bytes)));
      w->scale[1] = multiply (scales.d,
                              floats_of_ints (ints_of_s8 (half_bytes + LLK_PANEL_OUTPUTS)));
    }
  else if (type == LLK_Q2_K)
    {
#pragma GCC unroll 2
      for (size_t half = 0; half < 2; half++)
        {
          Ints both = ints_of_u8 (half_bytes + LLK_PANEL_OUTPUTS * half);

          w->scale[half] = multiply (scales.d, floats_of_ints (and_bits (both, splat_int (15))));
          w->min[half] = multiply (scales.min, floats_of_ints (shift_right (both, 4)));
        }
    }
}

INLINE void
unpack_integers (LlkType        type,
                 const uint8_t *src,
                 Ints           w[8])
{
  switch (type)
    {
    case LLK_Q8_0:
      unpack_eights (src, w);
      break;
    case LLK_IQ4_NL:
    case LLK_IQ4_XS:
      unpack_table (src, load_table (llk_iq4_values, get_zero_point (type)), w);
      break;
    case LLK_MXFP4:
      unpack_table (src, load_table (llk_mxfp4_values, get_zero_point (type)), w);
      break;
    case LLK_Q4_0:
    case LLK_Q4_1:
    case LLK_Q4_K:
      unpack_fours (src, w);
      break;
    case LLK_Q5_0:
    case LLK_Q5_1:
    case LLK_Q5_K:
      unpack_fives (src, w);
      break;
    case LLK_Q6_K:
      unpack_sixes (src, w);
      break;
    case LLK_Q3_K:
      unpack_threes (src, w);
      break;
    case LLK_Q2_K:
      unpack_twos (src, w);
      break;
    default:
      __builtin_unreachable ();
    }
}
