/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels of blocks with rows of LLK_ACTIVATION_Q8, as llk-product.h
 * defines them, in the vectors of llk-arm-lanes.h. A single row is multiplied as the
 * weights are taken apart, in an instance for each type. For more rows, some runs of
 * 32 inputs are taken apart into memory first; what multiplies them is the same for
 * all types that have the same scales.
 */

#pragma once

#include "kernels/arm/llk-arm-lanes.h"
#include "kernels/llk-panel-runs.h"

#define N_PARTS (LLK_PANEL_OUTPUTS / N_LANES)
#define CHUNK_RUNS 8   /* taken apart together: a block of 256 */
#define TILE_ROWS 32   /* multiplied with them while these are in the cache */

/* What the sums of a run depend on; constants wherever used. */
typedef struct
{
  bool is_wide;      /* bytes of weights above 63 */
  bool has_halves;   /* scales for each 16 inputs */
  bool has_min;
} Traits;

typedef struct
{
  const uint8_t *rows;
  size_t row_bytes;
  size_t scales;     /* offset in a row */
  size_t sums;
  size_t half_sums;
} Rows;

/* What one row has for one run. */
typedef struct
{
  const int8_t *q;
  float scale;
  int32_t sums[2];   /* of both halves, or of all in the first */
} RowRun;

typedef struct
{
  Run runs[CHUNK_RUNS][N_PARTS];
} Chunk;

INLINE Traits
get_traits (LlkType type)
{
  return (Traits) {
    .is_wide = get_largest (type) == 0,
    .has_halves = has_half_scales (type),
    .has_min = get_term (type) == TERM_MIN || get_term (type) == TERM_MIN_HALF,
  };
}

static Rows
describe_rows (const LlkMatrix *w,
               const void      *rows)
{
  return (Rows) {
    .rows = rows,
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in),
    .scales = llk_activation_scales (LLK_ACTIVATION_Q8, w->n_in),
    .sums = llk_activation_sums (LLK_ACTIVATION_Q8, w->n_in),
    .half_sums = llk_activation_half_sums (LLK_ACTIVATION_Q8, w->n_in),
  };
}

INLINE RowRun
get_row_run (Traits      traits,
             const Rows *rows,
             size_t      r,
             size_t      run)
{
  const uint8_t *row = rows->rows + r * rows->row_bytes;
  const float *scales = (const float *) (const void *) (row + rows->scales);
  const int32_t *sums = (const int32_t *) (const void *) (row + rows->sums);
  const int32_t *firsts = (const int32_t *) (const void *) (row + rows->half_sums);
  RowRun x = { (const int8_t *) row + 32 * run, scales[run], { sums[run], 0 } };

  if (traits.has_halves)
    {
      x.sums[0] = firsts[run];
      x.sums[1] = sums[run] - firsts[run];
    }
  return x;
}

/* The sum of a part of a panel with what a run adds. @dots, of the halves or of all,
 * are without what belongs to the zero point. */
INLINE Floats
add_dots (Traits        traits,
          int32_t       zero_point,
          const Run    *w,
          const RowRun *x,
          const Ints   *dots,
          Floats        sum)
{
  const size_t n_parts = traits.has_halves ? 2 : 1;

#pragma GCC unroll 2
  for (size_t part = 0; part < n_parts; part++)
    {
      Ints dot = add_ints (dots[part], splat_int (-zero_point * x->sums[part]));

      sum = multiply_add (floats_of_ints (dot), multiply (w->scale[part], splat_float (x->scale)),
                          sum);
    }
  if (traits.has_min)
    {
#pragma GCC unroll 2
      for (size_t part = 0; part < n_parts; part++)
        sum = multiply_add (w->min[part], splat_float (x->scale * (float) x->sums[part]), sum);
    }

  return sum;
}

INLINE Floats
add_run (Traits        traits,
         int32_t       zero_point,
         const Run    *w,
         const RowRun *x,
         Floats        sum)
{
  Ints dots[2];

  if (traits.has_halves)
    {
      dots[0] = dot_groups (splat_int (0), w->w, 4, traits.is_wide, x->q);
      dots[1] = dot_groups (splat_int (0), w->w + 4, 4, traits.is_wide, x->q + 16);
    }
  else
    dots[0] = dot_groups (splat_int (0), w->w, 8, traits.is_wide, x->q);

  return add_dots (traits, zero_point, w, x, dots, sum);
}

