/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The weights of a run of a panel as bytes, sixteen inputs of sixteen outputs after the
 * other, for llk-panel-product.h. A vector g has in each of its 128-bit lanes sixteen
 * inputs of one output, 4 l + g of the panel. Codes of four and five bits are looked up
 * in tables of all that they can stand for, made for each output and block (llk-run.h's
 * formula is one instruction for eight of them); others likewise, or computed. Bytes
 * are w - 128 for Q4_K and Q5_K, whose weights reach 244, and w for others. Written in
 * the vectors of llk-avx512-lanes.h, llk-avx2-lanes.h or llk-arm-lanes.h, included
 * before. Types are constants wherever these functions are called.
 */

#pragma once

#include "kernels/llk-panel-stored.h"

#define N_PARTS (64 / sizeof (Ints))

/* What bytes are too small by. */
INLINE int
get_zero_point (LlkType type)
{
  return type == LLK_Q4_K || type == LLK_Q5_K ? 128 : 0;
}

/* What becomes of sixteen inputs: they are multiplied with a row at once, or stored in
 * groups of four inputs, as tiles and several rows want them: byte 4 o + i of group n / 4
 * is input n + i of output o. With HAS_PAIRS, as matrix instructions of Arm want them, two
 * groups are instead two vectors, which have in each 16 bytes l eight inputs of outputs 4 l
 * and 4 l + 1, and of 4 l + 2 and 4 l + 3. */
typedef struct
{
  bool is_stored;        /* a constant wherever this is used */
  size_t part;
  const int8_t *x;       /* the row's, at the run */
  Ints sums[4];          /* of each vector g */
  int8_t *groups;
} Sink;

/* @w: of inputs from @input on. With HAS_UNSIGNED_BYTES and not stored, 128 is added. */
INLINE void
put_sixteen (Sink      *sink,
             const Ints w[4],
             size_t     input)
{
  if (sink->is_stored)
    {
      int8_t *dst = sink->groups + 16 * input + sizeof (Ints) * sink->part;

#if HAS_PAIRS
      store_ints (dst, low_pairs (w[0], w[1]));
      store_ints (dst + 64, low_pairs (w[2], w[3]));
      store_ints (dst + 128, high_pairs (w[0], w[1]));
      store_ints (dst + 192, high_pairs (w[2], w[3]));
#else
      Ints a = low_words (w[0], w[1]), b = low_words (w[2], w[3]);
      Ints c = high_words (w[0], w[1]), d = high_words (w[2], w[3]);

      store_ints (dst, low_pairs (a, b));
      store_ints (dst + 64, high_pairs (a, b));
      store_ints (dst + 128, low_pairs (c, d));
      store_ints (dst + 192, high_pairs (c, d));
#endif
    }
  else
    {
      const Ints x = splat_sixteen (sink->x + input);

#pragma GCC unroll 4
      for (size_t g = 0; g < 4; g++)
        {
#if HAS_UNSIGNED_BYTES
          sink->sums[g] = add_lane_dots (sink->sums[g], w[g], x);
#else
          sink->sums[g] = add_lane_dots (sink->sums[g], make_weights (w[g]), x);
#endif
        }
    }
}

/* --- multipliers and tables --- */

/* Bytes w in the form that the sink takes. */
INLINE Ints
move_weights (bool is_stored,
              Ints w)
{
  return HAS_UNSIGNED_BYTES && !is_stored ? xor_bits (w, splat_byte (-128)) : w;
}

/* Weights in 16 bits as bytes in the form that the sink takes. */
INLINE Ints
pack_weights (LlkType type,
              bool    is_stored,
              Ints    low,
              Ints    high)
{
  const bool is_moved = get_zero_point (type) != 0; /* to 0…255 by packing alone */
  const Ints bytes = is_moved ? pack_unsigned (low, high) : pack_signed (low, high);

  if (is_moved == (HAS_UNSIGNED_BYTES && !is_stored))
    return bytes;
  return xor_bits (bytes, splat_byte (-128));
}

