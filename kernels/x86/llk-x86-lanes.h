/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the vectors of llk-avx512-lanes.h and llk-avx2-lanes.h, which include this, have in
 * common. */

#pragma once

#define HAS_PAIRS false
#define GROUPS_IN_TURN 1    /* of four weights, with several rows */

/* Each four bytes with those of group @k at @x. */
#define add_group_dots(sums, w, x, k) add_dots (sums, w, splat_four ((x) + 4 * (k)))

/* Bytes whose sums may come to lie in any word of their lane. */
#define add_lane_dots(sums, w, x) add_dots (sums, w, x)

/* a × x[k] + sum */
#define multiply_add_value(a, x, k, sum) multiply_add (a, splat_float ((x)[k]), sum)

/* Shifts of bytes. */
#define shift_bytes_right(v, n) and_bits (shift_right (v, n), splat_byte (255 >> (n)))

/* The sums of the lanes of 128 bits, of each four vectors side by side. */
INLINE Ints
add_lanes (const Ints sums[4])
{
  const Ints a = add_ints (low_words (sums[0], sums[1]), high_words (sums[0], sums[1]));
  const Ints b = add_ints (low_words (sums[2], sums[3]), high_words (sums[2], sums[3]));

  return add_ints (low_pairs (a, b), high_pairs (a, b));
}

typedef Ints ShortDots;

#define sum_short_dots(dots) (dots)

/* --- multipliers of Q8_0 --- */

/* (code × r + 127) >> 8, with 128 added where @is_moved: the upper byte of a short. @r has
 * multipliers in the lower half of each short. */
INLINE Ints
scale_group (Ints v,
             Ints r,
             bool is_moved)
{
  /* A shift would compete with the multiplications. */
  static const uint8_t uppers[16] = { 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15 };
  const Ints rounder = splat_short (is_moved ? 0x807f : 0x7f);
  const Ints even = add_shorts (rounder, multiply_pairs (r, v));
  const Ints odd = add_shorts (rounder, multiply_pairs (shift_left (r, 8), v));

  return mix_bytes (look_up (even, splat_sixteen (uppers)), odd);
}

/* --- multipliers of a quad of blocks, and tables --- */

#define HAS_TABLES false

/* For each lane the multiplier of its output of vector @g, block @b of a quad: in the upper
 * half of each short. */
INLINE Ints
splat_multipliers (Ints   quad,
                   size_t b,
                   size_t g)
{
  return look_up (quad, splat_short ((int) ((4 * g + b) << 8 | 0x80)));
}

/* (v × r + 64) >> 7 of 16 bits. */
INLINE Ints
scale_shorts (Ints   v,
              Ints   quad,
              size_t b,
              size_t g)
{
  return multiply_high (v, splat_multipliers (quad, b, g));
}

/* The same of four times the lower and the upper eight bytes of each lane: bytes in the upper
 * half of a short times four times the multiplier. */
INLINE void
scale_fours (Ints   v,
             Ints   quad,
             size_t b,
             size_t g,
             Ints   scaled[2])
{
  const Ints fours = shift_signed_right (splat_multipliers (quad, b, g), 6);

  scaled[0] = multiply_high (low_bytes (splat_byte (0), v), fours);
  scaled[1] = multiply_high (high_bytes (splat_byte (0), v), fours);
}

/* All weights of the four blocks of a quad of Q2_K, byte 4 b + code. */
INLINE Ints
make_table_of_twos (Ints   quad,
                    size_t g)
{
  static const int16_t base_values[8] = { 0, 128, 256, 384, 0, 128, 256, 384 };
  const Ints base = splat_sixteen (base_values);
  const Ints pairs = splat_sixteen ("\x80\x00\x80\x00\x80\x00\x80\x00"
                                    "\x80\x01\x80\x01\x80\x01\x80\x01");
  const Ints first = or_bits (pairs, splat_short ((int) (4 * g << 8)));
  const Ints second = or_bits (pairs, splat_short ((int) ((4 * g + 2) << 8)));

  return pack_signed (multiply_high (base, look_up (quad, first)),
                      multiply_high (base, look_up (quad, second)));
}

/* Those of blocks @b and @b + 1 of Q3_K or IQ2, byte 8 (b % 2) + code; @base is llk_run_base(). */
INLINE Ints
make_table_of_threes (LlkType type,
                      Ints    base,
                      Ints    quad,
                      size_t  b,
                      size_t  g)
{
  (void) type;
  return pack_signed (scale_shorts (base, quad, b, g), scale_shorts (base, quad, b + 1, g));
}