/* Part @part of run @run of a whole panel. */
INLINE void
load_run (LlkType        type,
          const uint8_t *panel,
          size_t         run,
          size_t         part,
          Run           *w)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t n_runs = shape.block / 32;
  const size_t b = run / n_runs;
  const size_t j = run % n_runs;
  const uint8_t *block = panel + llk_panel_block_offset (shape, b);
  const size_t lane = N_LANES * part;
  BlockScales scales = load_block_scales (type, panel + llk_panel_header_offset (shape, b),
                                          b % shape.n_in_section, lane);

  load_scales (type, scales, block, j, lane, w);
  unpack_integers (type, block + shape.scales + j * shape.integers + 4 * lane, w->w);
}

/* --- one row --- */

INLINE void
multiply_row (LlkType        type,
              const uint8_t *panel,
              size_t         n_runs,
              const Rows    *rows,
              Floats         sums[N_PARTS])
{
  const Traits traits = get_traits (type);
  Floats local[N_PARTS];

#pragma GCC unroll 4
  for (size_t part = 0; part < N_PARTS; part++)
    local[part] = sums[part];

  for (size_t run = 0; run < n_runs; run++)
    {
      RowRun x = get_row_run (traits, rows, 0, run);

#pragma GCC unroll 4
      for (size_t part = 0; part < N_PARTS; part++)
        {
          Run w;

          load_run (type, panel, run, part, &w);
          local[part] = add_run (traits, get_zero_point (type), &w, &x, local[part]);
        }
    }

#pragma GCC unroll 4
  for (size_t part = 0; part < N_PARTS; part++)
    sums[part] = local[part];
}

/* --- more rows --- */

INLINE void
take_apart (LlkType        type,
            const uint8_t *panel,
            size_t         run,
            size_t         n_runs,
            Chunk         *chunk)
{
  for (size_t i = 0; i < n_runs; i++)
    for (size_t part = 0; part < N_PARTS; part++)
      {
        Run w;

        load_run (type, panel, run + i, part, &w);
#ifdef __ARM_FEATURE_MATMUL_INT8
        pair_groups (w.w);
#endif
        chunk->runs[i][part] = w;
      }
}

#ifdef __ARM_FEATURE_MATMUL_INT8

/* A run of two parts times rows @r and @other, which may be the same. */
INLINE void
add_run_to_rows (Traits      traits,
                 int32_t     zero_point,
                 const Run   w[2],
                 const Rows *rows,
                 size_t      r,
                 size_t      other,
                 size_t      run,
                 Floats     *sums,
                 Floats     *other_sums)
{
  const RowRun x = get_row_run (traits, rows, r, run);
  const RowRun other_x = get_row_run (traits, rows, other, run);
  const size_t n_parts = traits.has_halves ? 2 : 1;
  const size_t n_pairs = 4 / n_parts;
  Ints q[4];
  Floats results[2][2];

  pair_rows (x.q, other_x.q, q);
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; i++)
    {
      Ints dots[2], other_dots[2];

#pragma GCC unroll 2
      for (size_t part = 0; part < n_parts; part++)
        {
          Ints both[2];

          dot_pairs (w[i].w + 4 * part, q + 2 * part, n_pairs, both);
          dots[part] = both[0];
          other_dots[part] = both[1];
        }
      results[0][i] = add_dots (traits, zero_point, &w[i], &x, dots, sums[i]);
      results[1][i] = add_dots (traits, zero_point, &w[i], &other_x, other_dots, other_sums[i]);
    }
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; i++)
    {
      sums[i] = results[0][i];
      other_sums[i] = results[1][i];
    }
}

/* Adds @n_runs runs from @run on to the rows' sums. */
INLINE void
add_chunk (Traits       traits,
           int32_t      zero_point,
           const Chunk *chunk,
           size_t       run,
           size_t       n_runs,
           const Rows  *rows,
           size_t       n_rows,
           Floats       sums[][N_PARTS])
{
  for (size_t i = 0; i < n_runs; i++)
    for (size_t part = 0; part < N_PARTS; part += 2)
      {
        const Run w[2] = { chunk->runs[i][part], chunk->runs[i][part + 1] };
        size_t r = 0;

        for (; r + 2 <= n_rows; r += 2)
          add_run_to_rows (traits, zero_point, w, rows, r, r + 1, run + i, &sums[r][part],
                           &sums[r + 1][part]);
        if (r < n_rows)
          add_run_to_rows (traits, zero_point, w, rows, r, r, run + i, &sums[r][part],
                           &sums[r][part]);
      }
}

