/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packing, for llk-kv-passes.h, which includes this. Sixteen groups are coded
 * together, a lane each: the step is the one of several with the least squared error.
 * Values are then rounded dimension by dimension, so that each makes good what errors of those
 * before change in what a model makes of them.
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
  int32_t places[GROUP]; /* of steps, see llk_kv_get_below() */
  float lows_at[GROUP];  /* in units from the origin */
  float steps[GROUP];
  float lows[GROUP];     /* value of code 0 */
  float factors[GROUP];  /* 1 / step */
} Coding;

/* What lows of a part there can be, in steps. */
typedef struct
{
  float unit;
  float origin;
  float least;           /* units from the origin */
  float most;
} Lows;

/* The least step that is not below @wanted, or the largest. */
INLINE int32_t
find_step (float wanted)
{
  int32_t code = (int32_t) ((llk_bits_of_float (wanted) + 0xfffff) >> 20) - LLK_KV_LEAST_STEP;

  return code < 0 ? 0 : code < 255 ? code : 255;
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
  else if (bits == 3)
    store_codes_3 (dst, codes);
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

INLINE Sixteen
round_codes (Sixteen exact,
             float   least,
             float   largest)
{
  Sixteen code = min_all (max_all (exact, splat_all (least)), splat_all (largest));

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
          Sixteen exact = multiply_all (subtract_all (x, low[t]), factor[t]);
          Sixteen error = subtract_all (exact, round_codes (exact, 0, largest));

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

INLINE Lows
get_lows (LlkKvPart part,
          unsigned  bits)
{
  return (Lows) {
    llk_kv_get_unit (part, bits), llk_kv_get_origin (part, bits),
    part == LLK_KV_KEYS ? -128 : -8, part == LLK_KV_KEYS ? 127 : 7,
  };
}

/* Of each group the step that reaches all values, the middle of these, and how many steps below it
 * codes best begin: half of all, or none where all values are one. */
typedef struct
{
  float steps[GROUP];
  float middles[GROUP];
  float halves[GROUP];
} Wanted;

INLINE void
find_wanted (const Groups *groups,
             Lows          lows,
             unsigned      bits,
             Wanted       *wanted)
{
  const float largest = (1 << bits) - 1;
  const float lowest = lows.origin + lows.unit * lows.least;
  const float highest = lows.origin + lows.unit * lows.most + largest;
  float low[GROUP], high[GROUP];

  find_ranges (groups, low, high);
  for (size_t i = 0; i < GROUP; i++)
    {
      float range = (high[i] - low[i]) / largest;
      float below = low[i] / lowest, above = high[i] / highest;

      range = range > below ? range : below;
      wanted->steps[i] = range > above ? range : above;
      wanted->middles[i] = (low[i] + high[i]) * 0.5f;
      wanted->halves[i] = low[i] < high[i] ? largest * 0.5f : 0;
    }
}

/* The nearest place of a step not below that @below the largest, in eighths of octaves. */
INLINE int32_t
find_place (int32_t below)
{
  int32_t place = below < 22 ? below / 2 : (below + 32) / 6;
  int32_t last = below < 22 ? 8 : 15;

  return place < last ? place : last;
}

/* The step that the others of the part are counted from: it reaches all values. */
INLINE int32_t
find_base (const Part *part,
           size_t      n_groups,
           Lows        lows,
           unsigned    bits,
           Groups     *groups)
{
  float most = 0;
  Wanted wanted;

  for (size_t first = 0; first < n_groups; first += GROUP)
    {
      take_groups (groups, part, first);
      find_wanted (groups, lows, bits, &wanted);
      for (size_t i = 0; i < GROUP; i++)
        most = most > wanted.steps[i] ? most : wanted.steps[i];
    }
  return find_step (most);
}

/* The step @n_smaller places below the one that reaches all values, these in its middle. */
INLINE void
try_step (const Wanted *wanted,
          Lows          lows,
          int32_t       base,
          int32_t       n_smaller,
          Coding       *coding)
{
  for (size_t i = 0; i < GROUP; i++)
    {
      int32_t place = find_place (base - find_step (wanted->steps[i])) + n_smaller;
      float step, at;

      place = place < 15 ? place : 15;
      step = llk_kv_get_step (base - llk_kv_get_below (place));
      coding->factors[i] = 1 / step;
      at = wanted->middles[i] * coding->factors[i] - wanted->halves[i];
      at = round_number ((at - lows.origin) / lows.unit);
      at = at > lows.least ? at : lows.least;
      at = at < lows.most ? at : lows.most;
      coding->places[i] = place;
      coding->lows_at[i] = at;
      coding->steps[i] = step;
      coding->lows[i] = step * (at * lows.unit + lows.origin);
    }
}

/* Values far out are few: with less of them reached the others lie closer. How much less is
 * best, of Gaussian values, depends on how many there are. */
INLINE void
find_coding (const Groups *groups,
             Lows          lows,
             unsigned      bits,
             int32_t       base,
             Coding       *coding)
{
  const int32_t n = bits == 2 && groups->n > GROUP ? 2 * TRIED : TRIED;
  float least[GROUP];
  Wanted wanted;

  find_wanted (groups, lows, bits, &wanted);
  memset (coding, 0, sizeof *coding);
  for (size_t i = 0; i < GROUP; i++)
    least[i] = INFINITY;
  for (int32_t first = 0; first < n; first += TRIED)
    {
      Coding tried[TRIED];
      float errors[TRIED][GROUP];

      for (int32_t t = 0; t < TRIED; t++)
        try_step (&wanted, lows, base, first + t, &tried[t]);
      measure (groups, tried, bits, errors);
      for (size_t t = 0; t < TRIED; t++)
        for (size_t i = 0; i < GROUP; i++)
          if (errors[t][i] < least[i])
            {
              least[i] = errors[t][i];
              coding->places[i] = tried[t].places[i];
              coding->lows_at[i] = tried[t].lows_at[i];
              coding->steps[i] = tried[t].steps[i];
              coding->lows[i] = tried[t].lows[i];
              coding->factors[i] = tried[t].factors[i];
            }
    }
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

/* Of the groups from @first on. @dst: the part. */
INLINE void
write_coding (const Coding *coding,
              LlkKvPart     kind,
              size_t        first,
              size_t        n_groups,
              uint8_t      *dst)
{
  uint8_t *places = dst + LLK_KV_BASE_BYTES + first / 2;
  uint8_t *lows = dst + llk_kv_get_lows_at (n_groups) + (kind == LLK_KV_KEYS ? first : first / 2);

  for (size_t i = 0; i < GROUP / 2; i++)
    places[i] = (uint8_t) (coding->places[i] | coding->places[i + GROUP / 2] << 4);
  if (kind == LLK_KV_KEYS)
    for (size_t i = 0; i < GROUP; i++)
      lows[i] = (uint8_t) (int8_t) coding->lows_at[i];
  else
    for (size_t i = 0; i < GROUP / 2; i++)
      lows[i] = (uint8_t) (((int32_t) coding->lows_at[i] + 8)
                           | ((int32_t) coding->lows_at[i + GROUP / 2] + 8) << 4);
}

/* What the errors of the @n dimensions before add up to, where @weights says how much of each a
 * dimension makes good. Four sums, as one would wait for itself. */
INLINE Sixteen
sum_errors (const Sixteen *errors,
            const float   *weights,
            size_t         n)
{
  Sixteen sums[4] = { splat_all (0), splat_all (0), splat_all (0), splat_all (0) };

  for (size_t at = 0; at < n; at += 4)
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++)
      sums[i] = add_all (sums[i], multiply_all (errors[at + i], splat_all (weights[at + i])));
  return add_all (add_all (sums[0], sums[1]), add_all (sums[2], sums[3]));
}

/* Codes instead of values. */
INLINE void
round_groups (Groups       *groups,
              const Coding *coding,
              unsigned      bits,
              const float  *feedback)
{
  const float largest = bits == 8 ? 127 : (1 << bits) - 1;
  const float least = bits == 8 ? -127 : 0;
  Sixteen low = load_all (coding->lows), factor = load_all (coding->factors);
  Sixteen errors[LLK_KV_FEEDBACK];

  for (size_t r = 0; r < groups->n; r++)
    {
      size_t place = r % LLK_KV_FEEDBACK;
      Sixteen exact = multiply_all (subtract_all (load_all (groups->x + r * GROUP), low), factor);
      Sixteen code = exact;

      if (feedback != NULL)
        {
          if (place == 0)
            for (size_t i = 0; i < LLK_KV_FEEDBACK; i++)
              errors[i] = splat_all (0);
          code = subtract_all (exact, sum_errors (errors, feedback + r * LLK_KV_FEEDBACK, place));
        }
      code = round_codes (code, least, largest);
      errors[place] = subtract_all (code, exact);
      store_all (groups->x + r * GROUP, code);
    }
}

/* The codes of the groups from @first on. @codes: of all rows, @row_bytes apart. */
INLINE void
write_codes (const Part   *part,
             const Groups *groups,
             size_t        first,
             unsigned      bits,
             uint8_t      *codes,
             size_t        row_bytes)
{
  Sixteen square[GROUP];

  if (!part->is_by_row)
    {
      for (size_t r = 0; r < part->n_rows; r++)
        store_codes (codes + r * row_bytes + first * bits / 8, load_all (groups->x + r * GROUP),
                     bits);
      return;
    }

  for (size_t at = 0; at < part->row; at += GROUP)
    {
      for (size_t r = 0; r < GROUP; r++)
        square[r] = at + r < part->row ? load_all (groups->x + (at + r) * GROUP) : splat_all (0);
      transpose (square);
      for (size_t r = 0; r < GROUP && first + r < part->n_rows; r++)
        store_codes (codes + (first + r) * row_bytes + at * bits / 8, square[r], bits);
    }
}

INLINE void
pack_bits (LlkKvFormat  format,
           LlkKvPart    kind,
           size_t       head_dim,
           size_t       chunk_slots,
           const float *src,
           const float *feedback,
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
  size_t head_bytes = llk_kv_get_head_bytes (format, kind, head_dim, chunk_slots);
  size_t used = head_bytes + part.n_rows * row_bytes;
  const Lows lows = get_lows (kind, bits);
  int32_t base = 0;
  Groups groups;

  if (bits < 8)
    {
      base = find_base (&part, n_groups, lows, bits, &groups);
      dst[0] = (uint8_t) base;
      dst[1] = 0;
    }

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
          find_coding (&groups, lows, bits, base, &coding);
          write_coding (&coding, kind, first, n_groups, dst);
        }
      round_groups (&groups, &coding, bits, feedback);
      write_codes (&part, &groups, first, bits, dst + head_bytes, row_bytes);
    }
  memset (dst + used, 0, llk_kv_part_bytes (format, kind, head_dim, chunk_slots) - used);
}

static void
pack (LlkKvFormat  format,
      LlkKvPart    part,
      size_t       head_dim,
      size_t       chunk_slots,
      const float *src,
      const float *feedback,
      void        *dst)
{
  if (part == LLK_KV_KEYS)
    feedback = NULL;
  if (format == LLK_KV_Q8)
    pack_bits (LLK_KV_Q8, part, head_dim, chunk_slots, src, NULL, dst, 8);
  else if (format == LLK_KV_Q4)
    pack_bits (LLK_KV_Q4, part, head_dim, chunk_slots, src, feedback, dst, 4);
  else if (format == LLK_KV_Q3)
    pack_bits (LLK_KV_Q3, part, head_dim, chunk_slots, src, feedback, dst, 3);
  else
    pack_bits (LLK_KV_Q2, part, head_dim, chunk_slots, src, feedback, dst, 2);
}
