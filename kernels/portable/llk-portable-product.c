/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products by the definition in llk-product.h. The integers of 32 inputs and
 * sixteen outputs are taken apart once for some rows, to 16 bits, in the order in
 * which they lie in a panel; each product of them is a multiplication and an
 * addition of whole vectors, whatever their width.
 */

#include "kernels/portable/llk-portable.h"

#define N LLK_PANEL_OUTPUTS
#define N_LANES (4 * N)      /* integers of a group of four inputs */
#define N_GROUPS 8
#define MAX_ROWS 8           /* that share what was taken apart */

/* 32 inputs of a panel, the same for all rows. */
typedef struct
{
  int16_t w[N_GROUPS][N_LANES];
  float d[2][N];             /* the second of types with a scale for each 16 */
  float min[2][N];           /* to be added */
} Run;

/* What the rows' sums depend on, constants of each instance. */
typedef struct
{
  bool is_wide;              /* integers above 32 */
  bool has_min;
  bool has_halves;           /* scales for each 16 inputs */
} Traits;

INLINE Traits
get_traits (LlkType type)
{
  return (Traits) {
    .is_wide = type == LLK_Q8_0 || type == LLK_IQ4_NL || type == LLK_IQ4_XS,
    .has_min = type == LLK_Q4_1 || type == LLK_Q5_1 || type == LLK_Q4_K || type == LLK_Q5_K ||
               type == LLK_Q2_K,
    .has_halves = type == LLK_Q6_K || type == LLK_Q3_K || type == LLK_Q2_K,
  };
}

INLINE void
get_eights (const uint8_t *src,
            Run           *run)
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (size_t l = 0; l < N_LANES; l++)
      run->w[g][l] = (int8_t) src[g * N_LANES + l];
}

INLINE void
get_fours (const uint8_t *src,
           Run           *run)
{
  for (size_t g = 0; g < 4; g++)
    for (size_t l = 0; l < N_LANES; l++)
      {
        run->w[g][l] = src[g * N_LANES + l] & 15;
        run->w[g + 4][l] = src[g * N_LANES + l] >> 4;
      }
}

INLINE void
get_twos (const uint8_t *src,
          Run           *run)
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (size_t l = 0; l < N_LANES; l++)
      run->w[g][l] = src[g / 4 * N_LANES + l] >> 2 * (g % 4) & 3;
}

INLINE void
add_high_twos (const uint8_t *src,
               Run           *run)
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (size_t l = 0; l < N_LANES; l++)
      run->w[g][l] |= (int16_t) ((src[g / 4 * N_LANES + l] >> 2 * (g % 4) & 3) << 4);
}

INLINE void
add_ones (const uint8_t *src,
          unsigned       shift,
          Run           *run)
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (size_t l = 0; l < N_LANES; l++)
      run->w[g][l] |= (int16_t) ((src[l] >> g & 1) << shift);
}

INLINE void
subtract (int16_t zero,
          Run    *run)
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (size_t l = 0; l < N_LANES; l++)
      run->w[g][l] = (int16_t) (run->w[g][l] - zero);
}

INLINE void
look_up (const int8_t *table,
         Run          *run)
{
  for (size_t g = 0; g < N_GROUPS; g++)
    for (size_t l = 0; l < N_LANES; l++)
      run->w[g][l] = table[run->w[g][l]];
}

INLINE void
get_integers (LlkType        type,
              const uint8_t *src,
              Run           *run)
{
  switch (type)
    {
    case LLK_Q8_0:
      get_eights (src, run);
      break;
    case LLK_Q4_0:
      get_fours (src, run);
      subtract (8, run);
      break;
    case LLK_Q4_1:
    case LLK_Q4_K:
      get_fours (src, run);
      break;
    case LLK_Q5_0:
      get_fours (src, run);
      add_ones (src + 256, 4, run);
      subtract (16, run);
      break;
    case LLK_Q5_1:
    case LLK_Q5_K:
      get_fours (src, run);
      add_ones (src + 256, 4, run);
      break;
    case LLK_Q6_K:
      get_fours (src, run);
      add_high_twos (src + 256, run);
      subtract (32, run);
      break;
    case LLK_Q3_K:
      get_twos (src, run);
      add_ones (src + 128, 2, run);
      subtract (4, run);
      break;
    case LLK_Q2_K:
      get_twos (src, run);
      break;
    case LLK_IQ4_NL:
    case LLK_IQ4_XS:
      get_fours (src, run);
      look_up (llk_iq4_values, run);
      break;
    case LLK_MXFP4:
      get_fours (src, run);
      look_up (llk_mxfp4_values, run);
      break;
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
      break;
    }
}