/* All base values in order, sixteen or 32. */
INLINE void
load_base (LlkType type,
           Ints    base[4])
{
  const int16_t *values = llk_run_base (type);

  for (size_t i = 0; i < (llk_panel_shape (type).bits == 5 ? 4 : 2); i++)
    base[i] = splat_sixteen (values + 8 * i);
}

/* Of block @b of a quad, output @g: codes from 16 × @half on. */
INLINE Ints
get_table (LlkType        type,
           bool           is_stored,
           const Ints     base[4],
           size_t         half,
           const uint8_t *quad,
           size_t         b,
           size_t         g)
{
#if HAS_TABLES
  return load_table (type, half, quad[4 * g + b]);
#else
  const Ints r = load_ints (quad);

  return pack_weights (type, is_stored, scale_shorts (base[2 * half], r, b, g),
                       scale_shorts (base[2 * half + 1], r, b, g));
#endif
}

/* --- codes --- */

/* Four or five bits. */
INLINE void
put_nibbles (LlkType        type,
             Sink          *sink,
             const uint8_t *multipliers,
             const uint8_t *codes,
             const uint8_t *ahead,
             size_t         n)
{
  const bool has_fifth = llk_panel_shape (type).bits == 5;
  const size_t bytes = has_fifth ? 320 : 256;
  const size_t at = sizeof (Ints) * sink->part;
  Ints base[4];

  load_base (type, base);
  for (size_t quad = 0; quad < n; quad += 128)
    {
      const uint8_t *r = multipliers + quad / 2 + at;

#pragma GCC unroll 4
      for (size_t b = 0; b < 4; b++)
        if (quad + 32 * b < n)
          {
            Ints low[4], high[4];

            if (sink->part == 0)
              fetch (ahead, bytes);
#pragma GCC unroll 4
            for (size_t g = 0; g < 4; g++)
              {
                const Ints table = get_table (type, sink->is_stored, base, 0, r, b, g);
                const Ints v = load_ints (codes + 64 * g + at);
                const Ints first = and_bits (v, splat_byte (15));
                const Ints second = shift_bytes_right (v, 4);

                if (has_fifth)
                  {
                    const Ints other = get_table (type, sink->is_stored, base, 1, r, b, g);
                    const uint8_t *bits = codes + 256 + 16 * g;

                    low[g] = look_up_in (table, other, first, bits, sink->part);
                    high[g] = look_up_in (table, other, second, bits + 8, sink->part);
                  }
                else
                  {
                    low[g] = look_up (table, first);
                    high[g] = look_up (table, second);
                  }
              }
            put_sixteen (sink, low, quad + 32 * b);
            put_sixteen (sink, high, quad + 32 * b + 16);
            codes += bytes;
            ahead += bytes;
          }
    }
}

/* Q6_K: four times 32 - code times the multiplier. */
INLINE void
put_sixes (Sink          *sink,
           const uint8_t *multipliers,
           const uint8_t *codes,
           const uint8_t *ahead,
           size_t         n)
{
  const size_t at = sizeof (Ints) * sink->part;

  for (size_t i = 0; i < n; i += 64, codes += 768, ahead += 768)
    {
      const Ints r = load_ints (multipliers + i + at);

      if (sink->part == 0)
        fetch (ahead, 768);
#pragma GCC unroll 4
      for (size_t b = 0; b < 4; b++)
        {
          Ints w[4];

#pragma GCC unroll 4
          for (size_t g = 0; g < 4; g++)
            {
              const Ints v = load_ints (codes + 256 * (b / 2) + 64 * g + at);
              const Ints twos = load_ints (codes + 512 + 64 * g + at);
              const Ints low =
                b % 2 == 0 ? and_bits (v, splat_byte (15)) : shift_bytes_right (v, 4);
              const Ints high = and_bits (b == 0   ? shift_left (twos, 4)
                                          : b == 1 ? shift_left (twos, 2)
                                          : b == 2 ? twos
                                                   : shift_right (twos, 2),
                                          splat_byte (0x30));
              const Ints value = subtract_bytes (splat_byte (32), or_bits (low, high));
              Ints scaled[2];

              scale_fours (value, r, b, g, scaled);
              w[g] = pack_weights (LLK_Q6_K, sink->is_stored, scaled[0], scaled[1]);
            }
          put_sixteen (sink, w, i + 16 * b);
        }
    }
}

