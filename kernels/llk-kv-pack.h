/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packing, for llk-kv-passes.h, which includes this. Sixteen groups are coded
 * together, a lane each: the step is the one of several with the least squared error.
 */

#pragma once

/* What is larger counts as this: a step more is still a half. */
#define MAX_MAGNITUDE 57344.0f
/* Steps tried together; there are whole numbers of these. */
#define TRIED 3

/* Where a part's values are, and how its groups lie. */
typedef struct
{
  const float *src;
  size_t n_rows;
  size_t row;            /* values of a row */
  bool is_by_row;        /* a row is a group, else a column */
} Part;

/* Sixteen groups, a row of all their first values, one of their second values, … */
typedef struct
{
  size_t n;              /* values of a group */
  float x[GROUP * LLK_MAX_HEAD_DIM];
} Groups;

/* How they are coded. */
typedef struct
{
  uint32_t step_codes[GROUP];
  float zeros[GROUP];
  float steps[GROUP];
  float lows[GROUP];     /* value of code 0 */
  float factors[GROUP];  /* 1 / step */
} Coding;

/* The least step that is not below @wanted, or the largest. */
INLINE uint32_t
find_step (float wanted)
{
  uint32_t code = (llk_bits_of_float (wanted) + 0xfffff) >> 20;

  code = code > LLK_KV_LEAST_STEP ? code - LLK_KV_LEAST_STEP : 0;
  return code < 255 ? code : 255;
}

INLINE float
round_number (float x)
{
  return x + LLK_ROUNDER - LLK_ROUNDER;
}

INLINE Sixteen
clean (Sixteen x)
{
  x = max_all (clear_infinite (x), splat_all (-MAX_MAGNITUDE));
  return min_all (x, splat_all (MAX_MAGNITUDE));
}

INLINE void
store_codes (uint8_t *dst,
             Sixteen  codes,
             unsigned bits)
{
  if (bits == 8)
    store_codes_8 (dst, codes);
  else if (bits == 4)
    store_codes_4 (dst, codes);
  else
    store_codes_2 (dst, codes);
}

/* Sixteen values of a row from @at on; those behind its end are zeros. */
INLINE Sixteen
load_row (const Part *part,
          size_t      row,
          size_t      at)
{
  const float *src = part->src + row * part->row + at;
  float some[GROUP] = { 0 };

  if (row >= part->n_rows)
    return splat_all (0);
  if (at + GROUP <= part->row)
    return clean (load_all (src));
  memcpy (some, src, (part->row - at) * sizeof (float));
  return clean (load_all (some));
}

/* The groups [@first, @first + GROUP); what is no group is zeros. */
INLINE void
take_groups (Groups     *groups,
             const Part *part,
             size_t      first)
{
  Sixteen square[GROUP];

  groups->n = part->is_by_row ? part->row : part->n_rows;
  if (!part->is_by_row)
    {
      for (size_t r = 0; r < part->n_rows; r++)
        store_all (groups->x + r * GROUP, load_row (part, r, first));
      return;
    }

  for (size_t at = 0; at < part->row; at += GROUP)
    {
      for (size_t r = 0; r < GROUP; r++)
        square[r] = load_row (part, first + r, at);
      transpose (square);
      for (size_t r = 0; r < GROUP && at + r < part->row; r++)
        store_all (groups->x + (at + r) * GROUP, square[r]);
    }
}

INLINE void
find_ranges (const Groups *groups,
             float        *low,
             float        *high)
{
  Sixteen min = load_all (groups->x), max = min;

  for (size_t r = 1; r < groups->n; r++)
    {
      Sixteen x = load_all (groups->x + r * GROUP);

      min = min_all (min, x);
      max = max_all (max, x);
    }
  store_all (low, min);
  store_all (high, max);
}

/* Codes of sixteen values, before and after they are rounded. */
INLINE Sixteen
find_codes (Sixteen  x,
            Sixteen  low,
            Sixteen  factor,
            float    least,
            float    largest,
            Sixteen *exact)
{
  Sixteen code;

  *exact = multiply_all (subtract_all (x, low), factor);
  code = min_all (max_all (*exact, splat_all (least)), splat_all (largest));
  return subtract_all (add_all (code, splat_all (LLK_ROUNDER)), splat_all (LLK_ROUNDER));
}