INLINE float
load_half (const uint8_t *src,
           size_t         i)
{
  return llk_float_of_half (llk_load_u16 (src + 2 * i));
}

/* Scales of run @j of a block; @header has the sixteen d of the block, @min the
 * minima, @scales the block's 8-bit scales. */
INLINE void
get_scales (LlkType        type,
            const uint8_t *header,
            const uint8_t *min,
            const uint8_t *scales,
            size_t         j,
            Run           *run)
{
  for (size_t o = 0; o < N; o++)
    switch (type)
      {
      case LLK_Q4_1:
      case LLK_Q5_1:
        run->d[0][o] = load_half (header, o);
        run->min[0][o] = load_half (min, o);
        break;
      case LLK_MXFP4:
        run->d[0][o] = llk_float_of_e8m0 (header[o]);
        break;
      case LLK_Q4_K:
      case LLK_Q5_K:
        run->d[0][o] = load_half (header, o) * (float) scales[N * j + o];
        run->min[0][o] = -(load_half (min, o) * (float) scales[N * (8 + j) + o]);
        break;
      case LLK_IQ4_XS:
        run->d[0][o] = load_half (header, o) * (float) (int8_t) scales[N * j + o];
        break;
      case LLK_Q6_K:
      case LLK_Q3_K:
        for (size_t half = 0; half < 2; half++)
          run->d[half][o] = load_half (header, o) *
                            (float) (int8_t) scales[N * (2 * j + half) + o];
        break;
      case LLK_Q2_K:
        for (size_t half = 0; half < 2; half++)
          {
            uint8_t both = scales[N * (2 * j + half) + o];

            run->d[half][o] = load_half (header, o) * (float) (both & 15);
            run->min[half][o] = -(load_half (min, o) * (float) (both >> 4));
          }
        break;
      default:
        run->d[0][o] = load_half (header, o);
        break;
      }
}

/* Run @r of the whole panel. */
INLINE void
get_run (LlkType        type,
         const uint8_t *panel,
         size_t         r,
         Run           *run)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  size_t runs_in_block = shape.block / 32;
  size_t b = r / runs_in_block;
  size_t j = r % runs_in_block;
  const uint8_t *block = panel + llk_panel_block_offset (shape, b);
  const uint8_t *header = panel + llk_panel_header_offset (shape, b);
  const uint8_t *d = header + b % shape.n_in_section * N * (type == LLK_MXFP4 ? 1 : 2);

  get_integers (type, block + shape.scales + j * shape.integers, run);
  get_scales (type, d, d + shape.n_in_section * N * 2, block, j, run);
}

/* As wide as vectors are everywhere. */
typedef int16_t Shorts __attribute__ ((vector_size (16)));
typedef int32_t Ints __attribute__ ((vector_size (16)));

#define N_SHORTS (sizeof (Shorts) / sizeof (int16_t))
#define N_VECTORS (N_LANES / N_SHORTS)

/* Sums of neighbours. */
INLINE Ints
add_pairs (Shorts v)
{
  Ints pairs = (Ints) v;

  return (pairs << 16 >> 16) + (pairs >> 16);
}

/* Exact sums for each output over groups [@first, @end). Products of integers up to
 * 32 and activations fit into 16 bits eight at a time, wide ones two at a time. */