#else

INLINE void
add_chunk (Traits       traits,
           int32_t      zero_point,
           const Chunk *chunk,
           size_t       run,
           size_t       n_runs,
           const Rows  *rows,
           size_t       n_rows,
           Floats       sums[][N_PARTS])
{
  for (size_t i = 0; i < n_runs; i++)
    for (size_t part = 0; part < N_PARTS; part += 2)
      {
        const Run w[2] = { chunk->runs[i][part], chunk->runs[i][part + 1] };

        for (size_t r = 0; r < n_rows; r++)
          {
            const RowRun x = get_row_run (traits, rows, r, run + i);
            Floats first = add_run (traits, zero_point, &w[0], &x, sums[r][part]);
            Floats second = add_run (traits, zero_point, &w[1], &x, sums[r][part + 1]);

            sums[r][part] = first;
            sums[r][part + 1] = second;
          }
      }
}

#endif

#define DEFINE_ADD_CHUNK(name, ...)                                                            \
  static void                                                                                  \
  add_##name (int32_t zero_point, const Chunk *chunk, size_t run, size_t n_runs,               \
              const Rows *rows, size_t n_rows, Floats sums[][N_PARTS])                         \
  {                                                                                            \
    add_chunk ((Traits) { __VA_ARGS__ }, zero_point, chunk, run, n_runs, rows, n_rows, sums);  \
  }

DEFINE_ADD_CHUNK (small, 0)
DEFINE_ADD_CHUNK (wide, .is_wide = true)
DEFINE_ADD_CHUNK (min, .has_min = true)
DEFINE_ADD_CHUNK (halves, .has_halves = true)
DEFINE_ADD_CHUNK (halves_min, .has_halves = true, .has_min = true)

/* --- all types --- */

/* The instances for a type. */
typedef struct
{
  void (*multiply_row) (const uint8_t *panel, size_t n_runs, const Rows *rows,
                        Floats sums[N_PARTS]);
  void (*take_apart)   (const uint8_t *panel, size_t run, size_t n_runs, Chunk *chunk);
  void (*add_chunk)    (int32_t zero_point, const Chunk *chunk, size_t run, size_t n_runs,
                        const Rows *rows, size_t n_rows, Floats sums[][N_PARTS]);
} Instances;

#define DEFINE_BLOCKS(name, type)                                                              \
  static void                                                                                  \
  multiply_row_##name (const uint8_t *panel, size_t n_runs, const Rows *rows,                  \
                       Floats sums[N_PARTS])                                                   \
  {                                                                                            \
    multiply_row (type, panel, n_runs, rows, sums);                                            \
  }                                                                                            \
                                                                                               \
  static void                                                                                  \
  take_apart_##name (const uint8_t *panel, size_t run, size_t n_runs, Chunk *chunk)            \
  {                                                                                            \
    take_apart (type, panel, run, n_runs, chunk);                                              \
  }

DEFINE_BLOCKS (q8_0, LLK_Q8_0)
DEFINE_BLOCKS (q4_0, LLK_Q4_0)
DEFINE_BLOCKS (q4_1, LLK_Q4_1)
DEFINE_BLOCKS (q5_0, LLK_Q5_0)
DEFINE_BLOCKS (q5_1, LLK_Q5_1)
DEFINE_BLOCKS (q2_k, LLK_Q2_K)
DEFINE_BLOCKS (q3_k, LLK_Q3_K)
DEFINE_BLOCKS (q4_k, LLK_Q4_K)
DEFINE_BLOCKS (q5_k, LLK_Q5_K)
DEFINE_BLOCKS (q6_k, LLK_Q6_K)
DEFINE_BLOCKS (iq4_nl, LLK_IQ4_NL)
DEFINE_BLOCKS (iq4_xs, LLK_IQ4_XS)
DEFINE_BLOCKS (mxfp4, LLK_MXFP4)

#define INSTANCES(name, traits) { multiply_row_##name, take_apart_##name, add_##traits }