/* Of each group the sum of squared errors that each of the TRIED codings makes. */
INLINE void
measure (const Groups *groups,
         const Coding *codings,
         unsigned      bits,
         float         errors[TRIED][GROUP])
{
  const float largest = (1 << bits) - 1;
  Sixteen low[TRIED], factor[TRIED], sums[TRIED];

#pragma GCC unroll 8
  for (size_t t = 0; t < TRIED; t++)
    {
      low[t] = load_all (codings[t].lows);
      factor[t] = load_all (codings[t].factors);
      sums[t] = splat_all (0);
    }

  for (size_t r = 0; r < groups->n; r++)
    {
      Sixteen x = load_all (groups->x + r * GROUP);

#pragma GCC unroll 8
      for (size_t t = 0; t < TRIED; t++)
        {
          Sixteen exact;
          Sixteen code = find_codes (x, low[t], factor[t], 0, largest, &exact);
          Sixteen error = subtract_all (exact, code);

          sums[t] = add_all (sums[t], multiply_all (error, error));
        }
    }

  for (size_t t = 0; t < TRIED; t++)
    {
      store_all (errors[t], sums[t]);
      for (size_t i = 0; i < GROUP; i++)
        errors[t][i] *= codings[t].steps[i] * codings[t].steps[i];
    }
}

/* What follows from steps and zeros. */
INLINE void
complete_coding (Coding  *coding,
                 unsigned bits)
{
  for (size_t i = 0; i < GROUP; i++)
    {
      float step = llk_kv_get_step (coding->step_codes[i]);

      coding->steps[i] = step;
      coding->lows[i] = step * (coding->zeros[i] * llk_kv_get_unit (bits));
      coding->factors[i] = 1 / step;
    }
}

/* The step @n_smaller below the one that reaches all values, in the middle of their range. */
INLINE void
try_step (const float *low,
          const float *high,
          unsigned     bits,
          uint32_t     n_smaller,
          Coding      *coding)
{
  const float largest = (1 << bits) - 1;
  const float unit = llk_kv_get_unit (bits);

  for (size_t i = 0; i < GROUP; i++)
    {
      float whole = (high[i] - low[i]) / largest;
      float far = fabsf (low[i]) / (127 * unit);  /* or zero does not reach the lowest value */
      uint32_t code = find_step (whole > far ? whole : far);
      float step, start, zero;

      code = code > n_smaller ? code - n_smaller : 0;
      step = llk_kv_get_step (code);
      start = (low[i] + high[i] - step * largest) * 0.5f;
      start = start > low[i] ? start : low[i];
      zero = round_number (start / (step * unit));
      zero = zero > -128 ? zero : -128;
      coding->zeros[i] = zero < 127 ? zero : 127;
      coding->step_codes[i] = code;
    }
  complete_coding (coding, bits);
}

/* Values far out are few: with less of them reached the others lie closer. How much less is
 * best, of Gaussian values, depends on how many there are. */
INLINE void
find_coding (const Groups *groups,
             unsigned      bits,
             Coding       *coding)
{
  static const uint8_t smaller_4[] = { 0, 1, 2 };
  static const uint8_t smaller_2[] = { 0, 2, 4, 3, 6, 8 };
  const uint8_t *smaller = bits == 4 ? smaller_4 : smaller_2;
  const size_t n = bits == 4 ? sizeof smaller_4 : groups->n <= GROUP ? TRIED : sizeof smaller_2;
  float low[GROUP], high[GROUP], least[GROUP];

  find_ranges (groups, low, high);
  memset (coding, 0, sizeof *coding);
  for (size_t i = 0; i < GROUP; i++)
    least[i] = INFINITY;
  for (size_t first = 0; first < n; first += TRIED)
    {
      Coding tried[TRIED];
      float errors[TRIED][GROUP];

      for (size_t t = 0; t < TRIED; t++)
        try_step (low, high, bits, smaller[first + t], &tried[t]);
      measure (groups, tried, bits, errors);
      for (size_t t = 0; t < TRIED; t++)
        for (size_t i = 0; i < GROUP; i++)
          {
            bool is_less = errors[t][i] < least[i];

            least[i] = is_less ? errors[t][i] : least[i];
            coding->step_codes[i] = is_less ? tried[t].step_codes[i] : coding->step_codes[i];
            coding->zeros[i] = is_less ? tried[t].zeros[i] : coding->zeros[i];
          }
    }
  complete_coding (coding, bits);
}