INLINE void
dot_groups (const Run    *run,
            const int8_t *q,
            size_t        first,
            size_t        end,
            bool          is_wide,
            int32_t      *dot)
{
  Ints sums[N_VECTORS] = { 0 };
  size_t step = is_wide ? 2 : 8;
  int32_t pairs[N_LANES / 2];

  for (size_t g = first; g < end; g += step)
    {
      Shorts products[N_VECTORS] = { 0 };

      for (size_t i = g; i < g + step && i < end; i++)
        {
          const int8_t *p = q + 4 * i;
          Shorts x = { p[0], p[1], p[2], p[3], p[0], p[1], p[2], p[3] };

          for (size_t v = 0; v < N_VECTORS; v++)
            {
              Shorts w;

              memcpy (&w, run->w[i] + v * N_SHORTS, sizeof w);
              products[v] += w * x;
            }
        }
      for (size_t v = 0; v < N_VECTORS; v++)
        sums[v] += add_pairs (products[v]);
    }

  memcpy (pairs, sums, sizeof pairs);
  for (size_t o = 0; o < N; o++)
    dot[o] = pairs[2 * o] + pairs[2 * o + 1];
}

/* One run of one row into the accumulators; @a is the row's scale, @sums its sums of
 * both halves, or of the whole. */
INLINE void
add_run (LlkType        type,
         const Run     *run,
         const int8_t  *q,
         float          a,
         const int32_t *sums,
         float         *acc)
{
  const Traits traits = get_traits (type);
  size_t n_parts = traits.has_halves ? 2 : 1;
  int32_t dot[N];

  for (size_t part = 0; part < n_parts; part++)
    {
      size_t n_groups = N_GROUPS / n_parts;

      dot_groups (run, q, part * n_groups, (part + 1) * n_groups, traits.is_wide, dot);
      for (size_t o = 0; o < N; o++)
        acc[o] = fuse ((float) dot[o], run->d[part][o] * a, acc[o]);
    }

  if (traits.has_min)
    for (size_t part = 0; part < n_parts; part++)
      {
        float sum = a * (float) sums[part];

        for (size_t o = 0; o < N; o++)
          acc[o] = fuse (run->min[part][o], sum, acc[o]);
      }
}

/* Some rows with one panel. */
INLINE void
multiply_integers (LlkType        type,
                   const uint8_t *panel,
                   size_t         n_in,
                   const uint8_t *rows,
                   size_t         n_rows,
                   float          acc[MAX_ROWS][N])
{
  size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, n_in);
  size_t scales_at = llk_activation_scales (LLK_ACTIVATION_Q8, n_in);
  size_t sums_at = llk_activation_sums (LLK_ACTIVATION_Q8, n_in);
  size_t half_sums_at = llk_activation_half_sums (LLK_ACTIVATION_Q8, n_in);
  Run run;

  for (size_t r = 0; r < n_in / 32; r++)
    {
      get_run (type, panel, r, &run);
      for (size_t row = 0; row < n_rows; row++)
        {
          const uint8_t *x = rows + row * row_bytes;
          float a = ((const float *) (const void *) (x + scales_at))[r];
          int32_t sum = ((const int32_t *) (const void *) (x + sums_at))[r];
          int32_t half = ((const int32_t *) (const void *) (x + half_sums_at))[r];
          bool has_halves = get_traits (type).has_halves;
          int32_t sums[2] = { has_halves ? half : sum, sum - half };

          add_run (type, &run, (const int8_t *) x + 32 * r, a, sums, acc[row]);
        }
    }
}

/* The weights of one input of a panel. */
INLINE void
get_inputs (LlkType        type,
            const uint8_t *panel,
            size_t         i,
            float         *w)
{
  for (size_t o = 0; o < N; o++)
    if (type == LLK_F32)
      memcpy (w + o, panel + (i * N + o) * 4, sizeof *w);
    else if (type == LLK_F16)
      w[o] = llk_float_of_half (llk_load_u16 (panel + (i * N + o) * 2));
    else
      w[o] = llk_float_of_bf16 (llk_load_u16 (panel + (i / 2 * N + o) * 4 + i % 2 * 2));
}

