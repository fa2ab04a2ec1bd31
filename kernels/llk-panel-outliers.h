/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Outliers of rows (llk-product.h) times a panel: weights that are not rounded to bytes, as
 * floats of one input and all outputs each, taken from where the panel has their codes. Written in
 * the vectors that llk-panel-weights.h is written in. Types are constants wherever these functions
 * are called.
 */

#pragma once

#include "kernels/llk-panel-weights.h"

/* Of 64 inputs with more places than this, all weights are made together. */
#define MAX_SINGLE 8

/* Byte @k of each word. */
INLINE Ints
get_byte (Ints   v,
          size_t k)
{
#define PLACES(k)                                                                              \
  { k, 128, 128, 128, 4 + k, 128, 128, 128, 8 + k, 128, 128, 128, 12 + k, 128, 128, 128 }
  static const uint8_t places[4][16] = { PLACES (0), PLACES (1), PLACES (2), PLACES (3) };
#undef PLACES

  return look_up (v, splat_sixteen (places[k]));
}

/* The same with its sign. */
INLINE Ints
get_signed_byte (Ints   v,
                 size_t k)
{
#define PLACES(k)                                                                              \
  { 128, 128, 128, k, 128, 128, 128, 4 + k, 128, 128, 128, 8 + k, 128, 128, 128, 12 + k }
  static const uint8_t places[4][16] = { PLACES (0), PLACES (1), PLACES (2), PLACES (3) };
#undef PLACES

  return shift_ints_signed_right (look_up (v, splat_sixteen (places[k])), 24);
}

/* --- of a block of inputs --- */

/* What the weights of a block have in common: weight = scaled × code + first, rounded as
 * llk-product.h says, code being what get_values() makes of it. All but the last product are of
 * integers, which floats have exactly. */
typedef struct
{
  Floats by;           /* base's step × r */
  Floats first;        /* its first value × r */
  Floats step;
  Floats minimum;
  Floats min_scale;
} BlockWeights;

/* Block @b of the part @run of a run. */
INLINE BlockWeights
load_block (LlkType        type,
            const uint8_t *run,
            size_t         b,
            size_t         part)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t lane = N_LANES * part;
  const Ints quad = load_ints (run + shape.scales + 64 * (b / 4) + sizeof (Ints) * part);
  Ints r = type == LLK_Q8_0 || type == LLK_Q2_K ? get_byte (quad, b % 4)
                                                : get_signed_byte (quad, b % 4);
  Ints pairs[2];
  BlockWeights block;

  if (type == LLK_Q8_0)
    r = add_ints (r, shift_ints_signed_right (add_ints (r, splat_int (1)), 8)); /* 255 is 256 */
  if (type == LLK_Q2_K)
    r = and_bits (r, splat_int (15));
  block.by = multiply (floats_of_ints (r), splat_float ((float) llk_run_base_step (type)));
  block.first = multiply (floats_of_ints (r), splat_float ((float) llk_run_base_first (type)));
  block.step = multiply (load_scale (type, run, lane), splat_float (llk_run_step (type)));
  if (llk_run_has_minima (type))
    {
      load_minima (type, run, b / 4, part, pairs);
      r = b % 4 < 2 ? shift_ints_left (pairs[b % 2], 16) : pairs[b % 2];
      block.minimum = floats_of_ints (shift_ints_signed_right (r, 16));
      block.min_scale = load_min_scale (type, run, lane);
    }
  return block;
}

INLINE Floats
make_exact (LlkType             type,
            const BlockWeights *block,
            Ints                code)
{
  Floats w = floats_of_ints (code);

  w = llk_run_base_first (type) != 0 ? multiply_add (w, block->by, block->first)
                                     : multiply (w, block->by);
  w = multiply (w, block->step);
  return llk_run_has_minima (type) ? multiply_add (block->minimum, block->min_scale, w) : w;
}

INLINE bool
has_sign (LlkType type)
{
  return type == LLK_Q8_0 || type == LLK_IQ4_NL || type == LLK_IQ4_XS || type == LLK_MXFP4
         || type == LLK_IQ3_XXS || type == LLK_IQ2_S;
}

/* Codes, or what types with tables of their own look up. */
INLINE Ints
get_values (LlkType type,
            Ints    codes)
{
  if (type == LLK_IQ4_NL || type == LLK_IQ4_XS)
    return look_up (splat_sixteen (llk_iq4_values), codes);
  if (type == LLK_IQ3_XXS)
    return look_up (splat_sixteen (llk_iq3_values), codes);
  if (type == LLK_IQ2_S)
    return look_up (splat_sixteen (llk_iq2_values), codes);
  if (type == LLK_MXFP4)
    return look_up (splat_sixteen (llk_mxfp4_values), codes);
  return codes;
}

/* --- of one input --- */