/* Scales for codes of both signs. */
INLINE void
find_scales (const Groups *groups,
             uint16_t     *scales,
             Coding       *coding)
{
  float low[GROUP], high[GROUP];

  find_ranges (groups, low, high);
  for (size_t i = 0; i < GROUP; i++)
    {
      float largest = -low[i] > high[i] ? -low[i] : high[i];

      scales[i] = llk_half_of_float (largest / 127);
      coding->steps[i] = llk_float_of_half (scales[i]);
      coding->lows[i] = 0;
      coding->factors[i] = coding->steps[i] > 0 ? 1 / coding->steps[i] : 0;
    }
}

/* Of the groups from @first on. @codes: of all rows, @row_bytes apart. */
INLINE void
write_codes (const Part   *part,
             const Groups *groups,
             const Coding *coding,
             size_t        first,
             unsigned      bits,
             uint8_t      *codes,
             size_t        row_bytes)
{
  const float largest = bits == 8 ? 127 : (1 << bits) - 1;
  const float least = bits == 8 ? -127 : 0;
  Sixteen low = load_all (coding->lows), factor = load_all (coding->factors);
  Sixteen exact;

  if (!part->is_by_row)
    for (size_t r = 0; r < part->n_rows; r++)
      store_codes (codes + r * row_bytes + first * bits / 8,
                   find_codes (load_all (groups->x + r * GROUP), low, factor, least, largest,
                               &exact),
                   bits);
  else
    for (size_t r = 0; r < GROUP && first + r < part->n_rows; r++)
      {
        low = splat_all (coding->lows[r]);
        factor = splat_all (coding->factors[r]);
        for (size_t at = 0; at < part->row; at += GROUP)
          store_codes (codes + (first + r) * row_bytes + at * bits / 8,
                       find_codes (load_row (part, first + r, at), low, factor, least, largest,
                                   &exact),
                       bits);
      }
}

INLINE void
pack_bits (LlkKvFormat  format,
           LlkKvPart    kind,
           size_t       head_dim,
           size_t       chunk_slots,
           const float *src,
           uint8_t     *dst,
           unsigned     bits)
{
  Part part = {
    .src = src,
    .n_rows = kind == LLK_KV_KEYS ? head_dim : chunk_slots,
    .row = kind == LLK_KV_KEYS ? chunk_slots : head_dim,
    .is_by_row = kind == LLK_KV_VALUES || llk_kv_is_by_dimension (format, kind),
  };
  size_t row_bytes = llk_kv_get_row (kind, head_dim, chunk_slots) * bits / 8;
  size_t n_groups = llk_kv_get_groups (format, kind, head_dim, chunk_slots);
  size_t used = 2 * n_groups + part.n_rows * row_bytes;
  Groups groups;

  for (size_t first = 0; first < n_groups; first += GROUP)
    {
      Coding coding;

      take_groups (&groups, &part, first);
      if (bits == 8)
        {
          uint16_t scales[GROUP];

          find_scales (&groups, scales, &coding);
          memcpy (dst + 2 * first, scales, sizeof scales);
        }
      else
        {
          find_coding (&groups, bits, &coding);
          for (size_t i = 0; i < GROUP; i++)
            {
              dst[first + i] = (uint8_t) coding.step_codes[i];
              dst[n_groups + first + i] = (uint8_t) (int8_t) coding.zeros[i];
            }
        }
      write_codes (&part, &groups, &coding, first, bits, dst + 2 * n_groups, row_bytes);
    }
  memset (dst + used, 0, llk_kv_part_bytes (format, kind, head_dim, chunk_slots) - used);
}

static void
pack (LlkKvFormat  format,
      LlkKvPart    part,
      size_t       head_dim,
      size_t       chunk_slots,
      const float *src,
      void        *dst)
{
  if (format == LLK_KV_Q8)
    pack_bits (LLK_KV_Q8, part, head_dim, chunk_slots, src, dst, 8);
  else if (format == LLK_KV_Q4)
    pack_bits (LLK_KV_Q4, part, head_dim, chunk_slots, src, dst, 4);
  else
    pack_bits (LLK_KV_Q2, part, head_dim, chunk_slots, src, dst, 2);
}