INLINE void
multiply_floats (LlkType        type,
                 const uint8_t *panel,
                 size_t         n_in,
                 const uint8_t *rows,
                 size_t         n_rows,
                 float          acc[MAX_ROWS][N])
{
  size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_F32, n_in);
  float parts[MAX_ROWS][4][N] = { 0 };

  for (size_t i = 0; i < n_in; i++)
    {
      float w[N];

      get_inputs (type, panel, i, w);
      for (size_t row = 0; row < n_rows; row++)
        {
          float x = ((const float *) (const void *) (rows + row * row_bytes))[i];

          for (size_t o = 0; o < N; o++)
            parts[row][i % 4][o] = fuse (w[o], x, parts[row][i % 4][o]);
        }
    }

  for (size_t row = 0; row < n_rows; row++)
    for (size_t o = 0; o < N; o++)
      acc[row][o] = (parts[row][0][o] + parts[row][1][o]) + (parts[row][2][o] + parts[row][3][o]);
}

/* An instance for each type. */
static void
multiply_panel (LlkType        type,
                const uint8_t *panel,
                size_t         n_in,
                const uint8_t *rows,
                size_t         n_rows,
                float          acc[MAX_ROWS][N])
{
  switch (type)
    {
    case LLK_F32:
      multiply_floats (LLK_F32, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_F16:
      multiply_floats (LLK_F16, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_BF16:
      multiply_floats (LLK_BF16, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q8_0:
      multiply_integers (LLK_Q8_0, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q4_0:
      multiply_integers (LLK_Q4_0, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q4_1:
      multiply_integers (LLK_Q4_1, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q5_0:
      multiply_integers (LLK_Q5_0, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q5_1:
      multiply_integers (LLK_Q5_1, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q2_K:
      multiply_integers (LLK_Q2_K, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q3_K:
      multiply_integers (LLK_Q3_K, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q4_K:
      multiply_integers (LLK_Q4_K, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q5_K:
      multiply_integers (LLK_Q5_K, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_Q6_K:
      multiply_integers (LLK_Q6_K, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_IQ4_NL:
      multiply_integers (LLK_IQ4_NL, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_IQ4_XS:
      multiply_integers (LLK_IQ4_XS, panel, n_in, rows, n_rows, acc);
      break;
    case LLK_MXFP4:
      multiply_integers (LLK_MXFP4, panel, n_in, rows, n_rows, acc);
      break;
    }
}

static const LlkProduct *find (LlkType type, LlkRowKind kind);

static void
multiply (const LlkMatrix *w,
          size_t           first,
          size_t           n_panels,
          const void      *rows,
          size_t           n_rows,
          float           *y,
          size_t           y_stride,
          bool             is_added,
          void            *scratch)
{
  size_t panel_bytes = llk_panel_bytes (w->type, w->n_in);
  size_t row_bytes = llk_activation_bytes (find (w->type, LLK_ROWS_GENERATED)->activation,
                                           w->n_in);

  for (size_t p = first; p < first + n_panels && p * N < w->n_out; p++)
    {
      const uint8_t *panel = (const uint8_t *) w->panels + p * panel_bytes;
      size_t n = w->n_out - p * N < N ? w->n_out - p * N : N;

      for (size_t r = 0; r < n_rows; r += MAX_ROWS)
        {
          size_t n_now = n_rows - r < MAX_ROWS ? n_rows - r : MAX_ROWS;
          float acc[MAX_ROWS][N] = { 0 };

          multiply_panel (w->type, panel, w->n_in, (const uint8_t *) rows + r * row_bytes, n_now,
                          acc);
          for (size_t i = 0; i < n_now; i++)
            for (size_t o = 0; o < n; o++)
              {
                float *place = y + (r + i) * y_stride + p * N + o;

                *place = is_added ? *place + acc[i][o] : acc[i][o];
              }
        }
    }
}

static size_t
get_scratch (LlkType type,
             size_t  n_in)
{
  return 0;
}

static const LlkProduct integer_product = {
  .activation = LLK_ACTIVATION_Q8,
  .n_panels = 1,
  .get_scratch = get_scratch,
  .multiply = multiply,
};

static const LlkProduct float_product = {
  .activation = LLK_ACTIVATION_F32,
  .n_panels = 1,
  .get_scratch = get_scratch,
  .multiply = multiply,
};

/* Both kinds of rows are the same here. */
static const LlkProduct *
find (LlkType    type,
      LlkRowKind kind)
{
  return llk_panel_shape (type).block != 0 ? &integer_product : &float_product;
}

const LlkProductOps llk_portable_product = {
  .prepare = llk_portable_prepare,
  .find = find,
};