/* Byte @i of each output's sixteen in the vectors g, one in each word. */
INLINE Ints
gather_bytes (const uint8_t *vectors,
              size_t         i,
              size_t         part)
{
  static const uint8_t others[4][16] = {
    { 0, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128 },
    { 128, 128, 128, 128, 0, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128 },
    { 128, 128, 128, 128, 128, 128, 128, 128, 0, 128, 128, 128, 128, 128, 128, 128 },
    { 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0, 128, 128, 128 },
  };
  Ints bytes = splat_int (0);

#pragma GCC unroll 4
  for (size_t g = 0; g < 4; g++)
    {
      const Ints index = or_bits (splat_byte ((int) i), splat_sixteen (others[g]));

      bytes = or_bits (bytes,
                       look_up (load_ints (vectors + 64 * g + sizeof (Ints) * part), index));
    }
  return bytes;
}

/* Adds @value to the words of those outputs whose bit @i of sixteen is set; the bits of the vectors
 * g are @stride bytes apart. */
INLINE Ints
gather_bits (Ints           v,
             int            value,
             const uint8_t *bits,
             size_t         stride,
             size_t         i,
             size_t         part)
{
  uint64_t all = 0;

#pragma GCC unroll 4
  for (size_t g = 0; g < 4; g++)
    {
      uint64_t word;

      memcpy (&word, bits + stride * g, sizeof word);
      all |= (word >> i & UINT64_C (0x0001000100010001)) << 4 * g;
    }
  return add_at_bits (v, value, (const uint8_t *) &all, part);
}

/* The codes of input @place, whose run's codes begin at @codes. */
INLINE Ints
gather_codes (LlkType        type,
              const uint8_t *codes,
              size_t         place,
              size_t         part)
{
  const unsigned bits = llk_panel_shape (type).bits;
  const uint8_t *some = codes + place / 64 * (128 * bits);  /* 64 inputs' */
  const size_t i = place % 16, sixteen = place % 64 / 16;
  Ints v;

  if (bits == 8)
    return get_signed_byte (load_ints (codes + 64 * (place / 4) + sizeof (Ints) * part),
                            place % 4);
  if (bits <= 3)
    {
      v = gather_bytes (some, i, part);
      v = and_bits (sixteen == 0   ? v
                    : sixteen == 1 ? shift_right (v, 2)
                    : sixteen == 2 ? shift_right (v, 4)
                                   : shift_right (v, 6),
                    splat_int (3));
      return bits == 2 ? v : gather_bits (v, 4, some + 256 + 8 * sixteen, 32, i, part);
    }

  codes = some + sixteen / 2 * (bits == 5 ? 320 : 256);
  v = gather_bytes (codes, i, part);
  v = and_bits (sixteen % 2 == 1 ? shift_right (v, 4) : v, splat_int (15));
  if (bits == 5)
    return gather_bits (v, 16, codes + 256 + 8 * (sixteen % 2), 16, i, part);
  if (bits == 6)
    {
      const Ints twos = gather_bytes (some + 512, i, part);

      return or_bits (v, and_bits (sixteen == 0   ? shift_left (twos, 4)
                                   : sixteen == 1 ? shift_left (twos, 2)
                                   : sixteen == 2 ? twos
                                                  : shift_right (twos, 2),
                                   splat_int (48)));
    }
  return v;
}

/* The weights of input @place of the part @run of a run. */
INLINE Floats
load_exact (LlkType        type,
            const uint8_t *run,
            size_t         place,
            size_t         part)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const BlockWeights block = load_block (type, run, place / shape.block, part);
  const Ints codes = gather_codes (type, run + llk_panel_head_bytes (shape), place, part);
  const Ints values = get_values (type, codes);

  return make_exact (type, &block,
                     has_sign (type) && type != LLK_Q8_0 ? get_signed_byte (values, 0) : values);
}

/* --- of 64 inputs --- */

/* The codes of sixteen inputs of 64, those from 16 × @sixteen on, as vectors g. */
INLINE void
load_sixteen (LlkType        type,
              const uint8_t *codes,
              size_t         sixteen,
              size_t         part,
              Ints           v[4])
{
  const unsigned bits = llk_panel_shape (type).bits;
  const uint8_t *half = bits <= 3 ? codes : codes + sixteen / 2 * (bits == 5 ? 320 : 256);
  const size_t at = sizeof (Ints) * part;

#pragma GCC unroll 4
  for (size_t g = 0; g < 4; g++)
    {
      v[g] = load_ints (half + 64 * g + at);
      if (bits <= 3)
        v[g] = get_twos (v[g], sixteen);
      else
        v[g] = sixteen % 2 == 0 ? and_bits (v[g], splat_byte (15)) : shift_bytes_right (v[g], 4);
      if (bits == 3)
        v[g] = add_at_bits (v[g], 4, codes + 256 + 32 * g + 8 * sixteen, part);
      if (bits == 5)
        v[g] = add_at_bits (v[g], 16, half + 256 + 16 * g + 8 * (sixteen % 2), part);
      if (bits == 6)
        {
          const Ints twos = load_ints (codes + 512 + 64 * g + at);

          v[g] = or_bits (v[g], and_bits (sixteen == 0   ? shift_left (twos, 4)
                                          : sixteen == 1 ? shift_left (twos, 2)
                                          : sixteen == 2 ? twos
                                                         : shift_right (twos, 2),
                                          splat_byte (0x30)));
        }
    }
}