/* Two bits of each of four blocks' inputs; @b of them. */
INLINE Ints
get_twos (Ints   v,
          size_t b)
{
  return b == 3 ? shift_bytes_right (v, 6)
                : and_bits (b == 0 ? v : b == 1 ? shift_right (v, 2) : shift_right (v, 4),
                            splat_byte (3));
}

/* Q3_K and IQ2: a table has the eight codes of two blocks. */
INLINE void
put_threes (LlkType        type,
            Sink          *sink,
            const uint8_t *multipliers,
            const uint8_t *codes,
            const uint8_t *ahead,
            size_t         n)
{
  const size_t at = sizeof (Ints) * sink->part;
  const Ints base = splat_sixteen (llk_run_base (type));

  for (size_t i = 0; i < n; i += 64, codes += 384, ahead += 384)
    {
      const Ints r = load_ints (multipliers + i + at);
      Ints w[4][4];

      if (sink->part == 0)
        fetch (ahead, 384);
#pragma GCC unroll 4
      for (size_t g = 0; g < 4; g++)
        {
          const Ints v = load_ints (codes + 64 * g + at);

#pragma GCC unroll 4
          for (size_t b = 0; b < 4; b++)
            {
              const Ints table =
                move_weights (sink->is_stored, make_table_of_threes (type, base, r, b / 2 * 2,
                                                                     g));
              const Ints code = add_at_bits (get_twos (v, b), 4, codes + 256 + 32 * g + 8 * b,
                                             sink->part);

              w[b][g] = look_up (table, b % 2 == 0 ? code : or_bits (code, splat_byte (8)));
            }
        }
#pragma GCC unroll 4
      for (size_t b = 0; b < 4; b++)
        put_sixteen (sink, w[b], i + 16 * b);
    }
}

/* Q2_K: a table has the four codes of four blocks. */
INLINE void
put_twos (Sink          *sink,
          const uint8_t *multipliers,
          const uint8_t *codes,
          const uint8_t *ahead,
          size_t         n)
{
  const size_t at = sizeof (Ints) * sink->part;

  for (size_t i = 0; i < n; i += 64, codes += 256, ahead += 256)
    {
      const Ints r = and_bits (load_ints (multipliers + i + at), splat_byte (15));
      Ints w[4][4];

      if (sink->part == 0)
        fetch (ahead, 256);
#pragma GCC unroll 4
      for (size_t g = 0; g < 4; g++)
        {
          const Ints table = move_weights (sink->is_stored, make_table_of_twos (r, g));
          const Ints v = load_ints (codes + 64 * g + at);

#pragma GCC unroll 4
          for (size_t b = 0; b < 4; b++)
            w[b][g] = look_up (table, or_bits (get_twos (v, b), splat_byte ((int) (4 * b))));
        }
#pragma GCC unroll 4
      for (size_t b = 0; b < 4; b++)
        put_sixteen (sink, w[b], i + 16 * b);
    }
}

/* Q8_0: the multipliers of block @b of a run as scale_group() takes them. */
INLINE Ints
load_long_multipliers (const uint8_t *run,
                       size_t         b,
                       size_t         part)
{
#define TWICE(b) b, 128, b, 128
#define PLACES(b) { TWICE (b), TWICE (4 + b), TWICE (8 + b), TWICE (12 + b) }
  static const uint8_t places[4][16] = { PLACES (0), PLACES (1), PLACES (2), PLACES (3) };
#undef PLACES
#undef TWICE
  const size_t scales = llk_panel_shape (LLK_Q8_0).scales;
  const Ints quad = load_ints (run + scales + 64 * (b / 4) + sizeof (Ints) * part);

  return look_up (quad, splat_sixteen (places[b % 4]));
}