static const Instances instances[LLK_TYPE_LIMIT] = {
  [LLK_Q8_0] = INSTANCES (q8_0, wide),
  [LLK_Q4_0] = INSTANCES (q4_0, small),
  [LLK_Q4_1] = INSTANCES (q4_1, min),
  [LLK_Q5_0] = INSTANCES (q5_0, small),
  [LLK_Q5_1] = INSTANCES (q5_1, min),
  [LLK_Q2_K] = INSTANCES (q2_k, halves_min),
  [LLK_Q3_K] = INSTANCES (q3_k, halves),
  [LLK_Q4_K] = INSTANCES (q4_k, min),
  [LLK_Q5_K] = INSTANCES (q5_k, min),
  [LLK_Q6_K] = INSTANCES (q6_k, halves),
  [LLK_IQ4_NL] = INSTANCES (iq4_nl, wide),
  [LLK_IQ4_XS] = INSTANCES (iq4_xs, wide),
  [LLK_MXFP4] = INSTANCES (mxfp4, small),
};

/* A panel's sums of a row to the outputs that there are. */
static void
store_sums (const Floats sums[N_PARTS],
            size_t       n_outputs,
            float       *y,
            bool         is_added)
{
  float values[LLK_PANEL_OUTPUTS] = { 0 };
  float *dst = n_outputs < LLK_PANEL_OUTPUTS ? values : y;

  if (n_outputs < LLK_PANEL_OUTPUTS && is_added)
    memcpy (values, y, n_outputs * sizeof *y);
  for (size_t part = 0; part < N_PARTS; part++)
    {
      float *place = dst + N_LANES * part;

      store_floats (place, is_added ? add_floats (load_floats (place), sums[part]) : sums[part]);
    }
  if (n_outputs < LLK_PANEL_OUTPUTS)
    memcpy (y, values, n_outputs * sizeof *y);
}

/* One panel with up to TILE_ROWS rows. */
static void
multiply_tile (LlkType        type,
               const uint8_t *panel,
               size_t         n_runs,
               const Rows    *rows,
               size_t         n_rows,
               Floats         sums[][N_PARTS])
{
  const Instances *of = &instances[type];
  Chunk chunk;

  for (size_t r = 0; r < n_rows; r++)
    for (size_t part = 0; part < N_PARTS; part++)
      sums[r][part] = splat_float (0);

  if (n_rows == 1)
    {
      of->multiply_row (panel, n_runs, rows, sums[0]);
      return;
    }

  for (size_t run = 0; run < n_runs; run += CHUNK_RUNS)
    {
      const size_t n_now = n_runs - run < CHUNK_RUNS ? n_runs - run : CHUNK_RUNS;

      of->take_apart (panel, run, n_now, &chunk);
      of->add_chunk (get_zero_point (type), &chunk, run, n_now, rows, n_rows, sums);
    }
}

/* LlkProduct.multiply */
static void
multiply_blocks (const LlkMatrix *w,
                 size_t           first,
                 size_t           n_panels,
                 const void      *all_rows,
                 size_t           n_rows,
                 float           *y,
                 size_t           y_stride,
                 bool             is_added,
                 void            *scratch)
{
  const size_t panel_bytes = llk_panel_bytes (w->type, w->n_in);

  (void) scratch;
  for (size_t p = first; p < first + n_panels; p++)
    {
      const uint8_t *panel = (const uint8_t *) w->panels + p * panel_bytes;
      const size_t output = p * LLK_PANEL_OUTPUTS;
      const size_t n_left = w->n_out - output;
      const size_t n_outputs = n_left < LLK_PANEL_OUTPUTS ? n_left : LLK_PANEL_OUTPUTS;
      Rows rows = describe_rows (w, all_rows);

      for (size_t done = 0; done < n_rows; done += TILE_ROWS)
        {
          const size_t n_now = n_rows - done < TILE_ROWS ? n_rows - done : TILE_ROWS;
          Floats sums[TILE_ROWS][N_PARTS];

          multiply_tile (w->type, panel, w->n_in / 32, &rows, n_now, sums);
          for (size_t r = 0; r < n_now; r++)
            store_sums (sums[r], n_outputs, y + (done + r) * y_stride + output, is_added);
          rows.rows += TILE_ROWS * rows.row_bytes;
        }
    }
}