/* The same as groups of four inputs of all outputs. */
INLINE void
load_groups (LlkType        type,
             const uint8_t *codes,
             size_t         sixteen,
             size_t         part,
             Ints           groups[4])
{
  Ints v[4], a, b, c, d;

  if (llk_panel_shape (type).bits == 8)
    {
#pragma GCC unroll 4
      for (size_t j = 0; j < 4; j++)
        groups[j] = load_ints (codes + 64 * (4 * sixteen + j) + sizeof (Ints) * part);
      return;
    }
  load_sixteen (type, codes, sixteen, part, v);
  a = low_words (v[0], v[1]), b = low_words (v[2], v[3]);
  c = high_words (v[0], v[1]), d = high_words (v[2], v[3]);
  groups[0] = get_values (type, low_pairs (a, b));
  groups[1] = get_values (type, high_pairs (a, b));
  groups[2] = get_values (type, low_pairs (c, d));
  groups[3] = get_values (type, high_pairs (c, d));
}

/* The weights of @n inputs from @first on, at most 64, of the part @run of a run. */
INLINE void
store_exact (LlkType        type,
             const uint8_t *run,
             size_t         first,
             size_t         n,
             float        (*weights)[N])
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const uint8_t *codes = run + llk_panel_head_bytes (shape) + first * 2 * shape.bits;

  for (size_t part = 0; part < N_PARTS; part++)
#pragma GCC unroll 4
    for (size_t sixteen = 0; sixteen < 4; sixteen++)
      {
        BlockWeights block;
        Ints groups[4];

        if (16 * sixteen >= n)
          break;
        block = load_block (type, run, (first + 16 * sixteen) / shape.block, part);
        load_groups (type, codes, sixteen, part, groups);
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
#pragma GCC unroll 4
          for (size_t k = 0; k < 4; k++)
            store_floats (weights[16 * sixteen + 4 * j + k] + N_LANES * part,
                          make_exact (type, &block, has_sign (type) ? get_signed_byte (groups[j], k)
                                                                    : get_byte (groups[j], k)));
      }
}

/* --- of rows --- */

/* The weights of a run of a panel that outliers meet. */
INLINE void
store_outlier_weights (LlkType            type,
                       const RunParts    *run,
                       size_t             panel,
                       const RowOutliers *outliers,
                       float            (*weights)[N])
{
  for (size_t p = 0; p < run->n_parts; p++)
    for (size_t i = 0; i < run->parts[p].n; i += 64)
      {
        const RunPart *part = &run->parts[p];
        const uint8_t *data = part->data + panel * part->panel_bytes;
        const size_t n = part->n - i < 64 ? part->n - i : 64;
        const size_t first = part->first + i;
        uint64_t left = outliers->places[first / 64];

        if (__builtin_popcountll (left) > MAX_SINGLE)
          store_exact (type, data, i, n, weights + first);
        else
          for (; left != 0; left &= left - 1)
            {
              const size_t place = (size_t) __builtin_ctzll (left);

#pragma GCC unroll 1
              for (size_t lane = 0; lane < N; lane += N_LANES)
                store_floats (weights[first + place] + lane,
                              load_exact (type, data, i + place, lane / N_LANES));
            }
      }
}

/* Of each value the row's sums of @n_panels panels, a constant. */
INLINE void
add_values (const RowOutliers *outliers,
            size_t             n_panels,
            const float        weights[2][LLK_RUN][N],
            float             *sums,
            size_t             panel_sums)
{
  for (size_t i = 0; i < outliers->n; i++)
    {
      const RowOutlier *value = &outliers->values[i];
      const Floats x = splat_float (value->x);

#pragma GCC unroll 2
      for (size_t p = 0; p < n_panels; p++)
        {
          const float *w = weights[p][value->place];
          float *place = sums + p * panel_sums + value->row * N;

          UNROLL_PARTS
          for (size_t lane = 0; lane < N; lane += N_LANES)
            store_floats (place + lane,
                          multiply_add (load_floats (w + lane), x, load_floats (place + lane)));
        }
    }
}

INLINE void
add_outliers (LlkType            type,
              const RunParts    *run,
              size_t             panel,
              size_t             n_panels,
              const RowOutliers *outliers,
              float             *sums,
              size_t             panel_sums)
{
  float weights[2][LLK_RUN][N] __attribute__ ((aligned (64)));

#pragma GCC unroll 1
  for (size_t p = 0; p < n_panels; p++)
    store_outlier_weights (type, run, panel + p, outliers, weights[p]);
  if (n_panels == 1)
    add_values (outliers, 1, weights, sums, panel_sums);
  else
    add_values (outliers, 2, weights, sums, panel_sums);
}