/* @n inputs of the part @run of a run, but of Q8_0, whose bytes are groups in the panel;
 * likewise many bytes @ahead are fetched. */
INLINE void
put_weights (LlkType        type,
             Sink          *sink,
             const uint8_t *run,
             const uint8_t *ahead,
             size_t         n)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t head = llk_panel_head_bytes (shape);
  const uint8_t *multipliers = run + shape.scales;

  if (sink->part == 0)
    fetch (ahead, head);
  if (shape.bits == 4 || shape.bits == 5)
    put_nibbles (type, sink, multipliers, run + head, ahead + head, n);
  else if (type == LLK_Q6_K)
    put_sixes (sink, multipliers, run + head, ahead + head, n);
  else if (type == LLK_Q3_K || type == LLK_IQ2_S)
    put_threes (type, sink, multipliers, run + head, ahead + head, n);
  else
    put_twos (sink, multipliers, run + head, ahead + head, n);
}

/* --- scales and minima --- */

/* Adds a row's exact sums over a run, times the scales, to its sums. */
INLINE Floats
add_scaled (Floats sums,
            Ints   dots,
            Floats scale,
            float  a)
{
  return multiply_add (floats_of_ints (dots), multiply (scale, splat_float (a)), sums);
}

/* Of the outputs from @lane on. */
INLINE Floats
load_scale (LlkType        type,
            const uint8_t *run,
            size_t         lane)
{
  if (type == LLK_Q2_K)
    return floats_of_halves (run + 2 * lane);
  if (type == LLK_Q4_K || type == LLK_Q5_K)
    return multiply (floats_of_halves (run + 2 * lane), splat_float (type == LLK_Q4_K ? 4 : 8));
  return load_floats ((const float *) (const void *) run + lane);
}

INLINE Floats
load_min_scale (LlkType        type,
                const uint8_t *run,
                size_t         lane)
{
  if (type == LLK_Q4_1 || type == LLK_Q5_1)
    return load_floats ((const float *) (const void *) (run + 64) + lane);
  return multiply (floats_of_halves (run + 32 + 2 * lane), splat_float (-1));
}

/* The minima of the four blocks of a quad as shorts: of the first and the third, and of the
 * others. */
INLINE void
load_minima (LlkType        type,
             const uint8_t *run,
             size_t         quad,
             size_t         part,
             Ints           pairs[2])
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const uint8_t *minima = run + shape.scales + (type == LLK_Q2_K ? 0 : shape.multipliers)
                          + sizeof (Ints) * part;
  Ints v;

  if (type == LLK_Q4_1 || type == LLK_Q5_1)
    {
      pairs[0] = load_ints (minima + 128 * quad);
      pairs[1] = load_ints (minima + 128 * quad + 64);
      return;
    }
  v = load_ints (minima + 64 * quad);
  if (type == LLK_Q2_K)
    v = shift_bytes_right (v, 4);
  pairs[0] = and_bits (v, splat_short (255));
  pairs[1] = shift_right (v, 8);
}

/* The sums of the minima times the sums of a row's blocks. */
INLINE Ints
multiply_minima (LlkType                 type,
                 const uint8_t          *run,
                 const LlkActivationRun *x,
                 size_t                  part)
{
  const int16_t *sums = type == LLK_Q2_K ? x->sums : x->long_sums;
  const size_t n_quads = type == LLK_Q2_K ? 4 : 2;
  ShortDots dots = { 0 };

  for (size_t quad = 0; quad < n_quads; quad++)
    {
      Ints pairs[2];

      load_minima (type, run, quad, part, pairs);
      dots = add_short_dots (dots, pairs[0], splat_four (sums + 4 * quad));
      dots = add_short_dots (dots, pairs[1], splat_four (sums + 4 * quad + 2));
    }
  return sum_short_dots (dots);
}
